"""Event loops and connections that outlast a test.

A new connection has to read the catalogs, and to compile and plan each function that it calls, which takes most of the
CPU of a small test. So each `asyncio.run` of this process, and each test, gets a loop that was used before and cleaned
up. Connections from there to a test database are reused after a reset.
"""

import asyncio
import os
import threading
from asyncio import events
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import new_class
from typing import Any
from unittest.mock import patch

import asyncpg

EMPTIED_PREFIX = "test_"  # prefix of databases that are reused
RESET_S_MAX = 60.0  # only guards against waiting forever
ITS_OWN = 1  # the loop's own wake-up socket


class LastingLoop(asyncio.SelectorEventLoop):
    """Once closed, it can be reused, unless something of its use is left in it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lent = False
        self.free: dict[Any, list[LastingConnection]] = defaultdict(list)  # by URL and options

    def close(self) -> None:
        self.is_lent = False
        left = len(self._selector.get_map()) - ITS_OWN - sum(map(len, self.free.values()))  # type: ignore[attr-defined]
        if left or self._signal_handlers:  # type: ignore[attr-defined]
            self.end()
            return
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.set_exception_handler(None)
        self.set_task_factory(None)
        self.set_debug(False)

    def end(self) -> None:
        for url in {url for url, _ in self.free}:
            self.forget(url)
        self.run_until_complete(asyncio.sleep(0))  # lets ended tasks release their sockets
        super().close()

    def forget(self, url: str) -> None:
        for key in [key for key in self.free if key[0] == url]:
            for conn in self.free.pop(key):
                conn.is_lent = True
                conn.terminate()

    async def shutdown_asyncgens(self) -> None:
        await super().shutdown_asyncgens()
        self._asyncgens_shutdown_called = False

    async def shutdown_default_executor(self, *args: Any) -> None:
        await super().shutdown_default_executor(*args)
        self._default_executor = None
        self._executor_shutdown_called = False


class LastingConnection(asyncpg.Connection):  # type: ignore[misc]
    is_lent = True
    is_given_up = False  # by the product
    key: Any = None
    _config: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.config = self._config  # with the limits that were asked for

    async def close(self, *, timeout: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        if self.key and not self.is_closed() and not self.is_given_up and isinstance(loop, LastingLoop):
            self._config = self.config
            try:
                await self.reset(timeout=RESET_S_MAX)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                pass
            except BaseException:  # for example cancelled: the driver then gives the connection up as well
                self.terminate()
                raise
            else:
                self.is_lent = False
                self._call_termination_listeners()
                loop.free[self.key].append(self)
                return
        await super().close(timeout=timeout)

    def get_reset_query(self) -> str:
        return f"{super().get_reset_query()} SET SESSION AUTHORIZATION DEFAULT; DISCARD TEMP; DISCARD SEQUENCES;"

    def is_closed(self) -> bool:
        return not self.is_lent or bool(super().is_closed())


@cache
def _lasting(kind: type) -> type[LastingConnection]:
    """Of this class, the product's or the driver's own."""
    return LastingConnection if kind is asyncpg.Connection else new_class("Lasting", (LastingConnection, kind))


class Lasting:
    """The loops of this process, each with its connections to the databases of one server."""

    def __init__(self, server_url: str) -> None:
        self._ours = f"{server_url.rpartition('/')[0]}/{EMPTIED_PREFIX}"
        self._pid = os.getpid()
        self._loops: list[LastingLoop] = []

    @contextmanager
    def in_use(self) -> Iterator["Lasting"]:
        new_loop, connect = events.new_event_loop, asyncpg.connect

        def lasting_loop() -> asyncio.AbstractEventLoop:
            is_ours = os.getpid() == self._pid and threading.current_thread() is threading.main_thread()
            return self._lent() if is_ours else new_loop()

        async def connection(
            url: str = "", *, connection_class: type = asyncpg.Connection, **options: Any
        ) -> asyncpg.Connection:
            loop = asyncio.get_running_loop()
            is_lasting = os.getpid() == self._pid and url.startswith(self._ours)
            if not isinstance(loop, LastingLoop) or not is_lasting:
                return await connect(url or None, connection_class=connection_class, **options)
            asked = sorted((name, value) for name, value in options.items() if name != "timeout")
            key = url, repr((connection_class, asked))
            while loop.free[key]:
                conn = loop.free[key].pop()
                conn.is_lent = True
                if not conn.is_closed():
                    return conn
            conn = await connect(url, connection_class=_lasting(connection_class), **options)
            conn.key = key
            return conn

        with patch.object(events, "new_event_loop", lasting_loop), patch.object(asyncpg, "connect", connection):
            yield self
        for loop in self._loops:
            if not loop.is_closed():
                loop.end()

    def backends(self, url: str) -> list[int]:
        """Returns the process ids of idle connections."""
        frees = (free for loop in self._loops for key, free in loop.free.items() if key[0] == url)
        return [conn.get_server_pid() for free in frees for conn in free]

    def forget(self, url: str) -> None:
        for loop in self._loops:
            loop.forget(url)

    def _lent(self) -> LastingLoop:
        self._loops = [loop for loop in self._loops if not loop.is_closed()]
        loop = next((loop for loop in self._loops if not loop.is_lent), None)
        if loop is None:
            loop = LastingLoop()
            self._loops.append(loop)
        loop.is_lent = True
        return loop
