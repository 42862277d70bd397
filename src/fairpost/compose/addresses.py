"""Addresses and the headers that list them. The local part is left unchanged; the domain is converted to ASCII."""

import re
from collections.abc import Iterable

from fairpost.compose.domains import ascii_domain
from fairpost.compose.encoded_words import encoded_words
from fairpost.compose.errors import Uncomposable
from fairpost.compose.headers import LINE_BYTES_GOOD, fold
from fairpost.model.email import Mailbox, Recipient

ATOM = r"[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+"
PLAIN_ADDRESS = re.compile(rf"{ATOM}(?:\.{ATOM})*@[0-9A-Za-z._-]+")
WIDE_ATOM = ATOM.replace("-]", "\xa1-\ud7ff\ue000-\U0010ffff-]")
DOT_ATOM = re.compile(rf"{WIDE_ATOM}(?:\.{WIDE_ATOM})*")
UNUSABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
ATOMS = re.compile(rf"{ATOM}(?: {ATOM})*")
QUOTABLE = re.compile(r"[ -~]+")
TO_ESCAPE = re.compile(r'(["\\])')

QUOTED_NAME_CHARS_MAX = 500
NAME_WORD_CHARS_MAX = LINE_BYTES_GOOD - len("Reply-To: ")  # the first word fits after the header name


def plain_address(address: str) -> str:
    """Returns the address as written in the envelope and the headers, in ASCII unless the local part is not ASCII."""
    if PLAIN_ADDRESS.fullmatch(address):
        return address
    local, _, domain = address.rpartition("@")
    if not local or not domain or UNUSABLE.search(address):
        raise Uncomposable(f"{address!r} is not an e-mail address.")
    try:
        return f"{_local_part(local)}@{ascii_domain(domain)}"
    except ValueError as error:
        raise Uncomposable(
            f"{address!r} has a domain that cannot be converted to ASCII: {error}. Correct the address."
        ) from None


def _local_part(local: str) -> str:
    return local if DOT_ATOM.fullmatch(local) else f'"{_escaped(local)}"'


def address_header(name: bytes, people: Iterable[Mailbox | Recipient]) -> bytes:
    words: list[bytes] = []
    for person in people:
        address = plain_address(person.address).encode("utf-8", "replace")
        if person.name:
            words += _phrase(person.name)
            address = b"<%b>" % address
        words.append(address + b",")
    words[-1] = words[-1].removesuffix(b",")
    return fold(name, words)


def _phrase(name: str) -> list[bytes]:
    """Formats a display name: plain words, one quoted string, or encoded words."""
    if name.isascii() and "=?" not in name:
        if ATOMS.fullmatch(name):
            return name.encode("ascii").split(b" ")
        if QUOTABLE.fullmatch(name) and len(name) <= QUOTED_NAME_CHARS_MAX:
            return [b'"%b"' % _escaped(name).encode("ascii")]
    return encoded_words(name, first=NAME_WORD_CHARS_MAX, rest=NAME_WORD_CHARS_MAX)


def _escaped(text: str) -> str:
    return TO_ESCAPE.sub(r"\\\1", text)
