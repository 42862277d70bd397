"""Any interleaving of transactions that cancel and retry e-mails, with savepoints, rollbacks, long transactions, turns and a
reader that goes on page by page: it hears of each change that was committed once, and of no other, in order for each e-mail.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.account import Limits
from fairpost.store.events import events_after, events_end, take_turn
from fairpost.store.retention import drop_event_days
from fairpost.store.store import Store
from tests.simulation.world import connect, draft
from tests.thorough import times

CONNECTIONS, EMAILS = 4, 3
CHANGES = {"cancel": ("email.cancelled", "cancelled"), "retry": ("email.queued", "waiting")}
CALLS = {"cancel": "SELECT fairpost.cancel($1)", "retry": "SELECT fairpost.retry($1, NULL, true)"}
Told = list[tuple[int, str]]

of_a_transaction = st.tuples(
    st.integers(0, CONNECTIONS - 1),
    st.sampled_from(["begin", "savepoint", "undo", "commit", "commit", "rollback"]),
    st.just(0),
)
of_an_email = st.tuples(
    st.integers(0, CONNECTIONS - 1), st.sampled_from(["cancel", "retry"]), st.integers(0, EMAILS - 1)
)
of_the_reader = st.tuples(st.just(-1), st.sampled_from(["turn", "read", "drop"]), st.integers(1, 5))


@dataclass
class Writer:
    conn: asyncpg.Connection
    told: Told = field(default_factory=list)
    saved: Told | None = None
    is_open: bool = False

    async def do(self, what: str, id_: int) -> Told:
        """What it committed."""
        if what in CHANGES:
            return await self._change(what, id_)
        if what == "begin" and not self.is_open:
            await self.conn.execute("BEGIN")
            self.is_open, self.told, self.saved = True, [], None
        elif what == "savepoint" and self.is_open:
            await self.conn.execute("SAVEPOINT here")
            self.saved = [*self.told]
        elif what == "undo" and self.saved is not None:
            await self.conn.execute("ROLLBACK TO here")
            self.told = [*self.saved]
        elif what in ("commit", "rollback") and self.is_open:
            return await self._end(what)
        return []

    async def _end(self, how: str) -> Told:
        await self.conn.execute(how)
        told = self.told if how == "commit" else []
        self.is_open, self.told, self.saved = False, [], None
        return told

    async def _change(self, what: str, id_: int) -> Told:
        kind, done = CHANGES[what]
        before = await self.conn.fetchval("SELECT count(*) FROM fairpost.queue WHERE id = $1", id_)
        try:
            state = await self.conn.fetchval(CALLS[what], id_)
        except asyncpg.LockNotAvailableError:  # another transaction has it: this one is lost
            if self.is_open:
                await self._end("rollback")
            return []
        after = await self.conn.fetchval("SELECT count(*) FROM fairpost.queue WHERE id = $1", id_)
        told = [(id_, kind)] if state == done and before != after else []
        if not self.is_open:
            return told
        self.told += told
        return []


class Reader:
    def __init__(self, store: Store, cursor: str) -> None:
        self._store = store
        self._cursor: str | None = cursor
        self.seen: list[tuple[int, int, str]] = []

    async def page(self, most: int) -> bool:
        page = await events_after(self._store, self._cursor, most=most)
        self._cursor = page.cursor
        self.seen += [(event.id, event.email_id or 0, event.kind) for event in page]
        return not page.is_end


async def run(url: str, steps: Sequence[tuple[int, str, int]]) -> None:
    store = await connect(url)
    if not await store.value("SELECT EXISTS (SELECT FROM fairpost.accounts)"):
        await store.add_account("anna", address="anna@post.test", limits=Limits())
    ids = [row["id"] for row in await store.enqueue_many([draft(to=f"p{n}@there.test") for n in range(EMAILS)])]
    await take_turn(store)
    reader = Reader(store, await events_end(store))
    writers = [Writer(await asyncpg.connect(url)) for _ in range(CONNECTIONS)]
    for writer in writers:
        await writer.conn.execute("SET lock_timeout = '1ms'")
    committed: Told = []
    for which, what, detail in steps:
        if which >= 0:
            committed += await writers[which].do(what, ids[detail])
        elif what == "turn":
            await take_turn(store)
        elif what == "drop":
            await drop_event_days(store, before=await store.now() - timedelta(days=detail))
        else:
            await reader.page(detail)
    for writer in writers:
        committed += await writer.do("commit", 0)
        writer.conn.terminate()
    await take_turn(store)
    while await reader.page(3):
        pass
    await store.close()
    assert len({id_ for id_, _, _ in reader.seen}) == len(reader.seen)
    for email in ids:
        assert [kind for _, of, kind in reader.seen if of == email] == [kind for of, kind in committed if of == email]
    assert sorted((of, kind) for _, of, kind in reader.seen) == sorted(committed)


@settings(max_examples=times(15))
@given(steps=st.lists(st.one_of(of_a_transaction, of_an_email, of_an_email, of_the_reader), max_size=60))
def test_a_reader_hears_of_each_committed_change_once_and_in_order(url: str, steps: Any) -> None:
    asyncio.run(run(url, steps))
