"""HTTP on a connection, with limits on everything except the body.

Request heads and trailers are limited in size and time. Connections and unfinished heads are also limited per client
(see clients.py). Anything above these limits is refused without being read.
"""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairpost.api.clients import RETRY_AFTER_S, TOO_MANY, Clients

HEAD_BYTES_MAX = 65_536
HEAD_S_MAX = 10.0  # maximum time from connecting, or from the previous response, to the end of a request head
# An unfinished head is counted only after this time, because many clients connecting at once is not in itself an
# attack.
HEAD_S_FREE = 1.0
FIRST_S_MAX = 1.0  # how long a shutdown waits for the first request on a new connection
REST_S_MAX = 5.0  # how long an unread body may continue after the response
# After the response, up to this much of an unread body is discarded.
# If the client were cut off instead, it might miss the response.
REST_BYTES_MAX = 8_388_608
STREAMS = ("/v1/live/", "/api/live/")


class GuardedProtocol(HttpToolsProtocol):
    _head_bytes = 0  # bytes of heads and trailers since the last body chunk
    _is_in_head = True
    _head_timer: asyncio.TimerHandle | None = None
    _rest_timer: asyncio.TimerHandle | None = None
    _rest_bytes = 0
    _is_head_counted = False
    _is_last = False
    _client: str | None = None

    def __init__(self, *args: Any, clients: Clients, connections_max: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self._clients = clients
        self._connections_max = connections_max  # the maximum number of connections for all clients together

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._client = self._clients.client_at(self.client[0] if self.client else None)
        if not self._clients.add(self._client, self):
            self.connections.discard(self)
            self._refuse_client()
        elif len(self.connections) >= self._connections_max and not self._clients.make_room():
            self.drop()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._clients.remove(self._client, self)
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def drop(self) -> None:
        """Closes the connection and frees its slot at once, without waiting for the loop."""
        self._stop_timers()
        self._clients.remove(self._client, self)
        self.connections.discard(self)
        if not self.transport.is_closing():
            self._refuse(503, "Service Unavailable", "unavailable", "The service is overloaded. Try again.")

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        if self._is_in_head and self._head_timer is None:
            self._await_head()
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            words = "The request headers are too large. The limit is 65,536 bytes."
            self._refuse(431, "Request Header Fields Too Large", "bad_request", words)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_timers()
        super().on_headers_complete()
        if self._is_last and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        if self.cycle is not None and self.cycle.response_complete:
            self._rest_bytes += len(body)
            if self._rest_bytes > REST_BYTES_MAX:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stop_timers()
        self._is_in_head = True
        self._head_bytes = self._rest_bytes = 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_in_head and self.cycle is not None and self.cycle.response_complete:
            self._rest_timer = self.loop.call_later(REST_S_MAX, self.transport.close)

    def shutdown(self) -> None:
        """Shuts down gracefully. Waits briefly for a new connection's first request, which may be on its way."""
        if self._is_streaming():
            self.transport.close()  # a stream would never finish on its own; the browser reconnects
            return
        has_asked: bool = self.cycle is not None
        if not has_asked and not self._is_last:
            self._is_last = True
            self.loop.call_later(FIRST_S_MAX, self.shutdown)
        else:
            super().shutdown()

    def _is_streaming(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and cycle.scope["path"].startswith(STREAMS)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Bad Request", "bad_request", "This is not an HTTP request.")

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(min(HEAD_S_FREE, HEAD_S_MAX), self._count_head)

    def _count_head(self) -> None:
        if self.transport.is_closing():
            return
        if self._clients.begin_head(self._client):
            self._is_head_counted = True
            self._head_timer = self.loop.call_later(max(0.0, HEAD_S_MAX - HEAD_S_FREE), self._too_slow)
        else:
            self._refuse_client()

    def _stop_timers(self) -> None:
        if self._is_head_counted:
            self._is_head_counted = False
            self._clients.end_head(self._client)
        for timer in (self._head_timer, self._rest_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._rest_timer = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            words = "The request headers did not arrive in time."
            self._refuse(408, "Request Timeout", "too_slow", words)

    def _refuse_client(self) -> None:
        self._refuse(429, "Too Many Requests", "rate_limited", TOO_MANY)

    def _refuse(self, status: int, phrase: str, code: str, message: str) -> None:
        body = json.dumps({"success": False, "error": {"code": code, "message": message, "details": None}}).encode()
        again = f"Retry-After: {RETRY_AFTER_S}\r\n" if status in (429, 503) else ""
        head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{again}Connection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()
