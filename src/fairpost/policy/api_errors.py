"""Convert an API's error body to a reply: the status, and "reason: message" for `replies`.

Google: {"error": {"code": 403, "message": …, "errors": [{"reason": …}], "status": …}}. Microsoft Graph: {"error":
{"code": "ErrorSendAsDenied", "message": …, "innerError": …}}. Both token endpoints: {"error": "invalid_grant",
"error_description": …}.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from fairpost.model.report import Channel, Reply
from fairpost.policy.replies import NO_CODE
from fairpost.policy.reply_codes import BY_GRAPH_CODE

BODY_CHARS_MAX = 100_000
INNER_MAX = 5  # nested errors


class ApiError(NamedTuple):
    reply: Reply
    channel: Channel


def read_error(body: str, *, status: int = NO_CODE) -> ApiError | None:
    """Parse an error body.

    Return None if the body is not an error. `status` is the HTTP status, if it is known separately.
    """
    if not body.lstrip().startswith("{"):
        return None
    try:
        given = json.loads(body[:BODY_CHARS_MAX])
    except (ValueError, RecursionError):
        return None
    error = given.get("error", given)
    if isinstance(error, str):
        return _of_the_token_endpoint(error, given, status)
    if not isinstance(error, dict) or not {"code", "message", "status"} & set(error):
        return None
    message = _text(error.get("message"))
    if isinstance(error.get("code"), str):
        return ApiError(Reply(status, f"{_graph_code(error)}: {message}"), Channel.GRAPH)
    code = error.get("code")
    own_status = code if isinstance(code, int) and 0 < code < 1_000 else NO_CODE
    return ApiError(Reply(status or own_status, f"{_google_reason(error)}: {message}"), Channel.GOOGLE)


def _of_the_token_endpoint(error: str, given: dict[str, Any], status: int) -> ApiError:
    description = _text(given.get("error_description"))
    is_microsofts = "AADSTS" in description
    return ApiError(Reply(status, f"{error}: {description}"), Channel.GRAPH if is_microsofts else Channel.GOOGLE)


def _graph_code(error: dict[str, Any]) -> str:
    """Return the innermost known code, because the outer ones are less specific."""
    codes = list(_codes(error))
    return next((code for code in reversed(codes) if code.lower() in BY_GRAPH_CODE), codes[0])


def _codes(error: dict[str, Any]) -> Iterator[str]:
    inner: Any = error
    for _ in range(INNER_MAX):
        if not isinstance(inner, dict):
            return
        if isinstance(code := inner.get("code"), str):
            yield code
        inner = inner.get("innerError") or inner.get("innererror")


def _google_reason(error: dict[str, Any]) -> str:
    errors = error.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    reason = first.get("reason") if isinstance(first, dict) else None
    return _text(reason) or _text(error.get("status"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
