"""A server for the bounce address. The server accepts reports about Fairpost's e-mails over SMTP or LMTP, and relays
nothing. A 250 reply after the dot guarantees that the message's content is committed. Otherwise, the sender receives a
451 reply and tries again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import MISSING, Envelope, Session

from fairpost.maintenance.returns import email_of, take_in
from fairpost.model.campaign import ReplyStops
from fairpost.model.reason import Log, Reason
from fairpost.returns.mail import BYTES_MAX
from fairpost.smtp.listening import Listening, Served
from fairpost.store.store import Store
from fairpost.system import clock

MESSAGE_BYTES_MAX = 26_214_400  # reports may include the entire message, but only the beginning is read
COMMAND_BYTES_MAX = 4_096
RECIPIENTS_MAX = 100
CONNECTIONS_MAX = 100
CONNECTIONS_PER_HOST_MAX = 50
IDLE_S_MAX = 120
TAKE_S_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    host: str = "127.0.0.1"
    port: int = 2525  # 0 means any free port
    is_lmtp: bool = False
    reply_stops: ReplyStops = ReplyStops.PERSON
    also: frozenset[str] = frozenset()  # lower-case addresses that are accepted without a token


class Receiver(Listening):
    """The server, which runs in the event loop that starts it."""

    def __init__(self, store: Store, options: ReceiverOptions, log: Log) -> None:
        self._options = options
        self._handler = _Handler(store, options, log)
        super().__init__(self._handler.connections, self._connection)

    async def start(self) -> None:
        await self.listen(self._options.host, self._options.port)

    def _connection(self) -> "_Connection":
        return (_LmtpConnection if self._options.is_lmtp else _Connection)(self._handler)


class _Connection(Served):
    command_size_limit = command_bytes_max = COMMAND_BYTES_MAX

    def __init__(self, handler: "_Handler") -> None:
        super().__init__(
            handler,
            handler.connections,
            data_size_limit=MESSAGE_BYTES_MAX,
            ident="Fairpost",
            timeout=IDLE_S_MAX,
            auth_exclude_mechanism=["LOGIN", "PLAIN"],
        )
        self._handler = handler

    async def refusal(self) -> str | None:
        others = self._handler.connections
        of_host = sum(each.host == self.host for each in others)
        is_too_many = len(others) > CONNECTIONS_MAX or of_host > CONNECTIONS_PER_HOST_MAX
        return "421 4.3.2 Too many connections" if is_too_many else None

    def replies(self, status: str, recipients: int) -> str:
        return status


class _LmtpConnection(_Connection, LMTP):
    def replies(self, status: str, recipients: int) -> str:
        """Returns the reply, repeated for each recipient over LMTP (RFC 2033, 4.2)."""
        return "\r\n".join([status] * recipients)


class _Handler:
    """The hooks that aiosmtpd calls, in one object for all connections. If a hook returns MISSING, aiosmtpd falls back
    to its default behaviour.
    """

    def __init__(self, store: Store, options: ReceiverOptions, log: Log) -> None:
        self.connections = set[Served]()
        self._store, self._options, self._log = store, options, log

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: _Connection, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> Any:
        if len(envelope.rcpt_tos) >= RECIPIENTS_MAX:
            return "452 4.5.3 Too many recipients"
        try:
            public_ids = await self._store.public_ids()
        except Exception:  # after any error, the sender must try again
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
        except Exception as error:  # after any error, the sender must be told that the mail was not stored
            self._log(Reason("task.failed", task="receive", error=f"{type(error).__name__}: {error}"))
            return "451 4.3.0 Not stored, try again later"
        return "250 2.0.0 Ok"

    async def handle_exception(self, error: Exception) -> str:
        """Replies to commands for which the library raises an unexpected error. Messages that cannot be stored are
        handled in `handle_DATA`.
        """
        return "500 5.5.2 Command not recognised"


async def serve(receiver: Receiver, *, until: asyncio.Event, on_start: Callable[[int], None]) -> None:
    await receiver.start()
    on_start(receiver.port)
    try:
        await until.wait()
    finally:
        await receiver.stop()
