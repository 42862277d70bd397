"""Folder names on the wire, in modified UTF-7 (RFC 3501, 5.1.3). No I/O."""

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64

_PLAIN = re.compile(r"[\x20-\x7e]+")
_ENCODED = re.compile(rb"&([A-Za-z0-9+,]*)-")


def encoded_name(name: str) -> bytes:
    """Encodes a name. Raises ValueError if the name contains lone surrogates."""
    parts: list[bytes] = []
    at = 0
    for plain in _PLAIN.finditer(name):
        parts += [_shifted(name[at : plain.start()]), plain[0].replace("&", "&-").encode("ascii")]
        at = plain.end()
    return b"".join([*parts, _shifted(name[at:])])


def decoded_name(name: bytes) -> str:
    """Decodes a name. A name that is not valid modified UTF-7 is treated as UTF-8, which some servers send instead."""
    try:
        return _ENCODED.sub(_unshifted, name).decode()
    except (NotBase64, UnicodeDecodeError):
        return name.decode(errors="replace")


def _shifted(text: str) -> bytes:
    if not text:
        return b""
    return b"&" + b64encode(text.encode("utf-16-be")).rstrip(b"=").replace(b"/", b",") + b"-"


def _unshifted(found: "re.Match[bytes]") -> bytes:
    digits = found[1].replace(b",", b"/")
    if not digits:
        return b"&"
    return b64decode(digits + b"=" * (-len(digits) % 4), validate=True).decode("utf-16-be").encode()
