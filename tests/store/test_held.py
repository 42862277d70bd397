"""While a transaction is held open, nothing can be vacuumed: every version of every row stays. An e-mail, a claim and a
check still read as much as before, however many came before. The database counts the rows, index entries and pages that
it reads; no clock is involved."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import asyncpg
import pytest

from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.sender import SenderId, SenderLevel
from fairpost.model.step import Begins, Settles, StepRequest
from fairpost.model.verdict import Sent
from fairpost.store import blocks, senders
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from fairpost.system import clock

pytestmark = pytest.mark.fresh  # pages left behind by another test would be read as well

WORKSPACES = 4
ROUNDS = 150
EMAILS_MIN = 1_190  # sent in this test
STEPS = 3  # of each account in a group, with one claim
GROWN_MAX, GROWN_SHARE_MAX = (
    12,
    0.5,
)  # what an operation may read in addition: indexes grow deeper, and rows are spread over more pages

Reads = Mapping[str, Counter[str]]  # for each operation, by table

EMAIL = {"to": "p@there.test", "subject": "s", "text": "t", "user": "u", "stream": "s"}

# What engines do, with a commit each: mail arrives, one e-mail at a time, is claimed, sent, counted; some of it comes
# back, some is for later, some is in doubt and resolved.
SEND = """DO $$
DECLARE
    account CONSTANT bigint := {account};
    epoch CONSTANT bigint := {epoch};
    usage CONSTANT jsonb := '{{"day_started_at": "2026-01-01T00:00:00Z", "day_used": 1, "hour_started_at": "2026-01-01T00:00:00Z", "hour_used": 1, "units": 1}}';
    claimed bigint[];
    email bigint;
    last bigint := (SELECT q.id FROM fairpost.queue q WHERE q.state = 'sending');
BEGIN
    FOR round IN 1..{rounds} LOOP
        FOR w IN 1..{workspaces} LOOP
            PERFORM fairpost.enqueue(e || jsonb_build_object('workspace', 'w' || w))
            FROM (SELECT '{email}'::jsonb AS e) x, generate_series(1, 2);
            COMMIT;
            PERFORM fairpost.absorb_arrivals(ARRAY['default']);
            COMMIT;
        END LOOP;
        claimed := (SELECT c.ids FROM fairpost.claim(account, epoch, 9) c);
        COMMIT;
        FOREACH email IN ARRAY claimed[:8] LOOP
            IF last IS NULL THEN
                PERFORM fairpost.begin_send(account, epoch, email, usage);
            ELSE
                PERFORM fairpost.settle_and_begin(account, epoch, last, 'sent', '{{}}', email, usage);
            END IF;
            COMMIT;
            last := email;
        END LOOP;
        PERFORM fairpost.give_back(account, epoch, claimed[9:]);
        COMMIT;
        IF round % 50 = 25 THEN
            PERFORM fairpost.settle(account, epoch, last, 'in_doubt');
            COMMIT;
            PERFORM fairpost.resolve(last, 'sent', 'the test');
            COMMIT;
            last := NULL;
        END IF;
        {book};
        PERFORM fairpost.renew_lease(account, epoch, 600);
        DELETE FROM fairpost.dirty_senders;
        PERFORM fairpost.use_quota('w1', now(), 1) FROM generate_series(1, 16);
        PERFORM fairpost.reap_leases();
        COMMIT;
    END LOOP;
