"""An IMAP connection over asyncio, for reading only. The connection opens a folder with EXAMINE and waits for new
messages. wire.py decides, without I/O, which bytes to send, and interprets the responses. This module sends and
receives the bytes, with a timeout for each command.
"""

import asyncio
import re
import ssl
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Self

from fairpost.imap import wire as say
from fairpost.imap.names import decoded_name
from fairpost.imap.pipe import Broken, Pipe
from fairpost.imap.responses import Continuation, Data, Garbage, Status, Value
from fairpost.imap.wire import Command, State, Wire
from fairpost.model.report import Step
from fairpost.smtp.auth import Login, without_secret
from fairpost.smtp.connecting import Unready, connected, must_be_checked, tls_complaint
from fairpost.smtp.server import Security, Server, tls_context

COMMAND_S_MAX = 120.0  # long, because a search in a large mailbox takes time
LOGOUT_S_MAX = 5.0
RESPONSES_MAX = 100_000  # maximum number of responses to one command; listing all folders produces the most
_UID = re.compile(rb"[0-9]{1,10}")
_LATER = ("UNAVAILABLE", "INUSE", "LIMIT", "SERVERBUG", "OVERQUOTA")  # the password is not to blame (RFC 5530)


class LoginRefused(Unready):
    """The server rejects this user or password. Trying again is pointless until the user or the password changes."""

    def __init__(self, error: str) -> None:
        super().__init__(Step.AUTH, error)


