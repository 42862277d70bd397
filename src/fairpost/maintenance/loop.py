"""The loop that runs a maintenance task: one bounded step after another."""

import asyncio
from collections.abc import Awaitable, Callable

from fairpost.model.reason import Log, Reason
from fairpost.store.trouble import is_trouble


async def keep_stepping(
    step: Callable[[], Awaitable[bool | None]], *, every_s: float, complain: Callable[[Exception], None]
) -> None:
    """Take steps forever. If a step returns True, the next step follows immediately.

    A failed step does not stop the loop, because nothing else would restart it.
    """
    while True:
        is_busy: bool | None = False
        try:
            is_busy = await step()
        except Exception as error:
            if not is_trouble(error):  # the orchestrator reports problems with the database
                complain(error)
        await asyncio.sleep(0 if is_busy else every_s)


def failed(task: str, error: Exception, log: Log) -> None:
    log(Reason("task.failed", task=task, error=f"{type(error).__name__}: {error}"))
