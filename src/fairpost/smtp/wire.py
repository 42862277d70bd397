"""SMTP without I/O, for the client side of one connection. Turns commands into bytes, and bytes into answers to
commands.

The rules of this file:
- MAY_SAY alone defines which commands are allowed in which state. Sending any other command is a bug.
- Every reply answers the oldest unanswered command. An unexpected reply is garbage,
  except a 421 (the server is closing) and replies that arrive while a message is being written.
- After STARTTLS, nothing the server sent unencrypted is trusted: neither its features nor bytes sent ahead.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from fairpost.model.report import Reply, Step
from fairpost.smtp.replies import Garbage, ReplyReader

CLOSING = 421


class State(Enum):
    GREETING = "the server has not sent its greeting yet"
    GREETED = "the server waits for EHLO"
    READY = "between commands"
    AUTH = "logging in"
    UPGRADE = "the server waits for TLS"
    BODY = "the server waits for the message"
    CLOSED = "over"


MAY_SAY: Mapping[State, tuple[Step, ...]] = {
    State.GREETING: (Step.TLS,),
    State.GREETED: (Step.HELLO, Step.QUIT),
    State.READY: (Step.MAIL, Step.RCPT, Step.DATA, Step.RESET, Step.STARTTLS, Step.AUTH, Step.QUIT),
    State.AUTH: (Step.AUTH,),
    State.UPGRADE: (Step.TLS,),
    State.BODY: (Step.BODY, Step.DOT),
    State.CLOSED: (),
}

CHANGES_NOTHING = (Step.RCPT, Step.MAIL, Step.DOT)  # regardless of the reply
TOGETHER = (Step.MAIL, Step.RCPT, Step.DATA, Step.RESET)  # these may be pipelined (RFC 2920)


class Command(NamedTuple):
    step: Step
    line: bytes

    def __repr__(self) -> str:
        return f"Command({self.step})"  # does not show the line, which may contain a password


class Answer(NamedTuple):
    step: Step
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features that the server offers."""

    pipelining: bool = False
    eight_bit: bool = False
    smtputf8: bool = False
    starttls: bool = False
    size_max: int | None = None
    takes_size: bool = False
    dsn: bool = False
    auth: frozenset[str] = frozenset()


class Wire:
    def __init__(self) -> None:
        self.state = State.GREETING
        self.features = Features()
        self._reader = ReplyReader()
        self._asked: deque[Step] = deque([Step.GREETING])

    @property
    def is_quiet(self) -> bool:
        """Whether every command has been answered and every reply has been read."""
        return not self._asked and self._reader.is_empty

    @property
    def unread_bytes(self) -> int:
        return self._reader.unread_bytes

    def say(self, *commands: Command) -> bytes:
        """Returns these commands as bytes. Several commands are allowed only if the server offers PIPELINING.

        Raises Garbage if the server has already sent something that would be mistaken for the reply to these commands.
        """
        steps = [command.step for command in commands]
        allowed = MAY_SAY[self.state] if len(steps) == 1 else TOGETHER if self.features.pipelining else ()
        assert not self._asked, f"{steps[0]} before {self._asked[0]} was answered"
        assert steps[0] in MAY_SAY[self.state], f"{steps[0]} while {self.state.value}"
        assert all([step in allowed for step in steps]), f"{steps} cannot be pipelined"  # noqa: C419 - quicker
        if not self._reader.is_empty:
            raise Garbage("the server replied before a command was sent")
        self._asked.extend(steps)
        if steps[0] is Step.AUTH:
            self.state = State.AUTH
        return b"".join([command.line + b"\r\n" for command in commands])

    def under_tls(self) -> None:
        """Discards everything that the server sent before TLS began. Raises Garbage if it sent unrequested data
        unencrypted.
        """
        assert Step.TLS in MAY_SAY[self.state]
        if not self._reader.is_empty:
            raise Garbage("the server sent unencrypted data just before TLS started")
        if self.state is State.UPGRADE:
            self.state = State.GREETED
        self.features = Features()

    def write_body(self, stuffed: bytes) -> bytes:
        assert Step.BODY in MAY_SAY[self.state]
        return stuffed

    def write_end(self, stuffed: bytes) -> bytes:
        """Returns the end of the message and the final dot. Once they are sent, the server may have accepted the
        message.
        """
        assert Step.DOT in MAY_SAY[self.state]
        assert not self._asked
        self._asked.append(Step.DOT)
        self.state = State.READY
        return stuffed + b".\r\n"

    def close(self) -> None:
        self.state = State.CLOSED

    def receive(self, data: bytes) -> None:
        self._reader.feed(data)

    def next_answer(self) -> Answer | None:
        """Returns the next answer, or None if there is none yet. Raises Garbage."""
        reply = self._reader.next()
        if reply is None:
            return None
        answer = Answer(self._asked.popleft() if self._asked else self._unasked_step(reply), reply)
        if answer.step not in CHANGES_NOTHING or reply.code == CLOSING:
            self._move(answer)
        return answer

    def _unasked_step(self, reply: Reply) -> Step:
        if self.state is State.BODY:
            return Step.BODY
        if reply.code == CLOSING:
            return Step.QUIT
        raise Garbage(f"the server sent {reply.code} without a command")

    def _move(self, answer: Answer) -> None:
        code = answer.reply.code
        if code == CLOSING:
            self.state = State.CLOSED
            return
        match answer.step:
            case Step.GREETING:
                self.state = State.GREETED if code == 220 else State.CLOSED
            case Step.HELLO if code == 250:
                self.state = State.READY
                self.features = read_features(answer.reply.text)
            case Step.STARTTLS if code == 220:
                self.state = State.UPGRADE
            case Step.AUTH:
                self.state = State.AUTH if code == 334 else State.READY
            case Step.DATA if code == 354 and not self._asked:
                self.state = State.BODY
            case Step.QUIT:
                self.state = State.CLOSED
            case _:
                pass


