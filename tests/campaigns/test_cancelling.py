"""Campaigns that are cancelled, with e-mails queued, in flight, in doubt and held."""

from collections import Counter

import pytest

from fairpost.engine.results import Rested
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.model.campaign import CampaignState
from fairpost.store import campaigns
from tests.campaigns.answers import BAD_MESSAGE, LOST
from tests.campaigns.world import (
    DAY,
    MONDAY,
    P0,
    P1,
    QUICK,
    World,
    counts,
    email_of,
    look,
    pause_person,
    runner_of,
    states,
)


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
