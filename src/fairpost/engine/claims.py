"""One claim for the accounts of a process that run dry at the same time, with what they are to send.

Keeps the requests that wait. Promises: one claim of a pool is under way at a time, and requests that come meanwhile share the
next; an account that cannot share one (senders are blocked on it, mail is pinned to it …) claims alone; when the database is in
trouble, every request fails.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.model.account import Lease
from fairpost.model.email import Outgoing
from fairpost.model.engine import Claim
from fairpost.model.ids import AccountId  # noqa: TC001 - read at run time
from fairpost.store.store import Store
from fairpost.system.failpoints import failpoint

Claimed = tuple[Claim, list[Outgoing]]
TOGETHER_MAX = 64


@dataclass(frozen=True, slots=True)
class Asked:
    lease: Lease
    limit: int
    answer: "asyncio.Future[Claimed]"


class ClaimGroup:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[str, list[Asked]] = {}  # by pool; there while a claim of it is under way
        self._tasks: set[asyncio.Task[None]] = set()

    async def claim(self, lease: Lease, *, pool: str, limit: int) -> Claimed:
        """What the account holds now, loaded."""
        answer: asyncio.Future[Claimed] = asyncio.get_running_loop().create_future()
        asked = Asked(lease, limit, answer)
        if pool in self._asked:
            self._asked[pool].append(asked)
        else:
            self._asked[pool] = [asked]
            self._spawn(pool)
        return await answer

    def _spawn(self, pool: str) -> None:
        task = asyncio.create_task(self._serve(pool))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, pool: str) -> None:
        try:
            while asked := self._asked[pool][:TOGETHER_MAX]:
                del self._asked[pool][:TOGETHER_MAX]
                await self._answer(pool, [each for each in asked if not each.answer.done()])
        finally:
            del self._asked[pool]

    async def _answer(self, pool: str, asked: list[Asked]) -> None:
        try:
            for each, claimed in zip(asked, await self._claimed(pool, asked), strict=True):
                if not each.answer.done():
                    each.answer.set_result(claimed)
        except BaseException as error:
            for each in asked:
                if not each.answer.done():
                    each.answer.set_exception(error)

    async def _claimed(self, pool: str, asked: Sequence[Asked]) -> list[Claimed]:
        together: dict[AccountId, Claim] = {}
        if len(asked) > 1:
            leases, limits = [each.lease for each in asked], [each.limit for each in asked]
            together = await self._store.claim_together(pool, leases, limits)
        alone = [each for each in asked if each.lease.account_id not in together]
        claims = await asyncio.gather(*(self._store.claim(each.lease, limit=each.limit) for each in alone))
        together |= {each.lease.account_id: claim for each, claim in zip(alone, claims, strict=True)}
        failpoint("after_claim")
        ids = [id_ for claim in together.values() for id_ in claim.ids]
        loaded = {email.id: email for email in await self._store.load(ids)} if ids else {}
        found = [together[each.lease.account_id] for each in asked]
        return [(claim, [loaded[id_] for id_ in claim.ids if id_ in loaded]) for claim in found]
