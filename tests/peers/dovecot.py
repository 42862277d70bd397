"""Just enough of Dovecot's authentication protocol for Postfix to check a password: PLAIN and LOGIN, one user.

https://doc.dovecot.org/developer_manual/design/auth_protocol/ describes the lines.
"""

import base64
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.peers.process import HOST

ASK_NAME, ASK_PASSWORD = b"Username:", b"Password:"


class Login(NamedTuple):
    """Letters, digits, dashes and spaces only: servers get it unquoted in their configuration."""

    username: str
    password: str


@contextmanager
def run_auth_server(login: Login) -> Iterator[int]:
    """Yields the port."""

    class Handler(_Conversation):
        accepted = login

    with _Server((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="auth server")
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False  # Postfix keeps its connections until it ends, which may be after us
    request_queue_size = 128


class _Conversation(socketserver.StreamRequestHandler):
    accepted: Login

    def handle(self) -> None:
        self._say("VERSION\t1\t2", "MECH\tPLAIN\tplaintext", "MECH\tLOGIN\tplaintext")
        self._say(f"SPID\t{os.getpid()}", "CUID\t1", f"COOKIE\t{os.urandom(16).hex()}", "DONE")
        names: dict[str, str] = {}  # for LOGIN dialogues in progress, by request
        for line in self.rfile:
            command, *fields = line.decode().rstrip("\n").split("\t")
            if command == "AUTH":
                request, mechanism = fields[0], fields[1]
                response = next((field[5:] for field in fields[2:] if field.startswith("resp=")), None)
                self._begin(request, mechanism, response, names)
            elif command == "CONT":
                self._go_on(fields[0], base64.b64decode(fields[1]), names)

    def _begin(self, request: str, mechanism: str, response: str | None, names: dict[str, str]) -> None:
        if response is not None:
            text = base64.b64decode(response)
            if mechanism == "PLAIN":
                self._judge_plain(request, text)
            else:
                self._ask_password(request, text, names)
        else:
            self._ask(request, ASK_NAME if mechanism == "LOGIN" else b"")

    def _go_on(self, request: str, answer: bytes, names: dict[str, str]) -> None:
        if request in names:
            self._judge(request, Login(names.pop(request), answer.decode()))
        elif b"\0" in answer:
            self._judge_plain(request, answer)
        else:
            self._ask_password(request, answer, names)

    def _ask_password(self, request: str, name: bytes, names: dict[str, str]) -> None:
        names[request] = name.decode()
        self._ask(request, ASK_PASSWORD)

    def _ask(self, request: str, challenge: bytes) -> None:
        self._say(f"CONT\t{request}\t{base64.b64encode(challenge).decode()}")

    def _judge_plain(self, request: str, text: bytes) -> None:
        name, _, password = text.decode().partition("\0")[2].partition("\0")
        self._judge(request, Login(name, password))

    def _judge(self, request: str, given: Login) -> None:
        self._say(f"{'OK' if given == self.accepted else 'FAIL'}\t{request}\tuser={given.username}")

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\n" for line in lines).encode())
