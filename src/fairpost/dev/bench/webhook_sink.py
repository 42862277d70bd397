"""A receiver in a separate process that answers every request with 204. The receiver checks only the length of each
body.
"""

import asyncio
import sys

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Sink(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            start = self._buffer.index(b"content-length: ") + 16
            length = int(self._buffer[start : self._buffer.index(b"\r", start)])
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(ANSWER)


async def serve() -> None:
    """Prints the receiver's port, and runs the receiver until standard input is closed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
