"""The only place that rolls dice; everything else is handed the roll."""

import random


def roll() -> float:
    return random.random()  # noqa: S311 - jitter, no secret
