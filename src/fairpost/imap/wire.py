"""IMAP without I/O, for the client side of one connection. Turns commands into bytes, and bytes into responses to
commands.

The rules of this file:
- MAY_SAY alone defines which commands are allowed in which state. Sending any other command is a bug.
- No command changes a mailbox. A folder is opened with EXAMINE, and bodies are read with PEEK.
- Only one command is in progress at a time. All responses up to the tagged response belong to that command, although
  the server may add unsolicited responses.
- After STARTTLS, nothing that the server sent unencrypted is trusted, neither its capabilities nor bytes sent ahead.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum

from fairpost.imap.names import encoded_name
from fairpost.imap.responses import Continuation, Data, Garbage, Response, ResponseReader, Status
from fairpost.smtp.auth import Login, Token

UID_MAX = 4_294_967_295
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class State(Enum):
    GREETING = "the server has not sent its greeting yet"
    CONNECTED = "not logged in"
    UPGRADE = "the server waits for TLS"
    LOGGED_IN = "no folder is open"
    EXAMINED = "a folder is open for reading"
    IDLE = "the server reports changes"
    CLOSED = "over"


MAY_SAY: Mapping[State, tuple[str, ...]] = {
    State.GREETING: (),
    State.CONNECTED: ("CAPABILITY", "STARTTLS", "AUTHENTICATE", "LOGIN", "LOGOUT"),
    State.UPGRADE: (),
    State.LOGGED_IN: ("CAPABILITY", "LIST", "EXAMINE", "NOOP", "LOGOUT"),
    State.EXAMINED: ("CAPABILITY", "LIST", "EXAMINE", "NOOP", "FETCH", "UID SEARCH", "UID FETCH", "IDLE", "LOGOUT"),
    State.IDLE: (),
    State.CLOSED: (),
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command. The first of the `pieces` is sent immediately, and each of the others is sent when the server asks for
    it.
    """

    name: str
    pieces: tuple[bytes, ...] = field(repr=False)  # not shown, because they may contain a password


