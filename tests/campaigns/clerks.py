"""Accounts with leases and claimed e-mails of campaigns, whose steps a test takes one by one."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.step import Begins, Settles, StepAnswer, StepRequest
from fairpost.model.verdict import Sent, Verdict
from fairpost.policy.limits import charge
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from fairpost.system import clock
from tests.campaigns.world import DAY, QUICK, World

if TYPE_CHECKING:
    import asyncpg

OK = Report(reached=Reached.REPLIED, reply=Reply(250, "2.0.0 Ok"))


@dataclass
class Clerk:
    """An account, as its worker knows it."""

    name: str
    lease: Lease
    usage: Usage = field(default_factory=Usage)
    sending: EmailId | None = None
    claimed: list[EmailId] = field(default_factory=list)

    def request(self, *, verdict: Verdict | None = None, begins: bool = True) -> StepRequest:
        settles = None
        if self.sending is not None:
            settles = Settles(email_id=self.sending, verdict=verdict or Sent(), report=OK)
        begun = None
        if begins and self.claimed:
            usage = charge(Limits(), self.usage, now=clock.now())
            begun = Begins(email_id=self.claimed[0], usage=usage)
        return StepRequest(lease=self.lease, number=self.lease.step + 1, settles=settles, begins=begun)

    def learn(self, request: StepRequest, answer: StepAnswer) -> None:
        if answer.is_taken:
            self.lease = replace(self.lease, step=request.number)
        if answer.settled == "settled":
            self.sending = None
        if request.begins is not None and answer.begun is not None:
            self.claimed.remove(request.begins.email_id)
            if answer.is_begun:
                self.sending, self.usage = request.begins.email_id, request.begins.usage


async def clerks(world: World, *names: str, each: int = 1, people: int = 0) -> list[Clerk]:
    """Each has claimed this many e-mails. With `people`, a campaign to this many is launched before."""
    await world.add_accounts(*names, limits=QUICK)
    if people:
        await world.add_people(people)
        await world.launch(await world.draft())
    made = []
    for name in names:
        account = await world.store.account_named(name)
        lease = await world.store.take_lease(account.id, owner="test", seconds=30 * DAY.total_seconds())
        assert lease is not None
        clerk = Clerk(name, lease)
        await claim(world.store, clerk, each)
        assert len(clerk.claimed) == each
        made.append(clerk)
    return made


async def claim(store: Store, clerk: Clerk, n: int) -> None:
    clerk.claimed += (await store.claim(clerk.lease, limit=n)).ids


async def step_together(store: Store, group: Sequence[Clerk]) -> list[bool]:
    """Returns for whom the step was taken."""
    requests = [each.request() for each in group]
    answers = await take_steps(store, requests)
    for clerk, request, answer in zip(group, requests, answers, strict=True):
        if answer is not None:
            clerk.learn(request, answer)
    return [answer is not None for answer in answers]


async def step_alone(store: Store, clerk: Clerk, *, verdict: Verdict | None = None) -> StepAnswer:
    request = clerk.request(verdict=verdict)
    answer = await store.take_step(request)
    clerk.learn(request, answer)
    return answer


async def waits(conn: "asyncpg.Connection", n: int = 1, *, unless: Callable[[], bool] = lambda: False) -> bool:
    """Waits until this many transactions wait for a lock. Returns False if the other condition is met instead."""
    sql = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(120):
        while await conn.fetchval(sql) < n:
            if unless():
                return False
            await asyncio.sleep(0.01)
    return True


async def passes(conn: "asyncpg.Connection", moment: object) -> None:
    """Waits until the database's clock shows this time."""
    async with asyncio.timeout(120):
        while await conn.fetchval("SELECT clock_timestamp() < $1", moment):  # noqa: ASYNC110 - a clock sends no event
            await asyncio.sleep(0.01)
