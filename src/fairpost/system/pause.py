"""An increasing pause between attempts, for anything that retries automatically."""

FIRST_S = 0.25
LONGEST_S = 15.0


class Pause:
    """A pause that doubles each time, from `first_s` up to `longest_s`. `reset` returns to `first_s`."""

    def __init__(self, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def next_s(self) -> float:
        now_s, self._next_s = self._next_s, min(self._longest_s, 2 * self._next_s)
        return now_s

    def reset(self) -> None:
        self._next_s = self._first_s
