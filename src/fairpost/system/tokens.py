"""The only place that makes secrets; in the database are their hashes alone."""

import secrets
from hashlib import sha256

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def new_secret() -> str:
    """256 random bits, for a URL or a header."""
    return secrets.token_urlsafe(32)


def new_name(length: int = 12) -> str:
    """Random small letters and digits: a name that nobody else has."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def hash_of(secret: str) -> bytes:
    """Nothing slow: what is hashed here has 256 random bits, and nobody guesses those."""
    return sha256(secret.encode()).digest()
