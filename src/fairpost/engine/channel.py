"""Messages between the processes of an engine: one JSON object per line, over a socket that closes when its owner
exits.
"""

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

LINE_BYTES_MAX = 65_536

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Splits the received bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        assert len(self._rest) <= LINE_BYTES_MAX, "an unterminated message"
        return [json.loads(line) for line in lines]


class Channel(asyncio.Protocol):
    """One end of a channel, in an event loop.

    `on_message` is called with each message. `ended` is called once, when the other end is gone.
    """

    def __init__(self, on_message: Callable[[Message], None], ended: Callable[[], None]) -> None:
        self._on_message = on_message
        self._ended = ended
        self._lines = Lines()
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def over(
        cls, sock: socket.socket, on_message: Callable[[Message], None], ended: Callable[[], None]
    ) -> "Channel":
        sock.setblocking(False)
        _, channel = await asyncio.get_running_loop().create_connection(lambda: cls(on_message, ended), sock=sock)
        return channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for message in self._lines.feed(data):
            self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ended()

    def send(self, message: Message) -> None:
        """Send a message. Drop the message if the other end is gone."""
        if self._transport is not None:
            self._transport.write(encode(message))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
