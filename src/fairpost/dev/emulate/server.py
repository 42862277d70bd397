"""The emulator as a server, which runs in the current event loop, listens on the loopback address, and installs no
signal handlers.

A test only needs `async with GmailEmulator(users=["ann@example.com"]) as emulator:`.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette

from fairpost.dev.emulate.app import Clock, Emulation, Served, build_app
from fairpost.dev.emulate.faults import Fault, Faults
from fairpost.dev.emulate.keys import public_key_of, service_account_info
from fairpost.dev.emulate.mailbox import Draft, Mailboxes, Message, Rules, Sent, User
from fairpost.dev.emulate.methods import GmailApi
from fairpost.dev.emulate.quota import Limits, Quota
from fairpost.dev.emulate.tokens import LIFE_S, SCOPES, Grant, ServiceAccount, Tokens
from fairpost.model.errors import FairpostError
from fairpost.system import chance, clock

HOST = "127.0.0.1"
BACKLOG = 1_024
KEEP_ALIVE_S = 75
REQUEST_HEAD_BYTES_MAX = 65_536
CLIENT_ID = "104729104729-emulator.apps.googleusercontent.com"
CLIENT_SECRET = "GOCSPX-emulator"  # noqa: S105 - not a real secret

# Errors caused by clients are reported in the response. Without a handler, these errors would also appear on stderr.
logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    port: int = 0  # 0: any free port
    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)
    token_life_s: float = LIFE_S
    latency_s: float = 0
    retry_after_header: bool = False


def _ignore(_: Served) -> None:
    pass


class GmailEmulator:
    """Google's token endpoint and the Gmail API, for these users."""

    def __init__(
        self,
        users: Iterable[str | User] = ("me@example.com",),
        options: EmulatorOptions | None = None,
        *,
        faults: Iterable[Fault] = (),
        now: Callable[[], datetime] = clock.now,
        roll: Callable[[], float] = chance.roll,
        on_request: Callable[[Served], None] = _ignore,
        **quick: Any,
    ) -> None:
        """Creates the emulator. Tests can pass individual options as keyword arguments: `GmailEmulator(index_lag_s=0)`."""
        self._options = _with(options or EmulatorOptions(), quick)
        self.clock = Clock(now)
        self.mailboxes = Mailboxes(
            [user if isinstance(user, User) else User(address=user) for user in users],
            self._options.rules,
            now=self.clock.now,
        )
        self.tokens = Tokens(self.mailboxes, now=self.clock.now, life_s=self._options.token_life_s)
        self.quota = Quota(self._options.limits)
        self.faults = Faults(faults, roll=roll)
        self._on_request = on_request
        self._over = asyncio.Event()
        self._server: uvicorn.Server | None = None
        self._port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        self._over.clear()
        listener = _listener(self._options.port)
        self._port = listener.getsockname()[1]
        self.tokens.audiences |= {self.token_url, f"http://localhost:{self._port}/token"}
        config = uvicorn.Config(
            self.app(),
            http="h11",  # the server applies the limit itself, below
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,  # answers contain the date according to the emulator's clock
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            h11_max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[listener])  # serve() is not used, because it installs signal handlers

    def app(self) -> Starlette:
        """Returns the application, for clients in the same process."""
        return build_app(self._emulation())

    async def stop(self) -> None:
        """Stops the emulator. Pending requests are neither answered nor carried out."""
        if self._server is None:
            return
        server, self._server = self._server, None
        for listener in server.servers:
            listener.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # gives the connections a chance to detect that they are closed
        self._over.set()
        await asyncio.gather(*server.server_state.tasks, return_exceptions=True)
        for listener in server.servers:
            await listener.wait_closed()

    @property
    def port(self) -> int:
        assert self._port, "not started"
        return self._port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def service_account_info(self, *, name: str = "fairpost", scopes: Iterable[str] = SCOPES) -> dict[str, str]:
        """Returns a service account, as a JSON key file, that may act for the users within these scopes."""
        info = service_account_info(token_url=self.token_url, name=name)
        self.register(info, scopes=scopes)
        return info

    def register(self, info: dict[str, str], *, scopes: Iterable[str] = SCOPES) -> None:
        self.tokens.accounts[info["client_email"]] = ServiceAccount(
            email=info["client_email"],
            client_id=info["client_id"],
            keys={info["private_key_id"]: public_key_of(info)},
            scopes=frozenset(scopes),
        )

    def refresh_token(self, user: str, *, scopes: Iterable[str] = SCOPES) -> dict[str, str]:
        """Returns the credentials of a user who gave consent, in google-auth's format for authorized users."""
        token = f"1//emulator-{len(self.tokens.grants)}-{user}"
        self.tokens.clients[CLIENT_ID] = CLIENT_SECRET
        self.tokens.grants[token] = Grant(user=user, client_id=CLIENT_ID, scopes=frozenset(scopes))
        return {
            "type": "authorized_user",
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "refresh_token": token,
            "token_uri": self.token_url,
        }

    def sent(self, user: str | None = None) -> list[Sent]:
        """Returns all sent messages, in order. A message that was sent twice is listed twice."""
        return [sent for sent in self.mailboxes.sent if user is None or sent.user.lower() == user.lower()]

    def drafts(self, user: str) -> list[Draft]:
        return list(self.mailboxes.box(user).drafts.values())

    def deliver(self, user: str, raw: bytes) -> Message:
        """Puts a message from outside into the user's inbox."""
        return self.mailboxes.receive(user, raw)

    def _emulation(self) -> Emulation:
        return Emulation(
            clock=self.clock,
            mailboxes=self.mailboxes,
            tokens=self.tokens,
            quota=self.quota,
            faults=self.faults,
            api=GmailApi(
                self.mailboxes,
                self.tokens,
                self.quota,
                now=self.clock.now,
                retry_after_header=self._options.retry_after_header,
            ),
            latency_s=self._options.latency_s,
            on_request=self._on_request,
            cut=self._cut,
            over=self._over,
        )

    def _cut(self, client: Any) -> None:
        if self._server is None:
            return
        for connection in list(self._server.server_state.connections):
            if connection.transport.get_extra_info("peername")[:2] == tuple(client):
                connection.transport.abort()


def _listener(port: int) -> socket.socket:
    # The protocol is given explicitly; otherwise, asyncio leaves Nagle's algorithm on, and every answer takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise FairpostError(
            f"Cannot listen on {HOST} port {port}: {error.strerror or error}. "
            "Use a different port: fairpost emulate gmail --port 8026"
        ) from error
    return listener


def _with(options: EmulatorOptions, quick: dict[str, Any]) -> EmulatorOptions:
    rules = {f.name: quick.pop(f.name) for f in fields(Rules) if f.name in quick}
    limits = {f.name: quick.pop(f.name) for f in fields(Limits) if f.name in quick}
    return replace(options, rules=replace(options.rules, **rules), limits=replace(options.limits, **limits), **quick)
