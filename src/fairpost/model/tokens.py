"""Secret tokens, of which the database stores only the hashes."""

from hashlib import sha256


def hash_of(token: str) -> bytes:
    """Hash a token. A fast hash is enough, because a token has 256 random bits and cannot be guessed."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
