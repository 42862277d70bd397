"""The only place that rolls dice; everything else is handed the roll."""

import random
from collections.abc import Callable


def roll() -> float:
    return random.random()  # noqa: S311 - jitter, no secret


Dice = Callable[[], float]


def dice(seed: str) -> Dice:
    """Rolls from 0 to 1 that come out the same for the same seed: for simulations, which are to be repeated."""
    return random.Random(seed).random  # noqa: S311
