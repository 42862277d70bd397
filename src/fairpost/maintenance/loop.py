"""The small loop of what runs beside the sending: one bounded step after the other, for ever."""

import asyncio
from collections.abc import Awaitable, Callable

from fairpost.model.reason import Log, Reason
from fairpost.store.trouble import is_trouble


async def keep_stepping(
    step: Callable[[], Awaitable[bool | None]], *, every_s: float, complain: Callable[[Exception], None]
) -> None:
    """Whatever goes wrong with one step, the next one comes: nobody else watches. A step that answers True has more to do at once."""
    while True:
        is_busy: bool | None = False
        try:
            is_busy = await step()
        except Exception as error:
            if not is_trouble(error):  # of which the orchestrator tells
                complain(error)
        await asyncio.sleep(0 if is_busy else every_s)


def failed(task: str, error: Exception, log: Log) -> None:
    log(Reason("task.failed", task=task, error=f"{type(error).__name__}: {error}"))
