"""Campaigns through accounts that share their claims and commits: exact quotas, follow-ups, and full concurrency."""

import asyncio
from collections import Counter
from datetime import timedelta

import asyncpg

from fairpost.engine.results import Rested
from fairpost.engine.runner import Runner
from fairpost.engine.together import Together
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.model.account import Account, Limits
from fairpost.model.campaign import Schedule
from fairpost.model.email import Outgoing
from fairpost.model.report import Report
from fairpost.model.window import Quota
from fairpost.store import campaigns
from fairpost.transports.port import Permission
from tests.campaigns.world import Post, World
from tests.simulation.world import broken_promises

QUICK = Limits()
DAY = timedelta(days=1)


class Slow(Post):
    """Makes accounts take their steps at the same time."""

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        await asyncio.sleep(0.001)
        return await super().send(account, email, permission=permission)


class Shared:
    """Accounts in several processes; those of one process share claims and commits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.runners: list[Runner] = []
        self.is_over = False

    async def start(self, *, processes: int, accounts: int) -> None:
        self.world.post = Slow()
        for process in range(processes):
            together = Together.over(self.world.store)
            for nth in range(accounts):
                name = f"a{process}{nth}"
                await self.world.add_accounts(name, limits=QUICK)
                account = await self.world.store.account_named(name)
                runner = await Runner.start(
                    *(self.world.store, self.world.post, account.id),
                    owner=f"p{process}",
                    together=together,
                    lease_s=30 * DAY.total_seconds(),
                )
                assert runner is not None
                self.runners.append(runner)

    async def until_idle(self) -> None:
        await asyncio.gather(*(self._keep_on(runner) for runner in self.runners))

    async def _keep_on(self, runner: Runner) -> None:
        rests = 0
        while rests < 3 and not self.is_over:
            rests = rests + 1 if isinstance(await runner.step(), Rested) else 0
            if rests:
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        for runner in self.runners:
            await runner.stop()


async def test_a_quota_is_used_to_the_last_e_mail_and_not_beyond(world: World) -> None:
    await world.set_schedule(Schedule(quota=Quota(daily_max=25)))
    shared = Shared(world)
    await shared.start(processes=3, accounts=4)
    await world.add_people(60)
    await world.launch(await world.draft())
    await shared.until_idle()
    assert len(world.post.sent) == 25
    assert await world.store.value("SELECT sum(used) FROM fairpost.quotas") == 25
    world.clock.advance(DAY)
    await CampaignWatch(world.store, log=lambda _: None).step()
    await shared.until_idle()
    await shared.stop()
    assert len(world.post.sent) == 50
    assert max(Counter(each.to for each in world.post.sent).values()) == 1


async def test_follow_ups_go_out_once_after_their_delay_and_through_the_same_account(world: World) -> None:
    shared = Shared(world)
    await shared.start(processes=2, accounts=3)
    await world.add_people(20)
    await world.launch(await world.draft(delays=(DAY,)))
    await shared.until_idle()
    assert len(world.post.sent) == 20
    world.clock.advance(DAY)
    await shared.until_idle()
    await shared.stop()
    accounts: dict[str, set[str]] = {}
    for each in world.post.sent:
        accounts.setdefault(each.to, set()).add(each.account)
    assert Counter(each.to for each in world.post.sent) == Counter({f"p{n}@there.test": 2 for n in range(20)})
    assert all(len(names) == 1 for names in accounts.values())


async def test_groups_cancels_and_pauses_at_the_same_time_neither_deadlock_nor_repeat(world: World, url: str) -> None:
    await world.set_schedule(Schedule(quota=Quota(daily_max=1000)))
    shared = Shared(world)
    await shared.start(processes=2, accounts=4)
    await world.add_people(120)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    cancelled: set[int] = set()

    async def cancel_many() -> None:
        """Locks in one transaction, in an order that no other transaction uses."""
        conn = await asyncpg.connect(url)
        try:
            while not shared.is_over:
                rows = await conn.fetch("SELECT id FROM fairpost.queue ORDER BY random() LIMIT 5")
                async with conn.transaction():
                    for row in rows:
                        if await conn.fetchval("SELECT fairpost.cancel($1)", row["id"]) == "cancelled":
                            cancelled.add(row["id"])
                await asyncio.sleep(0.01)
        finally:
            await conn.close()

    async def pause_now_and_then() -> None:
        while not shared.is_over:
            await campaigns.pause(world.store, campaign, reason=None, by="test")
            await asyncio.sleep(0.005)
            await campaigns.resume(world.store, campaign, by="test")
            await asyncio.sleep(0.02)

    others = [asyncio.create_task(cancel_many()), asyncio.create_task(pause_now_and_then())]
    before = await world.store.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    async with asyncio.timeout(60):
        while await world.store.value("SELECT count(*) FROM fairpost.queue WHERE due_at < 'infinity'"):
            await shared.until_idle()
    shared.is_over = True
    await asyncio.gather(*others)
    await shared.stop()
    sent = [each.email.id for each in world.post.sent]
    assert len(sent) == len(set(sent))
    assert not cancelled & set(sent)
    assert (
        await world.store.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before
    )
    assert await broken_promises(world.store) == {}
