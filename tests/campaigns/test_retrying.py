"""E-mails of campaigns that are in doubt or retried, and their follow-ups."""

import pytest

from fairpost.model.campaign import CampaignState
from fairpost.model.report import Report
from fairpost.store import campaigns
from tests.campaigns.answers import BAD_MESSAGE, LOST, NO_SUCH_USER
from tests.campaigns.world import (
    DAY,
    MONDAY,
    P0,
    P1,
    QUICK,
    WORKSPACE,
    World,
    counts,
    email_of,
    look,
    once,
    states,
    subjects,
)

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
        2: {"sent": 2, "to_follow": 1},
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
