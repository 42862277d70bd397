"""Servers for tests that have no event loop of their own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")
S_MAX = 120  # only against waiting for ever


@contextmanager
def beside(server: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = server()
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(S_MAX)
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result(S_MAX)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
