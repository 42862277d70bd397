"""Checks before a launch."""

import pytest

from fairpost.model.campaign import CampaignState
from fairpost.model.errors import Refusal
from fairpost.store import campaigns, templates
from tests.campaigns.world import (
    DAY,
    P0,
    P1,
    P2,
    WORKSPACE,
    World,
    counts,
    once,
)


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
    await campaigns.replan(world.store, campaign.id)
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
