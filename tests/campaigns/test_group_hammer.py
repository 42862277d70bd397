"""Groups of accounts while everything that locks their e-mails, people, campaigns, quotas and leases goes on beside them."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar

import asyncpg
import pytest

from fairpost.model.account import Limits, Usage
from fairpost.model.campaign import Campaign, Schedule
from fairpost.model.window import Quota
from fairpost.policy.limits import charge
from fairpost.store import campaigns, pauses, privacy
from fairpost.store.store import Store
from fairpost.system import clock
from tests.campaigns.answers import LATER, NO_SUCH_USER
from tests.campaigns.test_together import Shared
from tests.campaigns.world import BERLIN, DAY, WORKSPACE, World, look, office_hours
from tests.simulation.world import broken_promises
from tests.thorough import times

SEED = int(os.environ.get("FAIRPOST_SEED", "7"))
TURNS = times(10)
PEOPLE = times(60)
WORKSPACES = (WORKSPACE, "bravo")
SCHEDULES = (
    Schedule(quota=Quota(daily_max=1_000)),
    Schedule(),
    office_hours(BERLIN, quota=Quota(daily_max=40)),
    Schedule(quota=Quota(daily_max=2_000)),
)
SENDING_TWICE = "SELECT account_id FROM fairpost.queue WHERE state = 'sending' GROUP BY 1 HAVING count(*) > 1"
SLOW = """
DO $do$ BEGIN
    CREATE FUNCTION public.linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.002); RETURN NULL; END $$;
    CREATE TRIGGER linger AFTER UPDATE ON fairpost.quotas FOR EACH STATEMENT EXECUTE FUNCTION public.linger();
    CREATE TRIGGER linger AFTER UPDATE OR DELETE ON fairpost.queue FOR EACH STATEMENT EXECUTE FUNCTION public.linger();
