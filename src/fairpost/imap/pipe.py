"""Moves bytes between a socket and the wire, through TLS if TLS is used. One task at a time waits for incoming data.

TLS runs over memory buffers, because asyncio's TLS keeps 256 KB per connection, which thousands of idle mailboxes do
not need.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

CHUNK_BYTES = 65_536


class Broken(Exception):
    """The connection is no longer usable."""


class Pipe(asyncio.Protocol):
    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        self._transport: asyncio.Transport | None = None
        self._tls: _Tls | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.lost: str | None = None

    @property
    def tls(self) -> str | None:
        """The TLS version, such as TLSv1.3, or None if the connection is not encrypted."""
        return self._tls.object.version() if self._tls is not None else None

    # ── asyncio's side ────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.lost is not None:
            return
        if self._tls is None:
            self._receive(data)
        else:
            self._tls.incoming.write(data)
            self._decrypt()
        self._wake()

    def eof_received(self) -> None:
        self._lose("the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"the connection was lost: {exc}" if exc else "the server closed the connection")

    # ── our side ──────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, data: bytes) -> None:
        """Writes data. Raises Broken."""
        if self.lost is not None or self._transport is None:
            raise Broken(self.lost or "there is no connection")
        if self._tls is None:
            self._transport.write(data)
            return
        try:
            self._tls.object.write(data)
        except ssl.SSLError as error:
            self.abort(f"TLS failed: {error}")
            raise Broken(f"TLS failed: {error}") from error
        self._transport.write(self._tls.outgoing.read())

    async def moved(self, *, until: float) -> bool:
        """Waits until data has arrived. Returns False if no data arrived before `until`, by the loop's clock. Raises
        Broken.
        """
        if self.lost is not None:
            raise Broken(self.lost)
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._alarm = loop.call_at(until, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._alarm.cancel()
        return loop.time() < until

    async def start_tls(self, context: ssl.SSLContext, *, host: str, until: float) -> None:
        """Starts TLS. Raises Broken, or ssl.SSLError if the handshake fails, for example because of the server's
        certificate.
        """
        assert self._transport is not None
        self._tls = _Tls(context, host)
        while not self._tls.is_up:
            is_up = self._tls.step()
            self._transport.write(self._tls.outgoing.read())
            if not is_up and not await self.moved(until=until):
                raise Broken("TLS was not established in time")
        self._decrypt()

    def abort(self, why: str) -> None:
        self._lose(why)
        if self._transport is not None:
            self._transport.abort()

    def _decrypt(self) -> None:
        """Decrypts received bytes. Bytes that arrived during the handshake are already in the TLS buffer."""
        assert self._tls is not None
        if not self._tls.is_up:
            return
        try:
            while data := self._tls.object.read(CHUNK_BYTES):
                self._receive(data)
            self._lose("the server closed the connection")
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:  # also raised when the server ends TLS
            self._lose(f"TLS ended: {error.reason or error}")

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = why
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Tls:
    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)
        self.is_up = False

    def step(self) -> bool:
        """Continues the handshake, and returns whether it is complete. Raises ssl.SSLError."""
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_up = True
        return True
