"""The only place that rolls dice; everything else is handed the roll."""

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
    """Rolls from 0 to 1 that come out the same for the same seed: for simulations, which are to be repeated."""
    return random.Random(seed).random  # noqa: S311


@contextmanager
def loaded(seed: str) -> Iterator[None]:
    """For this process, until the end: every roll comes out as the seed says."""
    global _loaded
    before, _loaded = _loaded, dice(seed)
    try:
        yield
    finally:
        _loaded = before


def secret_token() -> str:
    """43 characters that may stand in a URL; nobody guesses them."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def mark() -> str:
    """Twenty letters and digits that nothing else has, drawn at once. Not a secret."""
    return secrets.token_hex(10)


def random_name(length: int) -> str:
    """Small letters and digits that nobody else has drawn."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def secret_digits(count: int) -> str:
    return f"{secrets.randbelow(10**count):0{count}}"
