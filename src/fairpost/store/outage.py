"""Report each database outage once, and decide how long to wait before the next attempt."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fairpost.model.errors import FairpostError, Outgrown
from fairpost.model.reason import Log, Reason
from fairpost.store.trouble import Kind, trouble_of
from fairpost.system.pause import Pause

T = TypeVar("T")


class Outage:
    """Reports a problem when it begins, changes and ends."""

    def __init__(self, log: Log, *, of: str = "database", over: str = "answers_again") -> None:
        self._log = log
        self._of = of
        self._answers_again = f"{of}.{over}"
        self._said: str | None = None
        self._pause = Pause()

    @property
    def is_on(self) -> bool:
        return self._said is not None

    def met(self, error: BaseException) -> float:
        """Report the error and return how long to wait."""
        trouble = trouble_of(error)
        words = " ".join(str(trouble.as_error() if trouble else error).split())
        trouble = trouble or (trouble_of(error.__cause__) if error.__cause__ else None)
        kind = _sign(trouble.kind) if trouble else None
        sign = kind or re.sub(r"\d+", "", words)  # a different time or pid does not make it a new problem
        step = error.next_step if isinstance(error, FairpostError) else None
        self.say(Reason(f"{self._of}.away", why=words, kind=kind, then=step), sign=sign)
        return self._pause.next_s()

    def say(self, event: Reason, *, sign: str) -> None:
        if sign != self._said:
            self._said = sign
            self._log(event)

    def over(self) -> None:
        self._pause.reset()
        if self._said is not None:
            self._said = None
            self._log(Reason(self._answers_again))


def _sign(kind: Kind) -> str:
    return Kind.AWAY if kind is Kind.STARTING else kind  # a restarting server goes through both states


async def patiently(opened: Callable[[], Awaitable[T]], log: Log, *, is_again: bool = False) -> T:
    """Return the result of `opened`. Retry after errors that waiting can resolve, and raise all others.

    `is_again` means that a connection has worked before, so every problem is retried.
    """
    outage = Outage(log)
    while True:
        try:
            found = await opened()
        except FairpostError as error:
            if isinstance(error, Outgrown) or not (is_again or error.passes):
                raise
            await asyncio.sleep(outage.met(error))
        else:
            outage.over()
            return found
