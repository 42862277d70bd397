"""Any interleaving of transactions that enqueue, cancel and retry e-mails, with savepoints, rollbacks and long
transactions; of an engine that claims, begins, settles and crashes; of people who resolve doubts; and of turns,
retention and a reader that continues page by page. The reader gets each committed change once, and no other, in order
for each e-mail.

Changes are found by comparing the tables before and after each operation, never by asking the code that writes events.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import asyncpg
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.errors import Refusal
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.limits import charge
from fairpost.store.events import events_after, events_end, take_turn
from fairpost.store.retention import drop_event_days
from fairpost.store.store import Store
from tests.simulation.world import MINUTE, POOL, START, clean, connect, draft
from tests.thorough import times

CONNECTIONS, EMAILS = 4, 3
ENGINE, READER = -2, -1
DECISIONS = ("sent", "failed", "resend")
HISTORY = frozenset({"sent", "failed", "bounced", "suppressed", "cancelled"})
CALLS = {"cancel": "SELECT fairpost.cancel($1)", "retry": "SELECT fairpost.retry($1, NULL, true)"}
Told = list[tuple[int, str]]
States = dict[int, tuple[str, int]]

STATES = """SELECT id, state::text, attempts FROM fairpost.queue WHERE id = ANY ($1)
            UNION ALL SELECT id, state::text, attempts FROM fairpost.emails WHERE id = ANY ($1)"""
NOTED = "SELECT id FROM fairpost.arrivals WHERE fresh = 1 AND id = ANY ($1)"
UNLOCKED = "SELECT id FROM fairpost.queue WHERE id = ANY ($1) FOR KEY SHARE SKIP LOCKED"
AGE = """WITH events AS (UPDATE fairpost.outbox SET at = at - interval '3 days'),
              turns AS (UPDATE fairpost.event_turns SET first_at = first_at - interval '3 days', last_at = last_at - interval '3 days' WHERE n > 0)
         SELECT 1"""

of_a_transaction = st.tuples(
    st.integers(0, CONNECTIONS - 1),
    st.sampled_from(["begin", "savepoint", "undo", "commit", "commit", "rollback", "enqueue"]),
    st.just(0),
)
of_an_email = st.tuples(
    st.integers(0, CONNECTIONS - 1), st.sampled_from(["cancel", "retry"]), st.integers(0, EMAILS - 1)
)
BY_THE_ENGINE = (
    "claim",
    "absorb",
    "give_back",
    "resolve",
    "reap",
    "wake_up",
    "cut",
    "settle_and_begin",
    "begin",
    "crash",
    *["settle"] * 5,
)
of_the_engine = st.tuples(st.just(ENGINE), st.sampled_from(BY_THE_ENGINE), st.integers(0, 6))
of_the_reader = st.tuples(
    st.just(READER), st.sampled_from(["turn", "turn", "read", "read", "drop", "age"]), st.integers(1, 5)
)


def told_of(before: States, after: States, *, is_untouched: bool = False) -> Told:
    """Returns the events that these changes should have, according to docs/events.md."""
    told: Told = []
    for id_, (now, _) in after.items():
        was = before.get(id_, (now, 0))[0]
        if was == now:
            continue
        if now in HISTORY or now == "in_doubt":
            told.append((id_, f"email.{now}"))
        elif now == "waiting" and was in HISTORY:
            told.append((id_, "email.queued"))
        elif now == "waiting" and was in ("sending", "in_doubt") and not is_untouched:
            told.append((id_, "email.delivery_delayed"))
    return told


async def states(conn: asyncpg.Connection, ids: Sequence[int]) -> States:
    return {row["id"]: (row["state"], row["attempts"]) for row in await conn.fetch(STATES, ids)}


@dataclass
class Writer:
    """An application's connection."""

    conn: asyncpg.Connection
    ids: list[int]
    told: Told = field(default_factory=list)
    saved: Told | None = None
    is_open: bool = False

    async def do(self, what: str, id_: int) -> Told:
        """Returns what it committed."""
        if what in CALLS:
            return await self._change(what, id_)
        if what == "enqueue":
            email = draft(to="more@there.test")
            self.ids.append((await Store(self.conn).enqueue_many([email], now=START))[0]["id"])
        elif what == "begin" and not self.is_open:
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
        before = await states(self.conn, [id_])
        try:
            await self.conn.fetchval(CALLS[what], id_)
        except asyncpg.LockNotAvailableError:  # another transaction has it, so this one fails
            if self.is_open:
                await self._end("rollback")
            return []
        told = told_of(before, await states(self.conn, [id_]))
        if not self.is_open:
            return told
        self.told += told
        return []


