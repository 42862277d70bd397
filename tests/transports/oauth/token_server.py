"""A token server on a real socket: answers each request as it is told, and records the requests."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.peers.certificates import Certificate

Form = dict[str, str]
Said = tuple[int, Any]  # a status and a JSON value, or text that is sent as it is


@dataclass
class TokenServer:
    answer: Callable[[Form], Said]
    date: str | None = None  # the time on its clock, if it is wrong
    asked: list[Form] = field(default_factory=list)
    freed: threading.Event = field(default_factory=threading.Event)  # a stall ends with the test
    port: int = 0
    pages: dict[str, Any] = field(default_factory=dict)  # by path, for GET

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"


@contextmanager
def serving(server: TokenServer, certificate: Certificate | None = None) -> Iterator[TokenServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = server.pages.get(self.path)
            self._say((200, page) if page is not None else (404, {"error": "not_found"}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            server.asked.append(form)
            self._say(server.answer(form))

        def _say(self, said: Said) -> None:
            status, body = said
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response_only(status)
            self.send_header("Date", server.date or self.date_time_string())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.cert, certificate.key)
        http.socket = context.wrap_socket(http.socket, server_side=True)
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.freed.set()
        http.shutdown()
        http.server_close()
        thread.join()
