"""Carries message after message to one server, over a connection that is kept as long as that is polite."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fairpost.model.message import Message
from fairpost.model.report import Report
from fairpost.smtp.auth import Login, LoginSource, Password, Token, current
from fairpost.smtp.client import Connection, Unready
from fairpost.smtp.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """When a connection has carried enough, rested too long or grown too old, the next message gets a new one."""

    messages_max: int = 100
    idle_s_max: float = 20
    age_s_max: float = 300


class Courier:
    """One message at a time."""

    def __init__(self, server: Server, login: Login | LoginSource | None = None, *, reuse: Reuse | None = None) -> None:
        self._server = server
        self._login = login
        self._reuse = reuse or Reuse()
        self._connection: Connection | None = None
        self._opened_at = 0.0
        self._rested_at = 0.0
        self._is_busy = False
        self._rest: asyncio.TimerHandle | None = None
        self._farewell: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def send(self, message: Message, *, permission: Callable[[], bool]) -> Report:
        self._is_busy = True
        try:
            connection = await self._ready()
            report, hung_up = await connection.send(message, permission=permission)
            if hung_up and connection.messages > 1:  # an old connection that had died in its sleep, nothing more
                connection = await self._ready()
                report, _ = await connection.send(message, permission=permission)
        except Unready as unready:
            report = unready.report()
        finally:
            self._is_busy = False
            self._rested_at = self._loop.time()
        if self._rest is None:
            self._rest = self._loop.call_later(self._reuse.idle_s_max, self._look)
        return report

    async def close(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._farewell is not None:
            await self._farewell
        await self._hang_up()

    async def _ready(self) -> Connection:
        """Raises Unready."""
        if self._connection is not None and not self._is_good(self._connection):
            await self._hang_up()
        if self._connection is None:
            self._connection = await self._opened()
            self._opened_at = self._loop.time()
        return self._connection

    async def _opened(self) -> Connection:
        """Raises Unready. A token may have been withdrawn before its time: a refused one gets one successor."""
        login = await current(self._login)
        try:
            return await Connection.open(self._server, login)
        except Unready as unready:
            if not unready.is_refused_login or self._login is None or isinstance(self._login, Password | Token):
                raise
        self._login.refused()
        return await Connection.open(self._server, await self._login.login())

    def _is_good(self, connection: Connection) -> bool:
        is_young = self._loop.time() - self._opened_at < self._reuse.age_s_max
        return connection.is_usable and is_young and connection.messages < self._reuse.messages_max

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.quit()

    def _look(self) -> None:
        """Whether the connection has rested too long. One timer for many messages, not one for each."""
        self._rest = None
        rested_s = self._loop.time() - self._rested_at
        if self._is_busy:
            return  # the message under way sets the timer again
        if rested_s < self._reuse.idle_s_max:
            self._rest = self._loop.call_later(self._reuse.idle_s_max - rested_s, self._look)
        else:
            self._farewell = self._loop.create_task(self._hang_up())
