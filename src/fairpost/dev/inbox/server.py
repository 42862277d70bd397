"""The capture server, which accepts mail over SMTP, keeps every message in the inbox, relays nothing, and fails on
request. A 250 reply after the dot guarantees that the message is committed. If the message could not be committed, the
reply is 451. aiosmtpd implements the protocol; `_Connection` overrides methods for which aiosmtpd has no hook.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from aiosmtpd.smtp import MISSING, Envelope, Session, syntax

from fairpost.dev.inbox.faults import (
    REPLY_CHARS_MAX,
    Action,
    Answer,
    Cut,
    CutAfter,
    Decide,
    Delay,
    Fault,
    Heard,
    Stall,
    Step,
    striking,
    tagged,
)
from fairpost.dev.inbox.mails import KEEP_BYTES, KEEP_MAILS, Arrived, Mail, add_mail, prune, prune_is_due
from fairpost.model.errors import FairpostError
from fairpost.quality.reading import storable
from fairpost.smtp.listening import Listening, Served
from fairpost.store.store import Store
from fairpost.system import chance, clock

MESSAGE_BYTES_MAX = 52_428_800
LINE_BYTES_MAX = 1_048_576  # RFC 5321 allows 1,000; the inbox accepts longer lines in order to show them
COMMAND_BYTES_MAX = 16_384  # RFC 4954 allows 12,288 for an AUTH line
RECIPIENTS_MAX = 1_000
CONNECTIONS_MAX = 200
IDLE_S_MAX = 3_600  # longer than any delay that can be requested
STORE_S_MAX = 60

NOT_STORED = "451 4.3.0 Not stored, try again later"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    host: str = "127.0.0.1"
    port: int = 1025  # 0: any free port
    beyond_loopback: bool = False  # if set, any client that can reach the server may write to the inbox
    faults: tuple[Fault, ...] = ()
    decide: Decide | None = None  # a provider's behaviour; called at each step, before the faults are applied
    tls: ssl.SSLContext | None = None
    implicit_tls: bool = False  # TLS from the first byte, instead of STARTTLS
    message_bytes_max: int = MESSAGE_BYTES_MAX
    keep_mails: int = KEEP_MAILS
    keep_bytes: int = KEEP_BYTES


def _ignore(_: Any) -> None:
    pass


class InboxServer(Listening):
    """The server, which runs in the event loop that starts it.

    `on_mail` is called for each stored message, and `on_trouble` is called with the reason if a message is not stored.
    """

    def __init__(
        self,
        store: Store,
        options: ServerOptions,
        *,
        on_mail: Callable[[Mail], None] = _ignore,
        on_trouble: Callable[[str], None] = _ignore,
        roll: Callable[[], float] = chance.roll,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._options = options
        self._handler = _Handler(store, options, on_mail=on_mail, on_trouble=on_trouble, roll=roll, sleep=sleep)
        super().__init__(self._handler.connections, self._connection)

    async def start(self) -> None:
        options = self._options
        if not options.beyond_loopback and not is_loopback(options.host):
            raise FairpostError(f"{options.host} is not a local-only address. Use 127.0.0.1.")
        tls = options.tls if options.implicit_tls else None
        advice = "Use a different port: fairpost inbox serve --port 1026"
        await self.listen(options.host, options.port, tls=tls, advice=advice)

    def _connection(self) -> "_Connection":
        starttls = None if self._options.implicit_tls else self._options.tls
        return _Connection(self._handler, tls_context=starttls, message_bytes_max=self._options.message_bytes_max)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Connection(Served):
    line_length_limit = LINE_BYTES_MAX
    command_size_limit = command_bytes_max = COMMAND_BYTES_MAX

    def __init__(self, handler: "_Handler", *, tls_context: ssl.SSLContext | None, message_bytes_max: int) -> None:
        super().__init__(
            handler,
            handler.connections,
            data_size_limit=message_bytes_max,
            ident="Fairpost inbox",
            tls_context=tls_context,
            timeout=IDLE_S_MAX,
            auth_require_tls=False,
            auth_callback=lambda *_: True,
        )
        self._handler = handler
        self.messages = 0  # started

    async def refusal(self) -> str | None:
        return await self._handler.greeting_fault(self)

    async def smtp_MAIL(self, arg: str | None) -> None:  # noqa: N802 - the library's name
        """Handles MAIL.

        AUTH= contains the author of the message (RFC 4954, section 5), and must be parsed but may be ignored.
        """
        kept = (word for word in (arg or "").split(" ") if not word.upper().startswith("AUTH="))
        await super().smtp_MAIL(" ".join(kept) or None)

    @syntax("DATA")
    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802 - the library's name
        assert self.envelope is not None
        reply = await self._handler.data_fault(self, self.envelope) if self.envelope.rcpt_tos else None
        if reply is None:
            await super().smtp_DATA(arg)
        else:
            self.envelope = self._create_envelope()  # some clients, including smtplib, do not send RSET
            await self.push(reply)


class _Handler:
    """The hooks that aiosmtpd calls, in one object for all connections. MISSING selects the default behaviour."""

    def __init__(
        self,
        store: Store,
        options: ServerOptions,
        *,
        on_mail: Callable[[Mail], None],
        on_trouble: Callable[[str], None],
        roll: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.connections = set[Served]()
        self._store = store
        self._options = options
        self._on_mail = on_mail
        self._on_trouble = on_trouble
        self._roll = roll
        self._sleep = sleep

    async def greeting_fault(self, connection: _Connection) -> str | None:
        if len(self.connections) > CONNECTIONS_MAX:
            return "421 4.3.2 Too many connections"
        return await self._meet(connection, Heard(step=Step.CONNECT, now=clock.now()))

    async def handle_HELO(self, server: _Connection, session: Session, envelope: Envelope, name: str) -> Any:  # noqa: N802
        return await self._meet(server, Heard(step=Step.EHLO, now=clock.now())) or MISSING

    async def handle_EHLO(  # noqa: N802
        self, server: _Connection, session: Session, envelope: Envelope, name: str, replies: list[str]
    ) -> list[str]:
        if reply := await self._meet(server, Heard(step=Step.EHLO, now=clock.now())):
            return [reply]
        session.host_name = name
        return [*replies[:-1], "250-PIPELINING", replies[-1]]

    async def handle_AUTH(self, server: _Connection, session: Session, envelope: Envelope, args: list[str]) -> Any:  # noqa: N802
        return await self._meet(server, Heard(step=Step.AUTH, now=clock.now())) or MISSING

    async def handle_MAIL(  # noqa: N802
        self, server: _Connection, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> Any:
        heard = Heard(step=Step.MAIL, now=clock.now(), sender=address, messages=server.messages)
        server.messages += 1
        return await self._meet_tagged(server, heard, address, steps=(Step.MAIL,)) or MISSING

    async def handle_RCPT(  # noqa: N802
        self, server: _Connection, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> Any:
        if len(envelope.rcpt_tos) >= RECIPIENTS_MAX:
            return "452 4.5.3 Too many recipients"
        heard = _heard(server, Step.RCPT, envelope, recipient=address)
        return await self._meet_tagged(server, heard, address, steps=_RECIPIENT_STEPS) or MISSING

    async def data_fault(self, connection: _Connection, envelope: Envelope) -> str | None:
        return await self._meet(connection, _heard(connection, Step.DATA, envelope), _recipients_faults(envelope))

    async def handle_DATA(self, server: _Connection, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """First applies the faults that prevent the message from being stored. After that, only `cut-after` can
        apply.
        """
        actions = self._actions(_heard(server, Step.DOT, envelope), _recipients_faults(envelope))
        if reply := await self._act(server, actions):
            return reply
        mail = await self._stored(server, session, envelope)
        if mail is None:
            return NOT_STORED
        await self._tidy(mail)
        if CutAfter() in actions:
            await _cut(server)
        return f"250 2.0.0 Kept as {mail.id}"

    async def handle_exception(self, error: Exception) -> str:
        """Handles commands that crash the library. Messages that cannot be stored are handled elsewhere."""
        return "500 5.5.2 Command not recognised"

    async def _stored(self, server: _Connection, session: Session, envelope: Envelope) -> Mail | None:
        try:
            async with asyncio.timeout(STORE_S_MAX):
                mail = await add_mail(self._store, _arrived(server, session, envelope))
        except Exception as error:  # whatever the error, the sender must be told that the message was not stored
            self._on_trouble(
                f"a message was not stored, and the client got a 451 reply: {str(error) or type(error).__name__}"
            )
            return None
        self._on_mail(mail)
        return mail

    async def _tidy(self, mail: Mail) -> None:
        """Cleans up after a message is stored. No error in this method may prevent the reply."""
        if not prune_is_due(mail):
            return
        try:
            async with asyncio.timeout(STORE_S_MAX):
                await prune(self._store, keep_mails=self._options.keep_mails, keep_bytes=self._options.keep_bytes)
        except Exception as error:
            self._on_trouble(f"old messages were not pruned: {str(error) or type(error).__name__}")

    async def _meet_tagged(
        self, connection: _Connection, heard: Heard, address: str, *, steps: Sequence[Step]
    ) -> str | None:
        try:
            faults = tagged(address, steps=steps)
        except ValueError as error:
            return f"553 5.1.3 {error}"[:REPLY_CHARS_MAX]
        return await self._meet(connection, heard, faults)

    async def _meet(self, connection: _Connection, heard: Heard, more: Sequence[Fault] = ()) -> str | None:
        """Applies faults. Returns the reply to send instead of the usual one, or None to continue."""
        return await self._act(connection, self._actions(heard, more))

    def _actions(self, heard: Heard, more: Sequence[Fault]) -> list[Action]:
        decided = self._options.decide(heard) if self._options.decide is not None else ()
        return [*decided, *striking((*self._options.faults, *more), heard.step, roll=self._roll)]

    async def _act(self, connection: _Connection, actions: Sequence[Action]) -> str | None:
        for action in actions:
            match action:
                case Answer(reply):
                    return reply
                case Delay(seconds):
                    await self._sleep(seconds)
                case Cut():
                    await _cut(connection)
                case Stall():
                    await _forever()
                case CutAfter():
                    pass  # applies when the message is stored
                case _:
                    assert_never(action)
        return None


_RECIPIENT_STEPS = (Step.RCPT, Step.DATA, Step.DOT)


def _heard(connection: _Connection, step: Step, envelope: Envelope, *, recipient: str | None = None) -> Heard:
    return Heard(
        step=step,
        now=clock.now(),
        sender=envelope.mail_from or "",
        recipient=recipient or next(iter(envelope.rcpt_tos), ""),
        messages=connection.messages - 1,
    )


def _recipients_faults(envelope: Envelope) -> list[Fault]:
    return [fault for address in envelope.rcpt_tos for fault in tagged(address, steps=_RECIPIENT_STEPS)]


async def _cut(connection: _Connection) -> None:
    connection.abort()
    await _forever()


async def _forever() -> None:
    """Waits until the connection is lost, at which point all waiting tasks are cancelled."""
    await asyncio.get_running_loop().create_future()


def _arrived(connection: _Connection, session: Session, envelope: Envelope) -> Arrived:
    assert isinstance(envelope.content, bytes)
    assert connection.transport is not None
    tls = connection.transport.get_extra_info("ssl_object")
    login = getattr(session.auth_data, "login", None)
    return Arrived(
        sender="" if envelope.mail_from == "<>" else storable(envelope.mail_from or ""),
        recipients=tuple(storable(address) for address in envelope.rcpt_tos),
        helo=storable(session.host_name or ""),
        peer=_peer(session.peer),
        tls=tls.version() if tls else None,
        auth_user=None if login is None else storable(login.decode("utf-8", "replace")),
        raw=envelope.content,
    )


def _peer(name: Any) -> str:
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
