"""Enqueue, cancel and retry individual e-mails for users and programs, and parse addresses.

The operations that engines perform are in claims.py, steps.py and doubts.py.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from fairpost.model.ids import EmailId
from fairpost.store.database import Database, at
from fairpost.system import clock


class EmailStore(Database):
    async def enqueue_many(
        self,
        emails: Sequence[dict[str, Any]],
        *,
        daily_max: int | None = None,
        waiting_max: int | None = None,
        workspace_max: int | None = None,
        now: datetime | None = None,
        requests: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Enqueue e-mails on behalf of services that submit their users' mail.

        `daily_max` and `waiting_max` are limits per user, and `workspace_max` is a limit per workspace within 24 hours.
        `requests` contains one request for each e-mail. Reusing an idempotency key with a different request is an
        error.
        """
        return await self.fetch(
            """SELECT * FROM fairpost.enqueue_many($1, $2, $3, $4, $5, CASE WHEN $6::jsonb IS NOT NULL THEN
                   ARRAY(SELECT fairpost.fingerprint(r.value) FROM jsonb_array_elements($6::jsonb) WITH ORDINALITY r ORDER BY r.ordinality) END)""",
            *(json.dumps(emails), at(now), daily_max, waiting_max, workspace_max),
            json.dumps(requests) if requests is not None else None,
        )

    async def submit(
        self,
        workspace: str,
        emails: str,
        *,
        user: str,
        daily_max: int | None,
        waiting_max: int | None,
        workspace_max: int | None,
        requests: str | None,
    ) -> list[Any]:
        """Enqueue a workspace's own e-mails, given as JSON. See `enqueue_many` for the limits and for `requests`."""
        return await self.fetch(
            "SELECT * FROM fairpost.submit($1, $2, $3, $4, $5, $6, $7, $8)",
            *(workspace, emails, daily_max, waiting_max, clock.stated(), user, workspace_max, requests),
        )

    async def lock_users(self, workspace: str, users: Collection[str]) -> None:
        """Lock the counts of these users until the transaction ends."""
        await self.value("SELECT fairpost.lock_users($1, $2)::text", workspace, list(users))

    async def cancel(self, email_id: EmailId, *, reason: str | None = None, now: datetime | None = None) -> str | None:
        """Cancel an e-mail. Return the resulting state, or None if the e-mail does not exist. `reason` is free text."""
        state: str | None = await self.value("SELECT fairpost.cancel($1, $2, $3)", email_id, reason, at(now))
        return state

    async def retry(self, email_id: EmailId, *, now: datetime | None = None) -> str | None:
        state: str | None = await self.value("SELECT fairpost.retry($1, $2)", email_id, at(now))
        return state

    async def parse_address(self, text: str) -> str | None:
        """Return the address in its stored form, or None if it is not an e-mail address."""
        parsed: str | None = await self.value("SELECT fairpost.parse_address(to_jsonb($1::text)) ->> 'address'", text)
        return parsed

    async def suppress(self, workspace: str, address: str, *, reason: str, now: datetime | None = None) -> bool:
        return bool(await self.value("SELECT fairpost.suppress($1, $2, $3, $4)", workspace, address, reason, at(now)))
