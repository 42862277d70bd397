"""A server for the bounce address. It accepts reports on our e-mails over SMTP or LMTP, and relays nothing.

A 250 after the dot guarantees that the message's content is committed. Otherwise the sender gets 451 and tries again.
aiosmtpd implements the protocol; the connection classes override what it has no hook for.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import MISSING, SMTP, Envelope, Session

from fairpost.maintenance.returns import email_of, take_in
from fairpost.model.campaign import ReplyStops
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Log, Reason
from fairpost.returns.mail import BYTES_MAX
from fairpost.store.store import Store
from fairpost.system import clock

MESSAGE_BYTES_MAX = 26_214_400  # reports may include the whole message; only the beginning is read
COMMAND_BYTES_MAX = 4_096
RECIPIENTS_MAX = 100
CONNECTIONS_MAX = 100
CONNECTIONS_PER_HOST_MAX = 50
IDLE_S_MAX = 120
TAKE_S_MAX = 30

# The library logs client errors as warnings; without a handler, they would land on stderr.
logging.getLogger("mail.log").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    host: str = "127.0.0.1"
    port: int = 2525  # 0: any free port
    is_lmtp: bool = False
    reply_stops: ReplyStops = ReplyStops.PERSON
    also: frozenset[str] = frozenset()  # addresses, in lower case, accepted without a token


class Receiver:
    """The server. It runs in the event loop that starts it."""

    def __init__(self, store: Store, options: ReceiverOptions, log: Log) -> None:
        self._options = options
        self._handler = _Handler(store, options, log)
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        options = self._options
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                self._connection, options.host, options.port
            )
        except OSError as error:
            raise FairpostError(
                f"Cannot listen on {options.host} port {options.port}: {error.strerror or error}"
            ) from error

    @property
    def port(self) -> int:
        assert self._listener is not None, "not started"
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Stops the server. Open transactions are left unanswered, so their senders try again."""
        if self._listener is not None:
            self._listener.close()
            tasks = [connection.abort() for connection in self._handler.connections]
            await asyncio.gather(*tasks, return_exceptions=True)

    def _connection(self) -> "_Connection":
        return (_LmtpConnection if self._options.is_lmtp else _Connection)(self._handler)


class _Session(Session):
    login_data: Any = None  # the library's attribute warns whenever the library itself sets it


class _Connection(SMTP):
    command_size_limit = COMMAND_BYTES_MAX

    def __init__(self, handler: "_Handler") -> None:
        self.command_size_limits = defaultdict(lambda: COMMAND_BYTES_MAX)  # the library's limits grow with every EHLO
        super().__init__(
            handler,
            data_size_limit=MESSAGE_BYTES_MAX,
            enable_SMTPUTF8=True,
            hostname="localhost",  # otherwise it is looked up for every connection
            ident="Fairpost",
            timeout=IDLE_S_MAX,
            auth_exclude_mechanism=["LOGIN", "PLAIN"],
            loop=asyncio.get_running_loop(),
        )
        self._handler = handler
        self._greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._handler.connections.add(self)
        self.conversation().add_done_callback(self._conversed)

    def conversation(self) -> "asyncio.Task[None]":
        assert self._handler_coroutine is not None
        return self._handler_coroutine

    def _conversed(self, task: "asyncio.Task[None]") -> None:
        self._handler.connections.discard(self)
        if not task.cancelled():
            task.exception()  # retrieve the exception of a reset connection, which needs no report

    def _create_session(self) -> Session:
        return _Session(self.loop)

    def abort(self) -> "asyncio.Task[None]":
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        return self.conversation()

    async def push(self, status: Any) -> None:
        """Sends a reply. All replies pass through here, including the greeting."""
        is_too_many = not self._greeted and self._is_one_too_many()
        self._greeted = True
        await super().push("421 4.3.2 Too many connections" if is_too_many else status)
        if is_too_many and self.transport is not None:
            self.transport.close()

    def _is_one_too_many(self) -> bool:
        others = self._handler.connections
        of_host = sum(each.host == self.host for each in others)
        return len(others) > CONNECTIONS_MAX or of_host > CONNECTIONS_PER_HOST_MAX

    @property
    def host(self) -> str | None:
        peer = self.session.peer if self.session is not None else None
        return peer[0] if isinstance(peer, tuple) else None

    def replies(self, status: str, recipients: int) -> str:
        return status


class _LmtpConnection(_Connection, LMTP):
    def replies(self, status: str, recipients: int) -> str:
        """Returns the reply, repeated for each recipient over LMTP (RFC 2033, 4.2)."""
        return "\r\n".join([status] * recipients)


class _Handler:
    """The hooks that aiosmtpd calls, in one object for all connections. MISSING continues with the default."""

    def __init__(self, store: Store, options: ReceiverOptions, log: Log) -> None:
        self.connections = set[_Connection]()
        self._store, self._options, self._log = store, options, log

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: _Connection, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> Any:
        if len(envelope.rcpt_tos) >= RECIPIENTS_MAX:
            return "452 4.5.3 Too many recipients"
        try:
            public_ids = await self._store.public_ids()
        except Exception:  # whatever the error, the sender must try again
            return "451 4.3.0 Try again later"
        is_ours = address.lower() in self._options.also or email_of(address, public_ids) is not None
        return MISSING if is_ours else "550 5.1.1 No such address"

    async def handle_DATA(self, server: _Connection, session: Session, envelope: Envelope) -> str:  # noqa: N802
        raw = envelope.original_content or b""
        status = await self._taken(raw[:BYTES_MAX], envelope.rcpt_tos)
        return server.replies(status, len(envelope.rcpt_tos))

    async def _taken(self, raw: bytes, recipients: list[str]) -> str:
        try:
            async with asyncio.timeout(TAKE_S_MAX):
                stops = self._options.reply_stops
                await take_in(self._store, raw, now=clock.now(), recipients=recipients, reply_stops=stops)
        except Exception as error:  # whatever the error, the sender must learn that the mail was not stored
            self._log(Reason("task.failed", task="receive", error=f"{type(error).__name__}: {error}"))
            return "451 4.3.0 Not stored, try again later"
        return "250 2.0.0 Ok"

    async def handle_exception(self, error: Exception) -> str:
        """Handles commands that crash the library. A message that cannot be stored never gets here."""
        return "500 5.5.2 Command not recognised"


async def serve(receiver: Receiver, *, until: asyncio.Event, on_start: Callable[[int], None]) -> None:
    await receiver.start()
    on_start(receiver.port)
    try:
        await until.wait()
    finally:
        await receiver.stop()
