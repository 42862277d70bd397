"""The only place that rolls dice; everything else is handed the roll."""

import random
import secrets
from collections.abc import Callable

TOKEN_BYTES = 32
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def roll() -> float:
    return random.random()  # noqa: S311 - jitter, no secret


Dice = Callable[[], float]


def dice(seed: str) -> Dice:
    """Rolls from 0 to 1 that come out the same for the same seed: for simulations, which are to be repeated."""
    return random.Random(seed).random  # noqa: S311


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
