"""Quotas of several workspaces, charged by groups of accounts at the same time as by single steps."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import asyncpg
import pytest

from fairpost.engine.group import StepGroup
from fairpost.model.campaign import Schedule
from fairpost.model.step import StepAnswer
from fairpost.model.verdict import Retry
from fairpost.model.window import Quota
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.campaigns.clerks import Clerk, claim, clerks, passes, step_alone, step_together, waits
from tests.campaigns.world import DAY, HOUR, WORKSPACE, World

OTHER = "bravo"
GROUP = 8
MOST = 50
BEGUN = """SELECT (SELECT count(*) FROM fairpost.queue WHERE state IN ('sending', 'in_doubt'))
                + (SELECT count(*) FROM fairpost.emails WHERE state = 'sent')"""
MIDNIGHT_IN = tuple(timedelta(seconds=s) for s in (0.5, 5, 60))
LOCK_DAY = "SELECT FROM fairpost.quotas WHERE day = $1 FOR UPDATE"
LOCK_TODAY = """SELECT FROM fairpost.quotas q WHERE q.workspace = $1 AND q.starts_at <= $2 AND q.ends_at > $2
                FOR UPDATE"""


@pytest.fixture
async def other(url: str) -> AsyncIterator["asyncpg.Connection"]:
    conn = await asyncpg.connect(url)
    yield conn
    await conn.close()


# ── a quota that several processes use ────────────────────────────────────────────────────────────────────────


class Process:
    """Accounts that share commits on one connection."""

    def __init__(self, url: str, accounts: list[Clerk]) -> None:
        self.url = url
        self.accounts = accounts

    async def run(self, *, until_round: int | None = None) -> None:
        conn = await asyncpg.connect(self.url)
        try:
            rounds = 0
            while rounds != until_round and any(each.claimed or each.sending for each in self.accounts):
                rounds += 1
                await self._round(Store(conn))
        finally:
            await conn.close()

    async def die(self, when: str) -> None:
        """Takes its step, and is gone before it hears the answer."""
        conn = await asyncpg.connect(self.url)
        try:
            await conn.execute("BEGIN")
            assert all(await step_together(Store(conn), self.accounts))
            if when == "before the answer":
                await conn.execute("COMMIT")
        finally:
            conn.terminate()

    async def _round(self, own: Store) -> None:
        busy = [each for each in self.accounts if each.claimed or each.sending]
        taken = await step_together(own, busy)
        for clerk in [each for each, is_taken in zip(busy, taken, strict=True) if not is_taken]:
            await step_alone(own, clerk)
        used, allowed = await own.row("SELECT used, allowed FROM fairpost.quota_at($1, $2)", WORKSPACE, clock.now())
        assert used <= allowed
        for clerk in busy:
            if not clerk.claimed:
                await claim(own, clerk, 2)


@pytest.mark.parametrize("dies", ["before its commit", "before the answer"])
async def test_three_processes_use_a_quota_to_the_last_e_mail_although_one_is_killed_in_a_commit(
    world: World, url: str, dies: str
) -> None:
    await world.set_schedule(Schedule(quota=Quota(daily_max=MOST)))
    accounts = await clerks(world, *(f"a{n}" for n in range(3 * GROUP)), each=2, people=2 * MOST)
    thirds = [accounts[n * GROUP : (n + 1) * GROUP] for n in range(3)]
    first, second, third = [Process(url, third) for third in thirds]
    await asyncio.gather(*(process.run(until_round=1) for process in (first, second, third)))
    await asyncio.gather(first.run(until_round=1), second.die(dies), third.run(until_round=1))
    await asyncio.gather(first.run(), third.run())
    for dead in second.accounts:
        lost = "UPDATE fairpost.leases SET until = $2 WHERE account_id = $1"
        await world.store.value(lost, dead.lease.account_id, clock.now())
    reaped = 0
    async with asyncio.timeout(120):
        while reaped < GROUP:  # leases that a dying connection still locks are skipped
            reaped += await world.store.reap_leases()
    for clerk in first.accounts:
        await claim(world.store, clerk, 2)
    await first.run()
    assert await world.store.value(BEGUN) == MOST
    assert await world.store.value("SELECT sum(used) FROM fairpost.quotas") == MOST
    in_doubt = await world.store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'in_doubt'")
    assert in_doubt == GROUP, "the dead process had begun one for each account"


# ── another day ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_group_that_waits_into_the_next_day_does_not_exceed_its_quota(
    store: Store, url: str, other: "asyncpg.Connection"
) -> None:
    """It holds the quota of the day on which it began to wait, while another account uses the next one's."""
    world = World(store, ManualClock(clock.now()))
    await world.set_schedule(Schedule(quota=Quota(daily_max=1)))
    grouped, single = await clerks(world, "anna", "bert", people=4)
    today, tomorrow = await store.fetch("SELECT day FROM fairpost.quotas ORDER BY day LIMIT 2")
    beside = await asyncpg.connect(url)
    try:
        for wait in MIDNIGHT_IN:  # on a busy machine, the group may not be waiting in time
            midnight = await store.value("SELECT clock_timestamp() + $1::interval", wait)
            await store.value("UPDATE fairpost.quotas SET ends_at = $1 WHERE day = $2", midnight, today["day"])
            await store.value("UPDATE fairpost.quotas SET starts_at = $1 WHERE day = $2", midnight, tomorrow["day"])
            holding, holding_both = other.transaction(), other.transaction()
            await holding.start()
            await other.fetch(LOCK_DAY, today["day"])
            await holding_both.start()
            await other.fetch(LOCK_DAY, tomorrow["day"])
            step = asyncio.create_task(step_together(store, [grouped]))
            assert await waits(beside)
            if await beside.fetchval("SELECT clock_timestamp() < $1", midnight):
                break
            step.cancel()
            await asyncio.wait([step])
            await holding_both.rollback()
            await holding.rollback()
        await holding_both.rollback()
        await passes(beside, midnight)
        beginning = beside.transaction()
        await beginning.start()
        assert (await step_alone(Store(beside), single)).is_begun
        await holding.rollback()
        await waits(other, unless=step.done)
        await beginning.commit()
        assert await step == [False]
        answer = await step_alone(store, grouped)
        assert answer.begun is not None
        assert answer.begun.verdict == "closed"
    finally:
        await beside.close()
    used = await store.value("SELECT used FROM fairpost.quota_at($1, clock_timestamp())", WORKSPACE)
    assert used == await store.value(BEGUN) == 1


