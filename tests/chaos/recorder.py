"""An SMTP server that records every complete message, and can break conversations at the two places that matter.

It runs in a thread of the test's own process, which is never killed. Accounts are distinguished by their EHLO name.
"""

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fairpost.model.ids import EmailId
from fairpost.model.public_ids import PublicIds
from fairpost.system import clock

LINE_BYTES_MAX = 2**20
START_S_MAX = 60.0
_MESSAGE_ID = re.compile(rb"^Message-ID: (<(em_[0-9a-z]{13})\..*>)\r$", re.MULTILINE | re.IGNORECASE)
NO_IDS = PublicIds(bytes(32), EmailId(0))


class Cut(StrEnum):
    GREETING = "instead of the greeting"
    BEFORE_DOT = "before the dot"  # instead of the 354
    AFTER_DOT = "after the dot, before the 250"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """Its usual behaviour: the maximum delay before an answer, the fixed delay before it accepts a message, and how
    often it cuts the connection."""

    delay_s_max: float = 0.0
    data_s: float = 0.0
    cut_before_dot: float = 0.0
    cut_after_dot: float = 0.0
    refuse_login: bool = False

    def chance(self, where: Cut) -> float:
        return {Cut.BEFORE_DOT: self.cut_before_dot, Cut.AFTER_DOT: self.cut_after_dot}.get(where, 0.0)


@dataclass(slots=True)
class Line:
    """A connection."""

    number: int
    peer_port: int
    account: str = ""
    is_open: bool = True


@dataclass(slots=True)
class Taken:
    """A complete message to one recipient. `answered` means that its 250 was written while the connection was open. An
    `email_id` of 0 means an e-mail of another database."""

    sequence: int
    email_id: int
    message_id: str
    recipient: str
    line: Line
    began_s: float  # time of its MAIL
    at_s: float  # time of its dot
    at: datetime
    ended_s: float | None = None
    answered: bool = False

    @property
    def account(self) -> str:
        return self.line.account


class Hangup(Exception):
    """The conversation ends here."""


@dataclass
class Recorder:
    seed: int = 0
    manners: Manners = field(default_factory=Manners)
    taken: list[Taken] = field(default_factory=list)
    cuts: Counter[Cut] = field(default_factory=Counter)
    lines: list[Line] = field(default_factory=list)
    port: int = 0
    ids: PublicIds = NO_IDS  # of the database that the e-mails come from

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._armed: list[Cut] = []
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._is_up = threading.Event()

    def cut_next(self, where: Cut) -> None:
        """Cuts the connection at this point of the next message."""
        self._armed.append(where)

    def cut_all(self) -> int:
        """Cuts every open connection, whatever its state. Returns how many there were."""
        writers = list(self._writers.values())
        for writer in writers:
            self._loop.call_soon_threadsafe(writer.transport.abort)
        return len(writers)

    def account_at(self, peer_port: int) -> str | None:
        return next(
            (line.account for line in reversed(self.lines) if line.peer_port == peer_port and line.is_open), None
        )

    @contextmanager
    def running(self) -> Iterator["Recorder"]:
        thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), name="recorder")
        thread.start()
        assert self._is_up.wait(START_S_MAX)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join()
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._greet, "127.0.0.1", 0, limit=LINE_BYTES_MAX, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._over.wait()
        server.close()
        for writer in list(self._writers.values()):
            writer.transport.abort()
        conversations = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*conversations, return_exceptions=True)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(len(self.lines), writer.get_extra_info("peername")[1])
        self.lines.append(line)
        self._writers[line.number] = writer
        with suppress(Hangup, ConnectionError, asyncio.IncompleteReadError):
            await Conversation(self, line, reader, writer).run()
        line.is_open = False
        self._writers.pop(line.number).transport.abort()

    def is_cut(self, where: Cut) -> bool:
        if where in self._armed:
            self._armed.remove(where)
        elif self._dice.random() >= self.manners.chance(where):
            return False
        self.cuts[where] += 1
        return True

    async def dawdle(self) -> None:
        if self.manners.delay_s_max:
            await asyncio.sleep(self._dice.random() * self.manners.delay_s_max)

    async def look_up(self) -> None:
        if self.manners.data_s:
            await asyncio.sleep(self.manners.data_s)


class Conversation:
    def __init__(
        self, recorder: Recorder, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._recorder = recorder
        self._line = line
        self._reader = reader
        self._writer = writer
        self._recipients: list[str] = []
        self._began_s = 0.0

    async def run(self) -> None:
        if self._recorder.is_cut(Cut.GREETING):
            raise Hangup
        self._say("220 here")
        while line := await self._reader.readline():
            await self._obey(line.decode().strip())

    async def _obey(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        match verb.upper():
            case "EHLO":
                self._line.account = rest
                self._say("250-here\r\n250-PIPELINING\r\n250-AUTH PLAIN\r\n250 8BITMIME")
            case "AUTH" if self._recorder.manners.refuse_login:
                self._say("535 5.7.8 no")
            case "AUTH":
                self._say("235 2.7.0 welcome")
            case "MAIL":
                self._recipients, self._began_s = [], clock.monotonic()
                self._say("250 2.1.0 fine")
            case "RCPT":
                self._recipients.append(rest.partition("<")[2].partition(">")[0])
                self._say("250 2.1.5 fine")
            case "DATA":
                await self._data()
            case "QUIT":
                self._say("221 bye")
                raise Hangup
            case _:
                self._say("250 2.0.0 fine")

    async def _data(self) -> None:
        await self._recorder.look_up()
        await self._recorder.dawdle()
        if self._recorder.is_cut(Cut.BEFORE_DOT):
            raise Hangup
        self._say("354 go on")
        message = await self._reader.readuntil(b"\r\n.\r\n")
        taken = self._take(message)
        if self._recorder.is_cut(Cut.AFTER_DOT):
            self._end(taken, answered=False)
            raise Hangup
        await self._recorder.dawdle()
        is_there = not self._writer.is_closing() and not self._reader.at_eof()
        self._say("250 2.0.0 taken")
        self._end(taken, answered=is_there)

    def _take(self, message: bytes) -> list[Taken]:
        found = _MESSAGE_ID.search(message)
        assert found, message
        taken = [
            Taken(
                sequence=len(self._recorder.taken) + place,
                email_id=self._recorder.ids.email_id(found[2].decode()) or 0,
                message_id=found[1].decode(),
                recipient=recipient,
                line=self._line,
                began_s=self._began_s,
                at_s=clock.monotonic(),
                at=clock.now(),
            )
            for place, recipient in enumerate(self._recipients)
        ]
        self._recorder.taken.extend(taken)
        return taken

    def _end(self, taken: list[Taken], *, answered: bool) -> None:
        for each in taken:
            each.ended_s, each.answered = clock.monotonic(), answered

    def _say(self, text: str) -> None:
        self._writer.write(text.encode() + b"\r\n")
