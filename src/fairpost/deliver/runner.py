"""One account, one process, one e-mail at a time: the whole way from claim to settled.

The least that keeps every promise of the core. Orchestration, signals and pacing by sleep come on top of it.
"""

from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from fairpost.model.account import Account, Lease
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Report
from fairpost.model.states import DoubtPolicy
from fairpost.model.verdict import Untouched
from fairpost.policy.limits import Go, NotBefore, admit, batch_size, refund
from fairpost.policy.retries import retry_delay, unreachable_delay
from fairpost.policy.verdicts import judge
from fairpost.postgres.store import Store
from fairpost.system import chance, clock
from fairpost.transport.port import Transport

LEASE_S = 60.0
MARGIN = 1 / 12  # of the lease: what must be left of it to complete a message


class Idle(StrEnum):
    EMPTY = "nothing is waiting for this account"
    BUSY = "others are taking what there is"
    INACTIVE = "the account is not active"
    LIMIT = "a limit of the account is reached"
    UNREACHABLE = "its server could not be reached"
    LOST = "the lease is gone"


@dataclass(frozen=True, slots=True)
class Rested:
    """Nothing was sent, why, and when to look again (None: when something new arrives)."""

    why: Idle
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Handled:
    email_id: EmailId
    outcome: str


Step = Handled | Rested


