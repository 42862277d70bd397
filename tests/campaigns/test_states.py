"""Everything that can be done to a campaign and its recipients at any moment: every transition, twice, and its effects."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from fairpost.campaigns.launching import launch
from fairpost.engine.results import Handled, Rested
from fairpost.engine.runner import Runner
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.model.account import Account, AccountStatus, Limits
from fairpost.model.campaign import Campaign, CampaignState, Schedule
from fairpost.model.email import Outgoing
from fairpost.model.errors import Refusal
from fairpost.model.ids import EmailId
from fairpost.model.prospect import Prospect
from fairpost.model.reason import Reason
from fairpost.model.report import Report
from fairpost.model.window import Quota
from fairpost.store import campaigns, prospects, templates
from fairpost.system import clock
from fairpost.transports.port import Permission
from tests.campaigns.answers import BAD_MESSAGE, LATER, LOST, NO_SUCH_USER, REVOKED
from tests.campaigns.world import BERLIN, MONDAY, WORKSPACE, Post, World, office_hours

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
P0, P1, P2 = "p0@there.test", "p1@there.test", "p2@there.test"
QUICK = Limits()  # no pause: e-mails are claimed in batches, and each begin settles the previous one


async def look(world: World) -> None:
    await CampaignWatch(world.store, log=lambda words: None).step()


async def person(world: World, address: str) -> Prospect:
    return await prospects.known_by(world.store, WORKSPACE, address)


async def pause_person(world: World, address: str, is_paused: bool = True) -> None:
    await prospects.pause(world.store, await person(world, address), is_paused=is_paused)


async def runner_of(world: World, name: str) -> Runner:
    account = await world.store.account_named(name)
    runner = await Runner.start(world.store, world.post, account.id, owner="test")
    assert runner is not None
    return runner


async def states(world: World, address: str | None = None) -> dict[tuple[str, int], str]:
    rows = await world.store.fetch(
        """SELECT addresses[1] AS address, step, state::text FROM fairpost.queue
           UNION ALL SELECT addresses[1], step, state::text FROM fairpost.emails ORDER BY 1, 2"""
    )
    return {(r["address"], r["step"]): r["state"] for r in rows if address in (None, r["address"])}


async def in_hand(world: World) -> str:
    """A prospect whose e-mail is claimed but not begun."""
    return str(
        await world.store.value("SELECT addresses[1] FROM fairpost.queue WHERE state = 'claimed' ORDER BY id LIMIT 1")
    )


async def email_of(world: World, address: str, step: int = 1) -> EmailId:
    sql = """SELECT id FROM fairpost.queue WHERE addresses = ARRAY[$1::text] AND step = $2
             UNION ALL SELECT id FROM fairpost.emails WHERE addresses = ARRAY[$1::text] AND step = $2"""
    return EmailId(await world.store.value(sql, address, step))


def subjects(world: World, to: str) -> list[str]:
    return [each.email.content.subject for each in world.post.of(to)]


def counts(world: World) -> Counter[str]:
    return Counter(each.to for each in world.post.sent)


def once(n: int, *, steps: int = 1) -> dict[str, int]:
    return {f"p{i}@there.test": steps for i in range(n)}


# ── every transition of a campaign ────────────────────────────────────────────────────────────────────────


async def in_state(world: World, state: CampaignState, name: str) -> Campaign:
    """Brings a campaign into this state, with its own pool."""
    await world.add_accounts(f"a-{name}", pool=name)
    starts_at = MONDAY + 100 * DAY if state is CampaignState.SCHEDULED else None
    campaign = await world.draft(name, route=name, starts_at=starts_at)
    if state is not CampaignState.DRAFT:
        await world.launch(campaign)
    match state:
        case CampaignState.PAUSED:
            await campaigns.pause(world.store, campaign, reason="enough", by="test")
        case CampaignState.COMPLETED:
            await world.run(days=1)
        case CampaignState.FAILED:
            assert (await world.store.remove_account(f"a-{name}")).removed
            await look(world)
        case CampaignState.CANCELLED:
            await campaigns.cancel(world.store, campaign, reason="no more", by="test")
        case _:
            pass
    campaign = await world.again(campaign)
    assert campaign.state is state
    return campaign


MOVES = {
    "pause": ({"scheduled", "running"}, "paused"),
    "resume": ({"paused", "failed"}, "running"),
    "cancel": ({"draft", "scheduled", "running", "paused", "failed"}, "cancelled"),
}


@pytest.mark.parametrize("state", CampaignState)
async def test_every_move_there_is_and_none_but_these(world: World, state: CampaignState) -> None:
    await world.add_people(2)
    do: dict[str, Callable[[Campaign], Awaitable[bool]]] = {
        "pause": lambda c: campaigns.pause(world.store, c, reason="why", by="test"),
        "resume": lambda c: campaigns.resume(world.store, c, by="test"),
        "cancel": lambda c: campaigns.cancel(world.store, c, reason="why", by="test"),
    }
    for move, (allowed, after) in MOVES.items():
        campaign = await in_state(world, state, f"{state}-{move}")
        assert await do[move](campaign) is (state in allowed)
        now = (await world.again(campaign)).state
        assert now == (after if state in allowed else state)
        assert await do[move](campaign) is False, "doing it twice has the same effect as once"
        assert (await world.again(campaign)).state is now
    campaign = await in_state(world, state, f"{state}-launch")
    again = await launch(world.store, campaign, skip_incomplete=False, by="test", now=world.clock.now)
    assert again.state is (CampaignState.RUNNING if state is CampaignState.DRAFT else state)


async def test_a_paused_campaign_that_was_to_start_later_still_starts_then(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    campaign = await world.draft(starts_at=MONDAY + DAY)
    await world.launch(campaign)
    await campaigns.pause(world.store, campaign, reason=None, by="test")
    await campaigns.resume(world.store, campaign, by="test")
    assert (await world.again(campaign)).state is CampaignState.SCHEDULED
    await world.run(days=3)
    assert min(each.at for each in world.post.sent) == MONDAY + DAY
    assert counts(world) == once(3)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_campaign_starts_at_its_moment_and_not_before(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    await world.set_schedule(office_hours())
    campaign = await world.draft(starts_at=MONDAY + 5 * DAY)  # Saturday
    await world.launch(campaign)
    await world.run(days=4)
    assert world.post.sent == []
    assert (await world.again(campaign)).state is CampaignState.SCHEDULED
    await world.run(days=9)
    assert {each.at.date() for each in world.post.sent} == {(MONDAY + 7 * DAY).date()}
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


# ── pause and resume ──────────────────────────────────────────────────────────────────────────────────────


async def test_emails_in_flight_finish_and_no_others_begin(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(10)
    campaign = await world.draft()
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    assert isinstance(await anna.step(), Handled)
    assert isinstance(await anna.step(), Handled)  # its pace is known now: one is sent, and the next is begun
    assert await campaigns.pause(world.store, campaign, reason="wait", by="test")
    for _ in range(20):
        await anna.step()
    assert len(world.post.sent) == 3
    await anna.stop()
    await world.run(days=10)
    assert len(world.post.sent) == 3
    assert await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=1)
    assert counts(world) == once(10)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


class Slow(Post):
    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        await asyncio.sleep(0.002)
        return await super().send(account, email, permission=permission)


async def test_pausing_and_resuming_while_many_send_repeats_nothing_and_skips_nothing(world: World) -> None:
    world.post = Slow()
    names = ("anna", "bert", "carl")
    await world.add_accounts(*names, limits=QUICK)
    await world.add_people(150)
    campaign = await world.draft()
    await world.launch(campaign)
    runners = [await runner_of(world, name) for name in names]
    is_over = False

    async def keep_on(runner: Runner) -> None:
        while not is_over:
            if isinstance(await runner.step(), Rested):
                await asyncio.sleep(0.005)

    tasks = [asyncio.create_task(keep_on(runner)) for runner in runners]
    for _ in range(12):
        await asyncio.sleep(0.03)
        assert await campaigns.pause(world.store, campaign, reason=None, by="test")
        before = len(world.post.sent)
        await asyncio.sleep(0.03)
        assert len(world.post.sent) - before <= len(names)
        assert await campaigns.resume(world.store, campaign, by="test")
    async with asyncio.timeout(60):
        while len(world.post.sent) < 150:
            await look(world)
    is_over = True
    await asyncio.gather(*tasks)
    for runner in runners:
        await runner.stop()
    await look(world)
    assert counts(world) == once(150)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_sequence_paused_between_steps_continues_where_it_was(world: World) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(6)
    campaign = await world.draft(delays=(DAY, DAY))
    await world.launch(campaign)
    await world.run(days=1.5)
    assert len(world.post.sent) == 12
    await campaigns.pause(world.store, campaign, reason=None, by="test")
    await world.run(days=9)
    world.clock.advance(9 * DAY)
    assert len(world.post.sent) == 12
    await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=3)
    assert counts(world) == once(6, steps=3)
    for n in range(6):
        assert subjects(world, f"p{n}@there.test") == ["1", "2", "3"]
        assert len({each.account for each in world.post.of(f"p{n}@there.test")}) == 1
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_pause_outside_the_window_and_with_a_used_quota_ends_within_them(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(30)
    await world.set_schedule(office_hours(quota=Quota(daily_max=10)))
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=0.2)
    assert len(world.post.sent) == 10
    await campaigns.pause(world.store, campaign, reason=None, by="test")
    world.clock.move_to(MONDAY + 12 * HOUR)
    await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=3)
    assert list(world.post.by_day(BERLIN).values()) == [10, 10, 10]
    assert all(8 <= each.at.hour < 16 for each in world.post.sent)


# ── cancel ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_large_queue_is_cleared_in_pieces_and_nothing_of_it_is_sent(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(6000)
    campaign = await world.draft(delays=(DAY,))
    assert (await world.launch(campaign)).scheduled == 12_000
    assert await campaigns.cancel(world.store, campaign, reason="no more", by="test")
    assert await campaigns.to_clear(world.store) == [campaign.id]
    anna = await runner_of(world, "anna")
    assert isinstance(await anna.step(), Rested)
    await anna.stop()
    watch = CampaignWatch(world.store, log=lambda words: None)
    looks = 1
    while await watch.step():
        looks += 1
    assert 2 <= looks <= 4
    assert await world.store.value("SELECT count(*) FROM fairpost.queue") == 0
    rows = await world.store.fetch("SELECT state::text, reason, count(*) AS n FROM fairpost.emails GROUP BY 1, 2")
    assert [tuple(row) for row in rows] == [("cancelled", "email.campaign_cancelled", 12_000)]
    assert (await world.again(campaign)).finished_at == MONDAY
    await world.run(days=30)
    assert world.post.sent == []
    assert (await world.again(campaign)).state is CampaignState.CANCELLED


async def test_an_email_in_flight_when_its_campaign_is_cancelled_has_no_follow_up(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(5)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.step()  # its pace is known now: two are sent, the third is begun, two are claimed
    assert await campaigns.cancel(world.store, campaign, reason=None, by="test")
    await look(world)
    for _ in range(10):
        await anna.step()
    await anna.stop()
    await world.run(days=10)
    assert len(world.post.sent) == 3
    assert Counter((await states(world)).values()) == {"sent": 3, "cancelled": 7}
    assert (await world.again(campaign)).finished_at is not None


async def test_the_watch_does_not_run_hot_for_what_is_in_somebodys_hands(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(4)
    campaign = await world.draft()
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    await anna.step()
    await campaigns.cancel(world.store, campaign, reason=None, by="test")
    watch = CampaignWatch(world.store, log=lambda words: None)
    await watch.step()
    assert await watch.step() is False, "nothing can be done before the account has finished: check again later"
    await anna.step()
    await anna.stop()
    await look(world)
    assert (await world.again(campaign)).finished_at is not None


@pytest.mark.parametrize("decision", ["sent", "failed", "resend"])
async def test_a_doubt_in_a_cancelled_campaign_is_settled_and_nothing_revives(world: World, decision: str) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    world.post.answers[P0] = [LOST]
    await world.run(days=1)
    assert await states(world) == {(P0, 1): "in_doubt", (P0, 2): "waiting"}
    # completed by itself in the meantime, because nothing could proceed
    assert (await world.again(campaign)).state is CampaignState.COMPLETED
    await world.store.value("UPDATE fairpost.campaigns SET state = 'running', reason = NULL, reason_params = NULL")
    assert await campaigns.cancel(world.store, campaign, reason="no more", by="test")
    await look(world)
    assert await states(world) == {(P0, 1): "in_doubt", (P0, 2): "cancelled"}
    await world.store.resolve(await email_of(world, P0), decision, by="test")  # type: ignore[arg-type]
    await world.run(days=5)
    assert world.post.sent == []
    assert (await states(world))[P0, 1] in ("sent", "failed", "cancelled"), "nothing waits forever"
    assert (await world.again(campaign)).state is CampaignState.CANCELLED


async def test_an_email_of_a_cancelled_campaign_cannot_be_retried(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    campaign = await world.draft()
    await world.launch(campaign)
    world.post.answers = {P0: [BAD_MESSAGE], P1: [BAD_MESSAGE]}
    anna = await runner_of(world, "anna")
    await anna.step()  # one fails
    await anna.stop()
    world.post.answers.clear()
    await campaigns.cancel(world.store, campaign, reason=None, by="test")
    await look(world)
    ids = [await email_of(world, P0), await email_of(world, P1)]
    await campaigns.retry(world.store, ids)
    await world.run(days=2)
    assert world.post.sent == []
    assert "waiting" not in (await states(world)).values()


async def test_held_mail_of_a_completed_campaign_can_be_cancelled(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    await pause_person(world, P0)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=1)
    held = await world.again(campaign)
    assert (held.state, held.reason is not None) == (CampaignState.COMPLETED, True)
    assert await campaigns.cancel(world.store, campaign, reason=None, by="test")
    await look(world)
    await pause_person(world, P0, is_paused=False)
    await world.run(days=1)
    assert counts(world) == {P1: 1}


# ── failed ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_campaign_without_an_account_fails_says_why_and_continues_when_there_is_one(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(8)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    assert (await world.store.remove_account("anna")).removed
    world.accounts.clear()
    await look(world)
    failed = await world.again(campaign)
    assert failed.state is CampaignState.FAILED
    assert failed.reason == Reason("campaign.pool_emptied", pool="default")
    await world.add_accounts("bert")
    async with asyncio.timeout(120):
        await world.run(days=1)  # workers do not keep trying e-mails that they may not begin
    assert world.post.sent == []
    assert await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=3)
    assert counts(world) == once(8, steps=2)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_failed_campaign_is_not_worked_on_in_vain_by_an_account_that_comes(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(3)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.store.remove_account("anna")
    world.accounts.clear()
    await look(world)
    await world.add_accounts("bert", limits=QUICK)
    bert = await runner_of(world, "bert")
    outcomes = [await bert.step() for _ in range(10)]
    await bert.stop()
    assert sum(isinstance(each, Handled) for each in outcomes) <= 3, (
        "the same e-mail would be claimed and given back forever"
    )
    assert campaign is not None


async def test_mail_pinned_to_a_suspended_account_waits_and_fails_after_a_week(world: World) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(20)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    await world.run(days=0.5)
    of_anna = {each.to for each in world.post.sent if each.account == "anna"}
    assert len(of_anna) > 3
    world.post.answers = {to: [REVOKED] for to in of_anna}
    await world.run(days=3)
    assert (await world.store.account_named("anna")).status is AccountStatus.SUSPENDED
    found = await states(world)
    assert {found[to, 2] for to in once(20) if to not in of_anna} == {"sent"}
    assert {found[to, 2] for to in of_anna} == {"waiting"}
    await world.give_up_pinned()
    assert {(await states(world))[to, 2] for to in of_anna} == {"waiting"}, "less than a week has passed"
    world.clock.advance(7 * DAY)
    await world.give_up_pinned()
    assert {(await states(world))[to, 2] for to in of_anna} == {"failed"}
    await look(world)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


# ── in doubt ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_first_step_in_doubt_is_named_and_its_follow_up_is_sent_once_it_is_resolved_as_sent(
    world: World,
) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    world.post.answers[P1] = [LOST]
    await world.run(days=5)
    held = await world.again(campaign)
    assert held.state is CampaignState.COMPLETED
    assert held.reason is not None
    assert held.reason.code == "campaign.emails_held"
    assert (await campaigns.progress(world.store, campaign)).by_step == {
        1: {"sent": 2, "in_doubt": 1},
        2: {"sent": 2, "to follow": 1},
    }
    world.clock.advance(10 * DAY)
    assert await world.store.resolve(await email_of(world, P1), "sent", by="test") == "sent"
    await look(world)
    assert (await world.again(campaign)).state is CampaignState.RUNNING
    resolved_at = world.clock.now
    await world.run(days=5)
    assert subjects(world, P1) == ["2"]
    assert world.post.of(P1)[0].at >= resolved_at + DAY
    over = await world.again(campaign)
    assert (over.state, over.reason) == (CampaignState.COMPLETED, None)


@pytest.mark.parametrize("decision", ["failed", "resend"])
async def test_a_first_step_in_doubt_that_was_not_sent(world: World, decision: str) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    world.post.answers[P0] = [LOST]
    await world.run(days=5)
    await world.store.resolve(await email_of(world, P0), decision, by="test")  # type: ignore[arg-type]
    await world.run(days=5)
    assert subjects(world, P0) == ([] if decision == "failed" else ["1", "2"])
    over = await world.again(campaign)
    assert (over.state, over.reason) == (CampaignState.COMPLETED, None)


# ── retry ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [BAD_MESSAGE, NO_SUCH_USER])
async def test_a_retry_revives_those_that_were_cancelled_because_of_it(world: World, answer: Report) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    campaign = await world.draft(delays=(DAY, DAY))
    await world.launch(campaign)
    world.post.answers[P0] = [answer]
    await world.run(days=10)
    assert await states(world, P0) == {(P0, 1): "failed" if answer is BAD_MESSAGE else "bounced", (P0, 2): "cancelled", (P0, 3): "cancelled"}  # fmt: skip
    assert (await world.again(campaign)).state is CampaignState.COMPLETED
    await world.store.value("SELECT fairpost.unsuppress($1, $2)", WORKSPACE, P0)
    assert await campaigns.retry(world.store, [await email_of(world, P0)]) == 1
    assert (await world.again(campaign)).state is CampaignState.RUNNING
    await world.run(days=10)
    assert subjects(world, P0) == ["1", "2", "3"]
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_retry_does_not_revive_what_was_cancelled_for_another_reason(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    await world.launch(await world.draft(delays=(DAY, DAY)))
    await world.store.cancel(await email_of(world, P0, 3), reason="this one not")
    world.post.answers[P0] = [BAD_MESSAGE]
    await world.run(days=1)
    await campaigns.retry(world.store, [await email_of(world, P0)])
    await world.run(days=10)
    assert subjects(world, P0) == ["1", "2"]
    assert (await states(world))[P0, 3] == "cancelled"


async def test_a_follow_up_that_is_revived_after_its_first_step_was_sent_keeps_its_account_and_its_delay(
    world: World,
) -> None:
    """Stopped before the first was sent; revived when it was sent in the meantime."""
    await world.add_accounts("anna", "bert", "carl", limits=QUICK)
    await world.add_people(9)
    campaign = await world.draft(delays=(3 * DAY,))
    await world.launch(campaign)
    ids = [await email_of(world, f"p{n}@there.test", 2) for n in range(9)]
    for id_ in ids:
        await world.store.cancel(id_, reason="not yet")
    await world.run(days=0.5)
    assert len(world.post.sent) == 9
    world.clock.move_to(MONDAY + DAY)
    assert await campaigns.retry(world.store, ids) == 9
    await world.run(days=5)
    assert counts(world) == once(9, steps=2)
    for n in range(9):
        first, second = world.post.of(f"p{n}@there.test")
        assert second.account == first.account
        assert second.at - first.at >= 3 * DAY


async def test_a_follow_up_whose_account_was_removed_is_not_left_waiting_for_it(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    await world.launch(await world.draft(delays=(DAY,)))
    await world.run(days=0.5)
    world.post.answers[P0] = [BAD_MESSAGE]
    await world.run(days=2)
    assert (await states(world))[P0, 2] == "failed"
    assert (await world.store.remove_account("anna")).removed
    world.accounts.clear()
    await world.add_accounts("bert")
    await campaigns.retry(world.store, [await email_of(world, P0, 2)])
    await world.run(days=3)
    assert (await states(world))[P0, 2] != "waiting", "it will never be sent, but no state says so"


# ── people who get no more mail ───────────────────────────────────────────────────────────────────────────


WAYS = ("stop", "bounce", "remove", "everywhere", "unsubscribe", "complaint", "manual")


async def stop(world: World, campaign: Campaign, way: str, whom: str) -> None:
    match way:
        case "stop":
            assert await campaigns.stop(world.store, (await person(world, whom)).id, campaign, reason="replied")
        case "bounce":
            world.post.answers[whom] = [NO_SUCH_USER]
        case "remove":
            await prospects.remove(world.store, [await person(world, whom)])
        case "everywhere":
            await world.store.value(
                "SELECT fairpost.suppress('*', $1, 'asked', $2, 'unsubscribe')", whom, clock.stated()
            )
        case _:
            await world.store.value(
                "SELECT fairpost.suppress($1, $2, 'asked', $3, $4)", WORKSPACE, whom, clock.stated(), way
            )


@pytest.mark.parametrize("sent_before", [0, 1, 2])
async def test_a_stopped_prospect_gets_no_more_steps(world: World, sent_before: int) -> None:
    """Each stops in a different way, and one not at all."""
    await world.add_accounts("anna")
    await world.add_people(len(WAYS) + 1)
    stopped = {way: f"p{n}@there.test" for n, way in enumerate(WAYS)}
    campaign = await world.draft(delays=(DAY, DAY), starts_at=MONDAY + HOUR)
    await world.launch(campaign)
    await world.run(days=sent_before - 0.5 if sent_before else 0)
    assert {way: len(subjects(world, who)) for way, who in stopped.items()} == dict.fromkeys(WAYS, sent_before)
    for way, whom in stopped.items():
        await stop(world, campaign, way, whom)
    await world.run(days=10)
    assert {way: len(subjects(world, who)) for way, who in stopped.items()} == dict.fromkeys(WAYS, sent_before)
    assert subjects(world, f"p{len(WAYS)}@there.test") == ["1", "2", "3"]
    assert "waiting" not in (await states(world)).values()
    over = await world.again(campaign)
    assert (over.state, over.reason) == (CampaignState.COMPLETED, None)


@pytest.mark.parametrize("answer", [LATER, LOST])
async def test_an_email_in_progress_for_a_stopped_prospect_is_not_retried(world: World, answer: Report) -> None:
    """The e-mail being sent is not recalled; but if it fails, it is not retried."""
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    prospect = await person(world, P0)

    class Meanwhile(Post):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            if not self.answers:
                return await super().send(account, email, permission=permission)
            await campaigns.stop(world.store, prospect.id, campaign, reason="replied")
            return self.answers.pop(P0)[0]

    post = Meanwhile(answers={P0: [answer]})
    for id_ in world.accounts:
        world.accounts[id_] = post
    await world.run(days=0.5)
    if answer is LOST:
        await world.store.resolve(await email_of(world, P0), "resend", by="test")
    await world.run(days=5)
    assert post.sent == []


async def test_a_retry_does_not_revive_a_stopped_prospect(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    world.post.answers[P0] = [BAD_MESSAGE]
    await world.run(days=0.5)
    await campaigns.stop(world.store, (await person(world, P0)).id, campaign, reason="replied")
    await campaigns.retry(world.store, [await email_of(world, P0)])
    await world.run(days=5)
    assert world.post.sent == []


async def test_a_prospect_stopped_before_planning_is_not_planned(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    campaign = await world.draft()
    await launch(world.store, campaign, skip_incomplete=False, by="test", now=world.clock.now)
    await campaigns.plan_batch(world.store, campaign.id, most=1)
    await campaigns.stop(world.store, (await person(world, P2)).id, campaign, reason="replied")
    await world.run(days=1)
    assert counts(world) == {P0: 1, P1: 1}


async def test_stopping_in_one_campaign_leaves_the_other_alone(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    one, two = await world.draft("one", delays=(DAY,)), await world.draft("two", delays=(DAY,))
    await world.launch(one)
    await world.launch(two)
    await world.run(days=0.5)
    await campaigns.stop(world.store, (await person(world, P0)).id, one, reason="replied")
    await world.run(days=5)
    assert len(world.post.sent) == 3
    assert Counter(each.email.content.text for each in world.post.sent) == {"Hello Ann0 1": 2, "Hello Ann0 2": 1}


# ── paused people ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sent_before", [0, 1, 2])
async def test_a_prospect_paused_between_two_steps_continues_with_the_next(world: World, sent_before: int) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    campaign = await world.draft(delays=(DAY, DAY), starts_at=MONDAY + HOUR)
    await world.launch(campaign)
    await world.run(days=sent_before - 0.5 if sent_before else 0)
    await pause_person(world, P0)
    await pause_person(world, P0)
    world.clock.advance(HOUR)
    await world.run(days=10)
    assert len(subjects(world, P0)) == sent_before
    assert subjects(world, P1) == ["1", "2", "3"]
    held = await world.again(campaign)
    assert (held.state, held.reason is not None) == (CampaignState.COMPLETED, True)
    await pause_person(world, P0, is_paused=False)
    await pause_person(world, P0, is_paused=False)
    await world.run(days=10)
    assert subjects(world, P0) == ["1", "2", "3"]
    first, second, third = world.post.of(P0)
    assert second.at - first.at >= DAY
    assert third.at - second.at >= DAY
    over = await world.again(campaign)
    assert (over.state, over.reason) == (CampaignState.COMPLETED, None)


async def test_a_claimed_email_is_held_if_its_prospect_is_paused(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(5)
    campaign = await world.draft()
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.step()  # its pace is known now: two are sent, one is begun, the others are claimed
    prospect = await in_hand(world)
    await pause_person(world, prospect)
    for _ in range(10):
        await anna.step()
    await anna.stop()
    assert {each.to for each in world.post.sent} == set(once(5)) - {prospect}
    await pause_person(world, prospect, is_paused=False)
    await world.run(days=1)
    assert counts(world) == once(5)


async def test_a_claimed_email_is_sent_if_its_prospect_is_paused_and_resumed(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(5)
    await world.launch(await world.draft())
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.step()
    prospect = await in_hand(world)
    await pause_person(world, prospect)
    await pause_person(world, prospect, is_paused=False)
    for _ in range(10):
        await anna.step()
    await anna.stop()
    assert counts(world) == once(5)


@pytest.mark.parametrize("answer", [LATER, LOST])
async def test_a_pause_during_a_send_takes_effect_after_it(world: World, answer: Report) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    await world.launch(await world.draft(delays=(DAY,)))
    world.post.answers[P0] = [answer]
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.stop()
    await pause_person(world, P0)
    if answer is LOST:
        await world.store.resolve(await email_of(world, P0), "resend", by="test")
    world.clock.advance(HOUR)
    await world.run(days=10)
    assert world.post.sent == []
    await pause_person(world, P0, is_paused=False)
    await world.run(days=10)
    assert subjects(world, P0) == ["1", "2"]


async def test_a_pause_that_ends_just_while_an_e_mail_is_put_aside_does_not_leave_it_there(
    world: World, url: str
) -> None:
    """The account has seen the pause but not yet parked the e-mail when the pause ends."""
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(1)
    campaign = await world.draft()
    await world.launch(campaign)
    account = await world.store.account_named("anna")
    lease = await world.store.take_lease(account.id, owner="test", seconds=60)
    assert lease is not None
    (email_id,) = (await world.store.claim(lease, limit=1)).ids
    await pause_person(world, P0)
    prospect = await person(world, P0)
    anna, ender = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        # the steps of admit_to_campaign, in order, with another transaction in between
        admitting = anna.transaction()
        await admitting.start()
        begun = await anna.fetchrow(
            "SELECT * FROM fairpost.begin_send($1, $2, $3, '{}', NULL, $4)",
            *(account.id, lease.epoch, email_id, clock.stated()),
        )
        assert begun["verdict"] == "parked"
        ending = asyncio.create_task(
            ender.fetchval("SELECT fairpost.pause_prospect($1, false, $2)", prospect.id, clock.stated())
        )
        await asyncio.wait({ending}, timeout=0.5)
        await admitting.commit()
        assert await ending is True
    finally:
        await anna.close()
        await ender.close()
    await world.store.drop_lease(lease)
    await world.run(days=1)
    assert counts(world) == {P0: 1}


async def test_a_claimed_email_is_not_sent_if_its_prospect_is_removed(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(4)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.step()
    prospect = await in_hand(world)
    await prospects.remove(world.store, [await person(world, prospect)])
    for _ in range(10):
        await anna.step()
    await anna.stop()
    await world.run(days=5)
    assert counts(world) == {to: 2 for to in once(4) if to != prospect}
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


# ── checks before a launch ────────────────────────────────────────────────────────────────────────────────


async def test_a_missing_field_stops_the_launch_and_is_named(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(4)
    await world.store.value('UPDATE fairpost.prospects SET fields = \'{"first_name": "  "}\' WHERE address = $1', P1)
    await world.store.value("UPDATE fairpost.prospects SET fields = '{}' WHERE address = $1", P2)
    campaign = await world.draft()
    with pytest.raises(Refusal) as refused:
        await world.launch(campaign)
    reason = refused.value.reason
    assert (reason.code, reason.params["count"]) == ("campaign.missing_fields", 2)
    assert reason.params["first"] == [
        {"address": P1, "lacks": ["first_name"]},
        {"address": P2, "lacks": ["first_name"]},
    ]
    assert (await world.again(campaign)).state is CampaignState.DRAFT
    assert await world.store.value("SELECT count(*) FROM fairpost.queue") == 0
    result = await world.launch(campaign, skip_incomplete=True)
    assert (result.scheduled, result.left_out, len(result.errors)) == (2, 2, 2)
    await world.run(days=1)
    assert counts(world) == {P0: 1, "p3@there.test": 1}
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_prospect_whose_field_was_missing_gets_it_when_scheduled_again(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    await world.store.value("UPDATE fairpost.prospects SET fields = '{}' WHERE address = $1", P1)
    campaign = await world.draft(delays=(DAY,))
    assert (await world.launch(campaign, skip_incomplete=True)).left_out == 1
    await world.store.value('UPDATE fairpost.prospects SET fields = \'{"first_name": "Eve"}\' WHERE address = $1', P1)
    await campaigns.plan_anew(world.store, campaign.id)
    again = await world.launch(await world.again(campaign))
    assert (again.scheduled, again.skipped, again.left_out) == (2, 2, 0)
    await world.run(days=3)
    assert counts(world) == once(2, steps=2)


async def test_no_recipients_no_account_and_no_steps_are_each_refused(world: World) -> None:
    await world.add_people(1)
    campaign = await world.draft()
    with pytest.raises(Refusal, match=r"campaign\.empty_pool"):
        await world.launch(campaign)
    await world.add_accounts("anna")
    await world.store.value("DELETE FROM fairpost.list_members")
    with pytest.raises(Refusal, match=r"campaign\.no_recipients"):
        await world.launch(campaign)
    await templates.put_sequence(world.store, WORKSPACE, "spring", [])
    with pytest.raises(Refusal, match=r"campaign\.no_steps"):
        await world.launch(await world.again(campaign))
    assert (await world.again(campaign)).state is CampaignState.DRAFT


async def test_words_changed_after_the_launch_are_not_sent(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    await world.launch(await world.draft(delays=(DAY,)))
    await templates.put_template(world.store, WORKSPACE, "spring-2", subject="x", text="other {{ nothing }}", html=None)
    await world.run(days=3)
    assert {each.email.content.text for each in world.post.of(P0)} == {"Hello Ann0 1", "Hello Ann0 2"}


# ── two campaigns ─────────────────────────────────────────────────────────────────────────────────────────


async def test_two_campaigns_with_one_sequence_and_overlapping_lists_send_nothing_twice(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(6, list_name="one")
    await world.add_people(10, list_name="two")
    first = await world.draft("first", sequence="same", lists=("one",), delays=(DAY,))
    second = await world.draft("second", sequence="same", lists=("two",), delays=(DAY,))
    assert (await world.launch(first)).scheduled == 12
    result = await world.launch(second)
    assert (result.scheduled, result.skipped) == (8, 12)
    await world.run(days=5)
    assert counts(world) == once(10, steps=2)
    for campaign, n in ((first, 12), (second, 8)):
        assert (await campaigns.progress(world.store, campaign)).count("sent") == n
        assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_campaign_whose_people_all_had_it_before_is_completed_at_once(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    await world.launch(await world.draft("first", sequence="same"))
    second = await world.draft("second", sequence="same")
    result = await world.launch(second)
    assert (result.scheduled, result.skipped) == (0, 3)
    await world.run(days=1)
    assert counts(world) == once(3)
    assert (await world.again(second)).state is CampaignState.COMPLETED


async def test_the_same_names_in_another_workspace_are_another_matter(world: World) -> None:
    await world.add_accounts("anna")
    for workspace in (WORKSPACE, "other"):
        await world.add_people(3, workspace=workspace)
    await world.set_schedule(Schedule(quota=Quota(daily_max=1)), "other")
    ours, theirs = await world.draft(), await world.draft(workspace="other")
    assert (await world.launch(ours)).scheduled == (await world.launch(theirs)).scheduled == 3
    await campaigns.stop(world.store, (await person(world, P0)).id, None, reason="ours alone")
    await campaigns.pause(world.store, ours, reason=None, by="test")
    await world.run(days=5)
    assert list(world.post.by_day().values()) == [1, 1, 1]
    assert {each.email.workspace for each in world.post.sent} == {"other"}


async def test_ids_of_campaigns_are_never_used_again(world: World) -> None:
    await world.add_people(1)
    one = await world.draft("one")
    assert await campaigns.remove_draft(world.store, one)
    two = await world.draft("one")
    assert two.id > one.id
    assert await campaigns.remove_draft(world.store, one) is False


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_pause_a_begin_and_an_outcome_do_not_wait_for_each_other_in_a_circle(world: World, url: str) -> None:
    """One begins, but has not charged the quota yet; one pauses, and waits for it; one refunds part of the quota, and
    begins."""
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(3)
    await world.set_schedule(Schedule(quota=Quota(daily_max=100)))
    campaign = await world.draft()
    await world.launch(campaign)
    account = await world.store.account_named("anna")
    lease = await world.store.take_lease(account.id, owner="test", seconds=60)
    assert lease is not None
    first, second, _ = (await world.store.claim(lease, limit=3)).ids
    begun = await world.store.begin(lease, first, usage=account.usage)
    assert begun.verdict == "begun"
    other, pauser, anna = [await asyncpg.connect(url) for _ in range(3)]
    try:
        beginning = other.transaction()
        await beginning.start()
        await other.execute("SELECT pg_advisory_xact_lock_shared(fairpost.pause_lock())")
        pausing = asyncio.create_task(
            pauser.fetchval("SELECT fairpost.pause_campaign($1, NULL, 'test', $2)", campaign.id, clock.stated())
        )
        await asyncio.sleep(0.2)
        settling = asyncio.create_task(
            anna.fetchrow(
                "SELECT * FROM fairpost.settle_and_begin($1, $2, $3, 'failed', '{}', $4, $6, $5)",
                *(account.id, lease.epoch, first, second, clock.stated(), '{"hour_used": 1, "day_used": 1}'),
            )
        )
        await asyncio.sleep(0.2)
        await other.execute("UPDATE fairpost.quotas SET used = used + 1")
        await beginning.commit()
        assert await pausing is True
        settled = await settling
        assert settled["settled"] == "settled"
        assert settled["verdict"] in ("held", "begun"), "after the pause, or before it"
    finally:
        for each in (other, pauser, anna):
            await each.close()
    await world.store.drop_lease(lease)


async def test_people_are_stopped_paused_and_suppressed_while_everyone_sends(world: World, url: str) -> None:
    """There are no deadlocks, and the counts agree."""
    names = ("anna", "bert", "carl")
    await world.add_accounts(*names, limits=QUICK)
    await world.add_people(60)
    both = [await world.draft(name, delays=(timedelta(), timedelta())) for name in ("one", "two")]
    for campaign in both:
        await world.launch(campaign)
    ids = [row["id"] for row in await world.store.fetch("SELECT id FROM fairpost.prospects ORDER BY id")]
    runners = [await runner_of(world, name) for name in names]
    is_over = False

    async def send(runner: Runner) -> None:
        while not is_over:
            if isinstance(await runner.step(), Rested):
                await asyncio.sleep(0.002)

    async def disturb(n: int) -> None:
        conn = await asyncpg.connect(url)
        try:
            for i, id_ in enumerate(ids[n::4]):
                address = f"p{n + 4 * i}@there.test"
                await conn.execute("SELECT fairpost.pause_prospect($1, true, $2)", id_, clock.stated())
                if n == 0:
                    sql = "SELECT fairpost.suppress($1, $2, 'x', $3, 'hard_bounce')"
                    await conn.execute(sql, WORKSPACE, address, clock.stated())
                await conn.execute("SELECT fairpost.pause_prospect($1, false, $2)", id_, clock.stated())
                if n <= 1:
                    await conn.execute("SELECT fairpost.stop_prospect($1, NULL, 'x', $2)", id_, clock.stated())
        finally:
            await conn.close()

    tasks = [asyncio.create_task(send(runner)) for runner in runners]
    watch = CampaignWatch(world.store, log=lambda words: None)
    disturbing = asyncio.gather(*(disturb(n) for n in range(4)))
    while not disturbing.done():
        await watch.step()
    await disturbing
    is_over = True
    await asyncio.gather(*tasks)
    for runner in runners:
        await runner.stop()
    await world.run(days=1)
    got = Counter((each.to, each.email.stream, each.email.content.subject) for each in world.post.sent)
    assert max(got.values()) == 1
    for n in (n for n in range(60) if n % 4 > 1):
        assert sum(got[f"p{n}@there.test", f"campaign:{c}", s] for c in ("one", "two") for s in "123") == 6
    assert await world.store.value("SELECT count(*) FROM fairpost.queue") == 0
    assert {(await world.again(each)).state for each in both} == {CampaignState.COMPLETED}
