"""A campaign whose launch is killed in the middle, and then its engines, again and again: everybody gets every step once."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from fairpost.campaigns import calendars
from fairpost.model.account import Limits
from fairpost.model.campaign import Campaign, CampaignState, Schedule
from fairpost.model.ids import EmailId
from fairpost.model.window import Quota
from fairpost.postgres import campaigns, schedules
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.campaigns.world import WORKSPACE
from tests.campaigns.world import World as Office
from tests.chaos.driver import World, eventually, until
from tests.chaos.processes import signal_to
from tests.chaos.recorder import Manners, Taken
from tests.simulation.world import broken_promises

PEOPLE = 200
STEPS = 3
BATCH = 23  # prospects a commit, so that there is a middle to be killed in
DELAY = timedelta(seconds=2)
SENDERS = {f"a{i}": Limits(delay_ms=10, batch_max=10) for i in range(6)}
MANNERS = Manners(delay_s_max=0.01)
END_S_MAX = 90

LAUNCH = f"""
import asyncio, sys
from fairpost.campaigns import launching
from fairpost.postgres import campaigns
from fairpost.postgres.store import Store
from fairpost.system import clock

launching.BATCH = {BATCH}

async def main() -> None:
    async with Store.open(sys.argv[1]) as store:
        campaign = await campaigns.campaign_by_id(store, int(sys.argv[2]))
        campaign = await launching.launch(store, campaign, skip_incomplete=False, by="test", now=clock.now())
        await launching.schedule(store, campaign)

asyncio.run(main())
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


def launch(url: str, campaign: Campaign, *, failpoint: str | None) -> int:
    env = {**os.environ, **({"FAIRPOST_FAILPOINT": failpoint} if failpoint else {})}
    return subprocess.run([sys.executable, "-c", LAUNCH, url, str(campaign.id)], env=env, check=False).returncode


async def drafted(world: World) -> Campaign:
    office = Office(world.store, ManualClock(clock.now()))
    await office.add_people(PEOPLE)
    return await office.draft(delays=(DELAY,) * (STEPS - 1))


async def queued(world: World) -> int:
    return int((await world.fetch("SELECT count(*) AS n FROM fairpost.queue"))[0]["n"])


async def settle_doubts(world: World) -> int:
    """By somebody who has looked into the mailboxes. How many there were."""
    rows = await world.fetch("SELECT id FROM fairpost.queue WHERE state = 'in_doubt'")
    arrived = {taken.email_id for taken in world.recorder.taken}
    for row in rows:
        decision = "sent" if row["id"] in arrived else "resend"
        await world.store.resolve(EmailId(row["id"]), decision, by="test")  # type: ignore[arg-type]
    return len(rows)


async def by_person(world: World) -> dict[str, list[tuple[int, Taken]]]:
    rows = await world.fetch("SELECT id, step FROM fairpost.emails UNION ALL SELECT id, step FROM fairpost.queue")
    steps = {row["id"]: row["step"] for row in rows}
    got: dict[str, list[tuple[int, Taken]]] = defaultdict(list)
    for taken in world.recorder.taken:
        got[taken.recipient].append((steps[taken.email_id], taken))
    return got


async def test_whoever_is_killed_everybody_gets_every_step_once(tmp_path: Path) -> None:
    async with World.made(tmp_path, seed=21, senders=SENDERS, manners=MANNERS) as world:
        await calendars.set_schedule(world.store, WORKSPACE, Schedule(quota=Quota(daily_max=5000)), now=clock.now())
        campaign = await drafted(world)
        for failpoint, planned in (("after_launch", 0), ("after_plan:3", 3 * BATCH * STEPS)):
            assert await asyncio.to_thread(launch, world.url, campaign, failpoint=failpoint) == -signal.SIGKILL
            assert await queued(world) == planned
        await world.start_engine()  # completes the launch by itself
        for deed in ("worker", "worker", "parent", "worker", "mind", "worker"):
            goal = len(world.recorder.taken) + 40
            await until(lambda: len(world.recorder.taken) >= goal, "the campaign goes on")  # noqa: B023
            await getattr(world, f"_kill_{deed}")()

        doubts = 0

        async def is_over() -> bool:
            nonlocal doubts
            doubts += await settle_doubts(world)
            now = await campaigns.campaign_by_id(world.store, campaign.id)
            return now.state is CampaignState.COMPLETED and now.reason is None

        await eventually(is_over, "the campaign is completed", s_max=END_S_MAX)
        for engine in world.engines:
            signal_to(engine.pid, signal.SIGTERM)
        got = await by_person(world)
        assert set(got) == {f"p{n}@there.test" for n in range(PEOPLE)}
        for taken in got.values():
            assert [step for step, _ in taken] == [1, 2, 3], "each once, and in order"
            assert len({each.account for _, each in taken}) == 1
            for (_, before), (_, after) in pairwise(taken):
                assert after.at - before.at >= DELAY - timedelta(milliseconds=50)
        assert doubts <= world.done.broken
        states = await world.fetch("SELECT state::text, count(*) AS n FROM fairpost.emails GROUP BY 1")
        assert [tuple(row) for row in states] == [("sent", PEOPLE * STEPS)]
        progress = await campaigns.progress(world.store, campaign)
        assert (progress.scheduled, progress.skipped) == (PEOPLE * STEPS, 0)
        days = await schedules.quota_days(world.store, WORKSPACE, since=clock.now() - DELAY, until=clock.now())
        assert PEOPLE * STEPS <= sum(day.used for day in days) <= PEOPLE * STEPS + doubts
        assert await broken_promises(world.store) == {}
        assert world.done.offences == []


async def test_a_campaign_paused_while_engines_die_sends_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async with World.made(tmp_path, seed=22, senders=SENDERS, manners=MANNERS) as world:
        campaign = await drafted(world)
        assert await asyncio.to_thread(launch, world.url, campaign, failpoint=None) == 0
        await world.start_engine()
        for _ in range(3):
            goal = len(world.recorder.taken) + 30
            await until(lambda: len(world.recorder.taken) >= goal, "the campaign goes on")  # noqa: B023
            assert await campaigns.pause(world.store, campaign, reason=None, by="test")
            before = len(world.recorder.taken)
            await world._kill_parent()
            await asyncio.sleep(1.5)
            assert len(world.recorder.taken) - before <= len(SENDERS), "what was under way, and no more"
            assert await campaigns.resume(world.store, campaign, by="test")

        async def is_over() -> bool:
            await settle_doubts(world)
            now = await campaigns.campaign_by_id(world.store, campaign.id)
            return now.state is CampaignState.COMPLETED and now.reason is None

        await eventually(is_over, "the campaign is completed", s_max=END_S_MAX)
        counts = Counter((to, step) for to, each in (await by_person(world)).items() for step, _ in each)
        assert counts == {(f"p{n}@there.test", step): 1 for n in range(PEOPLE) for step in range(1, STEPS + 1)}
        assert await broken_promises(world.store) == {}
