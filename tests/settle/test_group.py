"""Steps of many accounts in one commit: the same effect as one by one, and no account waits for another."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.engine.group import StepGroup
from fairpost.model.account import Charge, Lease, Limits, Usage
from fairpost.model.errors import DatabaseUnavailable
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.step import Begins, Settles, StepAnswer, StepRequest
from fairpost.model.verdict import Failed, Sent
from fairpost.policy.limits import charge
from fairpost.store.step_groups import is_ordinary, take_steps
from fairpost.store.store import Store
from fairpost.system import clock
from tests.conftest import Databases
from tests.simulation.world import START, connect, draft

NOW = START
USAGE = charge(Limits(), Usage(), now=NOW)
OK = Report(
    reached=Reached.REPLIED,
    reply=Reply(250, "2.0.0 Ok"),
    recipients={"p@there.test": Reply(250, "2.1.5 Ok")},
    message_id="<1@post.test>",
    response_ms=7,
)
TABLES = {  # and the order in which to compare them
    "queue": "id",
    "emails": "id",
    "attempts": "email_id, n",
    "leases": "account_id",
    "charges": "account_id, email_id",
    "soft_bounces": "workspace, address",
    "doubtful": "account_id, email_id",
    "suppressions": "workspace, address",
    "arrivals": "route, flow, n, id",
}


@dataclass
class Desk:
    """An account with a lease, an e-mail being sent and one that is claimed."""

    lease: Lease
    sending: EmailId
    claimed: EmailId

    def request(self, *, settles: bool = True, begins: bool = True, usage: Usage = USAGE) -> StepRequest:
        return StepRequest(
            lease=self.lease,
            number=self.lease.step + 1,
            settles=Settles(email_id=self.sending, verdict=Sent(), report=OK) if settles else None,
            begins=Begins(email_id=self.claimed, usage=usage) if begins else None,
        )


async def desks(store: Store, n: int) -> list[Desk]:
    """Each with e-mails of its own workspace."""
    made = []
    for i in range(n):
        name = f"a{i}"
        account = await store.add_account(name, address=f"{name}@post.test", limits=Limits())
        lease = await store.take_lease(account, owner="test", seconds=600, now=NOW)
        assert lease is not None
        emails = [draft(workspace=f"w{i}", to=f"p{i}{k}@there.test", account=name) for k in range(2)]
        await store.enqueue_many(emails, now=NOW)
        sending, claimed = (await store.claim(lease, limit=2, now=NOW)).ids
        assert (await store.begin(lease, sending, usage=USAGE, step=1, now=NOW)).verdict == "begun"
        made.append(Desk(replace(lease, step=1), sending, claimed))
    return made


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = await connect(url)
    yield made
    await made.close()


async def everything(conn: asyncpg.Connection) -> dict[str, list[Any]]:
    found = {}
    for table, order in TABLES.items():
        rows = await conn.fetch(f"SELECT to_jsonb(t) - 'xid' AS row FROM fairpost.{table} t ORDER BY {order}")
        found[table] = [json.loads(row["row"]) for row in rows]
    return found


class Undone(Exception):
    pass


async def effect(
    conn: asyncpg.Connection, take: Callable[[Store], Any]
) -> tuple[list[StepAnswer], dict[str, list[Any]]]:
    """Returns its answer and its effects, which are then undone."""
    try:
        async with conn.transaction():
            answers = await take(Store(conn))
            left = await everything(conn)
            raise Undone
    except Undone:
        return answers, left


# Everything that may prevent an account's ordinary step, as SQL on the desk's ids.
MATTERS = {
    "nothing": "SELECT 1",
    "suppressed": "INSERT INTO fairpost.suppressions (workspace, address, kind, reason, created_at) SELECT workspace, addresses[1], 'manual', 'r', created_at FROM fairpost.queue WHERE id = {claimed}",
    "unsubscribed": "INSERT INTO fairpost.suppressions (workspace, address, kind, reason, created_at) SELECT '*', addresses[1], 'unsubscribe', 'r', created_at FROM fairpost.queue WHERE id = {claimed}",
    "one of two suppressed": """WITH two AS (UPDATE fairpost.queue SET addresses = addresses || ARRAY['Other@There.test'] WHERE id = {claimed} RETURNING workspace, created_at)
        INSERT INTO fairpost.suppressions (workspace, address, kind, reason, created_at) SELECT workspace, 'other@there.test', 'manual', 'r', created_at FROM two""",
    "erased": """INSERT INTO fairpost.suppression_hashes (workspace, address_hash, kind, created_at)
        SELECT workspace, fairpost.address_hash(fairpost.normalize_address(addresses[1])), 'manual', created_at FROM fairpost.queue WHERE id = {claimed}""",
    "expired": "UPDATE fairpost.queue SET expires_at = '2029-12-31Z' WHERE id = {claimed}",
    "expires later": "UPDATE fairpost.queue SET expires_at = '2030-02-01Z' WHERE id = {claimed}",
    "workspace held": "INSERT INTO fairpost.sender_rules (workspace, level, key, held_until) SELECT workspace, 'workspace', '', 'infinity' FROM fairpost.queue WHERE id = {claimed}",
    "domain throttled": "INSERT INTO fairpost.sender_rules (workspace, level, key, throttled_until) SELECT workspace, 'domain', domain, '2030-01-02Z' FROM fairpost.queue WHERE id = {claimed}",
    "user held": "INSERT INTO fairpost.sender_rules (workspace, level, key, held_until) SELECT workspace, 'user', user_name, '2030-01-02Z' FROM fairpost.queue WHERE id = {claimed}",
    "stream closed": "INSERT INTO fairpost.sender_rules (workspace, level, key, closed_until) SELECT workspace, 'stream', stream, '2030-01-02Z' FROM fairpost.queue WHERE id = {claimed}",
    "held before": "INSERT INTO fairpost.sender_rules (workspace, level, key, held_until) SELECT workspace, 'user', user_name, '2029-01-02Z' FROM fairpost.queue WHERE id = {claimed}",
    "blocked": "INSERT INTO fairpost.blocks (account_id, workspace, since, until, reason, params) SELECT {account}, workspace, created_at, 'infinity', 'bounces', '{{}}' FROM fairpost.queue WHERE id = {claimed}",
    "everything paused": "INSERT INTO fairpost.pauses (since, until, reason, paused_by, restored, params) VALUES (now(), 'infinity', 'everything.paused', 'b', false, '{{}}') ON CONFLICT DO NOTHING",
    "account paused": "UPDATE fairpost.accounts SET status = 'paused' WHERE id = {account}",
    "account changed": "UPDATE fairpost.accounts SET revision = revision + 1 WHERE id = {account}",
    "lease over": "UPDATE fairpost.leases SET until = '2029-01-01Z' WHERE account_id = {account}",
    "lease of another": "UPDATE fairpost.leases SET epoch = epoch + 1 WHERE account_id = {account}",
    "another server": "UPDATE fairpost.leases SET server = '2029-01-01Z' WHERE account_id = {account}",
    "step taken": "UPDATE fairpost.leases SET step = step + 1 WHERE account_id = {account}",
    "given back": "UPDATE fairpost.queue SET state = 'waiting', waiting = true WHERE id = {claimed}",
    "in doubt": "UPDATE fairpost.queue SET state = 'in_doubt' WHERE id = {sending}",
    "sent already": "DELETE FROM fairpost.queue WHERE id = {sending}",
    "put off before": """WITH past AS (UPDATE fairpost.queue SET last_error = 'x' WHERE id = {sending} RETURNING *)
        INSERT INTO fairpost.attempts (email_id, n, account_id, epoch, begun_at, ended_at, outcome) SELECT id, 1, account_id, epoch, begun_at, begun_at, 'deferred' FROM past""",
    "soft bounces before": "INSERT INTO fairpost.soft_bounces (workspace, address, count, first_at, last_at) SELECT workspace, addresses[1], 2, created_at, created_at FROM fairpost.queue WHERE id = {sending}",
    "a new day": "UPDATE fairpost.leases SET day_started_at = '2029-12-31Z', day_bounces = 3, day_errors = 4, deaths = 2 WHERE account_id = {account}",
}


ThreeDesks = tuple[asyncio.Runner, asyncpg.Connection]


@pytest.fixture(scope="module")
def three_desks(databases: Databases) -> Iterator[ThreeDesks]:
    """One connection for all examples, because a new one plans every statement again."""

    async def laid(url: str) -> asyncpg.Connection:
        made = await connect(url)
        await desks(made, 3)
        await made.close()
        return await asyncpg.connect(url)

    with databases.fresh() as url, asyncio.Runner() as runner:
        conn = runner.run(laid(url))
        yield runner, conn
        runner.run(conn.close())


def both_ways(three_desks: ThreeDesks, matters: Sequence[str], shapes: Sequence[str], *, units: bool) -> list[Any]:
    """Returns the answers and the effects of single steps and of a group."""
    runner, conn = three_desks
    usage = replace(USAGE, charges=(Charge(NOW, 2),)) if units else USAGE

    async def laid(store: Store) -> list[StepRequest]:
        requests = []
        for name, matter, shape in zip(("a0", "a1", "a2"), matters, shapes, strict=True):
            account = await store.account_named(name)
            sql = "SELECT id, state::text FROM fairpost.queue WHERE account_id = $1"
            of = {row["state"]: EmailId(row["id"]) for row in await store.fetch(sql, account.id)}
            lease = await store.row("SELECT epoch, until, step FROM fairpost.leases WHERE account_id = $1", account.id)
            if shape == "begins":  # nothing is in progress
                await store.value("DELETE FROM fairpost.queue WHERE id = $1", of["sending"])
            desk = Desk(Lease(account_id=account.id, **lease), of["sending"], of["claimed"])
            await store.value(MATTERS[matter].format(account=account.id, sending=desk.sending, claimed=desk.claimed))
            requests.append(desk.request(settles=shape != "begins", begins=shape != "settles", usage=usage))
        return requests

    async def singly(store: Store) -> list[StepAnswer]:
        return [await store.take_step(request) for request in await laid(store)]

    async def together(store: Store) -> list[StepAnswer]:
        group = StepGroup.of(store)
        requests = await laid(store)
        answers = await take_steps(store, requests)
        return [each or await group.take_step(request) for each, request in zip(answers, requests, strict=True)]

    async def both() -> list[Any]:
        with clock.stopped_at(NOW):
            return [await effect(conn, singly), await effect(conn, together)]

    return runner.run(both())


SHAPES = ("both", "settles", "begins")


def test_a_group_leaves_what_single_steps_leave_whatever_is_the_matter_with_one(three_desks: ThreeDesks) -> None:
    wrong = []
    for matter, shape in product(sorted(MATTERS), SHAPES):
        single, group = both_ways(three_desks, ["nothing", matter, "nothing"], [shape] * 3, units=False)
        wrong += [] if group == single else [(matter, shape)]
    assert wrong == []


@given(
    matters=st.lists(st.sampled_from(sorted(MATTERS)), min_size=3, max_size=3),
    shapes=st.lists(st.sampled_from(SHAPES), min_size=3, max_size=3),
    units=st.booleans(),
)
def test_a_group_leaves_what_single_steps_leave(
    three_desks: ThreeDesks, matters: list[str], shapes: list[str], units: bool
) -> None:
    """Whatever is wrong with each of the accounts."""
    expected, got = both_ways(three_desks, matters, shapes, units=units)
    assert got[0] == expected[0]
    assert got[1] == expected[1]


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_same_step_twice_and_one_too_late_change_nothing(store: Store) -> None:
    requests = [desk.request() for desk in await desks(store, 2)]
    with clock.stopped_at(NOW):
        assert all(await take_steps(store, requests))
        before = await sent_totals(store)
        assert await take_steps(store, requests) == [None, None]
        late = [(await store.take_step(request)).settled for request in requests]
    assert late == ["late", "late"]
    assert await sent_totals(store) == before == [1, 1]


async def sent_totals(store: Store) -> list[int]:
    return [
        row["sent_total"] for row in await store.fetch("SELECT sent_total FROM fairpost.leases ORDER BY account_id")
    ]


@pytest.mark.parametrize("row", ["lease", "sending", "claimed"])
async def test_a_row_that_a_caller_holds_stops_only_its_own_account(store: Store, url: str, row: str) -> None:
    three = await desks(store, 3)
    table, id_ = {
        "lease": ("leases WHERE account_id", three[1].lease.account_id),
        "sending": ("queue WHERE id", three[1].sending),
        "claimed": ("queue WHERE id", three[1].claimed),
    }[row]
    holder = await asyncpg.connect(url)
    try:
        async with holder.transaction():
            await holder.execute(f"SELECT FROM fairpost.{table} = {id_} FOR UPDATE")
            with clock.stopped_at(NOW):
                taken = await take_steps(store, [desk.request() for desk in three])
        assert [answer is not None for answer in taken] == [True, False, True]
    finally:
        await holder.close()
    with clock.stopped_at(NOW):
        assert (await store.take_step(three[1].request())).is_taken


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
async def test_a_cancelled_email_is_not_begun_and_a_begun_one_is_not_cancelled(
    store: Store, url: str, isolation: str
) -> None:
    """Whichever of the two reads first, and whichever commits first."""
    for order in ("cancel first", "step first", "cancel looks, step commits"):
        await store.value("TRUNCATE fairpost.accounts, fairpost.leases, fairpost.queue, fairpost.emails CASCADE")
        (desk,) = await desks(store, 1)
        caller = await asyncpg.connect(url)
        said = "nothing"
        try:
            transaction = caller.transaction(isolation=isolation)
            await transaction.start()
            await caller.fetch("SELECT FROM fairpost.accounts")  # its snapshot
            cancel = "SELECT fairpost.cancel($1, NULL, $2)"
            if order == "cancel first":
                said = await caller.fetchval(cancel, desk.claimed, NOW)
            with clock.stopped_at(NOW):
                (taken,) = await take_steps(store, [desk.request()])
            if order != "cancel first":
                try:
                    said = await caller.fetchval(cancel, desk.claimed, NOW)
                except asyncpg.SerializationError:
                    said = "refused"
            await (transaction.rollback() if said == "refused" else transaction.commit())
        finally:
            await caller.close()
        is_begun = taken is not None and taken.is_begun
        assert is_begun != (said == "cancelled"), (order, said)


async def test_a_pause_that_has_returned_lets_no_group_begin(store: Store, url: str) -> None:
    """The group waits for a pause in progress before it reads."""
    two = await desks(store, 2)
    pausing = await asyncpg.connect(url)
    try:
        transaction = pausing.transaction()
        await transaction.start()
        await pausing.execute("SELECT pg_advisory_xact_lock(fairpost.pause_lock())")
        step = asyncio.create_task(take_steps(store, [desk.request() for desk in two]))
        await waits_for_lock(pausing)
        await pausing.execute(MATTERS["everything paused"].format())
        await transaction.commit()
        assert await step == [None, None]
    finally:
        await pausing.close()
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'claimed'") == 2


async def test_an_email_that_expires_while_the_group_waits_is_not_begun(store: Store, url: str) -> None:
    two = await desks(store, 2)
    pausing = await asyncpg.connect(url)
    try:
        transaction = pausing.transaction()
        await transaction.start()
        await pausing.execute("SELECT pg_advisory_xact_lock(fairpost.pause_lock())")
        await store.value("UPDATE fairpost.leases SET until = 'infinity'")
        step = asyncio.create_task(take_steps(store, [desk.request() for desk in two]))
        await waits_for_lock(pausing)
        soon = "UPDATE fairpost.queue SET expires_at = clock_timestamp() WHERE id = $1"
        await store.value(soon, two[0].claimed)
        await transaction.commit()
        assert [answer is not None for answer in await step] == [False, True]
    finally:
        await pausing.close()


async def waits_for_lock(conn: asyncpg.Connection) -> None:
    async with asyncio.timeout(120):
        while not await conn.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 - PostgreSQL cannot notify us
            await asyncio.sleep(0.01)


async def test_poison_in_one_is_not_the_others_trouble(store: Store) -> None:
    three = await desks(store, 3)
    requests = [desk.request() for desk in three]
    assert requests[1].settles is not None
    poisoned = replace(OK, reply=Reply(250, "nul \0 in it"))
    requests[1] = replace(requests[1], settles=replace(requests[1].settles, report=poisoned))
    group = StepGroup.of(store)
    with clock.stopped_at(NOW):
        answers = await asyncio.gather(*map(group.take_step, requests), return_exceptions=True)
    assert [isinstance(answer, StepAnswer) and answer.is_taken for answer in answers] == [True, False, True]
    clean = three[1].request()
    with clock.stopped_at(NOW):
        assert (await group.take_step(clean)).is_taken, "the account stays usable"


async def test_a_session_left_with_synchronous_commit_off_still_waits_for_the_disk(store: Store, url: str) -> None:
    (desk,) = await desks(store, 1)
    conn = await asyncpg.connect(url)
    try:
        await conn.execute("SET synchronous_commit = off")
        async with conn.transaction():
            with clock.stopped_at(NOW):
                assert (await take_steps(Store(conn), [desk.request()]))[0] is not None
            assert await conn.fetchval("SHOW synchronous_commit") == "on"
    finally:
        await conn.close()


# ── which accounts the group serves ───────────────────────────────────────────────────────────────────────────


def request_of(account: int, *, verdict: Any = None) -> StepRequest:
    lease = Lease(account_id=AccountId(account), epoch=1, until=NOW + timedelta(minutes=1), step=0)  # type: ignore[arg-type]
    settles = Settles(email_id=EmailId(1), verdict=verdict or Sent(), report=OK)
    return StepRequest(lease=lease, number=1, settles=settles)


class Database:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.alone: list[int] = []
        self.may_answer = asyncio.Event()
        self.left_out: set[int] = set()
        self.error: Exception | None = None

    async def together(self, requests: Any) -> list[StepAnswer | None]:
        ids = [int(request.lease.account_id) for request in requests]
        self.groups.append(ids)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return [None if id_ in self.left_out else StepAnswer(settled="settled") for id_ in ids]

    async def single(self, request: StepRequest) -> StepAnswer:
        self.alone.append(int(request.lease.account_id))
        return StepAnswer(settled="settled")


async def asked(group: StepGroup, *accounts: int) -> "list[asyncio.Task[StepAnswer]]":
    tasks = [asyncio.create_task(group.take_step(request_of(account))) for account in accounts]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_accounts_ready_together_share_a_commit_and_the_next_share_a_second() -> None:
    database = Database()
    group = StepGroup(database.together, database.single)
    first = await asked(group, 1, 2, 3)
    alone = await asked(group, 4)
    assert database.groups == [[1, 2, 3]], "a single one waits for the commit in progress"
    second = await asked(group, 5, 6)
    assert database.groups == [[1, 2, 3], [4, 5, 6]]
    third = await asked(group, 7, 8)
    database.may_answer.set()
    await asyncio.gather(*first, *alone, *second, *third)
    assert database.groups == [[1, 2, 3], [4, 5, 6], [7, 8]]


async def test_a_step_that_is_ready_early_waits_briefly_for_half_of_the_active_accounts() -> None:
    database = Database()
    database.may_answer.set()
    group = StepGroup(database.together, database.single)
    await asyncio.gather(*await asked(group, 1, 2, 3, 4))
    first = await asked(group, 1)
    assert database.groups == [[1, 2, 3, 4]]
    await asyncio.gather(*first, *await asked(group, 2))
    assert database.groups[1:] == [[1, 2]]
    await asyncio.gather(*await asked(group, 3))
    assert database.groups[2:] == [[3]], "no other step arrived"


async def test_a_step_left_out_is_taken_alone_with_the_same_number() -> None:
    database = Database()
    database.left_out = {2}
    database.may_answer.set()
    group = StepGroup(database.together, database.single)
    answers = await asyncio.gather(*await asked(group, 1, 2, 3))
    assert [answer.is_taken for answer in answers] == [True] * 3
    assert database.alone == [2]


async def test_trouble_of_the_database_reaches_everyone_who_asked() -> None:
    database = Database()
    database.error = DatabaseUnavailable("it is away")
    database.may_answer.set()
    group = StepGroup(database.together, database.single)
    answers = await asyncio.gather(*await asked(group, 1, 2), return_exceptions=True)
    assert [type(answer) for answer in answers] == [DatabaseUnavailable] * 2
    assert database.alone == [], "it is unknown whether it was committed"


def test_only_an_email_sent_to_all_recipients_is_ordinary() -> None:
    assert is_ordinary(request_of(1))
    assert not is_ordinary(request_of(1, verdict=Failed()))
    assert not is_ordinary(request_of(1, verdict=Sent(("gone@there.test",))))
