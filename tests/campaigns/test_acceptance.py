"""The requirements of the two specifications for campaigns, in their order and with their numbers, on the real
database.

AC1 to AC6 and the edge cases are from specification E (scheduled sequences); the timelines are from C (provider
limits).
"""

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

import asyncpg
import pytest

from fairpost.campaigns import launching
from fairpost.model.account import Account, AccountStatus, Limits
from fairpost.model.campaign import HUMAN_GAP, CampaignState, Schedule
from fairpost.model.email import Outgoing
from fairpost.model.errors import Refusal
from fairpost.model.report import Report
from fairpost.model.window import Quota
from fairpost.policy.windows import is_open
from fairpost.providers.presets import read_presets
from fairpost.store import campaigns, prospects, schedules
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.port import Permission
from tests.campaigns.answers import BAD_MESSAGE, CUT, LATER, NO_SUCH_USER, REVOKED
from tests.campaigns.world import BERLIN, MONDAY, WORKSPACE, Post, World, office_hours
from tests.simulation.world import SHARE, shared

GMAIL = shared(read_presets()["gmail"].limits)
HOURLY = 100 // SHARE
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
EMAILS = """
    SELECT e.id, e.idempotency_key AS key, e.prospect_id, e.step, e.state::text, e.attempts, e.due_at, e.reason FROM (
        SELECT id, idempotency_key, prospect_id, step, state, attempts, due_at, last_error AS reason, campaign_id FROM fairpost.queue
        UNION ALL
        SELECT id, idempotency_key, prospect_id, step, state, attempts, due_at, reason, campaign_id FROM fairpost.emails) e
    ORDER BY e.prospect_id, e.step"""


# ── the acceptance criteria ───────────────────────────────────────────────────────────────────────────────


