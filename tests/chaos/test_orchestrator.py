"""What an engine's orchestrator does besides driving accounts, killed after each of its commits: its successor
continues, and nothing is done twice."""

import asyncio
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import asyncpg
import pytest

from fairpost.campaigns import forecasting, launching
from fairpost.engine.runner import Runner
from fairpost.maintenance import campaigns as campaign_watch
from fairpost.maintenance import progress as progress_watch
from fairpost.maintenance import senders as sender_watch
from fairpost.model.account import Limits
from fairpost.model.campaign import Campaign, CampaignState
from fairpost.model.sender import SenderLevel, Tier
from fairpost.model.window import Quota
from fairpost.policy.calendar import RENEWED_BEFORE
from fairpost.policy.forecast import KeptForecast, read_kept
from fairpost.store import campaign_progress, campaigns, schedules, senders
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.scripted.send import ScriptedTransport
from tests.campaigns.test_progress import finish
from tests.campaigns.world import MONDAY, World, office_hours
from tests.chaos.victims import Part, ended, fork, look
from tests.maintenance.test_senders import BAD, START, a_burst, answer, notices, tier_of

KILLED = -signal.SIGKILL
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

FORECASTS = ("before_forecast", "after_forecast")
COUNTS = ("before_count", "after_count")
REVISIONS = ("after_turn", "before_revision", "after_revision")
SENDERS = (
    *("after_fairness", "after_hour", "after_decision", "after_looks"),
    *("before_telling", "after_telling", "after_health", "after_fold"),
)
CAMPAIGNS = ("after_batch", "after_stranded", "after_advance", "after_gates", "after_calendar", "after_clearing")


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    with clock.stopped_at(MONDAY) as manual:
        yield World(store, manual)


@dataclass(frozen=True)
class Orchestrating:
    url: str

    def begin(self, part: Part, *, dies: str | None = None) -> ForkServerProcess:
        """Runs one check in a separate process, at the time of our clock. `dies` names the failpoint at which it is
        killed."""
        return fork(look, self.url, part, clock.now(), dies)

    async def look(self, part: Part, *, dies: str | None = None) -> int:
        """Returns how it ended."""
        return await ended(self.begin(part, dies=dies))


@pytest.fixture
def orchestrator(url: str) -> Orchestrating:
    return Orchestrating(url)


# ── the progress of campaigns ─────────────────────────────────────────────────────────────────────────────


class Progress:
    """A campaign of which the test sends some e-mails now and then, with the actual progress."""

    def __init__(self, world: World, orchestrator: Orchestrating, campaign: Campaign) -> None:
        self.world, self.orchestrator, self.campaign = world, orchestrator, campaign
        self.sent: dict[datetime, int] = {campaign.launched_at or MONDAY: 0}

    async def send(self, n: int) -> None:
        before = max(self.sent.values())
        self.world.clock.advance(2 * MINUTE)
        self.sent[self.world.clock.now] = before + await finish(self.world.store, self.campaign, "sent", n)

    async def look(self, *, dies: str | None = None) -> int:
        return await self.orchestrator.look("progress", dies=dies)

    async def next_look(self) -> None:
        """Acts as the next engine: once the dead one is no longer waited for, everything is as if it had not existed."""
        self.world.clock.advance(timedelta(seconds=progress_watch.TURN_S))
        self.sent[self.world.clock.now] = max(self.sent.values())
        assert await self.look() == 0
        await self.is_true()
        snapshot = await campaign_progress.snapshot(self.world.store, self.campaign)
        assert snapshot is not None
        assert (snapshot.at, snapshot.sent) == (self.world.clock.now, self.sent[self.world.clock.now])
        revised_forecast = await self.revised_forecast()
        assert revised_forecast is not None
        assert (revised_forecast.made_at, revised_forecast.sent) == (self.world.clock.now, snapshot.sent)

    async def revised_forecast(self) -> KeptForecast | None:
        snapshot = await campaign_progress.snapshot(self.world.store, self.campaign)
        if snapshot is None or snapshot.revised_forecast is None:
            return None
        found = read_kept(snapshot.revised_forecast)
        assert isinstance(found, KeptForecast), found
        return found

    async def is_true(self) -> None:
        points = await campaign_progress.points(self.world.store, self.campaign)
        assert all(before.at < after.at for before, after in pairwise(points))
        assert [(p.at, p.sent) for p in points] == [(p.at, self.sent[p.at]) for p in points]
        snapshot = await campaign_progress.snapshot(self.world.store, self.campaign)
        if snapshot is not None:
            assert snapshot.sent == self.sent[snapshot.at]
            assert snapshot.sent + snapshot.waiting == snapshot.count(*STATES) == PEOPLE
            assert sum(n for kinds in snapshot.by_account.values() for n in kinds.values()) == PEOPLE
        await self.revised_forecast()


