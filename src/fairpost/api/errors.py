"""API errors with their codes, statuses and meanings. Codes are stable, but texts may change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairpost.model.errors import FairpostError


@dataclass(frozen=True, slots=True)
class Kind:
    status: int
    meaning: str


DETAILS_MAX = 20  # maximum number of mistakes listed in one response
CODES: Mapping[str, Kind] = {
    "bad_request": Kind(400, "The request cannot be read: malformed JSON, an invalid cursor, or an invalid header."),
    "unauthenticated": Kind(401, "The key or session is missing, unknown, expired or revoked."),
    "wrong_credentials": Kind(401, "The address, password or code is wrong."),
    "forbidden": Kind(403, "The key lacks a scope, or the person lacks a role."),
    "csrf": Kind(403, "A change with a session cookie was sent without its CSRF token or from another site."),
    "workspace_suspended": Kind(403, "The operator has suspended this workspace."),
    "workspace_forbidden": Kind(403, "X-Workspace names a workspace that the key or the person may not act in."),
    "not_found": Kind(404, "Not found in this workspace."),
    "not_installed": Kind(404, "This part of Fairpost is not installed. The message explains how to install it."),
    "method_not_allowed": Kind(405, "This path does not support this method."),
    "too_slow": Kind(408, "The request did not arrive in time."),
    "conflict": Kind(409, "The object's state does not allow this. Nothing was changed."),
    "idempotency_key_reused": Kind(409, "This idempotency key was used for a different request. Nothing was changed."),
    "workspace_needed": Kind(
        409, "The password is valid for several workspaces. Choose one of the workspaces in `details`."
    ),
    "gone": Kind(410, "The data at this cursor has been dropped. Start again without a cursor."),
    "changed_meanwhile": Kind(
        412, "The object has changed since the version in If-Match. This request changed nothing."
    ),
    "too_large": Kind(413, "The body is too large for this path."),
    "unsupported_media_type": Kind(415, "This path does not accept a body of this type."),
    "invalid": Kind(422, "The request is invalid; `details` names the fields. Nothing was changed."),
    "rate_limited": Kind(429, "Too many requests. Retry-After specifies when to retry."),
    "quota_reached": Kind(
        429, "This user or workspace submitted too many e-mails. Retry-After specifies when to retry."
    ),
    "internal": Kind(500, "Internal error, logged under the request ID."),
    "unavailable": Kind(503, "The database for this workspace's region is not responding. Try again."),
}


class ApiError(FairpostError):
    """An error with one of the codes in CODES. The request's transaction is rolled back."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = CODES[code].status
        self.message = message
        self.details = details
        self.headers = dict(headers or {})


def invalid(field: str, message: str, **more: str) -> ApiError:
    details = [{"field": field, "message": message, **more}]
    return ApiError("invalid", f"{field}: {message}" if field else message, details=details)


def not_found(what: str, name: object, *, where: str = " in this workspace") -> ApiError:
    return ApiError("not_found", f"There is no {what} {name}{where}.")
