"""An emulator in the test's own loop, over real sockets, and clients with real tokens."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from functools import lru_cache
from typing import Any

import httpx2
import pytest
from google.auth import crypt, jwt

from fairpost.dev.emulate.mailbox import User
from fairpost.dev.emulate.server import GmailEmulator
from fairpost.dev.emulate.tokens import FULL_ACCESS

ANN = "ann@example.com"
BOB = "bob@example.com"
NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = NOON

    def now(self) -> datetime:
        return self.moment

    def pass_by(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def mail(
    *, to: str | None = "cleo@there.test", sender: str = ANN, subject: str = "Hello", text: str = "Hi", **headers: str
) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = sender, subject
    if to is not None:
        message["To"] = to
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message.as_bytes()


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def assertion(info: dict[str, str], *, at: datetime, **claims: Any) -> str:
    """Returns a JWT signed with the key of this file. A claim of None is left out."""
    iat = int(at.timestamp())
    usual = {
        "iss": info["client_email"],
        "sub": ANN,
        "scope": FULL_ACCESS,
        "aud": info["token_uri"],
        "iat": iat,
        "exp": iat + 3_600,
    }
    payload = {key: value for key, value in (usual | claims).items() if value is not None}
    signed: bytes = jwt.encode(signer(info["private_key"], info["private_key_id"]), payload)  # type: ignore[no-untyped-call]
    return signed.decode()


@lru_cache(maxsize=8)
def signer(private_key: str, key_id: str) -> Any:
    """Parsing a key takes longer than most tests."""
    return crypt.RSASigner.from_string(private_key, key_id)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Client:
    """The Gmail API for one user."""

    emulator: GmailEmulator
    http: httpx2.AsyncClient
    user: str

    async def create(self, raw: bytes | None = None, **message: Any) -> dict[str, Any]:
        body = {"message": {"raw": encoded(mail() if raw is None else raw), **message}}
        return await self.ok("POST", "/drafts", json=body)

    async def send_draft(self, draft_id: str) -> dict[str, Any]:
        return await self.ok("POST", "/drafts/send", json={"id": draft_id})

    async def send(self, raw: bytes | None = None, **message: Any) -> dict[str, Any]:
        return await self.ok("POST", "/messages/send", json={"raw": encoded(mail() if raw is None else raw), **message})

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        return await self.ok("GET", path, params=query)

    async def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        return await self.http.request(method, f"/gmail/v1/users/me{path}", **more)

    async def ok(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        response = await self.ask(method, path, **more)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def error(self, method: str, path: str, **more: Any) -> tuple[int, str, str]:
        """Returns status, reason and message of a refusal in Google's format."""
        return refused(await self.ask(method, path, **more))


def refused(response: httpx2.Response) -> tuple[int, str, str]:
    body = response.json()
    error = body["error"]
    assert set(error) <= {"code", "message", "status", "errors", "details"}
    assert error["code"] == response.status_code
    assert error.get("status", "OLD").isupper()
    (only,) = error["errors"]
    assert {"domain", "reason", "message"} <= set(only)
    return response.status_code, only["reason"], error["message"]


Connect = Callable[..., Awaitable[Client]]
Emulate = Callable[..., Awaitable[GmailEmulator]]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def emulate(time: Time, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Emulate]:
    """Starts an emulator with these options on a free port. Its clock stands still."""
    async with AsyncExitStack() as stack:

        async def start(*users: str | User, **options: Any) -> GmailEmulator:
            options = {"now": time.now, "index_lag_s": 0, **options}
            return await stack.enter_async_context(GmailEmulator(users or (ANN, BOB), **options))

        yield start
    loud = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not [record for record in loud if record.name in ("asyncio", "uvicorn.error")]


@pytest.fixture
async def connect(time: Time) -> AsyncIterator[Connect]:
    """Returns a client with a token."""
    async with AsyncExitStack() as stack:

        async def open_(emulator: GmailEmulator, user: str = ANN, **claims: Any) -> Client:
            http = await stack.enter_async_context(
                httpx2.AsyncClient(base_url=emulator.url, timeout=120, trust_env=False, verify=False)
            )
            signed = assertion(emulator.service_account_info(), at=emulator.clock.now(), sub=user, **claims)
            granted = await http.post("/token", data={"grant_type": BEARER, "assertion": signed})
            assert granted.status_code == 200, granted.text
            http.headers["Authorization"] = f"Bearer {granted.json()['access_token']}"
            return Client(emulator, http, user)

        yield open_


@pytest.fixture
async def ann(emulate: Emulate, connect: Connect) -> Client:
    return await connect(await emulate())


async def raw_exchange(emulator: GmailEmulator, octets: bytes, *, seconds: float = 60) -> bytes:
    """Sends these bytes, and reads until the server has closed the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", emulator.port)
    try:
        writer.write(octets)
        writer.write_eof()
        async with asyncio.timeout(seconds):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def token_of(client: Client) -> str:
    found: str = client.http.headers["Authorization"]
    return found


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()
