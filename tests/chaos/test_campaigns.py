"""A campaign whose launch is killed in the middle, and then its engines, repeatedly: every recipient gets every step
once."""

import signal
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from fairpost.campaigns import calendars
from fairpost.model.account import Limits
from fairpost.model.campaign import Campaign, CampaignState, Schedule
from fairpost.model.ids import EmailId
from fairpost.model.window import Quota
from fairpost.store import campaigns, schedules
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.campaigns.world import WORKSPACE
from tests.campaigns.world import World as Office
from tests.chaos.driver import LONG_KILLS, World, eventually, until
from tests.chaos.recorder import Manners, Taken
from tests.chaos.victims import ended, fork, launch
from tests.simulation.world import broken_promises

PEOPLE = 200 if LONG_KILLS else 60
STEPS = 3
BATCH = PEOPLE // 8  # prospects per commit, so that it can be killed in between
DELAY = timedelta(seconds=1)
SENDERS = {f"a{i}": Limits(delay_ms=10, batch_max=10) for i in range(4)}
MANNERS = Manners(delay_s_max=0.01)
DEEDS = ("kill_worker", "kill_parent", "kill_mind", "kill_worker") if LONG_KILLS else ("kill_worker", "kill_mind")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


async def drafted(world: World) -> Campaign:
    office = Office(world.store, ManualClock(clock.now()))
    await office.add_people(PEOPLE)
    return await office.draft(delays=(DELAY,) * (STEPS - 1))


async def queued(world: World) -> int:
    return int((await world.fetch("SELECT count(*) AS n FROM fairpost.queue"))[0]["n"])


async def settle_doubts(world: World) -> int:
    """Resolves e-mails in doubt like a person who has checked the mailboxes. Returns how many there were."""
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


async def some_more(world: World) -> None:
    goal = len(world.recorder.taken) + PEOPLE // 5
    await until(lambda: len(world.recorder.taken) >= goal, "the campaign goes on")


async def test_in_spite_of_every_kill_everybody_gets_every_step_once_and_nothing_is_sent_while_it_is_paused(
    url: str, tmp_path: Path
) -> None:
    async with World.made(tmp_path, url, seed=21, senders=SENDERS, manners=MANNERS) as world:
        await calendars.set_schedule(world.store, WORKSPACE, Schedule(quota=Quota(daily_max=5000)), now=clock.now())
        campaign = await drafted(world)
        for failpoint, planned in (("after_launch", 0), ("after_plan:3", 3 * BATCH * STEPS)):
            assert await ended(fork(launch, url, campaign.id, BATCH, failpoint)) == -signal.SIGKILL
            assert await queued(world) == planned
        await world.start_engine()  # completes the launch
        for deed in DEEDS:
            await some_more(world)
            await world.only(deed)

        await some_more(world)
        assert await campaigns.pause(world.store, campaign, reason=None, by="test")
        before = len(world.recorder.taken)
        await world.only("kill_parent")
        await world.engines_look_again()
        assert len(world.recorder.taken) - before <= len(SENDERS), "only what was in progress"
        assert await campaigns.resume(world.store, campaign, by="test")

        doubts = 0

        async def is_over() -> bool:
            nonlocal doubts
            doubts += await settle_doubts(world)
            await world.hasten()
            now = await campaigns.campaign_by_id(world.store, campaign.id)
            return now.state is CampaignState.COMPLETED and now.reason is None

        await eventually(is_over, "the campaign is completed")
        got = await by_person(world)
        assert set(got) == {f"p{n}@there.test" for n in range(PEOPLE)}
        for taken in got.values():
            assert [step for step, _ in taken] == [1, 2, 3], "each once, and in order"
            assert len({each.account for _, each in taken}) == 1
            for (_, earlier), (_, later) in pairwise(taken):
                assert later.at - earlier.at >= DELAY - timedelta(milliseconds=50)
        assert doubts <= world.done.broken
        states = await world.fetch("SELECT state::text, count(*) AS n FROM fairpost.emails GROUP BY 1")
        assert [tuple(row) for row in states] == [("sent", PEOPLE * STEPS)]
        progress = await campaigns.progress(world.store, campaign)
        assert (progress.scheduled, progress.skipped) == (PEOPLE * STEPS, 0)
        days = await schedules.quota_days(world.store, WORKSPACE, since=clock.now() - DELAY, until=clock.now())
        assert PEOPLE * STEPS <= sum(day.used for day in days) <= PEOPLE * STEPS + doubts
        assert await broken_promises(world.store) == {}
        assert world.done.offences == []
