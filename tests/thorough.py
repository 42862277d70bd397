"""How far the tests look that try what chance brings. FAIRPOST_THOROUGH=6 makes them try six times as much: `make fuzz` does.

Most of them try something else in each run, so that a little of it every time adds up. All of them are marked.
"""

import os

THOROUGH = int(os.environ.get("FAIRPOST_THOROUGH", "1"))
IS_FREE = "FAIRPOST_THOROUGH" in os.environ  # inputs are random


def times(usual: int, *, own: str | None = None) -> int:
    """`own`: the variable that sets this number alone."""
    return int(os.environ.get(own or "", usual * THOROUGH))
