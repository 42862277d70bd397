"""Record the findings from returned mail and apply them. sql/settle/returned.sql defines the effect of a single
finding.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from fairpost.model.ids import AccountId, EmailId
from fairpost.store.database import at
from fairpost.system.failpoints import failpoint

if TYPE_CHECKING:
    from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A recorded finding.

    If it is uncertain which e-mail the finding is about, `email_id` is None and nothing is applied. `is_new` is False
    if the finding was reported before.
    """

    email_id: EmailId | None
    workspace: str | None
    address: str
    effect: str
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedMail:
    id: int
    email_id: EmailId | None
    workspace: str | None
    address: str
    effect: str
    reason: str
    params: dict[str, Any]
    back_on: date | None
    at: datetime
    is_applied: bool


async def take(
    store: "Store",
    findings: Sequence[dict[str, Any]],
    *,
    source: str,
    account_id: AccountId | None,
    candidates: Sequence[EmailId],
    is_token: bool,
    message_ids: Sequence[str],
    mail: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> list[Taken]:
    """Record findings in one commit.

    `candidates` are the e-mails that the returned mail may refer to, with the most likely first. `is_token` means that
    the first candidate was identified by a token. `mail` is kept in the conversation with the person.
    """
    rows = await store.fetch(
        "SELECT * FROM fairpost.take_return($1, $2, $3, $4, $5, $6, $7, $8)",
        source,
        account_id,
        list(candidates),
        is_token,
        list(message_ids),
        json.dumps(list(findings)),
        at(now),
        json.dumps(mail) if mail else None,
    )
    return [Taken(**dict(row)) for row in rows]


async def apply_pending(store: "Store", *, most: int) -> int:
    """Apply findings that arrived before their e-mails were finished, each in a separate commit. Return how many were
    applied.
    """
    ids = [row["id"] for row in await store.fetch("SELECT fairpost.returns_to_apply($1) AS id", most)]
    failpoint("after_finding_returns")
    for id_ in ids:
        await store.value("SELECT fairpost.apply_return($1, $2)", id_, at(None))
        failpoint("after_applying_return")
    return len(ids)


_LISTED = """
    SELECT r.id, r.email_id, r.workspace, r.address, r.effect, r.reason, r.params, r.back_on, r.at, r.applied_at IS NOT NULL AS is_applied
    FROM fairpost.returned r
    WHERE ($1::text IS NULL OR r.workspace = $1) AND (NOT $2 OR r.email_id IS NULL) AND ($3::bigint IS NULL OR r.id < $3)
    ORDER BY r.id DESC LIMIT $4"""


async def listed(
    store: "Store", *, workspace: str | None, only_uncertain: bool, before: int | None = None, most: int
) -> list[ReturnedMail]:
    """List returned mail, newest first.

    If it is uncertain which e-mail the returned mail is about, the returned mail belongs to no workspace.
    """
    rows = await store.fetch(_LISTED, workspace, only_uncertain, before, most)
    return [ReturnedMail(**{**dict(row), "params": json.loads(row["params"])}) for row in rows]
