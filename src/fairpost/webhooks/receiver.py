"""A receiver on 127.0.0.1 for development. It verifies each request and passes it on."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from fairpost.system import clock
from fairpost.webhooks.signing import is_signed

BODY_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A received request. `is_signed` is None if there was no secret to verify it with."""

    message_id: str
    is_signed: bool | None
    body: bytes

    @property
    def text(self) -> str:
        try:
            return json.dumps(json.loads(self.body), indent=2, ensure_ascii=False)
        except ValueError:
            return self.body.decode("utf-8", "replace")


async def serve(
    port: int, *, key: bytes | None, status: int, show: Callable[[Received], None], ready: Callable[[str], None]
) -> None:
    """Receives requests until it is cancelled. A request with an invalid signature is answered with status 401."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            while True:
                received = await _read(reader, key)
                show(received)
                said = 401 if received.is_signed is False else status
                writer.write(f"HTTP/1.1 {said} Received\r\ncontent-length: 0\r\n\r\n".encode())
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    ready(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    async with server:
        await server.serve_forever()


async def _read(reader: asyncio.StreamReader, key: bytes | None) -> Received:
    """Reads a request. Raises ValueError if the input is not a request with a body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    lines = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= BODY_BYTES_MAX:
        raise ValueError("the body is too large")
    body = await reader.readexactly(length)
    signed = None if key is None else is_signed(key, headers, body, now_s=clock.now().timestamp())
    return Received(message_id=headers.get("webhook-id", ""), is_signed=signed, body=body)
