"""A caller's transaction stays open on a row that a group reads or changes: all other accounts go on."""

import asyncpg
import pytest

from fairpost.model.campaign import Schedule
from fairpost.model.window import Quota
from tests.campaigns.clerks import Clerk, claim, clerks, step_alone, step_together
from tests.campaigns.world import DAY, WORKSPACE, World

ROUNDS = 3
ROWS = {  # as SQL on the ids of the account in the middle
    "lease": "leases WHERE account_id = {account}",
    "e-mail being sent": "queue WHERE id = {sending}",
    "claimed e-mail": "queue WHERE id = {claimed}",
    "follow-up": "queue WHERE follows = {sending}",
    "account": "accounts WHERE id = {account}",
    "prospect": "prospects WHERE id = (SELECT prospect_id FROM fairpost.queue WHERE id = {claimed})",
    "all prospects": "prospects",
    "campaign": "campaigns",
    "stream": "campaign_streams",
    "schedule": "schedules",
    "rule": "sender_rules",
    "step of the campaign": "campaign_steps",
    "content": "contents",
    "waiting e-mails": "queue WHERE waiting AND follows IS NULL",
    "tree": "node_state",
}
OF_ITS_ACCOUNT = ("lease", "e-mail being sent", "claimed e-mail", "follow-up")


async def three(world: World) -> list[Clerk]:
    await world.add_accounts("nora")
    await world.set_schedule(Schedule(quota=Quota(daily_max=100)))
    await world.add_people(40)
    await world.launch(await world.draft(delays=(DAY,)))
    stream = await world.store.value("SELECT stream FROM fairpost.campaign_streams")
    await world.store.hold(WORKSPACE, "stream", stream, reason="test")
    await world.store.release(WORKSPACE, "stream", stream)
    made = await clerks(world, "anna", "bert", "carl", each=ROUNDS + 2)
    assert await step_together(world.store, made) == [True] * 3
    return made


@pytest.mark.parametrize("row", ROWS)
async def test_a_row_that_a_caller_holds_stops_its_own_account_at_most(world: World, url: str, row: str) -> None:
    group = await three(world)
    middle = group[1]
    ids = {"account": middle.lease.account_id, "sending": middle.sending, "claimed": middle.claimed[0]}
    caller = await asyncpg.connect(url)
    try:
        async with caller.transaction():
            held = await caller.fetch(f"SELECT FROM fairpost.{ROWS[row].format(**ids)} FOR UPDATE")
            assert held
            for _ in range(ROUNDS):
                assert await step_together(world.store, group) == [True, row not in OF_ITS_ACCOUNT, True]
    finally:
        await caller.close()
    answer = await step_alone(world.store, middle)
    assert (answer.settled, answer.is_begun) == ("settled", True)
    if not middle.claimed:
        await claim(world.store, middle, 1)
    assert await step_together(world.store, [middle]) == [True]
