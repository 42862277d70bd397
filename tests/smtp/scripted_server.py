"""An SMTP server on a real socket that behaves well, except at one step, where it does what it is told."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

CUT = "cut"  # closes instead of answering
HALF = "half an answer"  # closes in the middle of a multiline answer
STALL = "stall"  # never answers; in the middle of a message, stops reading
DRIP = "drip"  # a byte now and then, without end
GARBAGE = "garbage"
FLOOD = "flood"  # an endless line
TWICE = "twice"  # the right answer, twice


@dataclass(frozen=True, slots=True)
class Says:
    """Gives this answer, whatever the right one is."""

    text: str


Misdeed = str | Says


@dataclass(slots=True)
class Script:
    at: str = ""
    misdeed: Misdeed = ""
    on_message: int = 1  # the number of the message in the connection that the misdeed applies to
    pipelining: bool = True
    features: tuple[str, ...] = ("8BITMIME", "SMTPUTF8")
    features_under_tls: tuple[str, ...] | None = None  # None: the same
    tls: ssl.SSLContext | None = None
    knows_ehlo: bool = True
    takes_no_recipient: bool = False  # sends a 354 although no recipient was accepted
    commands: list[str] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)  # complete messages with a recipient, answered or not
    connections: int = 0
    encrypted: bool = False  # whether TLS was established
    freed: asyncio.Event = field(default_factory=asyncio.Event)  # a stall ends with the test
    news: asyncio.Event = field(default_factory=asyncio.Event)  # set when a command or a message arrives

    async def until(self, happened: Callable[[], object]) -> None:
        async with asyncio.timeout(120):
            while not happened():
                self.news.clear()
                await self.news.wait()


class Over(Exception):
    """The conversation ends here."""


class Conversation:
    def __init__(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._script = script
        self._reader = reader
        self._writer = writer
        self._message = 1
        self._recipients = 0
        self._accepted = 0

    async def run(self) -> None:
        await self._answer("greeting", "220 here")
        while line := (await self._reader.readline()).decode(errors="replace"):
            self._script.commands.append(line.rstrip("\r\n"))
            self._script.news.set()
            await self._obey(line.strip())

    async def _obey(self, line: str) -> None:
        match line.upper().partition(" ")[0]:
            case "EHLO" if not self._script.knows_ehlo:
                await self._say("502 5.5.1 what?")
            case "EHLO" | "HELO":
                await self._hello()
            case "STARTTLS":
                await self._start_tls()
            case "AUTH":
                await self._auth(line)
            case "MAIL":
                self._recipients = self._accepted = 0
                await self._answer("mail", "250 2.1.0 fine")
            case "RCPT":
                await self._rcpt()
            case "DATA":
                await self._data()
            case "QUIT":
                await self._say("221 bye")
                raise Over
            case _:
                await self._say("250 2.0.0 fine")

    async def _hello(self) -> None:
        more = ("PIPELINING",) if self._script.pipelining else ()
        features = self._script.features
        if self._writer.get_extra_info("ssl_object") and self._script.features_under_tls is not None:
            features = self._script.features_under_tls
        lines = ("here", *features, *more)
        answer = [f"250{' ' if line is lines[-1] else '-'}{line}" for line in lines]
        await self._answer("hello", "\r\n".join(answer))

    async def _start_tls(self) -> None:
        if not (await self._answer("starttls", "220 go on")).startswith("220"):
            return
        assert self._script.tls is not None
        if self._script.at == "tls":
            await self._answer("tls", "")
            raise Over
        await self._writer.start_tls(self._script.tls)
        self._script.encrypted = True

    async def _auth(self, line: str) -> None:
        questions = 2 if line == "AUTH LOGIN" else 0
        for _ in range(questions):
            await self._say("334 VXNlcm5hbWU6")
            self._script.commands.append((await self._reader.readline()).decode().rstrip("\r\n"))
        said = await self._answer("auth", "235 2.7.0 welcome")
        if said.startswith("334"):
            assert await self._reader.readline() == b"\r\n"
            await self._say("535 5.7.8 no")

    async def _rcpt(self) -> None:
        self._recipients += 1
        usual = "550 5.1.1 no such user" if self._script.takes_no_recipient else "250 2.1.5 fine"
        said = await self._answer("first rcpt" if self._recipients == 1 else "last rcpt", usual)
        self._accepted += said.startswith("2")

    async def _data(self) -> None:
        usual = "354 go on" if self._accepted or self._script.takes_no_recipient else "554 5.5.1 no valid recipients"
        if not (await self._answer("data", usual)).startswith("354"):
            return
        if self._script.at == "body" and self._message == self._script.on_message:
            await self._reader.read(1000)
            await self._answer("body", "")
        self._take(await self._whole_message())
        await self._answer("dot", "250 2.0.0 taken")
        self._message += 1

    async def _whole_message(self) -> bytes:
        lines = []
        while (line := await self._reader.readline()) != b".\r\n":
            if not line.endswith(b"\n"):
                raise Over  # the client disconnected in the middle
            lines.append(line[1:] if line.startswith(b".") else line)
        return b"".join(lines)

    def _take(self, message: bytes) -> None:
        if self._accepted:
            self._script.taken.append(message)
            self._script.news.set()

    async def _answer(self, step: str, usual: str) -> str:
        """Gives the usual answer, or does the misdeed at its step. The sent text counts as the answer."""
        if step != self._script.at or self._message != self._script.on_message:
            await self._say(usual)
            return usual
        misdeed = self._script.misdeed
        if isinstance(misdeed, Says):
            await self._say(misdeed.text)
            if misdeed.text.startswith("421"):
                if self._writer.can_write_eof():
                    self._writer.write_eof()  # closing with unread bytes would reset the connection and lose the answer
                await self._script.freed.wait()
                raise Over
            return misdeed.text
        return await self._misbehave(misdeed, usual)

    async def _misbehave(self, misdeed: str, usual: str) -> str:
        match misdeed:
            case "cut":
                raise Over
            case "half an answer":
                await self._say(f"{usual[:3]}-half")
                raise Over
            case "stall":
                await self._script.freed.wait()
                raise Over
            case "drip":
                await self._drip()
                raise Over
            case "garbage":
                await self._say("\x00\x01 what?")
                return ""
            case "flood":
                self._writer.write(b"a" * 1_000_000)
                await self._script.freed.wait()
                raise Over
            case "twice":
                await self._say(f"{usual}\r\n{usual}")
                return usual
            case _:
                raise AssertionError(misdeed)

    async def _drip(self) -> None:
        self._writer.write(b"2")
        while not self._script.freed.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._script.freed.wait(), 0.02)
            self._writer.write(b"5")

    async def _say(self, text: str) -> None:
        self._writer.write(text.encode() + b"\r\n")
        await self._writer.drain()


@asynccontextmanager
async def scripted(script: Script, *, implicit: bool = False) -> AsyncIterator[int]:
    """Yields its port. `implicit` means TLS from the first byte."""
    conversations: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script.connections += 1
        script.encrypted = implicit
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        with suppress(Over, ConnectionError, ssl.SSLError, TimeoutError):
            await Conversation(script, reader, writer).run()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20, ssl=script.tls if implicit else None)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        script.freed.set()
        server.close()
        await asyncio.gather(*conversations)


@contextmanager
def deaf(host: str, port: int) -> Iterator[None]:
    """A listener that accepts no connection, because its backlog is full."""
    with ExitStack() as open_:
        listener = open_.enter_context(socket.socket())
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(4):
            waiting = open_.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield
