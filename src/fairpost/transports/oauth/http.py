"""Questions to a token server: one answer of JSON each, in time and of a sensible size, or Unreachable.

It blocks, for it runs in a thread, and has the form that msal asks of an HTTP client. No secret gets into an error:
what is sent is never repeated, and what comes back only where the providers' modules choose to.
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

PHASE_S_MAX = 10.0  # to connect, and between two pieces of an answer
ANSWER_S_MAX = 20.0
ANSWER_BYTES_MAX = 256 * 1024  # token answers have a few KB; Microsoft's configuration too


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Below 500 and a JSON object: everything else is Unreachable."""

    status_code: int
    headers: Mapping[str, str]
    text: str  # may hold a token: never shown
    body: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Answer({self.status_code})"

    @property
    def date(self) -> datetime | None:
        """The time at the server, where it says so."""
        with suppress(KeyError, ValueError):
            said = parsedate_to_datetime(self.headers["date"])
            return said if said.tzinfo is not None else None
        return None

    def raise_for_status(self) -> None:
        """For msal, which looks into the body of what is left."""


class TokenHttp:
    def __init__(self) -> None:
        self._client = httpx2.Client(
            timeout=PHASE_S_MAX
        )  # never follows a redirect: a secret goes where it was meant for
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
    """A secret leaves this machine over TLS only. Raises Refused."""
    try:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
    except ValueError:
        is_safe = False
    if not is_safe:
        raise Refused(
            "insecure_token_server",
            "The address of the token server is not an https URL, and secrets must not go out unencrypted.",
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
            raise Unreachable(f"The token server {host} answers without an end.")
    return data.decode(errors="replace")


def _body(status: int, text: str, host: str) -> Mapping[str, Any]:
    if status == 429 or status >= 500:
        raise Unreachable(f"The token server {host} answered {status}: it may work later.")
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):  # a proxy's page, a captive portal
        raise Unreachable(f"What answers as the token server {host} is none: {status}, and no JSON object.")
    return body
