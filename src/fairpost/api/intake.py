"""Submits e-mails for a workspace. All e-mails are validated in one place: the database."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.api.access import Caller
from fairpost.api.errors import ApiError, invalid
from fairpost.api.service import Service
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.failpoints import failpoint


@dataclass(frozen=True, slots=True)
class Taken:
    id: int
    new: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A rejected e-mail.

    `code` is an API error code. If a quota is used up, `until` is the time at which e-mails will be accepted again.
    """

    field: str
    message: str
    code: str = "invalid"
    until: datetime | None = None

    def as_error(self) -> ApiError:
        if self.code == "invalid":
            return invalid(self.field, self.message)
        wait_s = (self.until - clock.now()).total_seconds() if self.until else 60
        return ApiError(
            self.code,
            f"{self.field} {self.message}",
            details=[{"field": self.field, "message": self.message}],
            headers={"Retry-After": str(max(1, math.ceil(wait_s)))} if self.code == "quota_reached" else None,
        )


CODES = {"too_many": "quota_reached", "key_reused": "idempotency_key_reused"}  # maps database codes to API codes


async def submit(
    caller: Caller, service: Service, emails: Sequence[dict[str, Any]], *, requests: Sequence[Any] | None = None
) -> list[Taken | Refused]:
    """Submits e-mails in a separate commit and returns a result for each e-mail, in order.

    If the e-mails were built from other requests, pass those as `requests`. These requests are compared with earlier
    requests that used the same idempotency key.
    """
    said = json.dumps(requests, ensure_ascii=False) if requests is not None else None
    taken = await submit_json(
        caller, service, json.dumps(emails, ensure_ascii=False), store=caller.owner, requests=said
    )
    failpoint("after_submit")
    return taken


def followed(caller: Caller, given: Any) -> str:
    """Returns the internal ID of the e-mail that a follow-up refers to.

    Invalid IDs become 0, which no e-mail has, so the database rejects them in the same way as unknown IDs.
    """
    is_text = isinstance(given, str) or (isinstance(given, int) and not isinstance(given, bool))
    return str((caller.email_id(str(given)) if is_text else None) or 0)


async def submit_json(
    caller: Caller, service: Service, emails: str, *, store: Store, requests: str | None = None
) -> list[Taken | Refused]:
    """Submits a serialized list of e-mails in `store`'s transaction. Returns a result for each e-mail, in order."""
    rows = await store.submit(
        caller.workspace,
        emails,
        user=caller.user,
        daily_max=service.settings.user_daily_max or None,
        waiting_max=service.settings.user_waiting_max or None,
        workspace_max=service.settings.daily_max_of_workspace or None,
        requests=requests,
    )
    return [_result(row) for row in rows]


def _result(row: Any) -> Taken | Refused:
    if row["error"] is None:
        return Taken(row["id"], row["new"])
    error = json.loads(row["error"])
    return Refused(
        error.get("field", ""),
        error["message"],
        CODES.get(error.get("code"), "invalid"),
        datetime.fromisoformat(error["until"]) if error.get("until") else None,
    )