PEOPLE = 60
STATES = ("sent", "ready", "scheduled")


async def launched_without_forecast(world: World, orchestrator: Orchestrating) -> Progress:
    await world.add_accounts("anna", limits=Limits(delay_ms=60_000))
    await world.add_people(PEOPLE)
    draft = await world.draft()
    launched = await launching.set_going(world.store, draft, skip_incomplete=False, by="test", now=world.clock.now)
    await launching.schedule(world.store, launched)
    return Progress(world, orchestrator, await world.again(launched))


async def until(store: Store, is_there: str, which: str = "") -> None:
    """Waits for a counting statement in the database: until one is waiting, or until none is left."""
    sql = f"""SELECT {is_there} (SELECT FROM pg_stat_activity a
              WHERE a.datname = current_database() AND a.query LIKE 'SELECT fairpost.count_campaigns(%' {which})"""
    async with asyncio.timeout(60):  # our own clock stands still
        while not await store.value(sql):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_progress_is_correct_and_continues_wherever_its_counter_dies(
    world: World, orchestrator: Orchestrating, url: str
) -> None:
    progress = await launched_without_forecast(world, orchestrator)
    await progress.send(3)
    assert await progress.look(dies="before_forecast") == KILLED
    assert await campaigns.kept_forecast(world.store, progress.campaign) is None
    assert await progress.look(dies="after_forecast") == KILLED
    foretold = await campaigns.kept_forecast(world.store, progress.campaign)
    assert foretold is not None
    await progress.next_look()
    for point in (*COUNTS, *REVISIONS):
        await progress.send(3)
        assert await progress.look(dies=point) == KILLED, point
        await progress.is_true()
        await progress.next_look()

    await progress.send(3)
    conn = await asyncpg.connect(url)
    async with conn.transaction():
        await conn.execute("LOCK TABLE fairpost.campaign_progress")
        counting = orchestrator.begin("progress")
        await until(world.store, "EXISTS", "AND a.wait_event_type = 'Lock'")
        counting.kill()
        assert await ended(counting) == KILLED
    await conn.close()
    await until(world.store, "NOT EXISTS")
    await progress.is_true()
    await progress.next_look()

    await progress.send(PEOPLE)
    assert await orchestrator.look("campaigns") == 0
    assert await progress.look(dies="after_count") == KILLED
    assert await progress.look() == 0
    campaign = await world.again(progress.campaign)
    assert campaign.state is CampaignState.COMPLETED
    points = await campaign_progress.points(world.store, campaign)
    assert (points[0].at, points[0].sent) == (MONDAY, 0)
    assert (points[-1].at, points[-1].sent) == (campaign.finished_at, PEOPLE)
    await progress.is_true()
    assert await campaigns.kept_forecast(world.store, campaign) == foretold, "created once"


# ── senders ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_sender_maintenance_killed_anywhere_writes_and_reports_a_throttle_once(
    store: Store, orchestrator: Orchestrating
) -> None:
    """Runs one check after the other, each killed one commit later than the one before."""
    with clock.stopped_at(START) as hands:
        id_ = await store.add_account("anna", address="anna@post.test", limits=Limits(bounce_percent_max=None))
        runner = await Runner.start(store, ScriptedTransport(always=answer), id_, owner="test", lease_s=1e7)
        assert runner is not None
        await a_burst(store)
        await runner.run_until_idle()
        await runner.stop()
        await store.value(OLD_ACTIVITY, START - 3 * DAY)
        seen: dict[str, tuple[Tier, int, bool]] = {}
        for point in SENDERS:
            assert await orchestrator.look("senders", dies=point) == KILLED, point
            is_stirred = BAD in (await senders.dirty_senders(store)).users
            seen[point] = (await tier_of(store), len(await notices(store)), is_stirred)
            hands.advance(MINUTE)
        assert await orchestrator.look("senders") == 0
        assert [seen[point] for point in SENDERS] == [
            *((Tier.NORMAL, 0, True),) * 2,
            (Tier.THROTTLED, 0, True),
            *((Tier.THROTTLED, 0, False),) * 2,
            *((Tier.THROTTLED, 2, False),) * 3,
        ]
        assert len(await notices(store)) == 2, "each operator is notified once"
        assert (await senders.dirty_senders(store)).users == {}
        (bad,) = [each for each in await senders.known(store, throttled=True) if each.id.level is SenderLevel.USER]
        assert bad.throttle is not None
        assert bad.throttle.until == bad.throttle.since + 8 * HOUR, "and not extended"
        days = await store.fetch("SELECT user_name, volume FROM fairpost.activity_days")
        assert [tuple(row) for row in days] == [("old", 10)], "hours are combined into a day once"
        assert await senders.last_look(store) == hands.now


