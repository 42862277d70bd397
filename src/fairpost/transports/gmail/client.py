"""A thin client for the Gmail API. It uses one HTTP connection, makes one call at a time, and returns every outcome as
a value. Only a 401 is retried, because it proves that the request had no effect, and a new token may help. If a request
goes unanswered, callers must find out whether it took effect.
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
from fairpost.model.reason import Reason
from fairpost.system import clock
from fairpost.transports.gmail.answers import (
    Answered,
    Draft,
    Failure,
    Mail,
    NoAnswer,
    NoToken,
    Page,
    RawMail,
    Refusal,
    Withheld,
    added_of,
    address_of,
    aliases_of,
    content_of,
    draft_of,
    listed_of,
    mail_of,
    mails_of,
    plain,
    present_of,
    raw_of,
)
from fairpost.transports.gmail.settings import GOOGLE, GmailSettings
from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.sources import token_source
from fairpost.transports.oauth.tokens import AccessToken, TokenSource

JSON_BYTES_MAX = 3_500_000  # maximum for a message inside JSON, because base64 adds a third and Google accepts 5 MB
MESSAGE_BYTES_MAX = 36_700_160  # Google's maximum for an upload
ANSWER_BYTES_MAX = 8_388_608  # ample, because a thread with a hundred messages is smaller than 1 MB
CHUNK_BYTES = 65_536
JSON_TYPE = "application/json; charset=UTF-8"
LOOPBACK = ("127.0.0.1", "::1", "localhost")

Permission = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    connect_s: float = 10
    write_s: float = 30  # time limit for each chunk of a message
    read_s: float = 60
    total_s: float = 240  # enough for 35 MB over a slow connection
    idle_s: float = 60  # connections that have been idle for longer than this are not reused


class GmailClient:
    """A client for one account and one event loop. After `close`, the next call reconnects."""

    def __init__(
        self,
        tokens: TokenSource,
        *,
        base_url: str | None = None,
        timeouts: Timeouts | None = None,
        now: Callable[[], datetime] = clock.now,
        wire: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Creates a client. `wire` is the HTTP transport for requests; the default is the network."""
        self._tokens = tokens
        self.base_url = (base_url or GOOGLE).rstrip("/")
        self._timeouts = timeouts or Timeouts()
        self._now = now
        self._wire = wire
        self._http: httpx2.AsyncClient | None = None

    async def create_draft(self, raw: bytes, *, thread_id: str | None = None) -> Draft | Failure:
        return await self._write_draft("POST", "/gmail/v1/users/me/drafts", raw, thread_id)

    async def update_draft(self, id_: str, raw: bytes, *, thread_id: str | None = None) -> Draft | Failure:
        """Replaces the message in the draft."""
        return await self._write_draft("PUT", f"/gmail/v1/users/me/drafts/{_quoted(id_)}", raw, thread_id)

    async def send_draft(self, id_: str, *, permission: Permission) -> Mail | Failure:
        """Sends a draft. Calls `permission` once everything is ready, right before completing the request."""
        path = "/gmail/v1/users/me/drafts/send"
        answer = await self._call("POST", path, content=_json({"id": id_}), permission=permission)
        return mail_of(answer) if isinstance(answer, dict) else answer

    async def get_draft(self, id_: str) -> Draft | Failure:
        answer = await self._call("GET", f"/gmail/v1/users/me/drafts/{_quoted(id_)}?format=minimal")
        return draft_of(answer) if isinstance(answer, dict) else answer

    async def delete_draft(self, id_: str) -> Failure | None:
        """Deletes a draft. Returns None if the draft existed and was deleted."""
        answer = await self._call("DELETE", f"/gmail/v1/users/me/drafts/{_quoted(id_)}")
        return None if isinstance(answer, dict) else answer

    async def get_message(self, id_: str, headers: Sequence[str]) -> Mail | Failure:
        answer = await self._call("GET", f"/gmail/v1/users/me/messages/{_quoted(id_)}?{_metadata(headers)}")
        return mail_of(answer) if isinstance(answer, dict) else answer

    async def get_thread(self, id_: str, headers: Sequence[str]) -> tuple[Mail, ...] | Failure:
        answer = await self._call("GET", f"/gmail/v1/users/me/threads/{_quoted(id_)}?{_metadata(headers)}")
        return mails_of(answer) if isinstance(answer, dict) else answer

    async def get_raw(self, id_: str) -> RawMail | Failure:
        answer = await self._call("GET", f"/gmail/v1/users/me/messages/{_quoted(id_)}?format=raw")
        return raw_of(answer) if isinstance(answer, dict) else answer

    async def added_since(self, history_id: str, *, page_token: str | None = None) -> Page | Failure:
        """Returns a page of messages added after this position.

        A 404 means that the position is too old.
        """
        query = f"startHistoryId={_quoted(history_id)}&historyTypes=messageAdded&maxResults=500"
        token = f"&pageToken={_quoted(page_token)}" if page_token else ""
        answer = await self._call("GET", f"/gmail/v1/users/me/history?{query}{token}")
        return added_of(answer) if isinstance(answer, dict) else answer

    async def newest(self, *, page_token: str | None = None) -> Page | Failure:
        """Returns a page of all messages, newest first, including spam. Unlike a search, this list includes the very
        latest messages.
        """
        token = f"&pageToken={_quoted(page_token)}" if page_token else ""
        answer = await self._call("GET", f"/gmail/v1/users/me/messages?includeSpamTrash=true&maxResults=100{token}")
        return listed_of(answer) if isinstance(answer, dict) else answer

    async def present(self) -> str | Failure:
        """Returns the ID of the mailbox's current state."""
        answer = await self._call("GET", "/gmail/v1/users/me/profile")
        return present_of(answer) if isinstance(answer, dict) else answer

    async def authorize(self) -> NoToken | NoAnswer | None:
        """Gets a token. Returns None on success."""
        token = await self._token()
        return None if isinstance(token, AccessToken) else token

    async def profile(self) -> str | Failure:
        """Returns the mailbox's address."""
        answer = await self._call("GET", "/gmail/v1/users/me/profile")
        return address_of(answer) if isinstance(answer, dict) else answer

    async def aliases(self) -> tuple[str, ...] | Failure:
        """Returns the addresses that the mailbox may send from."""
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
                trust_env=urlsplit(self.base_url).hostname
                not in LOOPBACK,  # a proxy must not be used for this machine's own addresses
            )
        return self._http


