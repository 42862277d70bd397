"""An SMTP connection over asyncio that sends messages one after the other and reports exactly how far each message got.

wire.py and transaction.py choose the commands and interpret the replies without I/O. This module moves bytes and waits
for them, with a timeout for each phase.
"""

import asyncio
import socket
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

from fairpost.model.message import Message
from fairpost.model.report import Reply, Report, Step
from fairpost.smtp import auth
from fairpost.smtp.connecting import Unready, connected, must_be_checked, tls_complaint
from fairpost.smtp.replies import Garbage
from fairpost.smtp.server import Security, Server, Timeouts, tls_context
from fairpost.smtp.transaction import Deliver, Done, EndEmpty, Say, Transaction
from fairpost.smtp.wire import QUIT, STARTTLS, Answer, Command, State, Wire, hello, old_hello, stuffed

if TYPE_CHECKING:
    import ssl

CHUNK_BYTES = 65_536  # a message up to this size is sent in a single write, including the final dot


def patience(timeouts: Timeouts) -> dict[Step, float]:
    """Returns the maximum time to wait for each step."""
    return {
        Step.GREETING: timeouts.greeting_s,
        Step.HELLO: timeouts.hello_s,
        Step.STARTTLS: timeouts.hello_s,
        Step.AUTH: timeouts.auth_s,
        Step.RESET: timeouts.mail_s,
        Step.MAIL: timeouts.mail_s,
        Step.RCPT: timeouts.rcpt_s,
        Step.DATA: timeouts.data_s,
        Step.BODY: timeouts.block_s,
        Step.DOT: timeouts.dot_s,
        Step.QUIT: timeouts.quit_s,
    }


class Broken(Exception):
    """The connection is no longer usable."""


class Silent(Broken):
    """The connection is open, but the server did not read or reply in time."""


class Pipe(asyncio.Protocol):
    """Moves bytes to and from the socket. Only one task at a time can wait for data to read or room to write."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._transport: asyncio.Transport | None = None
        self._lost: str | None = None
        self.is_full = False  # written data is buffered until the server continues reading
        self._waiter: asyncio.Future[bool] | None = None
        self._loop = asyncio.get_running_loop()
        self._until = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def lost(self) -> str | None:
        return self._lost

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.take_over(cast("asyncio.Transport", transport))

    def take_over(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=1)  # room to write then means that all earlier data was sent
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._lost is None:
            self._wire.receive(data)
            self._wake()

    def eof_received(self) -> None:
        self._lose("the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"the connection was lost: {exc}" if exc else "the server closed the connection")

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._wake()

    def write(self, data: bytes) -> None:
        """Writes data. Raises Broken if it is certain that none of the data was sent."""
        if self._lost is not None or self.transport.is_closing():
            raise Broken(self._lost or "the connection was closed")
        self.transport.write(data)

    async def moved(self, until: float, step: Step) -> None:
        """Waits until data has arrived, or everything that was written has been sent. Raises Broken."""
        if self._lost is not None:
            raise Broken(self._lost)
        self._waiter = self._loop.create_future()
        self._until = until
        if self._alarm is None or self._alarm.when() > until:
            self._set_alarm()
        try:
            moved = await self._waiter
        finally:
            self._waiter = None
        if not moved:
            raise Silent(
                "the server stopped reading" if step is Step.BODY else f"no reply to {step} within the time limit"
            )

    def _set_alarm(self) -> None:
        """Uses one timer for many waits, because a timer for each wait would cost more than checking late."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(self._until, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._waiter is not None and self._loop.time() < self._until:
            self._set_alarm()
        else:
            self._wake(moved=False)

    def abort(self, why: str) -> None:
        """Closes the connection at once. Data that has been written but is still buffered is not sent."""
        self._lose(why)
        if self._transport is not None:
            self._transport.abort()

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._wake()

    def _wake(self, *, moved: bool = True) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(moved)


