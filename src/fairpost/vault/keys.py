"""A master key and its text form. The key's ID may be shown to anyone, but the key itself is never shown."""

import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass, field
from hashlib import sha256

KEY_BYTES = 32
ID_CHARS = 12

_HEX = re.compile(r"[0-9A-Fa-f]{64}")


@dataclass(frozen=True, slots=True)
class Key:
    material: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """The ID that distinguishes keys. The ID reveals nothing, because keys consist of 256 random bits."""
        return sha256(b"fairpost key id\0" + self.material).hexdigest()[:ID_CHARS]


def new_key() -> Key:
    return Key(secrets.token_bytes(KEY_BYTES))


def read_key(text: str) -> Key | None:
    """Parse base64 (including the URL-safe form) or hex. Return None if the result is not 32 bytes."""
    text = text.strip()
    if _HEX.fullmatch(text):
        return Key(bytes.fromhex(text))
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        material = b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (NotBase64, ValueError):
        return None
    return Key(material) if len(material) == KEY_BYTES else None


def write_key(key: Key) -> str:
    return b64encode(key.material).decode()
