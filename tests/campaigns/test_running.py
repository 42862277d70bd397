"""Campaigns from launch to end, with the real engine's workers on a manual clock."""

from datetime import timedelta

from fairpost.model.campaign import CampaignState
from fairpost.store import campaigns
from tests.campaigns.world import MONDAY, World


async def test_a_campaign_goes_out_and_is_completed(world: World) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(20)
    campaign = await world.draft()
    result = await world.launch(campaign)
    assert (result.scheduled, result.skipped, result.errors, result.is_done) == (20, 0, [], True)
    await world.run(days=1)
    assert len({each.to for each in world.post.sent}) == len(world.post.sent) == 20
    assert world.post.of("p3@there.test")[0].email.content.text == "Hello Ann3 1"
    campaign = await world.again(campaign)
    assert (campaign.state, campaign.reason) == (CampaignState.COMPLETED, None)
    assert (await campaigns.progress(world.store, campaign)).by_step == {1: {"sent": 20}}


async def test_steps_follow_each_other_from_the_same_account_into_the_same_thread(world: World) -> None:
    await world.add_accounts("anna", "bert", "carl")
    await world.add_people(30)
    campaign = await world.draft(delays=(timedelta(days=3), timedelta(days=4)))
    result = await world.launch(campaign)
    assert result.scheduled == 90
    await world.run(days=30)
    assert len(world.post.sent) == 90
    for n in range(30):
        first, second, third = world.post.of(f"p{n}@there.test")
        assert [each.email.content.subject for each in (first, second, third)] == ["1", "2", "3"]
        assert first.account == second.account == third.account
        assert second.at - first.at >= timedelta(days=3)
        assert third.at - second.at >= timedelta(days=4)
        assert second.email.follows is not None
        assert third.email.follows is not None
        assert second.email.follows.message_id == f"<{first.email.id}@post.test>"
        assert third.email.follows.references == (f"<{first.email.id}@post.test>",)
        assert third.email.follows.thread_id == f"t{first.email.id}"
    assert len({each.account for each in world.post.sent}) == 3
    assert (await world.again(campaign)).state is CampaignState.COMPLETED
    assert max(each.at for each in world.post.sent) < MONDAY + timedelta(days=7, minutes=5)