# ── a refund beside a new calendar ────────────────────────────────────────────────────────────────────────────


async def test_a_new_quota_does_not_count_an_e_mail_that_is_being_refunded(
    world: World, other: "asyncpg.Connection"
) -> None:
    """There was no quota when it began, so there is nothing to refund yet."""
    (clerk,) = await clerks(world, "anna", people=2)
    assert (await step_alone(world.store, clerk)).is_begun
    async with other.transaction():
        assert (await step_alone(Store(other), clerk, verdict=put_off())).is_taken
        laying = asyncio.create_task(world.set_schedule(Schedule(quota=Quota(daily_max=10))))
        await waits(other, unless=laying.done)
    await laying
    assert await world.store.value("SELECT sum(used) FROM fairpost.quotas") == await world.store.value(BEGUN) == 0


async def test_a_refund_that_waits_for_a_new_calendar_finds_the_day_that_replaced_its_own(
    world: World, url: str, other: "asyncpg.Connection"
) -> None:
    """Days begin at another hour in another time zone."""
    await world.set_schedule(Schedule(quota=Quota(daily_max=10)))
    (clerk,) = await clerks(world, "anna", people=2)
    assert (await step_alone(world.store, clerk)).is_begun
    async with other.transaction():
        day = await other.fetchrow("DELETE FROM fairpost.quotas WHERE used = 1 RETURNING *")
        refunding = asyncio.create_task(step_alone(world.store, clerk, verdict=put_off()))
        beside = await asyncpg.connect(url)
        assert await waits(beside)
        await beside.close()
        counted = """INSERT INTO fairpost.quotas (workspace, starts_at, ends_at, day, allowed, used)
                     VALUES ($1, $2, $3, $4, 10, 1)"""
        await other.execute(counted, day["workspace"], day["starts_at"] - HOUR, day["ends_at"] - HOUR, day["day"])
    assert (await refunding).is_taken
    assert await world.store.value("SELECT sum(used) FROM fairpost.quotas") == await world.store.value(BEGUN) == 0


# ── locks in one order ────────────────────────────────────────────────────────────────────────────────────────


