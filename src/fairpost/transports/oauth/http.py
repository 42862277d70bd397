"""Requests to a token server. Each request returns one JSON answer, within limits on time and size, or raises
Unreachable. The client blocks, which is acceptable because it runs in a thread. The client provides the interface that
msal expects of an HTTP client. Secrets never appear in errors, because requests are never shown, and responses are
shown only by a provider's module.
"""

import ipaddress
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from fairpost.system import clock
from fairpost.transports.oauth.errors import Refused, Unreachable

PHASE_S_MAX = 10.0  # time to connect, and time between two chunks of an answer
ANSWER_S_MAX = 20.0
ANSWER_BYTES_MAX = 256 * 1024  # ample, because answers with tokens and Microsoft's configuration are a few KB


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A JSON object with a status below 500. Anything else raises Unreachable."""

    status_code: int
    headers: Mapping[str, str]
    text: str  # never shown, because it may contain a token
    body: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Answer({self.status_code})"

    @property
    def date(self) -> datetime | None:
        """The server's time, if the response contains it."""
        with suppress(KeyError, ValueError):
            said = parsedate_to_datetime(self.headers["date"])
            return said if said.tzinfo is not None else None
        return None

    def raise_for_status(self) -> None:
        """Does nothing, because msal checks the body itself."""


class TokenHttp:
    def __init__(self) -> None:
        self._client = httpx2.Client(
            timeout=PHASE_S_MAX
        )  # never follows redirects, so a secret is sent only to its intended server
        self.last: Answer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def get(self, url: str, *, params: Any = None, headers: Any = None, **_: object) -> Answer:
        return self._ask("GET", url, params=params, headers=headers)

    def post(self, url: str, *, params: Any = None, data: Any = None, headers: Any = None, **_: object) -> Answer:
        return self._ask("POST", url, params=params, data=data, headers=headers)

    def _ask(self, method: str, url: str, **given: Any) -> Answer:
        require_safe(url)
        host = urlsplit(url).netloc
        try:
            with self._client.stream(method, url, **given) as response:
                text = _read(response, host)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Unreachable(f"The token server {host} cannot be reached ({words}).") from error
        self.last = Answer(
            status_code=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            text=text,
            body=_body(response.status_code, text, host),
        )
        return self.last


def require_safe(url: str) -> None:
    """Raises Refused if a secret would leave this machine without TLS."""
    try:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
    except ValueError:
        is_safe = False
    if not is_safe:
        raise Refused(
            "insecure_token_server",
            "The token server's address is not an HTTPS URL, and secrets must not be sent unencrypted.",
            "Correct it in the key file or the account.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(response: httpx2.Response, host: str) -> str:
    data = b""
    until_s = clock.monotonic() + ANSWER_S_MAX
    for piece in response.iter_bytes():
        data += piece
        if len(data) > ANSWER_BYTES_MAX or clock.monotonic() > until_s:
            raise Unreachable(f"The token server {host} sent an endless response.")
    return data.decode(errors="replace")


def _body(status: int, text: str, host: str) -> Mapping[str, Any]:
    if status == 429 or status >= 500:
        raise Unreachable(f"The token server {host} responded with {status}. Try again later.")
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):  # probably a page from a proxy or captive portal
        raise Unreachable(f"{host} is not a token server: it responded with {status} and without a JSON object.")
    return body
