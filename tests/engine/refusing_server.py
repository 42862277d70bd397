"""An SMTP server on a real socket that rejects some mail: by the domain in From, or by the recipient's name."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fairpost.smtp.server import Security, Server

REFUSED = "550 5.7.1 we take nothing from this sender"
NO_USER = "550 5.1.1 no such user"


@dataclass(slots=True)
class RefusingServer:
    port: int = 0
    refused: set[str] = field(default_factory=set)  # domains of senders
    conversations: Counter[str] = field(
        default_factory=Counter
    )  # number of conversations begun, by the sender's domain
    taken: Counter[str] = field(default_factory=Counter)

    @property
    def settings(self) -> Server:
        return Server(host="127.0.0.1", port=self.port, security=Security.NONE)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        domain = ""
        writer.write(b"220 here\r\n")
        with suppress(ConnectionError):
            while line := (await reader.readline()).decode().strip():
                verb = line.upper().partition(" ")[0]
                if verb == "MAIL":
                    domain = line.partition("@")[2].partition(">")[0]
                    self.conversations[domain] += 1
                    writer.write(f"{REFUSED if domain in self.refused else '250 2.1.0 fine'}\r\n".encode())
                elif verb == "RCPT":
                    writer.write(f"{NO_USER if '<gone' in line else '250 2.1.5 fine'}\r\n".encode())
                elif verb == "DATA":
                    writer.write(b"354 go on\r\n")
                    await writer.drain()
                    await reader.readuntil(b"\r\n.\r\n")
                    self.taken[domain] += 1
                    writer.write(b"250 2.0.0 taken\r\n")
                else:
                    writer.write(b"221 bye\r\n" if verb == "QUIT" else b"250 fine\r\n")
                await writer.drain()
        writer.close()


@asynccontextmanager
async def refusing_server(*refused: str) -> AsyncIterator[RefusingServer]:
    found = RefusingServer(refused=set(refused))
    server = await asyncio.start_server(found.talk, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
