"""What the SMTP servers share: the listener, and connections that it can close. aiosmtpd implements the
protocol.

Each server processes messages in its handler, the object whose hooks aiosmtpd calls.
"""

import asyncio
import logging
import ssl
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from aiosmtpd.smtp import SMTP, Session

from fairpost.model.errors import FairpostError

# The library logs client errors as warnings; without a handler, they would be written to stderr.
logging.getLogger("mail.log").addHandler(logging.NullHandler())


class _Session(Session):
    login_data: Any = None  # avoids a warning that the library emits whenever it sets this attribute itself


class Served(SMTP):
    """A client's connection."""

    command_bytes_max = 4_096

    def __init__(self, handler: object, connections: "set[Served]", **more: Any) -> None:
        """`connections` contains the server's open connections. The options are passed to the library."""
        # Each connection gets its own dictionary. By default, all connections share one, which the library extends with
        # every EHLO.
        self.command_size_limits = defaultdict(lambda: self.command_bytes_max)
        super().__init__(
            handler,
            enable_SMTPUTF8=True,
            hostname="localhost",  # otherwise, the library looks up the host name for every connection
            loop=asyncio.get_running_loop(),
            **more,
        )
        self._connections = connections
        self._greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # with STARTTLS, this is called twice
        if self not in self._connections:
            self._connections.add(self)
            self.conversation().add_done_callback(self._conversed)

    def conversation(self) -> "asyncio.Task[None]":
        assert self._handler_coroutine is not None
        return self._handler_coroutine

    def _conversed(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(self)
        if not task.cancelled():
            task.exception()  # retrieves the exception from a reset connection; it need not be reported

    def _create_session(self) -> Session:
        return _Session(self.loop)

    def abort(self) -> "asyncio.Task[None]":
        """End the connection without a reply. The returned task completes when the connection is closed."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        return self.conversation()

    @property
    def host(self) -> str | None:
        peer = self.session.peer if self.session is not None else None
        return peer[0] if isinstance(peer, tuple) else None

    async def refusal(self) -> str | None:
        """Return the greeting for a client that is turned away."""
        return None

    async def push(self, status: Any) -> None:
        """Send a reply. A 421, or a greeting that refuses the client, also ends the connection."""
        refusal = None if self._greeted else await self.refusal()
        is_last = refusal is not None or status[:3] in ("421", b"421")
        self._greeted = True
        await super().push(status if refusal is None else refusal)
        if is_last and self.transport is not None:
            self.transport.close()


class Listening:
    """Serves in the event loop that starts it."""

    def __init__(self, connections: set[Served], connect: Callable[[], Served]) -> None:
        self._connections = connections
        self._connect = connect
        self._listener: asyncio.Server | None = None

    async def listen(self, host: str, port: int, *, tls: ssl.SSLContext | None = None, advice: str = "") -> None:
        """Listen. Raise FairpostError with advice if the port cannot be used."""
        try:
            self._listener = await asyncio.get_running_loop().create_server(self._connect, host, port, ssl=tls)
        except OSError as error:
            message = f"Cannot listen on {host} port {port}: {error.strerror or error}"
            raise FairpostError(f"{message}. {advice}" if advice else message) from error

    @property
    def port(self) -> int:
        assert self._listener is not None, "not started"
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Stop the server. Open transactions are left unanswered, so their senders try again."""
        if self._listener is not None:
            self._listener.close()
            ended = [connection.abort() for connection in self._connections]
            await asyncio.gather(*ended, return_exceptions=True)
