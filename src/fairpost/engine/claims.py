"""Claim e-mails once for all accounts in a process that need some now or soon.

Each pool has one claim in progress at a time, and requests that arrive in the meantime share the next claim. Working
accounts that have few e-mails left get more from the same claim, so that they need not stop sending. An account that
cannot share a claim (because senders are blocked from using it, mail is pinned to it, and so on) claims alone. If the
database is in trouble, every request fails.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

from fairpost.model.account import Lease
from fairpost.model.email import Outgoing
from fairpost.model.engine import Claim
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.system.failpoints import failpoint

Claimed = tuple[Claim, list[Outgoing]]
TOGETHER_MAX = 64


@dataclass(frozen=True, slots=True)
class Asked:
    lease: Lease
    limit: int
    answer: "asyncio.Future[Claimed]"


class Member(Protocol):
    """An account that may get e-mails from a claim before it asks for them."""

    @property
    def lease(self) -> Lease: ...

    def room_ahead(self) -> int:
        """Return how many e-mails the account could use soon."""

    def take_ahead(self, lease: Lease, emails: list[Outgoing]) -> None:
        """Accept e-mails claimed for this lease."""

    def lose_ahead(self) -> None:
        """Record that the account may hold unknown e-mails, because the response to a claim was lost."""


Ahead = tuple[Member, Lease, int]
"""An account, its lease, and how many e-mails it could use."""


class ClaimGroup:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[str, list[Asked]] = {}  # by pool; an entry exists while a claim for the pool is in progress
        self._tasks: set[asyncio.Task[None]] = set()
        self._members: dict[str, WeakValueDictionary[AccountId, Member]] = {}  # accounts that are working, by pool
        self._supplying: dict[AccountId, asyncio.Future[None]] = {}  # accounts for which a claim ahead is in progress
        self._left_out: set[AccountId] = set()  # a claim ahead found nothing for them, so they wait until they run out

    def join(self, pool: str, member: Member) -> None:
        self._members.setdefault(pool, WeakValueDictionary())[member.lease.account_id] = member

    async def claim(self, lease: Lease, *, pool: str, limit: int) -> Claimed:
        """Return the e-mails that the account now holds, with their content loaded."""
        self._left_out.discard(lease.account_id)
        answer: asyncio.Future[Claimed] = asyncio.get_running_loop().create_future()
        asked = Asked(lease, limit, answer)
        if pool in self._asked:
            self._asked[pool].append(asked)
        else:
            self._asked[pool] = [asked]
            self._spawn(pool)
        return await answer

    def claim_ahead(self, pool: str) -> None:
        """Supply the accounts in the pool that have few e-mails left, unless a claim is in progress."""
        if pool not in self._asked:
            self._asked[pool] = []
            self._spawn(pool)

    async def await_supply(self, account_id: AccountId) -> None:
        """Wait for a claim ahead that is in progress for this account, if there is one."""
        if account_id in self._supplying:
            await asyncio.wait([self._supplying[account_id]])

    def _spawn(self, pool: str) -> None:
        task = asyncio.create_task(self._serve(pool))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, pool: str) -> None:
        try:
            while True:
                asked = [each for each in self._asked[pool][:TOGETHER_MAX] if not each.answer.done()]
                del self._asked[pool][:TOGETHER_MAX]
                await self._answer(pool, asked)
                if not self._asked[pool]:
                    break
        finally:
            del self._asked[pool]

    async def _answer(self, pool: str, asked: list[Asked]) -> None:
        ahead = self._short_of_mail(pool, {each.lease.account_id for each in asked}, TOGETHER_MAX - len(asked))
        supplied = asyncio.get_running_loop().create_future()
        self._supplying |= {lease.account_id: supplied for _, lease, _ in ahead}
        supplying = [lease.account_id for _, lease, _ in ahead]
        try:
            claims = await self._claimed(pool, asked, ahead)
            failpoint("after_claim")
            for each in asked:
                claim = claims[each.lease.account_id]
                loaded = await self._loaded(claim)
                if not each.answer.done():
                    each.answer.set_result((claim, loaded))
            while ahead:
                member, lease, _ = ahead[0]
                await self._supply(member, lease, claims.get(lease.account_id))
                del ahead[0]
        except BaseException as error:
            for each in asked:
                if not each.answer.done():
                    each.answer.set_exception(error)
            for member, _, _ in ahead:
                member.lose_ahead()
        finally:
            for account_id in supplying:
                del self._supplying[account_id]
            supplied.set_result(None)

    def _short_of_mail(self, pool: str, asking: set[AccountId], most: int) -> list[Ahead]:
        members = [m for id_, m in self._members.get(pool, {}).items() if id_ not in asking | self._left_out]
        return [(member, member.lease, room) for member in members if (room := member.room_ahead())][:most]

    async def _claimed(self, pool: str, asked: Sequence[Asked], ahead: Sequence[Ahead]) -> dict[AccountId, Claim]:
        together: dict[AccountId, Claim] = {}
        if len(asked) + 2 * len(ahead) > 1:
            leases = [*(each.lease for each in asked), *(lease for _, lease, _ in ahead)]
            limits = [*(each.limit for each in asked), *(room for _, _, room in ahead)]
            together = await self._store.claim_together(pool, leases, limits)
        alone = [each for each in asked if each.lease.account_id not in together]
        claims = await asyncio.gather(*(self._store.claim(each.lease, limit=each.limit) for each in alone))
        return together | {each.lease.account_id: claim for each, claim in zip(alone, claims, strict=True)}

    async def _supply(self, member: Member, lease: Lease, claim: Claim | None) -> None:
        if claim is None or not claim.ids:
            self._left_out.add(lease.account_id)
        else:
            member.take_ahead(lease, await self._loaded(claim))

    async def _loaded(self, claim: Claim) -> list[Outgoing]:
        """Load each account's e-mails separately, because loading hundreds at once would block the event loop."""
        return await self._store.load(claim.ids) if claim.ids else []
