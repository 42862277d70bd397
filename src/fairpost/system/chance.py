"""The only module that generates random numbers. All other code receives random numbers as arguments."""

import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TOKEN_BYTES = 32
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


Dice = Callable[[], float]

_loaded: Dice | None = None


def roll() -> float:
    return _loaded() if _loaded else random.random()  # noqa: S311 - jitter, no secret


def dice(seed: str) -> Dice:
    """Return a source of random numbers from 0 to 1. The same seed yields the same numbers, so simulations can be
    repeated.
    """
    return random.Random(seed).random  # noqa: S311


@contextmanager
def loaded(seed: str) -> Iterator[None]:
    """Inside this context, derive all random numbers of this process from the seed."""
    global _loaded
    before, _loaded = _loaded, dice(seed)
    try:
        yield
    finally:
        _loaded = before


def secret_token() -> str:
    """Return 43 URL-safe random characters."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def secret_bytes(count: int) -> bytes:
    return secrets.token_bytes(count)


def mark() -> str:
    """Return twenty unique hexadecimal digits, generated in one call. The digits are not secret."""
    return secrets.token_hex(10)


def random_name(length: int) -> str:
    """Return a unique name of lowercase letters and digits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def secret_digits(count: int) -> str:
    return f"{secrets.randbelow(10**count):0{count}}"
