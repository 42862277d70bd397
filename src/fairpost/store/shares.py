"""Which share of a sender account's limits this region uses."""

import json
from collections.abc import Mapping
from typing import Any

from fairpost.store.database import Database


async def record_share(store: Database, account_id: int, *, percent: int, whole: Mapping[str, Any]) -> None:
    await store.value(
        """INSERT INTO fairpost.shares (account_id, percent, whole) VALUES ($1, $2, $3)
           ON CONFLICT (account_id) DO UPDATE SET percent = excluded.percent, whole = excluded.whole""",
        *(account_id, percent, json.dumps(whole)),
    )


async def share_of(store: Database, account_id: int) -> Any:
    return await store.row("SELECT s.percent, s.whole FROM fairpost.shares s WHERE s.account_id = $1", account_id)
