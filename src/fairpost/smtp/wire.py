"""SMTP without I/O, one side of one connection: commands become bytes, bytes become answers to what was asked.

The rules of the file:
- What may be said in which state stands in MAY_SAY, and nowhere else. Saying anything else is a bug of ours.
- Every reply answers the oldest command that is not answered yet. A reply that nobody asked for is garbage,
  except a 421 (the server is going away) and what comes while a message is being written.
- After a STARTTLS nothing the server said in the clear is believed: not its features, not a byte sent ahead.
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
    GREETING = "the server has not greeted yet"
    GREETED = "it waits for our name"
    READY = "between commands"
    AUTH = "logging in"
    UPGRADE = "it waits for TLS"
    BODY = "it waits for the message"
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

CHANGES_NOTHING = (Step.RCPT, Step.MAIL, Step.DOT)  # whatever is answered
TOGETHER = (Step.MAIL, Step.RCPT, Step.DATA, Step.RESET)  # RFC 2920: these may travel in one group


class Command(NamedTuple):
    step: Step
    line: bytes

    def __repr__(self) -> str:
        return f"Command({self.step})"  # the line may be a password


class Answer(NamedTuple):
    step: Step
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the server said it can do."""

    pipelining: bool = False
    eight_bit: bool = False
    smtputf8: bool = False
    starttls: bool = False
    size_max: int | None = None
    takes_size: bool = False
    auth: frozenset[str] = frozenset()


class Wire:
    def __init__(self) -> None:
        self.state = State.GREETING
        self.features = Features()
        self._reader = ReplyReader()
        self._asked: deque[Step] = deque([Step.GREETING])

    @property
    def is_quiet(self) -> bool:
        """Nothing is asked and not answered, nothing was said and not read."""
        return not self._asked and self._reader.is_empty

    @property
    def unread_bytes(self) -> int:
        return self._reader.unread_bytes

    def say(self, *commands: Command) -> bytes:
        """The bytes of these commands; several only where the server offers PIPELINING. Raises Garbage when the
        server has spoken meanwhile: its answers would be taken for answers to what is asked now."""
        steps = [command.step for command in commands]
        allowed = MAY_SAY[self.state] if len(steps) == 1 else TOGETHER if self.features.pipelining else ()
        assert not self._asked, f"{steps[0]} before {self._asked[0]} was answered"
        assert steps[0] in MAY_SAY[self.state], f"{steps[0]} while {self.state.value}"
        assert all([step in allowed for step in steps]), f"{steps} do not travel together"  # noqa: C419 - quicker
        if not self._reader.is_empty:
            raise Garbage("the server answered before it was asked")
        self._asked.extend(steps)
        if steps[0] is Step.AUTH:
            self.state = State.AUTH
        return b"".join([command.line + b"\r\n" for command in commands])

    def under_tls(self) -> None:
        """TLS has begun: what was said before counts no more. Raises Garbage when it came unasked, in the clear."""
        assert Step.TLS in MAY_SAY[self.state]
        if not self._reader.is_empty:
            raise Garbage("the server sent something in the clear, just before TLS began")
        if self.state is State.UPGRADE:
            self.state = State.GREETED
        self.features = Features()

    def write_body(self, stuffed: bytes) -> bytes:
        assert Step.BODY in MAY_SAY[self.state]
        return stuffed

    def write_end(self, stuffed: bytes) -> bytes:
        """The last of the message and the dot that completes it: from here on the server may have taken it."""
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
        """The next answer, None when there is none yet. Raises Garbage."""
        reply = self._reader.next()
        if reply is None:
            return None
        answer = Answer(self._answered_step(reply), reply)
        self._move(answer)
        return answer

    def _answered_step(self, reply: Reply) -> Step:
        if self._asked:
            return self._asked.popleft()
        if self.state is State.BODY:
            return Step.BODY
        if reply.code == CLOSING:
            return Step.QUIT
        raise Garbage(f"the server said {reply.code} although nothing was asked")

    def _move(self, answer: Answer) -> None:
        code = answer.reply.code
        if code == CLOSING:
            self.state = State.CLOSED
            return
        if answer.step in CHANGES_NOTHING:
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
    """Of the answer to EHLO: its first line is a greeting, each other one a keyword with its parameters."""
    offered: dict[str, list[str]] = {}
    for line in text.split("\n")[1:]:
        keyword, *parameters = line.replace("=", " ", 1).upper().split() or [""]  # AUTH=LOGIN is old, and lives
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
        auth=frozenset(offered.get("AUTH", ())),
    )


def hello(name: str) -> Command:
    return Command(Step.HELLO, b"EHLO " + _word(name))


def old_hello(name: str) -> Command:
    return Command(Step.HELLO, b"HELO " + _word(name))


def mail_from(address: str, *, size: int | None, eight_bit: bool, smtputf8: bool) -> Command:
    line = b"MAIL FROM:<" + _word(address) + b">"
    if size is not None:
        line += b" SIZE=%d" % size
    if eight_bit:
        line += b" BODY=8BITMIME"
    if smtputf8:
        line += b" SMTPUTF8"
    return Command(Step.MAIL, line)


def rcpt_to(address: str) -> Command:
    return Command(Step.RCPT, b"RCPT TO:<" + _word(address) + b">")


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
    """The message with its dots doubled where they begin a line. Lines must end with CRLF, all of them, or a
    server that takes a lone LF for a line end could be made to see a second message (smuggling)."""
    ends = data.count(b"\r\n")
    if not data.endswith(b"\r\n") or ends != data.count(b"\n") or ends != data.count(b"\r"):
        raise ValueError("every line of a message must end with CRLF, and nothing else may hold CR or LF")
    doubled = data.replace(b"\r\n.", b"\r\n..")
    return b"." + doubled if data.startswith(b".") else doubled
