"""E-mails one by one, as people and programs handle them: enqueued, cancelled, retried, and their addresses.

What engines do with them is in claims.py, steps.py and doubts.py.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fairpost.model.ids import EmailId
from fairpost.store.database import Database, at


class EmailStore(Database):
    async def enqueue_many(
        self,
        emails: Sequence[dict[str, Any]],
        *,
        daily_max: int | None = None,
        waiting_max: int | None = None,
        workspace_max: int | None = None,
        now: datetime | None = None,
    ) -> list[Any]:
        """`daily_max` and `waiting_max`: for each user, of what others hand in; `workspace_max`: for each workspace in 24 hours."""
        sql = "SELECT * FROM fairpost.enqueue_many($1, $2, $3, $4, $5)"
        return await self.fetch(sql, json.dumps(emails), at(now), daily_max, waiting_max, workspace_max)

    async def cancel(self, email_id: EmailId, *, reason: str | None = None, now: datetime | None = None) -> str | None:
        """`reason`: in the words of who asks. The state it is in afterwards; None when there is no such e-mail."""
        state: str | None = await self.value("SELECT fairpost.cancel($1, $2, $3)", email_id, reason, at(now))
        return state

    async def retry(self, email_id: EmailId, *, now: datetime | None = None) -> str | None:
        state: str | None = await self.value("SELECT fairpost.retry($1, $2)", email_id, at(now))
        return state

    async def parse_address(self, text: str) -> str | None:
        """As it is stored; None: it is no e-mail address."""
        parsed: str | None = await self.value("SELECT fairpost.parse_address(to_jsonb($1::text)) ->> 'address'", text)
        return parsed

    async def suppress(self, workspace: str, address: str, *, reason: str, now: datetime | None = None) -> bool:
        return bool(await self.value("SELECT fairpost.suppress($1, $2, $3, $4)", workspace, address, reason, at(now)))