END $do$"""  # holds locks for longer, so that transactions meet
MISCOUNTED = """
SELECT q.workspace, q.used, fairpost.sent_between(q.workspace, q.starts_at, q.ends_at) AS begun FROM fairpost.quotas q
WHERE q.used <> fairpost.sent_between(q.workspace, q.starts_at, q.ends_at)"""


class Watched(Store):
    """Remembers deadlocks also where a group of steps would be taken one by one after them."""

    deadlocks: ClassVar[list[str]] = []

    async def row(self, sql: str, *args: Any) -> Any:
        try:
            return await super().row(sql, *args)
        except asyncpg.DeadlockDetectedError as error:
            self.deadlocks.append(str(error.detail))
            raise


class Hammer:
    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.store
        self.dice = random.Random(SEED)
        self.shared = Shared(world)
        self.campaigns: list[Campaign] = []
        self.cancelled: set[int] = set()
        self.turn = 0

    async def set_up(self) -> None:
        await self.shared.start(processes=2, accounts=4)
        await self.world.add_accounts("dead0", "dead1", limits=Limits())
        for workspace in WORKSPACES:
            await self.world.set_schedule(SCHEDULES[0], workspace)
            await self.world.add_people(PEOPLE, workspace=workspace)
            for name in ("spring", "autumn"):
                campaign = await self.world.draft(name, delays=(DAY,), workspace=workspace)
                await self.world.launch(campaign)
                self.campaigns.append(campaign)
        for n in range(0, PEOPLE, 2):  # each account mixes workspaces, so a refund and a charge often meet
            self.world.post.answers[f"p{n}@there.test"] = [LATER, NO_SUCH_USER]
        await self.store.value(SLOW)

    async def run(self, *others: Callable[[], Awaitable[None]]) -> None:
        sending = asyncio.create_task(self._send())
        try:
            await asyncio.gather(*map(self._repeat, others))
        finally:
            self.shared.is_over = True
            await sending

    async def _send(self) -> None:
        while not self.shared.is_over:
            await self.shared.until_idle()

    async def _repeat(self, act: Callable[[], Awaitable[None]]) -> None:
        for self.turn in range(TURNS):
            await act()
            await asyncio.sleep(0)

    # ── participants ──────────────────────────────────────────────────────────────────────────────────────

    async def cancel_several(self) -> None:
        """The next e-mails of several accounts, in one transaction, in an order that no other transaction uses, and each
        of a different prospect."""
        sql = """SELECT id FROM (
                     SELECT DISTINCT ON (n.prospect_id) n.id FROM (
                         SELECT DISTINCT ON (q.account_id) q.id, q.prospect_id FROM fairpost.queue q
                         WHERE q.workspace = $1 AND q.state = 'claimed' ORDER BY q.account_id, q.id) n
                     ORDER BY n.prospect_id) p ORDER BY random() LIMIT 4"""
        workspace = self.dice.choice(WORKSPACES)
        async with self.store.together() as one:
            for row in await one.fetch(sql, workspace):
                if await one.cancel(row["id"]) == "cancelled":
                    self.cancelled.add(row["id"])

    async def remove_a_prospect(self) -> None:
        sql = "SELECT id FROM fairpost.prospects ORDER BY random() LIMIT 1"
        await self.store.value("SELECT fairpost.remove_prospects(ARRAY[$1::bigint])", await self.store.value(sql))

    async def erase_a_person(self) -> None:
        address = f"p{self.dice.randrange(PEOPLE)}@there.test"
        await privacy.erase(self.store, address, workspace=None)

    async def end_a_campaign(self) -> None:
        *_, last = self.campaigns
        await campaigns.cancel(self.store, last, reason=None, by="test")
        await campaigns.clear(self.store, last.id, most=3)

    async def pause_a_campaign(self) -> None:
        campaign = self.campaigns[self.dice.randrange(len(self.campaigns) - 1)]
        await campaigns.pause(self.store, campaign, reason=None, by="test")
        await campaigns.resume(self.store, campaign, by="test")

    async def hold_a_workspace(self) -> None:
        workspace = self.dice.choice(WORKSPACES)
        await self.store.hold(workspace, "workspace", reason="test")
        await self.store.release(workspace, "workspace")

    async def pause_everything(self) -> None:
        await pauses.pause_everything(self.store, reason="test", by="test", until=None)
        await pauses.resume_everything(self.store, by="test")

    async def change_a_schedule(self) -> None:
        await self.world.set_schedule(self.dice.choice(SCHEDULES), self.dice.choice(WORKSPACES))

    async def look_after_campaigns(self) -> None:
        await look(self.world)

    async def die(self) -> None:
        """An engine begins an e-mail and is not heard of again, and another one reaps its lease."""
        account = await self.store.account_named(self.dice.choice(("dead0", "dead1")))
        lease = await self.store.take_lease(account.id, owner="dead", seconds=DAY.total_seconds())
        assert lease is not None
        claim = await self.store.claim(lease, limit=3)
        if claim.ids:
            usage = charge(Limits(), Usage(), now=clock.now())
            await self.store.begin(lease, claim.ids[0], usage=usage, step=lease.step + 1)
        over = "UPDATE fairpost.leases SET until = $2 WHERE account_id = $1"
        await self.store.value(over, account.id, clock.now())
        await self.store.reap_leases()

    async def look_for_a_second_begin(self) -> None:
        assert await self.store.fetch(SENDING_TWICE) == []


BESIDE = {
    "e-mails and people": (
        Hammer.cancel_several,
        Hammer.remove_a_prospect,
        Hammer.erase_a_person,
        Hammer.die,
    ),
    "quotas and calendars": (Hammer.change_a_schedule, Hammer.change_a_schedule, Hammer.die),
    "refusals alone": (Hammer.look_after_campaigns,),
    "everything": (
        Hammer.cancel_several,
        Hammer.remove_a_prospect,
        Hammer.erase_a_person,
        Hammer.end_a_campaign,
        Hammer.pause_a_campaign,
        Hammer.hold_a_workspace,
        Hammer.pause_everything,
        Hammer.change_a_schedule,
        Hammer.change_a_schedule,
        Hammer.look_after_campaigns,
        Hammer.die,
    ),
}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("beside", BESIDE)
async def test_groups_beside_what_locks_the_same_rows_neither_deadlock_nor_break_a_promise(
    world: World, url: str, beside: str
) -> None:
    Watched.deadlocks.clear()
    async with Watched.open(url, connections_max=20) as store:
        hammer = Hammer(World(store, world.clock))
        await hammer.set_up()
        await hammer.run(*(partial(each, hammer) for each in (*BESIDE[beside], Hammer.look_for_a_second_begin)))
        hammer.shared.is_over = False
        await hammer.shared.until_idle()
        await hammer.shared.stop()
    assert Watched.deadlocks == []
    sent = [each.email.id for each in hammer.world.post.sent]
    assert len(sent) == len(set(sent)) > 0
    assert not hammer.cancelled & set(sent)
    assert [dict(row) for row in await world.store.fetch(MISCOUNTED)] == []
    assert await broken_promises(world.store) == {}
