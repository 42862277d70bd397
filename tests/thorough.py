"""How thoroughly randomized tests search. FAIRPOST_THOROUGH=6 makes them try six times as much, as in `make fuzz`.

Most of them try different inputs in each run, so that small searches add up. All of them are marked.
"""

import os

THOROUGH = int(os.environ.get("FAIRPOST_THOROUGH", "1"))
IS_FREE = "FAIRPOST_THOROUGH" in os.environ  # whether inputs are random


def times(usual: int, *, own: str | None = None) -> int:
    """`own` is the variable that sets this number alone."""
    return int(os.environ.get(own or "", usual * THOROUGH))
