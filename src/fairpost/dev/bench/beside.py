"""Tasks and processes that run alongside a benchmark and end when it ends."""

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

END_S_MAX = 40.0


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def ending(process: Process) -> AsyncIterator[None]:
    """Ends the process, and kills it if it takes too long."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), END_S_MAX)
        except TimeoutError:
            process.kill()