class Connection:
    """A connection. After `open`, it is ready for mail as long as `is_usable` is true."""

    def __init__(self, server: Server, wire: Wire, pipe: Pipe) -> None:
        self._server = server
        self._wire = wire
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._patience = patience(server.timeouts)
        self._is_in_step = True
        self._must_reset = False
        self._step = Step.GREETING  # the last step that this client waited for
        self.messages = 0  # messages sent so far

    @classmethod
    async def open(cls, server: Server, login: auth.Login | None = None) -> Self:
        """Connects, starts TLS if the security setting requires it, and logs in. Raises Unready."""
        wire = Wire()
        pipe = await connected(server, lambda: Pipe(wire))
        connection = cls(server, wire, pipe)
        try:
            await connection._become_ready(login)
        except BaseException:
            pipe.abort("the connection did not become ready")
            raise
        return connection

    @property
    def is_usable(self) -> bool:
        """Whether another message can be sent, as far as this client knows. The server may have closed the connection
        without this client noticing.
        """
        is_open = self._pipe.lost is None and self._wire.state is State.READY
        return is_open and self._is_in_step and self._wire.is_quiet

    @property
    def tls(self) -> str | None:
        """The TLS version, such as TLSv1.3, or None if the connection is not encrypted."""
        secured: ssl.SSLObject | None = self._pipe.transport.get_extra_info("ssl_object")
        return secured.version() if secured is not None else None

    async def send(self, message: Message, *, permission: Callable[[], bool]) -> tuple[Report, bool]:
        """Returns how far the message got, and whether the server closed the connection before it saw the message. A
        server may do this to an old connection; the message can then be sent over a new one.
        """
        talk = Transaction(message, self._wire.features, reset_first=self._must_reset)
        if not self.is_usable:
            return talk.broken(self._pipe.lost or "the server sent a reply out of turn"), True
        self.messages += 1
        self._is_in_step = False
        try:
            done = await self._carry_out(talk, stuffed(message.data), permission)
            return done.report, talk.is_unheard
        except (Broken, Garbage) as error:
            is_silent = isinstance(error, Silent)
            return replace(talk.broken(str(error)), is_silent=is_silent), talk.is_unheard and not is_silent
        finally:
            if not self._is_in_step:
                self._pipe.abort("the connection was abandoned in mid-message")

    async def quit(self) -> None:
        """Sends QUIT if possible and closes the connection."""
        if self.is_usable:
            with suppress(Broken, Garbage):
                await self._ask(QUIT)
        self._pipe.abort("it was closed")

    async def _carry_out(self, talk: Transaction, data: bytes, permission: Callable[[], bool]) -> Done:
        while True:
            match talk.next():
                case Say(commands):
                    self._pipe.write(self._wire.say(*commands))
                    for command in commands:
                        talk.answered(self._wire.next_answer() or await self._answer(command.step))
                        if self._wire.state is State.CLOSED:
                            break
                case Deliver():
                    if not await self._deliver(talk, data, permission):
                        return Done(talk.denied(), usable=False)
                case EndEmpty():
                    self._pipe.write(self._wire.write_end(b""))
                    talk.end_written()
                    talk.answered(await self._answer(Step.DOT))
                case Done(_, usable, must_reset) as done:
                    self._is_in_step, self._must_reset = usable, must_reset
                    return done

    async def _deliver(self, talk: Transaction, data: bytes, permission: Callable[[], bool]) -> bool:
        """Writes the message. Returns False if permission was denied."""
        at = 0
        while len(data) - at > CHUNK_BYTES and not self._is_stopped(talk):
            self._pipe.write(self._wire.write_body(data[at : at + CHUNK_BYTES]))
            at += CHUNK_BYTES
            until = self._deadline(Step.BODY)
            while self._pipe.is_full and not self._is_stopped(talk):
                await self._pipe.moved(until, Step.BODY)
        if self._is_stopped(talk):
            return True
        if not permission():
            return False
        self._pipe.write(self._wire.write_end(data[at:]))
        talk.dot_written()
        talk.answered(await self._answer(Step.DOT))
        return True

    def _is_stopped(self, talk: Transaction) -> bool:
        """Returns whether the server replied before the message was complete."""
        if not talk.is_ended:
            early = self._wire.next_answer()
            if early is not None:
                talk.answered(early)
        return talk.is_ended

    async def _ask(self, command: Command) -> Reply:
        self._pipe.write(self._wire.say(command))
        return (await self._answer(command.step)).reply

    async def _answer(self, step: Step) -> Answer:
        """Returns the next answer. Answers that arrived before the connection was lost still count."""
        self._step = step
        until = self._deadline(step)  # limit for the whole reply: an occasional byte does not extend it
        while (answer := self._wire.next_answer()) is None:
            await self._pipe.moved(until, step)
        return answer

    def _deadline(self, step: Step) -> float:
        return self._loop.time() + self._patience[step]

    async def _become_ready(self, login: auth.Login | None) -> None:
        """Makes the connection ready for mail. Raises Unready."""
        security = self._server.security
        try:
            if security is Security.IMPLICIT:
                await self._wrap(checked=True)
            greeting = (await self._answer(Step.GREETING)).reply
            if greeting.code != 220:
                raise Unready(Step.GREETING, "the server rejected the connection", greeting)
            await self._say_hello()
            if security in (Security.STARTTLS, Security.OFFERED):
                await self._start_tls(login)
            if login is not None:
                await self._log_in(login)
            if not self.is_usable:
                raise Unready(self._step, "the server sent a reply out of turn")
        except (Broken, Garbage) as error:
            said = auth.without_secret(str(error), login) if login is not None else str(error)
            raise Unready(self._step, said) from None

    async def _say_hello(self) -> None:
        name = self._server.hello_name or _address_literal(self._pipe.transport)
        reply = await self._ask(hello(name))
        if reply.code >= 500 and self._wire.state is State.GREETED:
            reply = await self._ask(old_hello(name))
        if self._wire.state is not State.READY:
            raise Unready(Step.HELLO, "the server rejected the greeting", reply)

    async def _start_tls(self, login: auth.Login | None) -> None:
        is_required = self._server.security is Security.STARTTLS
        if self._wire.features.starttls:
            reply = await self._ask(STARTTLS)
            if self._wire.state is State.UPGRADE:
                await self._wrap(checked=is_required or must_be_checked(self._server, login))
                await self._say_hello()
            elif is_required or self._wire.state is State.CLOSED:
                raise Unready(Step.STARTTLS, "the server offers STARTTLS but rejects it", reply)
        elif is_required:
            raise Unready(
                Step.STARTTLS, "the server does not offer STARTTLS, and unencrypted connections are not allowed"
            )

    async def _wrap(self, *, checked: bool) -> None:
        self._step = Step.TLS
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(
                self._pipe.transport,
                self._pipe,
                tls_context(self._server, checked=checked),
                server_hostname=self._server.host,
                ssl_handshake_timeout=self._server.timeouts.tls_s,
            )
        except OSError as error:
            raise Unready(Step.TLS, tls_complaint(error)) from error
        if transport is None:
            raise Unready(Step.TLS, "the server closed the connection during the TLS handshake")
        self._pipe.take_over(transport)
        self._wire.under_tls()

    async def _log_in(self, login: auth.Login) -> None:
        if must_be_checked(self._server, login) and self._pipe.transport.get_extra_info("ssl_object") is None:
            raise Unready(Step.AUTH, "the server offers no encryption, and a password must not be sent without it")
        offered = self._wire.features.auth
        mechanism = auth.mechanism(login, offered)
        if mechanism is None:
            raise Unready(
                Step.AUTH,
                f"the server offers no supported login method (it offers: {' '.join(sorted(offered)) or 'none'})",
            )
        asked = ""
        for command in auth.exchange(login, mechanism):
            reply = await self._ask(command)
            if reply.code == 235:
                return
            if reply.code != 334:
                break
            asked = reply.text
        said = auth.without_secret(reply.text + _explained(asked), login)
        raise Unready(Step.AUTH, "the server rejected the login", Reply(reply.code, said))


def _address_literal(transport: asyncio.Transport) -> str:
    sock = transport.get_extra_info("socket")
    host = transport.get_extra_info("sockname")[0]
    return f"[IPv6:{host.split('%')[0]}]" if sock.family == socket.AF_INET6 else f"[{host}]"


def _explained(question: str) -> str:
    """Returns the reason from a challenge. Microsoft and Google send it in a challenge before they refuse a token."""
    with suppress(NotBase64, UnicodeDecodeError):
        words = b64decode(question, validate=True).decode()
        return f" ({words})" if words.isprintable() and words else ""
    return ""