class Wire:
    def __init__(self) -> None:
        self.state = State.GREETING
        self.capabilities: frozenset[str] | None = None  # None: not received yet, so the client must ask
        self._reader = ResponseReader()
        self._tag = 0
        self._asked: Command | None = None
        self._pieces: list[bytes] = []  # pieces of the command that have not been sent yet
        self._flooded: Garbage | None = None

    @property
    def is_answered(self) -> bool:
        return self._asked is None

    @property
    def is_quiet(self) -> bool:
        """Returns whether the last command has been completed and every response has been read."""
        return self._asked is None and self._reader.is_empty

    def say(self, command: Command) -> bytes:
        assert self._asked is None, f"{command.name} before {self._asked} was answered"
        assert command.name in MAY_SAY[self.state], f"{command.name} while {self.state.value}"
        self._tag += 1
        self._asked = command
        first, *self._pieces = command.pieces
        return self._current_tag.encode() + b" " + first + b"\r\n"

    def go_on(self) -> bytes:
        """Returns the next piece of the command, which the server has asked for. Raises Garbage if no piece is left."""
        if not self._pieces:
            raise Garbage("the server asked for more data than the command contains")
        return self._pieces.pop(0) + b"\r\n"

    def end_idle(self) -> bytes:
        assert self.state is State.IDLE
        self.state = State.EXAMINED
        return b"DONE\r\n"

    def under_tls(self) -> None:
        """Forgets everything that the server sent unencrypted. Call this method after TLS has started. Raises Garbage
        if the server sent unrequested data unencrypted.
        """
        assert self.state in (State.GREETING, State.UPGRADE)
        if not self._reader.is_empty:
            raise Garbage("the server sent unencrypted data just before TLS started")
        if self.state is State.UPGRADE:
            self.state = State.CONNECTED
        self.capabilities = None

    def close(self) -> None:
        self.state = State.CLOSED

    def receive(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
        except Garbage as garbage:  # the error is raised when the next response is read
            self._flooded = garbage

    def next(self) -> Response | None:
        """Returns the next response, or None if there is none yet. Raises Garbage."""
        if self._flooded is not None:
            raise self._flooded
        response = self._reader.next()
        match response:
            case Status():
                self._heard(response)
            case Data(kind="CAPABILITY"):
                self.capabilities = capabilities_of(
                    b" ".join([each for each in response.values if isinstance(each, bytes)]).decode(errors="replace")
                )
            case Continuation():
                self._continued()
        return response

    @property
    def _current_tag(self) -> str:
        return f"f{self._tag}"

    def _continued(self) -> None:
        if self._asked is None:
            raise Garbage("the server asked for more data, but no command was in progress")
        if self._asked.name == "IDLE" and self.state is State.EXAMINED:
            self.state = State.IDLE

    def _heard(self, status: Status) -> None:
        if status.code.startswith("CAPABILITY "):
            self.capabilities = capabilities_of(status.code.removeprefix("CAPABILITY "))
        if status.tag is None:
            self._heard_untagged(status)
        elif self._asked is None or status.tag != self._current_tag:
            raise Garbage(f"the server replied to {status.tag}, which was not sent")
        else:
            asked, self._asked, self._pieces = self._asked, None, []
            if self.state is not State.CLOSED:
                self._answered(asked, status)

    def _heard_untagged(self, status: Status) -> None:
        if status.status == "BYE":
            self.state = State.CLOSED
        elif status.status == "PREAUTH" and self.state in (State.GREETING, State.CONNECTED):
            self.state = State.LOGGED_IN  # the greeting; Courier may send a warning before it
        elif self.state is State.GREETING:
            self.state = State.CONNECTED

    def _answered(self, asked: Command, status: Status) -> None:
        match asked.name:
            case "LOGIN" | "AUTHENTICATE" if status.is_ok:
                self.state = State.LOGGED_IN
                if not status.code.startswith("CAPABILITY "):
                    self.capabilities = None  # ask again, because a server may offer more capabilities after the login
            case "STARTTLS" if status.is_ok:
                self.state = State.UPGRADE
            case "EXAMINE":
                self.state = State.EXAMINED if status.is_ok else State.LOGGED_IN
            case "IDLE" if self.state is State.IDLE:  # the server ended IDLE
                self.state = State.EXAMINED
            case "LOGOUT":
                self.state = State.CLOSED
            case _:
                pass


def capabilities_of(text: str) -> frozenset[str]:
    return frozenset(text.upper().split())


CAPABILITY = Command("CAPABILITY", (b"CAPABILITY",))
STARTTLS = Command("STARTTLS", (b"STARTTLS",))
NOOP = Command("NOOP", (b"NOOP",))
IDLE = Command("IDLE", (b"IDLE",))
LOGOUT = Command("LOGOUT", (b"LOGOUT",))
LIST = Command("LIST", (b'LIST "" "*"',))


def log_in(login: Login, capabilities: frozenset[str]) -> Command | None:
    """Returns the commands for logging in, or None if the server offers no supported login method."""
    user, secret = login.user.encode(), login.secret.encode()
    if isinstance(login, Token):
        if "AUTH=XOAUTH2" not in capabilities:
            return None
        response = b64encode(b"user=" + user + b"\1auth=Bearer " + secret + b"\1\1")
        # A server that refuses a token sends the reason as a challenge. An empty response makes the server send the
        # refusal.
        return _authenticate(b"XOAUTH2", response, capabilities, b"")
    if "AUTH=PLAIN" in capabilities:
        return _authenticate(b"PLAIN", b64encode(b"\0" + user + b"\0" + secret), capabilities)
    if "LOGINDISABLED" in capabilities:
        return None
    return _with_strings("LOGIN", b"LOGIN", user, secret)


def examine(folder: str) -> Command:
    return _with_strings("EXAMINE", b"EXAMINE", encoded_name(folder))


def search_uids(first: int, last: int | None) -> Command:
    """Finds UIDs from `first` to `last`, or to the newest if `last` is None. If `last` is None, the server returns the
    newest UID even if it is lower than `first`.
    """
    end = b"*" if last is None else b"%d" % last
    return Command("UID SEARCH", (b"UID SEARCH UID %d:%b" % (first, end),))


def search_since(day: date) -> Command:
    """Finds messages that arrived on this day or later, by the server's clock and time zone."""
    return Command("UID SEARCH", (b"UID SEARCH SINCE %d-%b-%d" % (day.day, _MONTHS[day.month - 1].encode(), day.year),))


def search_message_id(message_id: str) -> Command:
    return _with_strings("UID SEARCH", b"UID SEARCH HEADER Message-ID", message_id.encode())


def fetch_uid(number: int) -> Command:
    return Command("FETCH", (b"FETCH %d (UID)" % number,))


def fetch(uid: int, *, bytes_max: int) -> Command:
    return Command("UID FETCH", (b"UID FETCH %d (UID BODY.PEEK[]<0.%d>)" % (uid, bytes_max),))


def _authenticate(mechanism: bytes, response: bytes, capabilities: frozenset[str], *more: bytes) -> Command:
    first = b"AUTHENTICATE " + mechanism
    if "SASL-IR" in capabilities:
        return Command("AUTHENTICATE", (first + b" " + response, *more))
    return Command("AUTHENTICATE", (first, response, *more))


_QUOTABLE = re.compile(rb"[\x20-\x7e]{0,1000}")


def _with_strings(name: str, begin: bytes, *strings: bytes) -> Command:
    """Returns a command that contains strings. Each string that cannot be quoted is sent as a literal when the server
    asks for it.
    """
    pieces = [begin]
    for string in strings:
        if _QUOTABLE.fullmatch(string):
            pieces[-1] += b' "' + re.sub(rb'(["\\])', rb"\\\1", string) + b'"'
        else:
            pieces[-1] += b" {%d}" % len(string)
            pieces.append(string)
    return Command(name, tuple(pieces))