END $$"""

# The outcomes of each sender's e-mails.
BOOK = """PERFORM fairpost.book({account}, {epoch}, (
    SELECT jsonb_agg('{{"user": "u", "is_fair": true, "handled": 2, "bounces": 0, "refused": 0, "sent": 2, "bounced": 0, "rejected": 0}}'::jsonb || jsonb_build_object('workspace', 'w' || w))
    FROM generate_series(1, {workspaces}) w), '[{{"kind": "send", "tier": 1, "n": 1, "total_us": 5, "buckets": {{"1": 1}}}}]')"""

READ = """SELECT r.oid, coalesce(root.relname, t.relname)::text AS name, pg_stat_get_xact_tuples_returned(r.oid) + pg_stat_get_xact_blocks_fetched(r.oid) AS n
FROM pg_class t LEFT JOIN pg_class root ON t.relispartition AND root.oid = pg_partition_root(t.oid)
CROSS JOIN LATERAL (SELECT t.oid UNION ALL SELECT x.indexrelid FROM pg_index x WHERE x.indrelid = t.oid) r
WHERE t.relnamespace = 'fairpost'::regnamespace AND t.relkind IN ('r', 'p')"""


@dataclass(frozen=True, slots=True)
class Held:
    """An account that sends while a transaction is held open."""

    store: Store
    conn: asyncpg.Connection
    account: AccountId
    epoch: int

    def of(self, sql: str, **more: Any) -> str:
        return sql.format(account=self.account, epoch=self.epoch, workspaces=WORKSPACES, **more)

    async def send(self, rounds: int) -> int:
        before = await self.store.value("SELECT sum(sent_total) FROM fairpost.leases_now()")
        await self.conn.execute(self.of(SEND, rounds=rounds, email=json.dumps(EMAIL), book=self.of(BOOK)))
        return int(await self.store.value("SELECT sum(sent_total) FROM fairpost.leases_now()") - before)

    async def read_by(self, operation: Callable[[Store], Awaitable[Any]]) -> Counter[str]:
        """Returns the reads by table. The operation is undone."""
        async with self.store.connection() as conn:
            one = Store(conn)
            transaction = conn.transaction()
            await transaction.start()
            before = {row["oid"]: row["n"] for row in await conn.fetch(READ)}
            await operation(one)
            read: Counter[str] = Counter()
            for row in await conn.fetch(READ):
                read[row["name"]] += row["n"] - before[row["oid"]]
            await transaction.rollback()
        return read

    async def read_by_each(self) -> dict[str, Counter[str]]:
        at = (self.account, self.epoch)
        sending = await self.store.value("SELECT id FROM fairpost.queue WHERE state = 'sending'")

        async def send_two(s: Store) -> None:
            first, second = await s.value("SELECT ids FROM fairpost.claim($1, $2, 2)", *at)
            step = "SELECT settled FROM fairpost.settle_and_begin($1, $2, $3, 'sent', '{}', $4, '{\"day_used\": 1, \"hour_used\": 1, \"units\": 1}')"
            assert await s.value(step, *at, sending, first) == "settled"
            assert await s.value(step, *at, first, second) == "settled"

        async def claim_beside_another(s: Store) -> None:
            async with self.conn.transaction():
                await self.conn.execute("SELECT FROM fairpost.routes WHERE route = 'default' FOR UPDATE")
                assert await s.value("SELECT again FROM fairpost.claim($1, $2, 8)", *at)

        async def stage_beside_another(s: Store) -> None:
            await s.enqueue_many([{**EMAIL, "workspace": "w1"}])
            async with self.conn.transaction():
                await self.conn.execute("SELECT FROM fairpost.node_state WHERE key = 'w1' FOR UPDATE")
                assert await s.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])"), (
                    "something was left for the next time"
                )

        async def use_quota(s: Store) -> None:
            await s.value(
                "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"
            )  # same as in begin
            assert await s.value("SELECT fairpost.use_quota('w1', now(), 1)")

        async def put_in_doubt(s: Store) -> None:
            assert await s.value("SELECT fairpost.settle($1, $2, $3, 'in_doubt')", *at, sending) == "settled"
            assert await s.accounts_to_ask() == []
            assert [email.id for email in await s.doubts(self.account)] == [sending]

        async def look_at_senders(s: Store) -> None:
            newest = await s.value(
                "SELECT pg_sequence_last_value(pg_get_serial_sequence('fairpost.dirty_senders', 'id'))"
            )
            await senders.dirty_senders(s, after=newest - WORKSPACES)
            whole = SenderId(workspace="w1", level=SenderLevel.WORKSPACE)
            assert len(await senders.with_activity(s, [SenderId(workspace="w1", name="u"), whole])) == 2

        operations: dict[str, Callable[[Store], Awaitable[Any]]] = {
            "claim": lambda s: s.value("SELECT verdict FROM fairpost.claim($1, $2, 8)", *at),
            "claim beside another": claim_beside_another,
            "stage beside another": stage_beside_another,
            "send two": send_two,
            "book": lambda s: s.value(f"DO $$ BEGIN {self.of(BOOK)}; END $$"),
            "use_quota": use_quota,
            "renew": lambda s: s.value("SELECT fairpost.renew_lease($1, $2, 600)", *at),
            "put in doubt": put_in_doubt,
            "stage": lambda s: s.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])"),
            "routes_with_work": lambda s: s.routes_with_work(),
            "runtimes": lambda s: s.runtimes(),
            "doubts_to_resend": lambda s: s.doubts_to_resend(),
            "accounts_to_ask": lambda s: s.accounts_to_ask(),
            "reap_leases": lambda s: s.reap_leases(),
            "blocked_for_all": blocks.blocked_for_all,
            "look at senders": look_at_senders,
            "queue_now": senders.queue_now,
        }
        return {name: await self.read_by(operation) for name, operation in operations.items()}


@asynccontextmanager
async def sending(url: str) -> AsyncIterator[Held]:
    holder, conn = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        async with Store.open(url, connections_max=1) as store:
            account = await store.add_account("a", address="a@post.test", limits=Limits())
            await store.add_account("idle", address="idle@post.test", limits=Limits())
            lease = await store.take_lease(account, owner="engine", seconds=600)
            assert lease is not None
            for w in range(1, WORKSPACES + 1):  # some mail of each is always waiting
                one = {**EMAIL, "workspace": f"w{w}"}
                await store.enqueue_many([one] * 10 + [{**one, "stream": "later", "due_at": "2100-01-01T00:00:00Z"}])
            await store.value(
                "INSERT INTO fairpost.quotas VALUES ('w1', '2000-01-01', '2100-01-01', '2026-01-01', 100000)"
            )
            yield Held(store, conn, account, lease.epoch)
    finally:
        await holder.close()
        await conn.close()


async def test_under_a_transaction_held_open_everything_reads_as_much_as_before(url: str) -> None:
    async with sending(url) as held, hold(url):
        await held.send(3)  # plans exist, and every sender is known
        first = await held.read_by_each()
        assert await held.send(ROUNDS) >= EMAILS_MIN
        last = await held.read_by_each()
    assert grown(first, last) == {}


def grown(first: Reads, last: Reads) -> dict[tuple[str, str], tuple[int, int]]:
    return {
        (name, table): (first[name][table], n)
        for name, read in last.items()
        for table, n in read.items()
        if n > first[name][table] * (1 + GROWN_SHARE_MAX) + GROWN_MAX
    }


@dataclass(slots=True)
class Desk:
    """An account that claims and takes steps with others. `last` is the e-mail that it is sending."""

    lease: Lease
    last: EmailId | None = None

    def request(self, begins: EmailId) -> StepRequest:
        report = Report(reached=Reached.REPLIED, reply=Reply(250, "2.0.0 ok"))
        settles = None if self.last is None else Settles(email_id=self.last, verdict=Sent(), report=report)
        used = Usage(hour_started_at=clock.now(), day_started_at=clock.now(), hour_used=1, day_used=1)
        number = self.lease.step + 1
        return StepRequest(lease=self.lease, number=number, settles=settles, begins=Begins(email_id=begins, usage=used))


@dataclass(frozen=True, slots=True)
class Group:
    held: Held
    desks: tuple[Desk, ...]

    async def claim(self, store: Store) -> list[tuple[EmailId, ...]]:
        leases = [desk.lease for desk in self.desks]
        claims = await store.claim_together("default", leases, [STEPS] * len(leases))
        assert len(claims) == len(leases)
        return [claims[lease.account_id].ids for lease in leases]

    async def step(self, store: Store, begins: Sequence[EmailId]) -> None:
        requests = [desk.request(id_) for desk, id_ in zip(self.desks, begins, strict=True)]
        assert all(await take_steps(store, requests))

    async def send(self, rounds: int) -> None:
        """Mail arrives, all of them claim it together, and each of their steps is one commit."""
        store = self.held.store
        for _ in range(rounds):
            await store.enqueue_many(
                [{**EMAIL, "workspace": f"w{n % WORKSPACES + 1}"} for n in range(STEPS * len(self.desks))]
            )
            for ids in zip(*await self.claim(store), strict=True):
                await self.step(store, ids)
                for desk, id_ in zip(self.desks, ids, strict=True):
                    desk.lease, desk.last = replace(desk.lease, step=desk.lease.step + 1), id_

    async def read_by_each(self) -> dict[str, Counter[str]]:
        async def step(store: Store) -> None:
            await self.step(store, [ids[0] for ids in await self.claim(store)])

        return {name: await self.held.read_by(work) for name, work in (("claim", self.claim), ("step", step))}


@asynccontextmanager
async def group(url: str) -> AsyncIterator[Group]:
    async with sending(url) as held:
        leases = []
        for name in ("b", "c", "d"):
            account = await held.store.add_account(name, address=f"{name}@post.test", limits=Limits())
            leases.append(await held.store.take_lease(account, owner="engine", seconds=600))
        yield Group(held, tuple(Desk(lease) for lease in leases if lease is not None))


async def test_under_a_transaction_held_open_a_group_reads_as_much_as_before(url: str) -> None:
    async with group(url) as three, hold(url):
        await three.send(3)
        first = await three.read_by_each()
        await three.send(ROUNDS)
        last = await three.read_by_each()
    assert grown(first, last) == {}


@asynccontextmanager
async def hold(url: str) -> AsyncIterator[None]:
    conn = await asyncpg.connect(url)
    try:
        await conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await conn.fetchval("SELECT pg_current_xact_id()::text")
        yield
    finally:
        await conn.close()