def read_features(text: str) -> Features:
    """Parses the answer to EHLO: its first line is a greeting, and each other line is a keyword with its parameters."""
    offered: dict[str, list[str]] = {}
    for line in text.split("\n")[1:]:
        keyword, *parameters = line.replace("=", " ", 1).upper().split() or [""]  # AUTH=LOGIN is old but still in use
        offered.setdefault(keyword, []).extend(parameters)
    size = offered.get("SIZE", ["0"])
    limit = int(size[0]) if size and re.fullmatch(r"[0-9]{1,20}", size[0], re.ASCII) else 0
    return Features(
        pipelining="PIPELINING" in offered,
        eight_bit="8BITMIME" in offered,
        smtputf8="SMTPUTF8" in offered,
        starttls="STARTTLS" in offered,
        size_max=limit or None,
        takes_size="SIZE" in offered,
        dsn="DSN" in offered,
        auth=frozenset(offered.get("AUTH", ())),
    )


def hello(name: str) -> Command:
    return Command(Step.HELLO, b"EHLO " + _word(name))


def old_hello(name: str) -> Command:
    return Command(Step.HELLO, b"HELO " + _word(name))


ENVID_CHARS_MAX = 100  # RFC 3461, 4.4


def mail_from(
    address: str, *, size: int | None, eight_bit: bool, smtputf8: bool, envelope_id: str | None = None
) -> Command:
    """With an `envelope_id`, a report repeats this ID and contains only the message headers (RFC 3461)."""
    line = b"MAIL FROM:<" + _word(address) + b">"
    if size is not None:
        line += b" SIZE=%d" % size
    if eight_bit:
        line += b" BODY=8BITMIME"
    if smtputf8:
        line += b" SMTPUTF8"
    if envelope_id is not None:
        written = _xtext(envelope_id)
        line += b" RET=HDRS" + (b" ENVID=" + written if len(written) <= ENVID_CHARS_MAX else b"")
    return Command(Step.MAIL, line)


def rcpt_to(address: str, *, only_failures: bool = False) -> Command:
    """With `only_failures`, the server should report failed deliveries, but not delayed ones."""
    notify = b" NOTIFY=FAILURE" if only_failures else b""
    return Command(Step.RCPT, b"RCPT TO:<" + _word(address) + b">" + notify)


def _xtext(text: str) -> bytes:
    if _IS_XTEXT.fullmatch(text):
        return text.encode()
    return b"".join(
        [b"+%02X" % byte if byte in b"+=" or not 33 <= byte <= 126 else bytes([byte]) for byte in text.encode()]
    )


_IS_XTEXT = re.compile(r"[!-*,-<>-~]*")  # visible characters other than + and =

STARTTLS = Command(Step.STARTTLS, b"STARTTLS")
DATA = Command(Step.DATA, b"DATA")
RESET = Command(Step.RESET, b"RSET")
QUIT = Command(Step.QUIT, b"QUIT")

_BREAKS_OUT = re.compile(r"[\x00-\x20\x7f<>]")


def _word(text: str) -> bytes:
    if _BREAKS_OUT.search(text):
        raise ValueError(f"{text!r} cannot be written in a command")
    return text.encode()


def stuffed(data: bytes) -> bytes:
    """Doubles each dot at the start of a line. Every line must end with CRLF.

    Otherwise, a server that accepts a bare LF as a line ending could see a second message (SMTP smuggling).
    """
    ends = data.count(b"\r\n")
    if not data.endswith(b"\r\n") or ends != data.count(b"\n") or ends != data.count(b"\r"):
        raise ValueError("every line of a message must end with CRLF, and CR and LF must not occur anywhere else")
    if data.rfind(b"\n.") >= 0:  # rfind takes a third as long as a replacement that finds nothing
        data = data.replace(b"\r\n.", b"\r\n..")
    return b"." + data if data.startswith(b".") else data
