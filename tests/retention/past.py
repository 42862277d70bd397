"""Old rows: ids come from the clock, so rows are created now and moved back in time."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fairpost.model.account import Limits
from fairpost.store.store import Store
from tests.settle.test_leases import Bench
from tests.simulation.world import draft

OLD = datetime(2020, 1, 15, tzinfo=UTC)  # partitions exist for its month and the two after it
LIMIT = datetime(2020, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)

_AGE = {
    "contents": "id",
    "attachments": "content_id",
    "emails": "id",
    "attempts": "email_id",
    "labels": "email_id",
    "tag_marks": "email_id",
    "queue": "id",
    "idempotency_keys": "email_id",
}


class Past:
    def __init__(self, store: Store) -> None:
        self.store = store

    async def begin(self) -> None:
        await self.store.value("SELECT fairpost.make_partitions($1)", OLD)
        self.bench = Bench(self.store, await self.store.add_account("anna", address="anna@post.test", limits=Limits()))

    async def put_content(self, at: datetime | None = OLD, **more: Any) -> int:
        content = {"subject": "shared", "text": "words", **more}
        id_: int = await self.store.value("SELECT fairpost.put_content($1)", json.dumps(content))
        return await self.moved(id_, at) if at else id_

    async def waiting(self, at: datetime | None = None, **more: Any) -> int:
        """Adds an e-mail to the queue, enqueued then or now."""
        plain: dict[str, Any] = draft(**more)
        if "content_id" in more:
            plain = {key: value for key, value in plain.items() if key not in ("subject", "text")}
        (row,) = await self.store.enqueue_many([plain])
        assert row["error"] is None, row["error"]
        return await self.moved(row["id"], at) if at else int(row["id"])

    async def finished(self, at: datetime | None = OLD, *, finished_at: datetime | None = None, **more: Any) -> int:
        id_ = await self.waiting(**more)
        await self.store.value("SELECT fairpost.cancel($1)", id_)
        if at:
            id_ = await self.moved(id_, at)
            sql = "UPDATE fairpost.emails SET finished_at = $2, created_at = $2 WHERE id = $1"
            await self.store.value(sql, id_, finished_at or at)
        return id_

    async def moved(self, id_: int, to: datetime) -> int:
        new: int = await self.store.value("SELECT fairpost.first_id_at($1) | ($2::bigint & 1048575)", to, id_)
        for table, key in _AGE.items():
            await self.store.value(f"UPDATE fairpost.{table} SET {key} = $2 WHERE {key} = $1", id_, new)
        for table in ("queue", "emails"):
            await self.store.value(f"UPDATE fairpost.{table} SET content_id = $2 WHERE content_id = $1", id_, new)
            await self.store.value(f"UPDATE fairpost.{table} SET follows = $2 WHERE follows = $1", id_, new)
        return new

    async def rows(self, id_: int) -> Mapping[str, int]:
        """Returns where this id still occurs, and how often."""
        counted = {
            table: await self.store.value(f"SELECT count(*) FROM fairpost.{table} WHERE {key} = $1", id_)
            for table, key in _AGE.items()
        }
        return {table: n for table, n in counted.items() if n}
