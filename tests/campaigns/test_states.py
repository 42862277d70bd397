"""Every transition of a campaign, repeated transitions, and campaigns that fail."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from fairpost.campaigns.launching import launch
from fairpost.engine.results import Handled
from fairpost.model.account import AccountStatus
from fairpost.model.campaign import Campaign, CampaignState, Schedule
from fairpost.model.reason import Reason
from fairpost.model.window import Quota
from fairpost.store import campaigns
from tests.campaigns.answers import REVOKED
from tests.campaigns.world import (
    DAY,
    MONDAY,
    P0,
    QUICK,
    WORKSPACE,
    World,
    counts,
    look,
    office_hours,
    once,
    person,
    runner_of,
    states,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


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
