"""A capture server in the test's own loop, and a client that sends exactly what it is told to."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

import pytest

from fairpost.dev.inbox.faults import Step
from fairpost.dev.inbox.mails import Mail, list_mails
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.store.store import Store

REPLY_S_MAX = 120


@dataclass
class Running:
    """A server, and what it reported to its observers."""

    server: InboxServer
    store: Store
    kept: list[Mail] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    async def mails(self) -> list[Mail]:
        return await list_mails(self.store)

    async def raw(self) -> list[bytes]:
        return [row["raw"] for row in await self.store.fetch("SELECT raw FROM fairpost.inbox ORDER BY id")]


Serve = Callable[..., Awaitable[Running]]


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as opened:
        yield opened


@pytest.fixture
async def serve(store: Store, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Serve]:
    """Starts a server with these options on a free port. `rolls` are the dice; delays are recorded instead of slept."""
    started: list[Running] = []

    async def start(*, rolls: Iterable[float] = (), **options: Any) -> Running:
        dice = iter(rolls)
        kept, troubles, slept = list[Mail](), list[str](), list[float]()

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        server = InboxServer(
            store,
            ServerOptions(port=0, **options),
            on_mail=kept.append,
            on_trouble=troubles.append,
            roll=lambda: next(dice),
            sleep=sleep,
        )
        await server.start()
        started.append(Running(server, store, kept, troubles, slept))
        return started[-1]

    yield start
    for running in started:
        await running.server.stop()
    assert not [record for record in caplog.get_records("call") if record.name == "asyncio"]


@dataclass
class Wire:
    """A reply is "" if the server has closed the connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, running: Running, *, tls: ssl.SSLContext | None = None) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", running.server.port, ssl=tls))

    def send(self, octets: bytes) -> None:
        self.writer.write(octets)

    async def reply(self) -> str:
        lines = ""
        while not lines or lines.rpartition("\r\n")[0].rpartition("\r\n")[2][3:4] == "-":
            with suppress(ConnectionError):
                line = await asyncio.wait_for(self.reader.readline(), REPLY_S_MAX)
                lines += line.decode()
            if not lines.endswith("\r\n"):
                return ""
        return lines.strip()

    async def say(self, line: str) -> str:
        self.send(line.encode() + b"\r\n")
        return await self.reply()

    async def greet(self) -> Self:
        assert (await self.reply()).startswith("220 ")
        assert (await self.say("EHLO client.test")).startswith("250-")
        return self

    async def mail(self, data: bytes, *, to: str = "ann@example.com", sender: str = "app@example.com") -> str:
        """Returns the reply to the dot. `data` is already dot-stuffed, as on the wire."""
        assert (await self.say(f"MAIL FROM:<{sender}>")).startswith("250")
        assert (await self.say(f"RCPT TO:<{to}>")).startswith("250")
        assert (await self.say("DATA")).startswith("354")
        self.send(data + b".\r\n")
        return await self.reply()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


Connect = Callable[..., Awaitable[Wire]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    wires: list[Wire] = []

    async def open_(running: Running, **options: Any) -> Wire:
        wires.append(await Wire.open(running, **options))
        return wires[-1]

    yield open_
    for wire in wires:
        await wire.close()


SAID = {
    Step.EHLO: "EHLO client.test",
    Step.AUTH: "AUTH PLAIN AGFubgBzZWNyZXQ=",  # ann, secret
    Step.MAIL: "MAIL FROM:<{sender}>",
    Step.RCPT: "RCPT TO:<{to}>",
    Step.DATA: "DATA",
    Step.DOT: "Subject: Hello\r\n\r\nHi\r\n.",
}


async def converse(wire: Wire, *, to: str = "ann@example.com", sender: str = "app@example.com") -> dict[Step, str]:
    """Returns the reply to each step, up to the first that fails."""
    replies = {Step.CONNECT: await wire.reply()}
    for step, line in SAID.items():
        if next(reversed(replies.values()))[:1] not in ("2", "3"):
            break
        replies[step] = await wire.say(line.format(to=to, sender=sender))
    return replies


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.cert))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Self-signed, for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "inbox.test")])
    now = datetime.now(UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(cert.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Certificate(folder / "cert.pem", folder / "key.pem")
