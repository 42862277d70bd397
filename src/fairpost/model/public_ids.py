"""Ids as they are known outside: a keyed permutation of those inside, which count across the installation. Pure.

`fairpost.public_id` in SQL does the same for e-mails. What an e-mail's headers say by it is compose's; who may give which form is the doors'.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import sha256

from fairpost.model.ids import EmailId

ROUNDS = 8
SIGNS = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: they look like others
CHARS = 13
ID_MAX = 2**63 - 1  # a bigint

_VALUES = {sign: value for value, sign in enumerate(SIGNS)}
_NUMBER = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_WRITTEN = re.compile(rf"[0-9a-f][{SIGNS}]{{{CHARS - 1}}}")
_HALF = 0xFFFF_FFFF


class Kind(StrEnum):
    """What an id is of; it stands before it. Equal numbers of two kinds have nothing in common outside."""

    EMAIL = "em"
    PROSPECT = "pr"
    CAMPAIGN = "ca"
    SEQUENCE = "sq"
    EVENT = "ev"
    AUDIT = "au"
    CURSOR = "cu"
    ACCOUNT = "ac"


class Permutation:
    """Of all numbers of 64 bits: a balanced Feistel network."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == 32, "a key has 32 bytes"
        self._rounds = tuple(key + bytes((n,)) for n in range(ROUNDS))

    def forth(self, number: int) -> int:
        left, right = number >> 32 & _HALF, number & _HALF
        for prefix in self._rounds:
            left, right = right, left ^ _mixed(prefix, right)
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
    """Those of one database. `since`: e-mails before this one may have been begun under the Message-ID of their number, and keep it."""

    key: bytes = field(repr=False)
    since: EmailId

    def public(self, kind: Kind, number: int) -> str:
        return f"{kind}_{written(self._permutations[kind].forth(number))}"

    def private(self, kind: Kind, text: str) -> int | None:
        """None: it is none of this kind. Those of another database lead to any number."""
        prefix, underscore, rest = text.partition("_")
        if prefix != kind or not underscore or not _WRITTEN.fullmatch(rest):
            return None
        number = self._permutations[kind].back(read(rest))
        return number if number <= ID_MAX else None  # none is negative

    def email(self, number: int) -> str:
        return self.public(Kind.EMAIL, number)

    def email_id(self, text: str, *, or_number: bool = False) -> EmailId | None:
        """`or_number`: the operator gives the number as well. None: it can be no e-mail's."""
        if or_number and _NUMBER.fullmatch(text):
            return EmailId(int(text)) if int(text) <= ID_MAX else None
        number = self.private(Kind.EMAIL, text)
        return None if number is None else EmailId(number)

    def in_headers(self, email_id: EmailId) -> str | None:
        """By what an e-mail's headers name it. None: by its number, as before there were public ids."""
        return self.email(email_id) if email_id >= self.since else None

    def name_in_headers(self, email_id: EmailId) -> str:
        return self.in_headers(email_id) or f"{email_id:x}"

    @cached_property
    def _permutations(self) -> dict[Kind, Permutation]:
        """A key each. That of e-mails is the database's own, as in SQL."""
        keys = {kind: sha256(self.key + kind.encode()).digest() for kind in Kind} | {Kind.EMAIL: self.key}
        return {kind: Permutation(key) for kind, key in keys.items()}


def is_email_id(text: str) -> bool:
    """Whether it is written like one, public or not."""
    if _NUMBER.fullmatch(text):
        return int(text) <= ID_MAX
    prefix, _, rest = text.partition("_")
    return prefix == Kind.EMAIL and _WRITTEN.fullmatch(rest) is not None


def written(number: int) -> str:
    """64 bits as 13 characters of 5: the first has 4."""
    return "".join([SIGNS[number >> shift & 31] for shift in range(60, -1, -5)])


def read(text: str) -> int:
    number = 0
    for sign in text:
        number = number << 5 | _VALUES[sign]
    return number
