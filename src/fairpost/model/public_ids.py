"""Public IDs: a keyed permutation of the internal IDs, which are numbered across the whole installation.

`fairpost.public_id` in SQL does the same for e-mails. compose/ decides how headers use them; the front ends decide
which form each caller may use.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from hashlib import blake2s, sha256
from hmac import compare_digest

from fairpost.model.ids import EmailId

ROUNDS = 8
REMEMBERED = 10_000  # number of cached IDs; pages often repeat the newest ones, and each conversion takes eight hashes
SIGNS = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which look like other characters
CHARS = 13
ID_MAX = 2**63 - 1  # a bigint

_VALUES = {sign: value for value, sign in enumerate(SIGNS)}
_NUMBER = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_WRITTEN = re.compile(rf"[0-9a-f][{SIGNS}]{{{CHARS - 1}}}")
_HALF = 0xFFFF_FFFF
from_bytes = int.from_bytes
_PAIRS = [first + second for first in SIGNS for second in SIGNS]
_SHIFTS = range(50, -1, -10)


class Kind(StrEnum):
    """The kind of object that an ID identifies, and the ID's prefix. The same number has unrelated public IDs for
    different kinds.
    """

    EMAIL = "em"
    PROSPECT = "pr"
    CAMPAIGN = "ca"
    SEQUENCE = "sq"
    EVENT = "ev"
    LOG = "lo"
    AUDIT = "au"
    CURSOR = "cu"
    ACCOUNT = "ac"
    CONVERSATION = "cv"
    WEBHOOK = "wh"
    DELIVERY = "wd"


class Permutation:
    """A permutation of all 64-bit numbers, implemented as a balanced Feistel network."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == 32, "a key must be 32 bytes long"
        self._rounds = tuple(key + bytes((n,)) for n in range(ROUNDS))

    def forth(self, number: int) -> int:
        left, right = number >> 32 & _HALF, number & _HALF
        for prefix in self._rounds:  # the same as _mixed, inlined to save eight calls for each e-mail sent
            left, right = right, left ^ from_bytes(sha256(prefix + right.to_bytes(4, "big")).digest()[:4], "big")
        return left << 32 | right

    def back(self, number: int) -> int:
        left, right = number >> 32 & _HALF, number & _HALF
        for prefix in reversed(self._rounds):
            left, right = right ^ _mixed(prefix, left), left
        return left << 32 | right


def _mixed(prefix: bytes, half: int) -> int:
    return int.from_bytes(sha256(prefix + half.to_bytes(4, "big")).digest()[:4], "big")


@dataclass(frozen=True)
class PublicIds:
    """The public IDs of one database.

    E-mails created before `since` may have, and keep, a Message-ID derived from their number.
    """

    key: bytes = field(repr=False)
    since: EmailId

    def public(self, kind: Kind, number: int) -> str:
        return _public(self._permutations[kind], kind, number)

    def private(self, kind: Kind, text: str) -> int | None:
        """Return the internal ID, or None if the text is not an ID of this kind.

        IDs from other databases are converted to arbitrary numbers.
        """
        prefix, underscore, rest = text.partition("_")
        if prefix != kind or not underscore or not _WRITTEN.fullmatch(rest):
            return None
        number = self._permutations[kind].back(read(rest))
        return number if number <= ID_MAX else None  # ids are never negative

    def email(self, number: int) -> str:
        return self.public(Kind.EMAIL, number)

    def email_id(self, text: str, *, or_number: bool = False) -> EmailId | None:
        """Parse an e-mail's ID.

        Return None if the text cannot be an ID. With `or_number`, the internal number is also accepted.
        """
        if or_number and _NUMBER.fullmatch(text):
            return EmailId(int(text)) if int(text) <= ID_MAX else None
        number = self.private(Kind.EMAIL, text)
        return None if number is None else EmailId(number)

    def return_token(self, email_id: EmailId) -> str:
        """Return the token in the address that receives reports about an e-mail.

        The token is sealed, so it cannot be derived from the Message-ID alone.
        """
        return self.sealed(self.email(email_id))

    def sealed(self, name: str) -> str:
        return f"{name}-{blake2s(name.encode(), key=self.key, person=b'return', digest_size=5).hexdigest()}"

    def of_return_token(self, token: str) -> EmailId | None:
        number = self.email_id(token.lower().partition("-")[0])
        is_ours = number is not None and compare_digest(self.return_token(number).encode(), token.lower().encode())
        return number if is_ours else None

    def named_in(self, message_id: str) -> EmailId | None:
        """Return the e-mail to which this Message-ID may belong.

        A Message-ID proves nothing, because anyone can forge it.
        """
        name = message_id.strip("<>").partition("@")[0].partition(".")[0]
        if found := self.email_id(name):
            return found
        number = int(name, 16) if re.fullmatch(r"[1-9a-f][0-9a-f]{0,15}", name) else ID_MAX
        return EmailId(number) if number < self.since else None

    def in_headers(self, email_id: EmailId) -> str | None:
        """Return the name that identifies an e-mail in its headers.

        Return None if the e-mail predates public IDs and uses its number.
        """
        return self.email(email_id) if email_id >= self.since else None

    def name_in_headers(self, email_id: EmailId) -> str:
        return self.in_headers(email_id) or f"{email_id:x}"

    @cached_property
    def _permutations(self) -> dict[Kind, Permutation]:
        """A permutation for each kind, with its own key. E-mails use the database's own key, as in SQL."""
        keys = {kind: sha256(self.key + kind.encode()).digest() for kind in Kind} | {Kind.EMAIL: self.key}
        return {kind: Permutation(key) for kind, key in keys.items()}


@lru_cache(maxsize=REMEMBERED)
def _public(permutation: Permutation, kind: Kind, number: int) -> str:
    return f"{kind}_{written(permutation.forth(number))}"


def is_email_id(text: str) -> bool:
    """Return whether the text has the form of an e-mail ID, public or internal."""
    if _NUMBER.fullmatch(text):
        return int(text) <= ID_MAX
    prefix, _, rest = text.partition("_")
    return prefix == Kind.EMAIL and _WRITTEN.fullmatch(rest) is not None


def written(number: int) -> str:
    """Encode 64 bits as 13 characters: 4 bits in the first and 5 bits in each of the others."""
    return SIGNS[number >> 60 & 31] + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def read(text: str) -> int:
    number = 0
    for sign in text:
        number = number << 5 | _VALUES[sign]
    return number
