"""An IMAP server on a real socket with mailboxes in memory. It behaves well, except where told otherwise."""

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fairpost.imap.names import encoded_name

CAPABILITIES = ("IMAP4rev1", "IDLE", "AUTH=PLAIN", "SASL-IR", "SPECIAL-USE")


@dataclass(slots=True)
class Folder:
    uid_validity: int = 7
    uid_next: int = 1
    flag: str = ""
    messages: dict[int, bytes] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)  # these messages cut the connection
    arrived: set[asyncio.Event] = field(default_factory=set)  # of the clients that idle on it

    def add(self, raw: bytes) -> int:
        uid, self.uid_next = self.uid_next, self.uid_next + 1
        self.messages[uid] = raw
        for each in self.arrived:
            each.set()
        return uid


def folders() -> dict[str, Folder]:
    return {"INBOX": Folder(), "Gesendete Objekte": Folder(flag="\\Sent"), "Entwürfe": Folder()}


@dataclass(slots=True)
class Mailboxes:
    """The server's data and behaviour. `misdeeds` maps the name of a command to bytes sent instead of its response, or
    to None to cut the connection. Each applies once."""

    passwords: dict[str, str] = field(default_factory=dict)  # empty: any
    of: dict[str, dict[str, Folder]] = field(default_factory=dict)
    capabilities: tuple[str, ...] = CAPABILITIES
    greeting: bytes = b"* OK [CAPABILITY %b] here\r\n"
    refusal: str = "NO [AUTHENTICATIONFAILED] wrong"
    challenge: bytes = b""  # before a token is refused
    tls: ssl.SSLContext | None = None
    misdeeds: dict[str, bytes | None] = field(default_factory=dict)
    noise: bytes = b""  # before each answer
    has_uid_next: bool = True
    is_idle: bool = True  # whether clients in IDLE are notified
    commands: list[str] = field(default_factory=list)
    connections: int = 0
    idling: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def box(self, user: str) -> dict[str, Folder]:
        return self.of.setdefault(user, folders())

    @property
    def inbox(self) -> Folder:
        return self.box("ann")["INBOX"]

    async def until(self, happened: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not happened():
                self.news.clear()
                await self.news.wait()


class Over(Exception):
    """The conversation ends here."""


class Conversation:
    def __init__(self, given: Mailboxes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._given, self._reader, self._writer = given, reader, writer
        self._user: str | None = None
        self._folder: Folder | None = None
        self._told = 0  # the number of messages the client knows about

    async def run(self) -> None:
        self._say(self._given.greeting.replace(b"%b", self._offered.encode()))
        while line := await self._line():
            tag, _, rest = line.partition(" ")
            self._given.commands.append(rest)
            self._given.news.set()
            await self._obey(tag, rest)

    @property
    def _offered(self) -> str:
        return " ".join(self._given.capabilities)

    async def _line(self) -> str:
        """Converts literals to quoted strings."""
        await self._writer.drain()
        line = (await self._reader.readline()).decode(errors="replace").rstrip("\r\n")
        while found := re.search(r"\{(\d+)\}$", line):
            self._say(b"+ go on\r\n")
            literal = (await self._reader.readexactly(int(found[1]))).decode()
            escaped = re.sub(r'(["\\])', r"\\\1", literal)
            line = line[: found.start()] + f'"{escaped}"' + (await self._reader.readline()).decode().rstrip("\r\n")
        return line

    async def _obey(self, tag: str, rest: str) -> None:
        name = " ".join(rest.upper().split(" ")[: 2 if rest.upper().startswith("UID ") else 1])
        if name in self._given.misdeeds:
            misdeed = self._given.misdeeds.pop(name)
            if misdeed is None:
                raise Over
            self._say(misdeed.replace(b"%t", tag.encode()))
            return
        self._say(self._given.noise)
        match name:
            case "CAPABILITY":
                self._say(f"* CAPABILITY {self._offered}\r\n".encode())
            case "STARTTLS":
                self._say(f"{tag} OK go on\r\n".encode())
                assert self._given.tls is not None
                await self._writer.start_tls(self._given.tls)
                return
            case "AUTHENTICATE" | "LOGIN":
                await self._log_in(tag, rest)
                return
            case "LIST":
                for each, folder in self._box.items():
                    self._say(b'* LIST (\\HasNoChildren %b) "/" "%b"\r\n' % (folder.flag.encode(), encoded_name(each)))
            case "EXAMINE":
                if not self._examine(rest.partition(" ")[2].strip('"').encode()):
                    self._say(f"{tag} NO [NONEXISTENT] no such folder\r\n".encode())
                    return
            case "UID SEARCH":
                found = " ".join(str(uid) for uid in self._search(rest[11:]))
                self._say(f"* SEARCH {found}\r\n".encode())
            case "UID FETCH":
                self._fetch(rest)
            case "FETCH":
                assert self._folder is not None
                number = int(rest.split(" ")[1])
                self._say(b"* %d FETCH (UID %d)\r\n" % (number, sorted(self._folder.messages)[number - 1]))
            case "IDLE":
                await self._idle()
            case "LOGOUT":
                self._say(f"* BYE\r\n{tag} OK bye\r\n".encode())
                raise Over
            case "NOOP":
                self._tell()
            case _:
                self._say(f"{tag} BAD what?\r\n".encode())
                return
        self._say(f"{tag} OK done\r\n".encode())

    @property
    def _box(self) -> dict[str, Folder]:
        assert self._user is not None
        return self._given.box(self._user)

    async def _log_in(self, tag: str, rest: str) -> None:
        user, password = await self._credentials(rest)
        if self._given.passwords and self._given.passwords.get(user) != password:
            if self._given.challenge:
                self._say(b"+ %b\r\n" % base64.b64encode(self._given.challenge))
                assert await self._line() == ""
            self._say(f"{tag} {self._given.refusal}\r\n".encode())
            return
        self._user = user
        self._say(f"{tag} OK welcome\r\n".encode())

    async def _credentials(self, rest: str) -> tuple[str, str]:
        if rest.upper().startswith("LOGIN "):
            user, password = re.findall(r'"((?:[^"\\]|\\.)*)"', rest)
            return user, re.sub(r"\\(.)", r"\1", password)
        _, mechanism, *given = rest.split(" ")
        if not given:
            self._say(b"+ \r\n")
            given = [await self._line()]
        text = base64.b64decode(given[0]).decode()
        if mechanism == "XOAUTH2":
            user, bearer = re.fullmatch("user=([^\1]*)\1auth=Bearer ([^\1]*)\1\1", text).groups()  # type: ignore[union-attr]
            return user, bearer
        _, user, password = text.split("\0")
        return user, password

    def _examine(self, name: bytes) -> bool:
        self._folder = next((each for title, each in self._box.items() if encoded_name(title) == name), None)
        if self._folder is None:
            return False
        self._tell()
        self._say(f"* OK [UIDVALIDITY {self._folder.uid_validity}] valid\r\n".encode())
        if self._given.has_uid_next:
            self._say(f"* OK [UIDNEXT {self._folder.uid_next}] next\r\n".encode())
        return True

    def _tell(self) -> None:
        if self._folder is not None:
            self._told = len(self._folder.messages)
            self._say(f"* {len(self._folder.messages)} EXISTS\r\n* 0 RECENT\r\n".encode())

    def _search(self, asked: str) -> Iterator[int]:
        assert self._folder is not None
        messages = self._folder.messages
        if found := re.fullmatch(r"UID (\d+):(\d+|\*)", asked):
            last = max(messages, default=0) if found[2] == "*" else int(found[2])
            ends = sorted((int(found[1]), last))
            return (uid for uid in messages if ends[0] <= uid <= ends[1])
        if found := re.fullmatch(r'HEADER Message-ID "(.*)"', asked):
            return (uid for uid, raw in messages.items() if found[1].encode() in raw)
        assert asked.startswith("SINCE ")
        return iter(messages)

    def _fetch(self, rest: str) -> None:
        assert self._folder is not None
        found = re.fullmatch(r"UID FETCH (\d+) \(UID BODY\.PEEK\[\]<0\.(\d+)>\)", rest)
        assert found is not None, rest
        if int(found[1]) in self._folder.broken:
            raise Over
        raw = self._folder.messages.get(int(found[1]))
        if raw is not None:
            part = raw[: int(found[2])]
            number = sorted(self._folder.messages).index(int(found[1])) + 1
            self._say(b"* %d FETCH (UID %b BODY[]<0> {%d}\r\n%b)\r\n" % (number, found[1].encode(), len(part), part))

    async def _idle(self) -> None:
        assert self._folder is not None
        arrived = asyncio.Event()
        self._folder.arrived.add(arrived)
        self._given.idling += 1
        self._say(b"+ idling\r\n")
        if len(self._folder.messages) != self._told and self._given.is_idle:
            self._tell()
        self._given.news.set()
        done = asyncio.ensure_future(self._reader.readline())
        try:
            while not done.done():
                news = asyncio.ensure_future(arrived.wait())
                await asyncio.wait((done, news), return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if arrived.is_set() and self._given.is_idle:
                    arrived.clear()
                    self._tell()
            if done.result() != b"DONE\r\n":
                raise Over
        finally:
            self._given.idling -= 1
            self._given.news.set()
            self._folder.arrived.discard(arrived)
            done.cancel()

    def _say(self, data: bytes) -> None:
        self._writer.write(data)


@asynccontextmanager
async def imap_server(given: Mailboxes, *, implicit: bool = False) -> AsyncIterator[int]:
    """Yields its port. `implicit` means TLS from the first byte."""
    conversations: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        given.connections += 1
        given.news.set()
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        try:
            with suppress(Over, ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
                await Conversation(given, reader, writer).run()
        finally:
            writer.close()

    tls = given.tls if implicit else None
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20, ssl=tls, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
