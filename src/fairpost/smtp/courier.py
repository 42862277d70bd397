"""Sends messages to one server over a connection that is reused within limits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fairpost.model.message import Message
from fairpost.model.report import Report
from fairpost.smtp.auth import Login, LoginSource, Password, Token, current
from fairpost.smtp.client import Connection
from fairpost.smtp.connecting import Unready
from fairpost.smtp.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Limits on reusing a connection: number of messages, idle time and age."""

    messages_max: int = 100
    idle_s_max: float = 20
    age_s_max: float = 300


class Courier:
    """Sends one message at a time."""

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
            if hung_up and connection.messages > 1:  # the server only closed an idle connection
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
        """Returns a connection that is ready for mail. Raises Unready."""
        if self._connection is not None and not self._is_good(self._connection):
            await self._hang_up()
        if self._connection is None:
            self._connection = await self._opened()
            self._opened_at = self._loop.time()
        return self._connection

    async def _opened(self) -> Connection:
        """Opens a connection. Raises Unready.

        A token may be revoked before it expires, so a refused login is tried once more with a new token.
        """
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
        """Closes the connection if it has been idle for too long. One timer is used for many messages."""
        self._rest = None
        rested_s = self._loop.time() - self._rested_at
        if self._is_busy:
            return  # the timer is set again after the current message
        if rested_s < self._reuse.idle_s_max:
            self._rest = self._loop.call_later(self._reuse.idle_s_max - rested_s, self._look)
        else:
            self._farewell = self._loop.create_task(self._hang_up())