class Runner:
    """Drives one account. `step()` handles at most one e-mail and says what it did."""

    def __init__(
        self, store: Store, transport: Transport, lease: Lease, account: Account, *, asked_at_s: float, lease_s: float
    ) -> None:
        self._store = store
        self._transport = transport
        self._lease = lease
        self._lease_s = lease_s
        self._deadline_s = asked_at_s + lease_s  # on our own clock, counted from before the lease was asked for
        self._account = account
        self._usage = account.usage
        self._batch: deque[EmailId] = deque()
        self._unreachable = 0  # times in a row
        self._rest_until: datetime | None = None
        self._missed: set[EmailId] = set()  # locked by somebody when their turn came; they may still be ours

    @classmethod
    async def start(
        cls, store: Store, transport: Transport, account_id: AccountId, *, owner: str, lease_s: float = LEASE_S
    ) -> "Runner | None":
        """Takes the account's lease and settles what its last holder left in doubt. None: another drives it."""
        asked_at_s = clock.monotonic()
        lease = await store.take_lease(account_id, owner=owner, seconds=lease_s)
        if lease is None:
            return None
        account = await store.account(account_id)
        runner = cls(store, transport, lease, account, asked_at_s=asked_at_s, lease_s=lease_s)
        await runner.resolve_doubts()
        return runner

    async def stop(self) -> None:
        """Gives the lease back; what was claimed waits again at once."""
        self._batch.clear()
        await self._store.drop_lease(self._lease)

    async def run_until_idle(self) -> list[Handled]:
        handled = []
        while True:
            match await self.step():
                case Handled() as one:
                    handled.append(one)
                case Rested(Idle.BUSY):
                    await self.await_turn()
                case Rested():
                    return handled

    async def await_turn(self) -> None:
        """After Idle.BUSY: waits until whoever holds what there is lets go of it, a second at most."""
        await self._store.await_turn(self._lease)

    async def step(self) -> Step:
        if not await self._renew_if_needed():
            return Rested(Idle.LOST)
        now = clock.now()
        if self._rest_until and now < self._rest_until:
            return Rested(Idle.UNREACHABLE, self._rest_until)
        admitted = admit(self._account.limits, self._usage, now=now)
        if isinstance(admitted, NotBefore):
            return Rested(Idle.LIMIT, admitted.moment)
        if not self._batch:
            rested = await self._claim(now)
            if rested:
                return rested
        return await self._handle(self._batch.popleft(), admitted)

    async def resolve_doubts(self) -> None:
        """By policy: `resend` waits as after any failed attempt; `hold`, or no attempt left, is left to people."""
        for email in await self._store.doubts(self._lease.account_id):
            if email.on_doubt is DoubtPolicy.RESEND and email.attempts < email.attempts_max:
                delay = retry_delay(email.email_class, attempts=email.attempts, roll=chance.roll())
                await self._store.resolve(email.id, "resend", by="policy", due_at=clock.now() + delay)

    async def _claim(self, now: datetime) -> Rested | None:
        size = batch_size(self._account.limits, self._usage, now=now)
        claim = await self._store.claim(self._lease, limit=size)
        self._batch.extend(claim.ids)
        if not claim.ids and self._missed:
            return await self._take_up_missed()
        if claim.verdict != "ok":
            return Rested(Idle.LOST if claim.verdict == "stale" else Idle.INACTIVE)
        if not claim.ids:
            return Rested(Idle.BUSY if claim.again else Idle.EMPTY, claim.next_at)
        return None

    async def _take_up_missed(self) -> Rested | None:
        held = await self._store.held(self._lease)
        if held is None:
            return Rested(Idle.LOST)
        left = await self._store.load(list(self._missed))
        self._missed = {e.id for e in left if e.account_id == self._account.id} - set(held)
        self._batch.extend(held)
        return None if held else Rested(Idle.EMPTY)

    async def _handle(self, email_id: EmailId, admitted: Go) -> Step:
        loaded = await self._store.load([email_id])
        begun = await self._store.begin(self._lease, email_id, usage=admitted.usage)
        if begun.verdict == "stale":
            return Rested(Idle.LOST)
        if begun.verdict == "inactive":
            await self._give_back(email_id, *self._batch)  # other accounts of the pool may send it
            return Rested(Idle.INACTIVE)
        if begun.verdict == "held":
            await self._give_back(email_id)
        if begun.verdict == "gone":
            self._missed.add(email_id)
        if begun.verdict != "begun":
            return Handled(email_id, begun.verdict)
        self._usage = admitted.usage
        assert begun.attempt is not None
        return Handled(email_id, await self._send(_without(loaded[0], begun.skip), begun.attempt))

    async def _give_back(self, *ids: EmailId) -> None:
        await self._store.give_back(self._lease, ids)
        self._batch = deque(id_ for id_ in self._batch if id_ not in ids)

    async def _send(self, email: Outgoing, attempt: int) -> str:
        report = await self._timed_send(email)
        verdict = judge(email, report, attempts=attempt, now=clock.now(), roll=chance.roll())
        settled = await self._store.settle(self._lease, email.id, verdict, report)
        if settled != "settled":
            return settled
        if isinstance(verdict, Untouched):
            self._usage = refund(self._usage)
            await self._rest()
        else:
            self._unreachable = 0
        return type(verdict).__name__.lower()

    async def _rest(self) -> None:
        """The server is to blame, not the e-mails: they go back, for other accounts of the pool, and this one waits."""
        self._unreachable += 1
        self._rest_until = clock.now() + unreachable_delay(times=self._unreachable, roll=chance.roll())
        await self._give_back(*self._batch)

    async def _timed_send(self, email: Outgoing) -> Report:
        started_s = clock.monotonic()
        report = await self._transport.send(self._account, email, permission=self._may_complete)
        if report.response_ms is not None:
            return report
        return replace(report, response_ms=round((clock.monotonic() - started_s) * 1000))

    def _may_complete(self) -> bool:
        return clock.monotonic() < self._deadline_s - self._lease_s * MARGIN

    async def _renew_if_needed(self) -> bool:
        asked_at_s = clock.monotonic()
        if asked_at_s < self._deadline_s - self._lease_s / 2:
            return True
        renewed = await self._store.renew_lease(self._lease, seconds=self._lease_s)
        if renewed is None:
            return False
        self._lease = renewed
        self._deadline_s = asked_at_s + self._lease_s
        return True


def _without(email: Outgoing, skip: tuple[str, ...]) -> Outgoing:
    return replace(email, envelope=tuple(a for a in email.envelope if a not in skip))