async def of_two_workspaces(world: World) -> list[Clerk]:
    """The first account sends an e-mail of the second workspace and has claimed one of the first; the others have
    claimed one of each."""
    await world.add_accounts("nora")
    for workspace in (WORKSPACE, OTHER):
        await world.set_schedule(Schedule(quota=Quota(daily_max=100)), workspace)
        await world.add_people(8, workspace=workspace)
        await world.launch(await world.draft(workspace=workspace))
    made = await clerks(world, "anna", "bert", "carl", each=4)
    for clerk, wanted in zip(made, ((OTHER, WORKSPACE), (WORKSPACE,), (OTHER,)), strict=True):
        rows = await world.store.fetch(
            "SELECT id, workspace FROM fairpost.queue WHERE id = ANY ($1) ORDER BY id", clerk.claimed
        )
        clerk.claimed = [next(row["id"] for row in rows if row["workspace"] == each) for each in wanted]
        await world.store.give_back(clerk.lease, [row["id"] for row in rows if row["id"] not in clerk.claimed])
    assert (await step_alone(world.store, made[0])).is_begun
    return made


def put_off() -> Retry:
    return Retry(clock.now() + DAY, ())


async def test_a_step_that_refunds_one_quota_and_charges_another_does_not_deadlock_with_a_group(
    world: World, other: "asyncpg.Connection"
) -> None:
    single, *group = await of_two_workspaces(world)
    async with other.transaction():
        await other.fetch(LOCK_TODAY, WORKSPACE, clock.now())
        grouped = asyncio.create_task(step_together(world.store, group))
        assert await waits(other)
        alone = asyncio.create_task(step_alone(world.store, single, verdict=put_off()))
        assert await waits(other, 2)
    assert await grouped == [True, True]
    answer = await alone
    assert (answer.settled, answer.is_begun) == ("settled", True)
    used = "SELECT workspace, sum(used) AS n FROM fairpost.quotas GROUP BY 1"
    assert {row["workspace"]: row["n"] for row in await world.store.fetch(used)} == {WORKSPACE: 2, OTHER: 1}


async def test_a_step_that_refunds_a_quota_does_not_deadlock_with_a_new_calendar(
    world: World, url: str, other: "asyncpg.Connection"
) -> None:
    """A calendar with the first quota of a workspace waits for begins in progress, and then locks the quotas."""
    single, *_ = await of_two_workspaces(world)

    async def lay(conn: "asyncpg.Connection") -> None:
        async with conn.transaction():
            await conn.execute("SELECT fairpost.await_begins()")
            await conn.fetch("SELECT FROM fairpost.quotas WHERE workspace = $1 FOR UPDATE", OTHER)

    calendar = await asyncpg.connect(url)
    try:
        async with other.transaction():
            await other.fetch(LOCK_TODAY, OTHER, clock.now())
            alone = asyncio.create_task(step_alone(world.store, single, verdict=put_off()))
            assert await waits(other)
            laying = asyncio.create_task(lay(calendar))
            assert await waits(other, 2)
        assert (await alone).is_taken
        await laying
    finally:
        await calendar.close()


async def test_a_step_that_waits_longer_than_its_session_allows_stops_only_its_own_account(
    world: World, url: str, other: "asyncpg.Connection"
) -> None:
    """Another client of a pooler may have left a `lock_timeout` in the session."""
    waiting, *rest = await of_two_workspaces(world)
    plain = await without_campaign(world, "dora", "emil")
    impatient = await Store.connect(f"{url}&lock_timeout=100ms")
    try:
        group = StepGroup.of(impatient)
        async with other.transaction():
            await other.fetch(LOCK_TODAY, WORKSPACE, clock.now())
            requests = [each.request() for each in (waiting, *plain)]
            answers = await asyncio.gather(*map(group.take_step, requests), return_exceptions=True)
        assert [isinstance(answer, StepAnswer) and answer.is_begun for answer in answers] == [False, True, True]
        assert isinstance(answers[0], asyncpg.LockNotAvailableError)
        assert (await group.take_step(waiting.request())).is_begun, "the account stays usable"
        assert await take_steps(world.store, [rest[0].request()]) != [None]
    finally:
        await impatient.close()


async def without_campaign(world: World, *names: str) -> Sequence[Clerk]:
    mail = [{"workspace": "plain", "to": f"{name}@there.test", "subject": "s", "text": "t"} for name in names]
    await world.add_accounts(*names)
    await world.store.enqueue_many([each | {"account": name} for each, name in zip(mail, names, strict=True)])
    made = []
    for name in names:
        account = await world.store.account_named(name)
        lease = await world.store.take_lease(account.id, owner="test", seconds=timedelta(days=1).total_seconds())
        assert lease is not None
        pinned = "SELECT id FROM fairpost.queue WHERE route = '@' || $1"
        clerk = Clerk(name, lease)
        await claim(world.store, clerk, 1)
        assert clerk.claimed == [await world.store.value(pinned, name)]
        made.append(clerk)
    return made