@dataclass
class Engine:
    """A worker of one account, the worker it replaced, and people who resolve what crashes leave behind."""

    conn: asyncpg.Connection
    account: AccountId
    ids: list[int]
    now: datetime = START
    lease: Lease | None = None
    frozen: tuple[Lease, list[EmailId]] | None = None
    claimed: list[EmailId] = field(default_factory=list)
    begun: list[EmailId] = field(default_factory=list)

    async def do(self, what: str, detail: int) -> Told:
        """Returns what it committed."""
        if what in ("settle", "cut") and not self.begun:
            return await self.do("begin", detail) + (await self.do(what, detail) if self.begun else [])
        verdict = self._verdict(detail)
        before, noted = await states(self.conn, self.ids), await self._set(NOTED)
        unlocked = await self._set(UNLOCKED)
        try:
            await self._work(what, detail, verdict)
        except asyncpg.LockNotAvailableError:  # a cancellation is in progress
            return []
        after, left = await states(self.conn, self.ids), await self._set(NOTED)
        is_untouched = what.startswith("settle") and isinstance(verdict, Untouched)
        absorbed: Told = [(id_, "email.queued") for id_ in (noted - left) & unlocked]
        cut: Told = [
            (id_, "email.in_doubt")
            for id_ in before
            if what == "cut" and before[id_][0] == "sending" and after[id_][0] == "waiting"
        ]
        return absorbed + cut + told_of(before, after, is_untouched=is_untouched)

    async def _set(self, sql: str) -> set[int]:
        return {row["id"] for row in await self.conn.fetch(sql, self.ids)}

    async def _work(self, what: str, detail: int, verdict: Verdict) -> None:
        store, now = Store(self.conn), self.now
        if self.lease is None:
            self.lease = await store.take_lease(self.account, owner="engine", seconds=60, now=now)
        lease = self.lease
        assert lease is not None
        usage = charge(Limits(), Usage(), now=now)
        if what == "claim":
            await self._claim(1 + detail % 3)
        elif what == "absorb":
            await store.value("SELECT fairpost.absorb_arrivals($1, $2)", [POOL], now)
        elif what == "begin" and (self.claimed or await self._claim(1)):
            if (await store.begin(lease, self.claimed[0], usage=usage, now=now)).verdict == "begun":
                self.begun.append(self.claimed[0])
            del self.claimed[0]
        elif what == "settle" and self.begun:
            await store.settle(lease, self.begun[0], verdict, now=now)
            del self.begun[0]
        elif what == "settle_and_begin" and self.begun and self.claimed:
            first, follower = self.begun[0], self.claimed[0]
            _, begun = await store.settle_and_begin(
                lease, first, verdict, None, follower=follower, usage=usage, now=now
            )
            self.begun, self.claimed = self.begun[1:] + [follower] * (begun.verdict == "begun"), self.claimed[1:]
        elif what == "give_back":
            await store.give_back(lease, self.claimed)
            self.claimed = []
        elif what == "crash":  # its lease ends, and the next worker takes it
            self.now += 10 * MINUTE
            self.frozen, self.claimed, self.begun = (lease, self.begun), [], []
            self.lease = await store.take_lease(self.account, owner="engine", seconds=60, now=self.now)
        elif what == "wake_up" and self.frozen and self.frozen[1]:  # with late proof, or with nothing
            await store.settle(self.frozen[0], self.frozen[1].pop(), verdict, now=now)
        elif what == "cut":  # it is certainly dead, and had not handed over the first
            attempts = (await states(self.conn, self.begun))[self.begun[0]][1]
            await store.cut(self.account, lease.epoch, self.begun[0], attempt=attempts, due_at=now)
            self.lease, self.frozen, self.claimed, self.begun = None, (lease, self.begun), [], []
        elif what == "resolve":
            for id_, (state, _) in (await states(self.conn, self.ids)).items():
                if state == "in_doubt":
                    await store.resolve(EmailId(id_), DECISIONS[detail % 3], by="a person", due_at=now, now=now)  # type: ignore[arg-type]
                    return
        elif what == "reap":
            self.now += 2 * MINUTE
            await store.reap_leases(now=self.now)
            self.lease, self.frozen, self.claimed, self.begun = None, (lease, self.begun), [], []

    async def _claim(self, most: int) -> bool:
        assert self.lease is not None
        self.claimed += (await Store(self.conn).claim(self.lease, limit=most, now=self.now)).ids
        return bool(self.claimed)

    def _verdict(self, detail: int) -> Verdict:
        """Possible answers of a server."""
        after, who = self.now + MINUTE, ("p0@there.test",)
        return (Sent(), Failed(), Bounced(who), Retry(after, who), InDoubt(), Untouched(), Deferred(until=None))[detail]


