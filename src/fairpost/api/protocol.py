"""HTTP on a connection, with limits on what comes before the body: its size, and its time."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 65_536
HEAD_S_MAX = 10.0  # from the connection, or the answer before, to the end of a request's head


class GuardedProtocol(HttpToolsProtocol):
    _head_bytes = 0
    _is_in_head = True
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_timer is None:
                self._await_head()
        super().data_received(data)
        if self._is_in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(431, "Request Header Fields Too Large", "The head of a request has at most 65,536 bytes.")

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._head_bytes = 0

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Bad Request", "This is no HTTP request.")

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S_MAX, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self._refuse(408, "Request Timeout", "The head of the request did not arrive in time.")

    def _refuse(self, status: int, phrase: str, message: str) -> None:
        code = "too_slow" if status == 408 else "bad_request"
        body = json.dumps({"success": False, "error": {"code": code, "message": message, "details": None}}).encode()
        head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()
