"""Checks prospect addresses.

The rule is the same as that of the SQL function `fairpost.parse_address`, which makes the final decision for every
e-mail. This module finds invalid lines before anything is written. The database decides whether two addresses are the
same.
"""

import re
import string
from urllib.parse import unquote

from fairpost.model.email import Mailbox

ADDRESS_BYTES_MAX = 254
LOCAL_BYTES_MAX = 64
LABEL_CHARS_MAX = 63
NAME_CHARS_MAX = 256
USUAL_CHARS_MAX = 64  # in an address no longer than this, no part can be too long

# Text that matches is certainly an address. Nearly all addresses match and need no other check.
_USUAL = re.compile(r"[A-Za-z0-9_+-]++(?:\.[A-Za-z0-9_+-]++)*+@(?:[A-Za-z0-9]++(?:-++[A-Za-z0-9]++)*+\.)+[A-Za-z0-9]++")
_MAILTO = re.compile(r"(?:^|(?<=<))mailto:([^?>]*)(?:\?[^>]*)?", re.IGNORECASE)
_NAMED = re.compile(r'(?:"((?:[^"\\]|\\["\\])*)" *|([^"<>]*))<([^<>]*)>')
_ESCAPED = re.compile(r"\\(.)")

# The same characters as in SQL, plus those that the database cannot store as text: zero bytes and lone surrogates.
_WRONG_LOCAL = re.compile(r'[\x00- "(),:;<>\[\]\\\x7f-\xa0]|^\.|\.\.|\.\Z')
_WRONG_DOMAIN = re.compile(r"[\x00-,/:-@\[-`{-\xa0]|(?:^|\.)-|-(?:\.|\Z)|^\.|\.\.|\.\Z")
_UNSEEN = re.compile(r"[\u00ad\u1680\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\udfff\ufeff]")
_WRONG_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def parse(text: str) -> Mailbox | None:
    """Parses an address as people write it, for example with spaces around it, as `Ann Lee <ann@example.com>`, or as a
    `mailto:` link.
    """
    text = text.strip()
    if len(text) <= USUAL_CHARS_MAX and _USUAL.fullmatch(text):
        local, _, domain = text.partition("@")
        return Mailbox(address=f"{local}@{domain.lower()}")
    return parse_exactly(_MAILTO.sub(lambda link: unquote(link[1], errors="surrogateescape"), text, count=1))


def parse_exactly(text: str) -> Mailbox | None:
    """Parses an address. For any text, the result is the same as that of `fairpost.parse_address` in a database with
    the C locale.
    """
    address, name = text, None
    if "<" in text:
        parts = _NAMED.fullmatch(text.strip(" "))
        if parts is None:
            return None
        quoted, plain, address = parts.groups()
        name = (plain.strip(" ") if quoted is None else _ESCAPED.sub(r"\1", quoted)) or None
    if name is not None and (len(name) > NAME_CHARS_MAX or _WRONG_NAME.search(name)):
        return None
    local, _, domain = address.partition("@")
    domain = domain.translate(_SMALL)
    if not (local and domain) or _WRONG_LOCAL.search(local) or _WRONG_DOMAIN.search(domain) or _UNSEEN.search(address):
        return None
    if len(local.encode()) > LOCAL_BYTES_MAX or len(address.encode()) > ADDRESS_BYTES_MAX:
        return None
    labels = domain.split(".")
    if max(map(len, labels)) > LABEL_CHARS_MAX or (len(labels) == 1 and domain != "localhost"):
        return None
    return Mailbox(address=f"{local}@{domain}", name=name)
