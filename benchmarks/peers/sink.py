"""A mail server that accepts everything and counts the messages for each recipient, in a separate process.

As a script, this module prints its port and serves. `running_sink` starts it in this way, and `Sink` queries it. Each
e-mail of a run has a different recipient, because some peers create a new Message-ID for every attempt.
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
EXTENSIONS = b"250-sink.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"
END_OF_DATA = b"\r\n.\r\n"
BACKLOG = 512


@dataclass(frozen=True, slots=True)
class Report:
    messages: int
    distinct: int
    repeated: int
    """Number of recipients who got more than one message."""
    first_s: float | None
    """Time of the first arrival by the monotonic clock, which all processes of a machine share."""


class Arrivals:
    def __init__(self) -> None:
        self.by_recipient: Counter[bytes] = Counter()
        self.first_s: float | None = None

    def add(self, recipient: bytes) -> None:
        if self.first_s is None:
            self.first_s = time.monotonic()
        self.by_recipient[recipient] += 1

    def report(self) -> dict[str, Any]:
        return {
            "messages": self.by_recipient.total(),
            "distinct": len(self.by_recipient),
            "repeated": sum(times > 1 for times in self.by_recipient.values()),
            "first_s": self.first_s,
        }


class Session(asyncio.Protocol):
    """An SMTP connection. A message counts once its final dot has arrived, even if the sender dies before the reply."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._buffer = bytearray()
        self._in_data = False
        self._searched = 0
        self._recipient = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(b"220 sink.test\r\n")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        replies = []
        while (reply := self._take_message() if self._in_data else self._take_line()) is not None:
            replies.append(reply)
        if replies:
            self._transport.write(b"".join(replies))

    def _take_message(self) -> bytes | None:
        end = self._buffer.find(END_OF_DATA, self._searched)
        if end < 0:
            self._searched = max(0, len(self._buffer) - len(END_OF_DATA))
            return None
        del self._buffer[: end + len(END_OF_DATA)]
        self._in_data, self._searched = False, 0
        self._arrivals.add(self._recipient)
        return b"250 ok\r\n"

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return self._answer(line.strip())

    def _answer(self, line: bytes) -> bytes:
        match line[:4].upper():
            case b"EHLO":
                return EXTENSIONS
            case b"RCPT":
                self._recipient = line[line.index(b"<") + 1 : line.index(b">")]
            case b"DATA":
                self._in_data = True
                return b"354 go on\r\n"
            case b"QUIT":
                self._transport.write(b"221 bye\r\n")
                self._transport.close()
                return b""
            case b"XREP":
                return b"250 " + json.dumps(self._arrivals.report()).encode() + b"\r\n"
        return b"250 ok\r\n"


class Sink:
    def __init__(self, port: int) -> None:
        self.host, self.port = HOST, port
        self._file = socket.create_connection((self.host, port)).makefile("rwb")
        self._file.readline()

    def report(self) -> Report:
        self._file.write(b"XREPORT\r\n")
        self._file.flush()
        return Report(**json.loads(self._file.readline()[4:]))


@contextmanager
def running_sink() -> Iterator[Sink]:
    with subprocess.Popen([sys.executable, str(Path(__file__))], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield Sink(int(process.stdout.readline()))
        finally:
            process.kill()


async def serve() -> None:
    arrivals = Arrivals()
    server = await asyncio.get_running_loop().create_server(lambda: Session(arrivals), HOST, 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
