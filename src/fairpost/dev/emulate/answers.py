"""HTTP answers, and refusals in Google's format. Other modules decide what to refuse."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

JSON = "application/json; charset=UTF-8"

# The google.rpc names of HTTP status codes.
STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status=status, body=json.dumps(value).encode(), headers=headers or {})


NOTHING = Answer(status=204)


class Refusal(Exception):
    """A request is refused. Raised where the reason is detected, and converted to an answer in a single place."""

    def __init__(self, refused: Answer) -> None:
        super().__init__(refused.body.decode())
        self.answer = refused


def google_error(
    status: int,
    reason: str,
    message: str,
    *,
    name: str | None = None,
    domain: str = "global",
    short: str | None = None,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    **more: str,
) -> Answer:
    """Returns an error in Google's format.

    `short` is the message in the error list, if it differs from the main message.
    """
    error: dict[str, Any] = {
        "code": status,
        "message": message,
        "errors": [{"message": short or message, "domain": domain, "reason": reason, **more}],
    }
    if status_name := name or STATUS_NAMES.get(status):
        error["status"] = status_name
    if details is not None:
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **details}]
    return answer({"error": error}, status=status, headers=headers)


def oauth_error(error: str, description: str, *, status: int = 400) -> Refusal:
    return Refusal(answer({"error": error, "error_description": description}, status=status))


def invalid_argument(message: str) -> Refusal:
    return Refusal(google_error(400, "invalidArgument", message))


def failed_precondition(message: str) -> Refusal:
    return Refusal(google_error(400, "failedPrecondition", message, name="FAILED_PRECONDITION"))


def not_found() -> Refusal:
    return Refusal(google_error(404, "notFound", "Requested entity was not found."))


def unknown_path() -> Answer:
    """Returns an HTML page instead of JSON, as Google does for a path that is not a method of the API."""
    page = b"<!DOCTYPE html>\n<title>Error 404 (Not Found)</title>\n<p>The emulator has no such address.\n"
    return Answer(status=404, body=page, content_type="text/html; charset=UTF-8")


def unauthenticated(*, missing: bool) -> Refusal:
    see = "See https://developers.google.com/identity/sign-in/web/devconsole-project."
    wanted = "Expected OAuth 2 access token, login cookie or other valid authentication credential."
    where = {"location": "Authorization", "locationType": "header"}
    info = {"domain": "googleapis.com", "metadata": {"service": "gmail.googleapis.com"}}
    if missing:
        refused = google_error(
            401,
            "required",
            f"Request is missing required authentication credential. {wanted} {see}",
            short="Login Required.",
            details={"reason": "CREDENTIALS_MISSING", **info},
            headers={"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/"'},
            **where,
        )
    else:
        refused = google_error(
            401,
            "authError",
            f"Request had invalid authentication credentials. {wanted} {see}",
            short="Invalid Credentials",
            details={"reason": "ACCESS_TOKEN_EXPIRED", **info},
            headers={"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/", error="invalid_token"'},
            **where,
        )
    return Refusal(refused)


def insufficient_scopes() -> Refusal:
    return Refusal(
        google_error(
            403,
            "insufficientPermissions",
            "Request had insufficient authentication scopes.",
            short="Insufficient Permission",
            details={
                "reason": "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
                "domain": "googleapis.com",
                "metadata": {"service": "gmail.googleapis.com"},
            },
        )
    )


def rate_limited(until: datetime, *, now: datetime, what: str = "", with_header: bool = False) -> Refusal:
    """Returns a refusal with the time in the message, after two spaces. `what` names the limit: " (Mail sending)"."""
    message = f"User-rate limit exceeded.  Retry after {rfc3339_ms(until)}{what}"
    headers = {"Retry-After": str(max(1, round((until - now).total_seconds())))} if with_header else {}
    return Refusal(google_error(429, "rateLimitExceeded", message, headers=headers))


def rfc3339_ms(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