class Refused(Exception):
    """The server replied NO or BAD to a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """An open folder. UIDs are valid as long as `uid_validity` stays the same. `uid_next` is None if the server does
    not report it.
    """

    uid_validity: int
    uid_next: int | None
    messages: int


class Connection:
    """An IMAP connection, which is logged in after `open`. Methods raise Broken or Garbage if the connection has ended,
    and Refused if the connection is still usable.
    """

    def __init__(self, server: Server, wire: Wire, pipe: Pipe) -> None:
        self._server = server
        self._wire = wire
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._step = Step.GREETING
        self._has_news = False  # whether the server has reported a message since the folder was opened
        self._challenge = ""  # the last challenge, which may contain the reason for a refused login

    @classmethod
    async def open(cls, server: Server, login: Login | None) -> Self:
        """Connects and logs in. Raises Unready."""
        wire = Wire()
        pipe = await connected(server, lambda: Pipe(wire.receive))
        connection = cls(server, wire, pipe)
        try:
            await connection._become_ready(login)
        except (Broken, Garbage, Refused) as error:
            pipe.abort("the connection did not become ready")
            said = without_secret(str(error), login) if login is not None else str(error)
            raise Unready(connection._step, said) from None
        except BaseException:
            pipe.abort("the connection did not become ready")
            raise
        return connection

    @property
    def tls(self) -> str | None:
        return self._pipe.tls

    @property
    def can_idle(self) -> bool:
        return "IDLE" in (self._wire.capabilities or ())

    async def examine(self, folder: str) -> Folder:
        validity = following = None
        messages = 0
        for each in await self._ask(say.examine(folder)):
            match each:
                case Status(code=code):
                    validity = _number_after("UIDVALIDITY ", code) or validity
                    following = _number_after("UIDNEXT ", code) or following
                case Data(kind="EXISTS", number=number):
                    messages = number or 0
        self._has_news = False
        if validity is None:
            raise Refused("the server does not assign permanent numbers to its messages (UIDVALIDITY)")
        return Folder(uid_validity=validity, uid_next=following, messages=messages)

    async def uids(self, first: int, last: int | None = None) -> list[int]:
        """Returns, in order, the UIDs of the messages from `first` to `last`, or to the newest message if `last` is
        None.
        """
        most = say.UID_MAX if last is None else last
        return [uid for uid in await self._search(say.search_uids(first, last)) if first <= uid <= most]

    async def newest(self, folder: Folder) -> int:
        """Returns the UID of the newest message, or 0 if the folder is empty. This method is needed for servers that do
        not report the next UID.
        """
        if not folder.messages:
            return 0
        for each in await self._ask(say.fetch_uid(folder.messages)):
            if isinstance(each, Data) and each.kind == "FETCH" and each.number == folder.messages:
                uid = _pairs(each.values).get("UID")
                if isinstance(uid, bytes) and _UID.fullmatch(uid):
                    return int(uid)
        raise Refused("the server does not report the number of its newest message")

    async def uids_since(self, day: date) -> list[int]:
        return await self._search(say.search_since(day))

    async def has_message(self, message_id: str) -> bool:
        """Returns whether the open folder has a message with this Message-ID."""
        return bool(await self._search(say.search_message_id(message_id)))

    async def fetch(self, uid: int, *, bytes_max: int) -> bytes | None:
        """Returns the beginning of a message, or None if the message no longer exists. Does not mark the message as
        read.
        """
        found: bytes | None = None
        for each in await self._ask(say.fetch(uid, bytes_max=bytes_max)):
            if isinstance(each, Data) and each.kind == "FETCH":
                fields = _pairs(each.values)
                if fields.get("UID") == str(uid).encode():
                    body = fields.get("BODY[]<0>", fields.get("BODY[]"))  # some servers omit the offset
                    found = body[:bytes_max] if isinstance(body, bytes) else found
        return found

    async def sent_folder(self) -> str | None:
        """Returns the folder with the sent mail (RFC 6154), or None if the server does not report one."""
        for each in await self._ask(say.LIST):
            if isinstance(each, Data) and each.kind == "LIST" and len(each.values) == 3:
                flags, _, name = each.values
                if isinstance(flags, tuple) and b"\\sent" in [f.lower() for f in flags if isinstance(f, bytes)]:
                    return decoded_name(name) if isinstance(name, bytes) else None
        return None

    async def wait(self, wait_s: float) -> bool:
        """Waits for changes in the open folder, using IDLE. Returns False if no change was reported within `wait_s`."""
        if self._take_news():
            return True
        begun = self._loop.time() + COMMAND_S_MAX
        said = await self._until(self._begin(say.IDLE), begun, lambda: self._is_idle or self._wire.is_answered)
        if self._wire.is_answered and isinstance(said[-1], Status) and not said[-1].is_ok:
            raise Refused(f"the server refused IDLE: {said[-1].shown}")
        until = self._loop.time() + wait_s
        self._read_news()
        while self._is_idle and not self._has_news and await self._pipe.moved(until=until):
            self._read_news()
        if self._is_idle:
            self._pipe.write(self._wire.end_idle())
        await self._until(None, self._loop.time() + COMMAND_S_MAX, lambda: self._wire.is_answered)
        return self._take_news()

    async def check(self) -> bool:
        """Polls for changes, for servers without IDLE."""
        await self._ask(say.NOOP)
        return self._take_news()

    async def logout(self) -> None:
        """Sends LOGOUT if possible and closes the connection."""
        if self._pipe.lost is None and self._wire.state in (State.LOGGED_IN, State.EXAMINED) and self._wire.is_quiet:
            with suppress(Broken, Garbage, Refused):
                await self._ask(say.LOGOUT, wait_s=LOGOUT_S_MAX)
        self.abort()

    def abort(self) -> None:
        self._wire.close()
        self._pipe.abort("it was closed")

    # ── commands ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _is_idle(self) -> bool:
        return self._wire.state is State.IDLE

    def _take_news(self) -> bool:
        had, self._has_news = self._has_news, False
        return had

    async def _search(self, command: Command) -> list[int]:
        found: set[int] = set()
        for each in await self._ask(command):
            if isinstance(each, Data) and each.kind == "SEARCH":
                found.update(int(uid) for uid in each.values if isinstance(uid, bytes) and _UID.fullmatch(uid))
        return sorted(uid for uid in found if 0 < uid <= say.UID_MAX)

    async def _ask(self, command: Command, *, wait_s: float = COMMAND_S_MAX) -> list[Status | Data]:
        """Returns the responses to a command. Raises Refused if the server did not execute it."""
        responses = await self._until(
            self._begin(command), self._loop.time() + wait_s, lambda: self._wire.is_answered, name=command.name
        )
        last = responses[-1]
        if not (isinstance(last, Status) and last.tag is not None):
            raise Broken(_goodbye(responses))
        if not last.is_ok:
            raise Refused(f"the server refused {command.name}: {last.shown}")
        return responses

    def _begin(self, command: Command) -> bytes:
        if self._pipe.lost is not None or self._wire.state is State.CLOSED:
            raise Broken(self._pipe.lost or "the server closed the session")
        return self._wire.say(command)

    async def _until(
        self, data: bytes | None, until: float, done: Callable[[], bool], *, name: str = "IDLE"
    ) -> list[Status | Data]:
        """Writes the data, and reads until `done` or until the connection ends. Sends the rest of a command when the
        server asks for it.
        """
        if data is not None:
            self._pipe.write(data)
        responses: list[Status | Data] = []
        while not done():
            response = self._wire.next()
            if response is None:
                if self._wire.state is State.CLOSED:
                    raise Broken(_goodbye(responses))
                if not await self._pipe.moved(until=until):
                    raise Broken(f"no response to {name} in time")
                continue
            if isinstance(response, Continuation):
                self._on_continuation(response)
                continue
            self._note_news(response)
            responses.append(response)
            if len(responses) > RESPONSES_MAX:
                raise Garbage("the server's response is too long")
        return responses

    def _on_continuation(self, response: Continuation) -> None:
        if self._wire.state is not State.IDLE:
            self._challenge = response.text
            self._pipe.write(self._wire.go_on())

    def _read_news(self) -> None:
        while (response := self._wire.next()) is not None:
            if not isinstance(response, Continuation):
                self._note_news(response)

    def _note_news(self, response: Status | Data) -> None:
        if isinstance(response, Data) and response.kind in ("EXISTS", "RECENT"):
            self._has_news = True

    # ── becoming ready ────────────────────────────────────────────────────────────────────────────────────────

    async def _become_ready(self, login: Login | None) -> None:
        security = self._server.security
        if security is Security.IMPLICIT:
            await self._wrap(checked=True)
        self._step = Step.GREETING
        greeted = self._loop.time() + self._server.timeouts.greeting_s
        said = await self._until(None, greeted, lambda: self._wire.state is not State.GREETING, name="the connection")
        if self._wire.state is State.CLOSED:
            raise Broken(_goodbye(said))
        await self._know_capabilities()
        if security in (Security.STARTTLS, Security.OFFERED):
            await self._start_tls(login)
        if login is not None and self._wire.state is State.CONNECTED:
            await self._log_in(login)
        self._step = Step.AUTH
        if self._wire.state is not State.LOGGED_IN:
            raise Broken("the server requires a login")
        await self._know_capabilities()

    async def _know_capabilities(self) -> frozenset[str]:
        if self._wire.capabilities is None:
            await self._ask(say.CAPABILITY)
        return self._wire.capabilities or frozenset()

    async def _start_tls(self, login: Login | None) -> None:
        self._step = Step.STARTTLS
        is_required = self._server.security is Security.STARTTLS
        if self._wire.state is State.LOGGED_IN:  # after PREAUTH, it is too late for TLS
            if is_required:
                raise Broken("the server logs in the session before TLS has started")
        elif "STARTTLS" in await self._know_capabilities():
            await self._ask(say.STARTTLS)
            await self._wrap(checked=is_required or must_be_checked(self._server, login))
        elif is_required:
            raise Broken("the server does not offer STARTTLS, and unencrypted connections are not allowed")

    async def _wrap(self, *, checked: bool) -> None:
        self._step = Step.TLS
        until = self._loop.time() + self._server.timeouts.tls_s
        try:
            context = _context(self._server.ca_file, checked=checked)
            self._wire.under_tls()
            await self._pipe.start_tls(context, host=self._server.host, until=until)
        except OSError as error:
            raise Unready(Step.TLS, tls_complaint(error)) from error

    async def _log_in(self, login: Login) -> None:
        if must_be_checked(self._server, login) and self._pipe.tls is None:
            raise Unready(Step.AUTH, "the server offers no encryption, and a password must not be sent without it")
        offered = await self._know_capabilities()
        self._step = Step.AUTH
        if self._wire.state is not State.CONNECTED:
            raise Broken("the server logged in the connection without being asked")
        command = say.log_in(login, offered)
        if command is None:
            ways = " ".join(sorted(each for each in offered if each.startswith("AUTH=")))
            raise Unready(Step.AUTH, f"the server offers no supported login method (it offers: {ways or 'none'})")
        until = self._loop.time() + self._server.timeouts.auth_s
        answer = (await self._until(self._begin(command), until, lambda: self._wire.is_answered, name="the login"))[-1]
        if isinstance(answer, Status) and not answer.is_ok:
            said = without_secret(answer.shown + _explained(self._challenge), login)
            if answer.code.startswith(_LATER):
                raise Unready(Step.AUTH, f"the server is not accepting logins now: {said}")
            raise LoginRefused(f"the server refused the login: {said}")


@lru_cache(maxsize=100)
def _context(ca_file: str | None, *, checked: bool) -> ssl.SSLContext:
    """Returns a TLS context that all connections share, because each context holds all CA certificates (about 1 MB)."""
    return tls_context(Server(host="", port=0, ca_file=ca_file), checked=checked)


def _number_after(name: str, code: str) -> int | None:
    rest = code.removeprefix(name)
    return int(rest) if rest != code and re.fullmatch("[0-9]{1,10}", rest) and 0 < int(rest) <= say.UID_MAX else None


def _pairs(values: tuple[Value, ...]) -> dict[str, Value]:
    """Returns the fields of a FETCH response, keyed by uppercase name."""
    given = values[0] if values and isinstance(values[0], tuple) else ()
    names = [name.decode("ascii", "replace").upper() if isinstance(name, bytes) else "" for name in given[::2]]
    return dict(zip(names, given[1::2], strict=False))


def _goodbye(responses: list[Status | Data]) -> str:
    last = next((each for each in reversed(responses) if isinstance(each, Status)), None)
    return f"the server closed the session: {last.shown}" if last is not None else "the server closed the session"


def _explained(challenge: str) -> str:
    """Returns the reason contained in a challenge. Microsoft and Google send such a challenge before they refuse a
    token.
    """
    with suppress(NotBase64, UnicodeDecodeError):
        words = b64decode(challenge, validate=True).decode()
        return f" ({words})" if words.isprintable() and words else ""
    return ""
