"""Signatures according to the Standard Webhooks specification: an HMAC over the ID, timestamp and body, one for each
secret.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from hashlib import sha256

from fairpost.model.webhook import SECRET_PREFIX

SECRET_BYTES = 32
TOLERANCE_S = 300  # maximum difference between the sender's and the receiver's clock


def written(secret: bytes) -> str:
    return SECRET_PREFIX + b64encode(secret).decode()


def key_of(secret: str) -> bytes:
    """Return the key encoded in a secret. Raises ValueError."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except NotBase64:
        raise ValueError("a secret must be whsec_ followed by base64") from None
    if not key:
        raise ValueError("a secret must not be empty")
    return key


def signature(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join([f"v1,{b64encode(hmac.digest(key, signed, sha256)).decode()}" for key in keys])


def is_signed(key: bytes, headers: Mapping[str, str], body: bytes, *, now_s: float) -> bool:
    """Return whether a received request is authentic and recent. `headers` have lower-case names."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or len(timestamp) > 15 or abs(now_s - int(timestamp)) > TOLERANCE_S:
        return False
    expected = signature([key], message_id, int(timestamp), body).encode()
    given = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(expected, each) for each in given)
