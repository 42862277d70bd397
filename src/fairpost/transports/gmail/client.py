"""A thin client of the Gmail API: one HTTP connection, one call at a time, every outcome a value.

Nothing is tried twice here, but for a 401: it proves that nothing was done, and a new token may help. What an unanswered
request may have done is for the caller to find out.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2

from fairpost.model.errors import VaultError
from fairpost.system import clock
from fairpost.transports.gmail.answers import (
    Answered,
    Draft,
    Failure,
    Mail,
    NoAnswer,
    NoToken,
    Refusal,
    Withheld,
    address_of,
    aliases_of,
    content_of,
    draft_of,
    mail_of,
    mails_of,
    plain,
)
from fairpost.transports.gmail.settings import GOOGLE, GmailSettings
from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.sources import token_source
from fairpost.transports.oauth.tokens import AccessToken, TokenSource

JSON_BYTES_MAX = 3_500_000  # of a message inside JSON: base64 makes it a third longer, and Google takes 5 MB
MESSAGE_BYTES_MAX = 36_700_160  # what Google takes as an upload
ANSWER_BYTES_MAX = 8_388_608  # a thread of a hundred messages is below one
CHUNK_BYTES = 65_536
JSON_TYPE = "application/json; charset=UTF-8"
LOOPBACK = ("127.0.0.1", "::1", "localhost")

Permission = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    connect_s: float = 10
    write_s: float = 30  # for each piece of a message
    read_s: float = 60
    total_s: float = 240  # for 35 MB on a slow line
    idle_s: float = 60  # a connection that nobody used for so long is not used again


class GmailClient:
    """For one account and one event loop. What is closed opens again with the next call."""

    def __init__(
        self,
        tokens: TokenSource,
        *,
        base_url: str | None = None,
        timeouts: Timeouts | None = None,
        now: Callable[[], datetime] = clock.now,
        wire: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`wire`: by which requests go out; None: the network."""
        self._tokens = tokens
        self.base_url = (base_url or GOOGLE).rstrip("/")
        self._timeouts = timeouts or Timeouts()
        self._now = now
        self._wire = wire
        self._http: httpx2.AsyncClient | None = None

    async def create_draft(self, raw: bytes, *, thread_id: str | None = None) -> Draft | Failure:
        return await self._write_draft("POST", "/gmail/v1/users/me/drafts", raw, thread_id)

    async def update_draft(self, id_: str, raw: bytes, *, thread_id: str | None = None) -> Draft | Failure:
        """Another message in the same draft."""
        return await self._write_draft("PUT", f"/gmail/v1/users/me/drafts/{_quoted(id_)}", raw, thread_id)

    async def send_draft(self, id_: str, *, permission: Permission) -> Mail | Failure:
        """`permission` is asked when everything is ready, right before the request is completed."""
        path = "/gmail/v1/users/me/drafts/send"
        answer = await self._call("POST", path, content=_json({"id": id_}), permission=permission)
        return mail_of(answer) if isinstance(answer, dict) else answer

    async def get_draft(self, id_: str) -> Draft | Failure:
        answer = await self._call("GET", f"/gmail/v1/users/me/drafts/{_quoted(id_)}?format=minimal")
        return draft_of(answer) if isinstance(answer, dict) else answer

    async def delete_draft(self, id_: str) -> Failure | None:
        """None: it was there, and is no more."""
        answer = await self._call("DELETE", f"/gmail/v1/users/me/drafts/{_quoted(id_)}")
        return None if isinstance(answer, dict) else answer

    async def get_message(self, id_: str, headers: Sequence[str]) -> Mail | Failure:
        answer = await self._call("GET", f"/gmail/v1/users/me/messages/{_quoted(id_)}?{_metadata(headers)}")
        return mail_of(answer) if isinstance(answer, dict) else answer

    async def get_thread(self, id_: str, headers: Sequence[str]) -> tuple[Mail, ...] | Failure:
        answer = await self._call("GET", f"/gmail/v1/users/me/threads/{_quoted(id_)}?{_metadata(headers)}")
        return mails_of(answer) if isinstance(answer, dict) else answer

    async def authorize(self) -> NoToken | NoAnswer | None:
        """None: there is a token."""
        token = await self._token()
        return None if isinstance(token, AccessToken) else token

    async def profile(self) -> str | Failure:
        """The mailbox's address."""
        answer = await self._call("GET", "/gmail/v1/users/me/profile")
        return address_of(answer) if isinstance(answer, dict) else answer

    async def aliases(self) -> tuple[str, ...] | Failure:
        """The addresses that the mailbox may send from."""
        answer = await self._call("GET", "/gmail/v1/users/me/settings/sendAs")
        return aliases_of(answer) if isinstance(answer, dict) else answer

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def _write_draft(self, method: str, path: str, raw: bytes, thread_id: str | None) -> Draft | Failure:
        message: dict[str, str] = {"threadId": thread_id} if thread_id else {}
        if len(raw) <= JSON_BYTES_MAX:
            message["raw"] = base64.urlsafe_b64encode(raw).decode("ascii")
            answer = await self._call(method, path, content=_json({"message": message}))
        else:
            content, content_type = _related({"message": message}, raw)
            path = f"/upload{path}?uploadType=multipart"
            answer = await self._call(method, path, content=content, content_type=content_type)
        return draft_of(answer) if isinstance(answer, dict) else answer

    async def _call(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        content_type: str = JSON_TYPE,
        permission: Permission | None = None,
    ) -> dict[str, Any] | Failure:
        answer = await self._try(method, path, content, content_type, permission)
        if isinstance(answer, Refusal) and answer.status == 401:
            self._tokens.forget()
            answer = await self._try(method, path, content, content_type, permission)
        return answer

    async def _try(
        self, method: str, path: str, content: bytes | None, content_type: str, permission: Permission | None
    ) -> dict[str, Any] | Failure:
        token = await self._token()
        if not isinstance(token, AccessToken):
            return token
        headers = {"Authorization": f"Bearer {token.secret}"}
        body = Body(content, permission) if content is not None else None
        if content is not None:
            headers |= {"Content-Type": content_type, "Content-Length": str(len(content))}
        try:
            async with asyncio.timeout(self._timeouts.total_s):
                answered = await self._exchange(method, path, headers, body)
        except Stopped:
            return Withheld()
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            return NoAnswer(error=_in_words(error), has_left=body is None or body.has_left)
        return content_of(answered, now=self._now())

    async def _token(self) -> AccessToken | NoToken | NoAnswer:
        try:
            return await self._tokens.token()
        except Refused as refused:
            return NoToken(reason=refused.reason, message=plain(refused.what), advice=plain(refused.advice))
        except Unreachable as unreachable:
            return NoAnswer(error=plain(str(unreachable)), has_left=False)

    async def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: "Body | None") -> Answered:
        http = self._opened()
        content = body.pieces() if body is not None else None
        request = http.build_request(method, self.base_url + path, headers=headers, content=content)
        response = await http.send(request, stream=True)
        try:
            return Answered(status=response.status_code, headers=response.headers, body=await _read(response))
        finally:
            await response.aclose()

    def _opened(self) -> httpx2.AsyncClient:
        if self._http is None:
            limits = httpx2.Limits(max_connections=2, keepalive_expiry=self._timeouts.idle_s)
            times = self._timeouts
            self._http = httpx2.AsyncClient(
                limits=limits,
                timeout=httpx2.Timeout(connect=times.connect_s, write=times.write_s, read=times.read_s, pool=5),
                headers={"User-Agent": "fairpost", "Accept-Encoding": "identity"},
                http2=False,
                transport=self._wire,
                trust_env=urlsplit(self.base_url).hostname not in LOOPBACK,  # a proxy does not lead to this machine
            )
        return self._http