def client_of(
    settings: GmailSettings, secret: str | None, *, name: str, address: str, timeouts: Timeouts | None = None
) -> GmailClient:
    """Builds the client for an account with this name and address. `secret` has already been opened. Raises VaultError."""
    if secret is None:
        raise VaultError(
            f'Account "{name}" has no key for the Gmail API.',
            next_step=Reason("step.set_gmail_key", account=name),
        )
    tokens = token_source(settings.oauth, secret, mailbox=address)
    return GmailClient(tokens, base_url=settings.base_url, timeouts=timeouts)


class Stopped(Exception):
    """Raised inside a request to keep it from being completed."""


class Body:
    """A request body, which is passed to the connection in chunks. Permission is checked right before the last
    chunk, no matter how long it took to connect. This object also records whether the last chunk was sent.
    """

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
            raise httpx2.ReadError(f"the response is larger than {ANSWER_BYTES_MAX} bytes")
    return b"".join(pieces)


def _related(metadata: Mapping[str, Any], raw: bytes) -> tuple[bytes, str]:
    """Combines metadata and a message into one request (RFC 2387), and returns the request with its content type."""
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
    """Describes the connection error. The text of an httpx timeout contains only its name."""
    if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return "connection timed out"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "response timed out"
    return plain(str(error)) or type(error).__name__