async def test_ac1_every_step_of_every_prospect_has_a_row_with_a_unique_key(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(7)
    campaign = await world.draft(delays=(3 * DAY, 4 * DAY))
    result = await world.launch(campaign)
    rows = await world.store.fetch(EMAILS)
    assert result.scheduled == len(rows) == 21
    assert [row["key"] for row in rows] == [f"{r['prospect_id']}:{campaign.sequence_id}:{r['step']}" for r in rows]
    assert len({row["key"] for row in rows}) == 21
    with pytest.raises(asyncpg.UniqueViolationError):
        await world.store.value(
            "INSERT INTO fairpost.idempotency_keys (key_hash, email_id) VALUES (fairpost.key_hash($1, $2), 1)",
            *(WORKSPACE, rows[0]["key"]),
        )


async def test_ac1_a_caller_s_key_that_looks_like_a_campaign_s_is_another_key(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    await world.launch(await world.draft())
    (row,) = await world.store.fetch(EMAILS)
    email = {"workspace": WORKSPACE, "to": "p0@there.test", "subject": "s", "text": "t", "idempotency_key": row["key"]}
    (again,) = await world.store.enqueue_many([email])
    assert (again["id"] != row["id"], again["new"]) == (True, True)
    (twice,) = await world.store.enqueue_many([email])
    assert (twice["id"], twice["new"]) == (again["id"], False)
    (elsewhere,) = await world.store.enqueue_many([{**email, "workspace": "other"}])
    assert elsewhere["new"], "keys belong to a workspace"


async def test_ac2_scheduling_again_adds_nothing_logs_and_counts_what_it_skipped_and_raises_nothing(
    world: World,
) -> None:
    await world.add_accounts("anna")
    await world.add_people(5)
    campaign = await world.draft(delays=(DAY,))
    assert (await world.launch(campaign)).scheduled == 10
    await world.run(days=0.5)
    await campaigns.replan(world.store, campaign.id)
    again = await world.launch(await world.again(campaign))
    assert (again.scheduled, again.skipped, again.errors, again.is_done) == (0, 10, [], True)
    logged = await world.store.value(
        "SELECT detail ->> 'emails' FROM fairpost.events WHERE kind = 'duplicates_skipped'"
    )
    assert logged == "10"
    await world.run(days=5)
    assert Counter(each.to for each in world.post.sent) == {f"p{n}@there.test": 2 for n in range(5)}


class Watching(Post):
    """Records the state of each e-mail while it is being handed over."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.states: list[str] = []

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        self.states.append(
            await self._store.value("SELECT state::text FROM fairpost.queue WHERE id = $1", email.id) or "gone"
        )
        return await super().send(account, email, permission=permission)


async def test_ac3_scheduled_then_sending_then_sent_and_a_failure_that_passes_is_scheduled_again(world: World) -> None:
    world.post = post = Watching(world.store)
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft(starts_at=MONDAY + HOUR)
    await world.launch(campaign)

    async def shown() -> dict[str, int]:
        return dict((await campaigns.progress(world.store, campaign)).by_step[1])

    assert await shown() == {"scheduled": 1}
    post.answers["p0@there.test"] = [LATER]
    await world.drive().run(until=MONDAY + HOUR)
    assert await shown() == {"scheduled": 1}
    (row,) = await world.store.fetch(EMAILS)
    assert (row["attempts"], row["state"]) == (1, "waiting")
    assert row["due_at"] > world.clock.now
    await world.run(days=1)
    assert post.states == ["sending", "sending"]
    assert await shown() == {"sent": 1}


@pytest.mark.parametrize("answer", [LATER, CUT])
async def test_ac4_it_is_tried_again_after_one_five_and_fifteen_minutes_and_then_given_up(
    world: World, answer: Report
) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    campaign = await world.draft()
    await world.launch(campaign)
    world.post.answers = {"p0@there.test": [answer] * 3, "p1@there.test": [answer] * 9}
    await world.run(days=1)
    at = [row["begun_at"] for row in await world.store.fetch(
        "SELECT a.begun_at FROM fairpost.attempts a JOIN fairpost.emails e ON e.id = a.email_id WHERE e.addresses = '{p1@there.test}' ORDER BY a.n")]  # fmt: skip
    gaps = [(after - before) / MINUTE for before, after in pairwise(at)]
    assert len(gaps) == 3
    for gap, minutes in zip(gaps, (1, 5, 15), strict=True):
        assert minutes <= gap <= minutes * 1.1 + 0.1
    states = {row["prospect_id"]: (row["state"], row["attempts"]) for row in await world.store.fetch(EMAILS)}
    assert list(states.values()) == [("sent", 4), ("failed", 4)]
    assert len(world.post.answers["p1@there.test"]) == 5, "there is no fifth attempt"
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


@pytest.mark.parametrize(("answer", "state"), [(NO_SUCH_USER, "bounced"), (BAD_MESSAGE, "failed")])
async def test_ac5_what_cannot_succeed_is_final_at_once(world: World, answer: Report, state: str) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    await world.launch(await world.draft(delays=(DAY,)))
    world.post.answers = {"p0@there.test": [answer]}
    await world.run(days=3)
    assert [(row["state"], row["attempts"]) for row in await world.store.fetch(EMAILS)] == [
        (state, 1),
        ("cancelled", 0),
    ]
    assert world.post.sent == []


async def test_ac5_an_account_without_authorisation_gives_the_pools_mail_back_and_in_the_end_fails_what_is_its_own(
    world: World,
) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(6)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    await world.run(days=0.5)
    assert len(world.post.sent) == 6
    of_anna = [each.to for each in world.post.sent if each.account == "anna"]
    assert 0 < len(of_anna) < 6
    world.post.answers = {to: [REVOKED] for to in of_anna}
    await world.run(days=3)
    anna = await world.store.account_named("anna")
    assert anna.status is AccountStatus.SUSPENDED
    world.clock.advance(7 * DAY)
    await world.give_up_pinned()
    states = {(row["step"], row["state"]): row for row in await world.store.fetch(EMAILS)}
    assert (2, "failed") in states, "mail pinned to it fails"
    assert sum(each.email.content.subject == "2" for each in world.post.sent) == 6 - len(of_anna)


async def test_ac6_window_gap_quota_and_ramp_up_together(world: World) -> None:
    await world.add_accounts("anna", "bert", limits=Limits())
    await world.add_people(14)
    schedule = office_hours(quota=Quota(daily_max=8, ramp_up_days=4))
    await world.set_schedule(schedule)
    campaign = await world.draft(gap=HUMAN_GAP, delays=(DAY,))
    await world.launch(campaign)
    await world.run(days=20)
    assert Counter(each.to for each in world.post.sent) == {f"p{n}@there.test": 2 for n in range(14)}
    by_day = world.post.by_day(BERLIN)
    assert list(by_day.values())[:4] == [2, 4, 6, 8]
    assert max(by_day.values()) == 8
    assert schedule.window is not None
    assert all(is_open(schedule.window, each.at) for each in world.post.sent)
    for account in ("anna", "bert"):
        at = [each.at for each in world.post.sent if each.account == account]
        assert min((after - before).total_seconds() for before, after in pairwise(at)) >= 30
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


# ── the edge cases of specification E ─────────────────────────────────────────────────────────────────────


async def test_edge_1_the_same_person_on_two_lists_gets_it_once(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(6, list_name="one")
    await world.add_people(9, list_name="two")
    result = await world.launch(await world.draft(lists=("one", "two")))
    assert (result.scheduled, result.skipped) == (9, 0)
    await world.run(days=1)
    assert Counter(each.to for each in world.post.sent) == {f"p{n}@there.test": 1 for n in range(9)}


async def test_edge_2_a_campaign_paused_in_the_middle_of_scheduling(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(10)
    campaign = await world.draft()
    await launching.launch(world.store, campaign, skip_incomplete=False, by="test", now=world.clock.now)
    assert (await campaigns.plan_batch(world.store, campaign.id, most=4)).scheduled == 4
    assert await campaigns.pause(world.store, campaign, reason=None, by="test")
    stopped = await campaigns.plan_batch(world.store, campaign.id, most=4)
    assert (stopped.done, stopped.scheduled, stopped.prospects) == (True, 0, 0)
    result = await world.launch(await world.again(campaign))
    assert (result.scheduled, result.is_done) == (0, False)
    await world.run(days=1)
    assert world.post.sent == []
    assert await campaigns.resume(world.store, campaign, by="test")
    result = await world.launch(await world.again(campaign))
    assert (result.scheduled, result.is_done) == (6, True)
    await world.run(days=1)
    assert len({each.to for each in world.post.sent}) == len(world.post.sent) == 10


async def test_edge_3_a_paused_prospect_is_held_and_not_cancelled(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    paused = await prospects.known_by(world.store, WORKSPACE, "p1@there.test")
    await prospects.pause(world.store, paused, is_paused=True)
    campaign = await world.draft(delays=(DAY,))
    assert (await world.launch(campaign)).scheduled == 6
    await world.run(days=5)
    assert {each.to for each in world.post.sent} == {"p0@there.test", "p2@there.test"}
    progress = await campaigns.progress(world.store, campaign)
    assert progress.by_step == {1: {"sent": 2, "parked": 1}, 2: {"sent": 2, "to_follow": 1}}
    held = await world.again(campaign)
    assert held.state is CampaignState.COMPLETED
    assert held.reason is not None
    await prospects.pause(world.store, paused, is_paused=False)
    await world.run(days=5)
    assert len(world.post.of("p1@there.test")) == 2
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_edge_4_what_exceeds_the_quota_goes_out_on_the_next_day(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(25)
    await world.set_schedule(Schedule(timezone="America/New_York", quota=Quota(daily_max=10)))
    await world.launch(await world.draft())
    await world.run(days=5)
    assert list(world.post.by_day("America/New_York").values()) == [10, 10, 5]
    second = world.post.sent[10].at
    assert second == datetime(2030, 1, 8, 5, tzinfo=UTC), "midnight in New York, to the second"


async def test_edge_5_weekends_and_holidays(world: World) -> None:
    world.clock.move_to(MONDAY + 4 * DAY)  # Friday, 9:00 in Berlin
    await world.add_accounts("anna", limits=Limits(delay_ms=3_600_000))
    await world.add_people(20)
    await world.set_schedule(office_hours(holidays=[date(2030, 1, 14)]))
    await world.launch(await world.draft())
    await world.run(days=10)
    assert world.post.by_day(BERLIN) == {date(2030, 1, 11): 8, date(2030, 1, 15): 8, date(2030, 1, 16): 4}


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati", "Pacific/Marquesas"])
async def test_edge_6_moments_are_stored_in_utc_and_mean_the_workspaces_own_clock(world: World, zone: str) -> None:
    await world.add_accounts("anna", limits=Limits(delay_ms=540_000))
    await world.add_people(10)
    schedule = office_hours(zone, days=range(1, 8), start=time(9, 30), end=time(10, 15))
    await world.set_schedule(schedule)
    await world.launch(await world.draft())
    await world.run(days=4)
    assert len(world.post.sent) == 10
    assert schedule.window is not None
    assert all(is_open(schedule.window, each.at) for each in world.post.sent)
    assert set(world.post.by_day(zone).values()) == {5}


async def test_edge_7_the_delays_of_steps_two_and_three_count_from_the_step_before_it(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    await world.launch(await world.draft(delays=(3 * DAY, 4 * DAY)))
    world.post.answers["p0@there.test"] = [LATER, LATER]
    await world.run(days=2)
    world.post.answers["p0@there.test"] = [LATER]
    await world.run(days=10)
    first, second, third = (each.at for each in world.post.of("p0@there.test"))
    assert first >= MONDAY + 6 * MINUTE
    assert 3 * DAY + MINUTE <= second - first < 3 * DAY + 2 * MINUTE
    assert 4 * DAY <= third - second < 4 * DAY + 2 * MINUTE


async def test_edge_8_a_window_without_a_day_is_a_clear_error(world: World) -> None:
    with pytest.raises(Refusal, match=r"schedule\.invalid") as refused:
        await world.set_schedule(office_hours(days=()))
    assert refused.value.reason.params["field"] == "days"
    assert not (await schedules.schedule_of(world.store, WORKSPACE)).is_stored


# ── the timelines of specification C ──────────────────────────────────────────────────────────────────────


def by_hour(world: World, account: str | None = None) -> dict[int, int]:
    hours = Counter(int((each.at - MONDAY) / HOUR) for each in world.post.sent if account in (None, each.account))
    return dict(sorted(hours.items()))


@pytest.mark.thorough
async def test_ten_hours_worth_of_mail_through_one_gmail_account_takes_two_days(world: World) -> None:
    await world.add_accounts("anna", limits=GMAIL)
    await world.add_people(10 * HOURLY)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=5)
    assert by_hour(world) == dict.fromkeys([0, 1, 2, 3, 4, 24, 25, 26, 27, 28], HOURLY)
    assert len({each.to for each in world.post.sent}) == 10 * HOURLY
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


@pytest.mark.thorough
async def test_five_hours_worth_of_mail_through_two_gmail_accounts_is_done_in_the_third_hour(world: World) -> None:
    await world.add_accounts("anna", "bert", limits=GMAIL)
    await world.add_people(5 * HOURLY)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=5)
    assert by_hour(world, "anna") == by_hour(world, "bert") == {0: HOURLY, 1: HOURLY, 2: HOURLY // 2}
    assert max(each.at for each in world.post.sent) < MONDAY + 2 * HOUR + 3 * MINUTE
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_an_account_at_its_limit_does_not_stop_the_other(world: World) -> None:
    await world.add_accounts("anna", limits=Limits(delay_ms=1000, daily_max=5))
    await world.add_accounts("bert", limits=Limits(delay_ms=10_000))
    await world.add_people(30)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=0.5)
    assert Counter(each.account for each in world.post.sent) == {"anna": 5, "bert": 25}
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_counters_survive_a_restart_in_the_middle(world: World, url: str) -> None:
    """Starts a new engine on a new connection every quarter of an hour, and kills one."""
    await world.add_accounts("anna", limits=Limits(delay_ms=3000, hourly_max=6, daily_max=14))
    await world.add_people(24)
    await world.set_schedule(Schedule(quota=Quota(daily_max=12)))
    campaign = await world.draft()
    await world.launch(campaign)
    for _ in range(16):
        async with Store.open(url) as fresh:
            await World(fresh, world.clock, world.post, world.accounts).run(days=1 / 96)
        world.clock.move_to(max(world.clock.now, clock.now()) + 15 * MINUTE)
    assert len(world.post.sent) == 12
    await world.run(days=3)
    assert Counter(int((each.at - MONDAY) / HOUR) for each in world.post.sent if each.at < MONDAY + 4 * HOUR) == {
        0: 6,
        1: 6,
    }
    assert list(world.post.by_day().values()) == [12, 12]
    assert len({each.to for each in world.post.sent}) == 24
    assert (await world.again(campaign)).state is CampaignState.COMPLETED