class Reader:
    def __init__(self, store: Store, cursor: str, workspace: str | None = None) -> None:
        self._store, self._workspace = store, workspace
        self._cursor: str | None = cursor
        self.seen: list[tuple[int, int, str]] = []
        self.is_expired = False

    async def page(self, most: int) -> bool:
        try:
            page = await events_after(self._store, self._cursor, most=most, workspace=self._workspace)
        except Refusal as refusal:
            if refusal.reason.code != "events.cursor_expired":
                raise
            self.is_expired, self._cursor = True, None
            return True
        self._cursor = page.cursor
        self.seen += [(event.id, event.email_id or 0, event.kind) for event in page]
        return not page.is_end


@dataclass
class World:
    """Connections for all examples, because a new one plans every statement again."""

    store: Store
    engine: asyncpg.Connection
    writers: list[asyncpg.Connection]

    @classmethod
    async def open(cls, url: str) -> "World":
        store = await connect(url)
        engine, *writers = [await asyncpg.connect(url) for _ in range(1 + CONNECTIONS)]
        for conn in (engine, *writers):
            await conn.execute("SET lock_timeout = '1ms'")
        return cls(store, engine, writers)

    async def close(self) -> None:
        for conn in (self.engine, *self.writers):
            conn.terminate()
        await self.store.close()

    async def run(self, steps: Sequence[tuple[int, str, int]]) -> None:
        store = self.store
        accounts = await clean(store)
        mail = [draft(to=f"p{n}@there.test") for n in range(EMAILS)]
        ids = [row["id"] for row in await store.enqueue_many(mail, now=START)]
        await store.value("SELECT fairpost.absorb_arrivals($1, $2)", [POOL], START)
        await take_turn(store)
        reader, own = [Reader(store, await events_end(store), workspace) for workspace in (None, "w1")]
        writers = [Writer(conn, ids) for conn in self.writers]
        engine = Engine(self.engine, accounts["anna"], ids)
        committed: Told = []
        kept_from = 0  # older ones may have been dropped
        for which, what, detail in steps:
            if which >= 0:
                committed += await writers[which].do(what, ids[detail])
            elif which == ENGINE:
                committed += await engine.do(what, detail)
            elif what == "turn":
                await take_turn(store)
            elif what == "age":
                await store.value(AGE)
            elif what == "drop":
                await drop_event_days(store, before=await store.now() - timedelta(days=detail))
                kept_from = len(committed)
            else:
                await reader.page(detail)
                await own.page(detail + 1)
        for writer in writers:
            committed += await writer.do("commit", 0)
        await take_turn(store)
        for each in (reader, own):
            while await each.page(3):
                pass
            check(each, committed, kept_from)
        if not reader.is_expired:
            suppressed = await store.value("SELECT count(*) FROM fairpost.suppressions")
            assert sum(kind == "suppression.created" for *_, kind in reader.seen) == suppressed


def check(reader: Reader, committed: Told, kept_from: int) -> None:
    assert len({id_ for id_, _, _ in reader.seen}) == len(reader.seen), "none twice"
    for email in {of for of, _ in committed} | {of for _, of, _ in reader.seen if of}:
        seen = [kind for _, of, kind in reader.seen if of == email]
        expected = [kind for of, kind in committed if of == email]
        if not reader.is_expired:
            assert seen == expected
            continue
        kept = [kind for of, kind in committed[kept_from:] if of == email]
        assert seen[len(seen) - len(kept) :] == kept, "all since the last drop"
        left = iter(expected)
        assert all(kind in left for kind in seen), "in order, and nothing else"


def test_a_reader_hears_of_each_committed_change_once_and_in_order(url: str) -> None:
    anything = st.one_of(of_a_transaction, of_an_email, of_the_engine, of_the_engine, of_the_engine, of_the_reader)
    with asyncio.Runner() as runner:
        world = runner.run(World.open(url))

        @settings(max_examples=times(25))
        @given(steps=st.lists(anything, min_size=60, max_size=60))
        def in_any_order(steps: list[tuple[int, str, int]]) -> None:
            runner.run(world.run(steps))

        in_any_order()
        runner.run(world.close())
