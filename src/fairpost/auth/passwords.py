"""Passwords: the rules for choosing them, and their hashes. The hashes use Argon2id, whose parameters are defined only
here.

Hashing deliberately takes a tenth of a second and 64 MB. Hashes are computed in threads, two at a time, with a limited
queue.
"""

import asyncio
import hmac
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import hash_secret

from fairpost.system import chance

# The parameters are the second recommendation in RFC 9106. If these parameters change, each password is rehashed at the
# next sign-in.
HASHER = PasswordHasher(time_cost=3, memory_cost=65_536, parallelism=4, hash_len=32, salt_len=16)

AT_ONCE_MAX = 2
WAITING_MAX = 50
KINDS_MAX = 3  # maximum number of different salts per address, because each needs a separate computation
CHARS_MIN = 12
CHARS_MAX = 256
_COMMON = """
    123456789012 1234567890123 12345678901234 123123123123 123412341234 111222333444 qwertyuiop12 qwertyuiop123
    qwertyuiopasdf qwertyuiop[] 1q2w3e4r5t6y 1qaz2wsx3edc abcdefghijkl abcdefghijklm abcd12345678 password1234
    password12345 password123456 passwordpassword password1password administrator administrator1 admin1234567
    adminadminadmin letmeinletmein welcome12345 welcome123456 iloveyou1234 iloveyouiloveyou changeme1234
    changemechangeme correcthorsebatterystaple trustno1trustno1 secretsecret fairpostfairpost"""
COMMON = frozenset(_COMMON.split())

T = TypeVar("T")

_threads = ThreadPoolExecutor(max_workers=AT_ONCE_MAX, thread_name_prefix="argon2")
_under_way = 0


def complaint_about(password: str, *, address: str) -> str | None:
    """Returns the reason why the password is not allowed, or None if the password is allowed."""
    if not CHARS_MIN <= len(password) <= CHARS_MAX:
        return f"A password must have {CHARS_MIN} to {CHARS_MAX} characters; this one has {len(password)}."
    plain = password.strip().casefold()
    if plain in {address.casefold(), address.partition("@")[0].casefold()}:
        return "The password must not be your e-mail address. Choose a different one."
    if plain in COMMON or len(set(plain)) < 3:
        return "This password is too common. Choose a different one, such as four unrelated words."
    return None


def is_busy() -> bool:
    """Returns whether a new password would have to wait several seconds before being hashed."""
    return _under_way >= WAITING_MAX


async def hashed(password: str, *, like: str | None = None) -> str:
    """Hashes a password. `like` is another hash for the same address, from another workspace.

    The salt of `like` is reused, so that one computation checks both hashes.
    """
    salt = None if like is None else _salt(like)
    return await _in_thread(lambda: HASHER.hash(_bytes(password), salt=salt))


async def is_right(password: str, password_hash: str | None) -> bool:
    """Checks a password. If the person has no password, the hash is None and the check takes just as long."""
    return await _in_thread(lambda: _verify(password, password_hash))


async def right_ones(password: str, password_hashes: Sequence[str]) -> list[bool]:
    """Returns, for each hash, whether the password matches.

    Hashes with the same salt share one computation. Only the first few salts are tried.
    """
    kinds = list(dict.fromkeys(_kind(each) for each in password_hashes))[:KINDS_MAX]
    made = [await _in_thread(lambda kind=kind: _computed(password, kind)) for kind in kinds]  # type: ignore[misc]
    return [any(hmac.compare_digest(each, one) for one in made) for each in password_hashes]


def is_outdated(password_hash: str, *, like: str | None = None) -> bool:
    return HASHER.check_needs_rehash(password_hash) or (like is not None and _salt(like) != _salt(password_hash))


def _kind(password_hash: str) -> str:
    """Returns the parameters and the salt, without the hash itself."""
    return password_hash.rpartition("$")[0]


def _salt(password_hash: str) -> bytes:
    text = _kind(password_hash).rpartition("$")[2]
    return b64decode(text + "=" * (-len(text) % 4))


def _computed(password: str, kind: str) -> str:
    known = extract_parameters(f"{kind}${'A' * 43}")
    return hash_secret(
        _bytes(password),
        _salt(f"{kind}$"),
        time_cost=known.time_cost,
        memory_cost=known.memory_cost,
        parallelism=known.parallelism,
        hash_len=HASHER.hash_len,
        type=known.type,
        version=known.version,
    ).decode()


def _verify(password: str, password_hash: str | None) -> bool:
    decoy = _decoy(HASHER)  # created for the first check, even if that check does not need the decoy
    try:
        HASHER.verify(password_hash or decoy, _bytes(password))
    except (VerificationError, InvalidHashError):
        return False
    return password_hash is not None


@cache
def _decoy(hasher: PasswordHasher) -> str:
    return hasher.hash(chance.secret_token())


def _bytes(password: str) -> bytes:
    """Encodes a password.

    The text is normalized, because keyboards compose letters differently. The text's length is limited.
    """
    return unicodedata.normalize("NFKC", password[: CHARS_MAX + 1]).encode("utf-8", "surrogatepass")


async def _in_thread(work: Callable[[], T]) -> T:
    global _under_way
    _under_way += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, work)
    finally:
        _under_way -= 1