OLD_ACTIVITY = """INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume)
                  VALUES ('w1', 'old', fairpost.hour_of($1), 'default', 10)"""


# ── campaigns ─────────────────────────────────────────────────────────────────────────────────────────────

OFFICES = ("acme", "bolt")


async def gates(store: Store) -> dict[str, bool]:
    """Returns whether each office may send now."""
    rows = await store.fetch(
        """SELECT s.workspace, r.closed_until > $1 AS is_shut FROM fairpost.campaign_streams s
           LEFT JOIN fairpost.sender_rules r ON r.workspace = s.workspace AND r.level = 'stream' AND r.key = s.stream""",
        clock.now(),
    )
    return {row["workspace"]: not row["is_shut"] for row in rows}


async def test_campaign_maintenance_killed_anywhere_is_completed_by_the_next_run(
    world: World, orchestrator: Orchestrating
) -> None:
    store = world.store
    await world.add_accounts("anna")
    world.clock.move_to(MONDAY + HOUR)  # within the window
    for office in OFFICES:
        await world.add_people(PEOPLE, workspace=office)
        await world.set_schedule(office_hours(quota=Quota(daily_max=10)), office)
        draft = await world.draft(workspace=office, starts_at=MONDAY + 2 * HOUR)
        await launching.set_going(store, draft, skip_incomplete=False, by="test", now=world.clock.now)

    async def dies(point: str) -> None:
        assert await orchestrator.look("campaigns", dies=point) == KILLED, point

    async def all_of(office: str) -> tuple[CampaignState, int]:
        (campaign,) = await campaigns.campaigns(store, office)
        n = await store.value("SELECT count(*) FROM fairpost.queue WHERE workspace = $1", office)
        return campaign.state, n

    await dies("after_batch")
    assert [(await all_of(office))[1] for office in OFFICES] == [PEOPLE, 0], "one of them is planned"
    await dies("after_stranded")
    assert [await all_of(office) for office in OFFICES] == [(CampaignState.SCHEDULED, PEOPLE)] * 2
    world.clock.advance(HOUR)
    await dies("after_advance")
    assert [await all_of(office) for office in OFFICES] == [(CampaignState.RUNNING, PEOPLE)] * 2

    await store.value("UPDATE fairpost.quotas SET used = allowed")
    for office in OFFICES:
        await store.set_gates(office)
    assert await gates(store) == dict.fromkeys(OFFICES, False)
    await store.value("UPDATE fairpost.quotas SET used = 0")  # part of the quota is given back
    await dies("after_gates")
    assert sorted((await gates(store)).values()) == [False, True], "one is open again"
    assert await orchestrator.look("campaigns") == 0
    assert await gates(store) == dict.fromkeys(OFFICES, True)

    world.clock.advance(40 * DAY)
    await dies("after_calendar")
    assert len(await behind(store)) == 1
    assert await orchestrator.look("campaigns") == 0
    assert await behind(store) == []
    assert await gates(store) == {office: world.clock.now.weekday() < 5 for office in OFFICES}

    for office in OFFICES:
        (campaign,) = await campaigns.campaigns(store, office)
        await campaigns.cancel(store, campaign, reason="enough", by="test")
    await dies("after_clearing")
    assert [(await all_of(office))[1] for office in OFFICES] == [0, PEOPLE]
    assert await orchestrator.look("campaigns") == 0
    assert [await all_of(office) for office in OFFICES] == [(CampaignState.CANCELLED, 0)] * 2
    assert await store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'cancelled'") == 2 * PEOPLE


async def behind(store: Store) -> list[str]:
    return await schedules.to_lay(store, before=clock.now() + RENEWED_BEFORE)


def test_every_point_of_the_mind_is_tried() -> None:
    parts = (progress_watch, forecasting, sender_watch, campaign_watch)
    passed = {
        point for part in parts for point in re.findall(r'failpoint\("(\w+)"\)', Path(part.__file__ or "").read_text())
    }
    assert passed == {*FORECASTS, *COUNTS, *REVISIONS, *SENDERS, *CAMPAIGNS}