def client_of(
    settings: GmailSettings, secret: str | None, *, name: str, address: str, timeouts: Timeouts | None = None
) -> GmailClient:
    """`secret`: opened. `name`, `address`: of the account. Raises VaultError."""
    if secret is None:
        raise VaultError(
            f'Account "{name}" has no key for the Gmail API.',
            then=f"Give it: fairpost account set {name} --gmail KEYFILE",
        )
    tokens = token_source(settings.oauth, secret, mailbox=address)
    return GmailClient(tokens, base_url=settings.base_url, timeouts=timeouts)


class Stopped(Exception):
    """Raised inside a request that must not be completed."""


class Body:
    """A request's content, as the connection takes it piece by piece: so it is known whether the last one has left,
    and the permission can be asked right before it, after any time that connecting took."""

    def __init__(self, content: bytes, permission: Permission | None) -> None:
        self._content = content
        self._permission = permission
        self.has_left = False

    async def pieces(self) -> AsyncIterator[bytes]:
        last = max(0, len(self._content) - 1) // CHUNK_BYTES * CHUNK_BYTES
        for start in range(0, last, CHUNK_BYTES):
            yield self._content[start : start + CHUNK_BYTES]
        if self._permission is not None and not self._permission():
            raise Stopped
        self.has_left = True
        yield self._content[last:]


async def _read(response: httpx2.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_raw():
        pieces.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise httpx2.ReadError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    return b"".join(pieces)


def _related(metadata: Mapping[str, Any], raw: bytes) -> tuple[bytes, str]:
    """Metadata and message in one request (RFC 2387), and its content type."""
    seam = token_hex(16).encode("ascii")
    content = b"--%b\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%b\r\n" % (seam, _json(metadata))
    content += b"--%b\r\nContent-Type: message/rfc822\r\n\r\n%b\r\n--%b--\r\n" % (seam, raw, seam)
    return content, f"multipart/related; boundary={seam.decode('ascii')}"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _metadata(headers: Sequence[str]) -> str:
    return "&".join(["format=metadata", *[f"metadataHeaders={_quoted(name)}" for name in headers]])


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _in_words(error: Exception) -> str:
    """What became of the connection. httpx's time-outs say nothing but their name."""
    if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return "no connection in time"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "no answer in time"
    return plain(str(error)) or type(error).__name__
