"""Codes and tokens: their lifetimes, and the hashes that the database stores."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from datetime import timedelta

from fairpost.model.tokens import hash_of
from fairpost.system import chance

CODE_DIGITS = 6
CODE_LIFE = timedelta(minutes=10)
CODE_TRIES_MAX = 5
CODES_MAX = 3  # maximum number per sign-in; after that, the password is required again


def new_code() -> str:
    return chance.secret_digits(CODE_DIGITS)


def code_hash(browser_secret: str, code: str) -> bytes:
    """Hashes a code with the browser's secret. The secret is not in the database, so codes cannot be guessed from the
    stored hashes.
    """
    return hashlib.sha256(_bytes(browser_secret) + _bytes(code)).digest()


def local_code_hash(token_hash: bytes, code: str) -> bytes:
    """Hashes a code that a command on the server created. The command knows only the hash of the browser's secret, so
    the code works only in the browser that has the secret.
    """
    return hashlib.sha256(token_hash + _bytes(code)).digest()


def is_code(browser_secret: str, given: str, *, emailed: bytes, local: bytes | None) -> bool:
    code = "".join(given.split())  # people may type the code as 482 913
    by_email = hmac.compare_digest(code_hash(browser_secret, code), emailed)
    by_server = hmac.compare_digest(local_code_hash(hash_of(browser_secret), code), local or b"")
    return by_email or by_server


def csrf_token_of(session_token: str) -> str:
    """Derives a session's CSRF token, which stays the same throughout the session. The CSRF token does not reveal the
    session token.
    """
    digest = hmac.digest(_bytes(session_token), b"fairpost csrf token", "sha256")
    return urlsafe_b64encode(digest).decode().rstrip("=")


def is_csrf_token(session_token: str, given: str) -> bool:
    """Returns whether this is the session's CSRF token, which only pages of this session can read."""
    return hmac.compare_digest(_bytes(csrf_token_of(session_token)), _bytes(given))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
