"""The demonstration of `fairpost up`: four senders, one of whom floods, and three accounts of different pace.

Everything is in this one process, with the scripted transport: no mail leaves. Its accounts and workspaces are called
demo-…, its pool is demo; it touches nothing else, and leaves nothing of its own waiting.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from fairpost.deliver.runner import Handled, Idle, Rested, Runner
from fairpost.model.account import Account, Limits
from fairpost.model.errors import FairpostError
from fairpost.model.ids import EmailId
from fairpost.postgres.store import Store
from fairpost.system import clock
from fairpost.transport.scripted import ScriptedTransport

POOL = "demo"
SENDERS = {"demo-flood": 400, "demo-shop": 40, "demo-club": 15, "demo-ann": 5}  # in the order they arrive
DELAYS_MS = {"demo-quick": 20, "demo-steady": 60, "demo-slow": 200}

DEMO_S_MAX = 15.0
LOOK_AGAIN_S = 0.1
CONNECTIONS_MAX = len(DELAYS_MS) + 1
CONTENT = {"subject": "A demonstration", "text": "Nobody gets this e-mail: it is part of `fairpost up`."}


@dataclass(slots=True)
class Served:
    """How far one sender's e-mails have come."""

    total: int
    sent: int = 0
    done_after_s: float | None = None


@dataclass(slots=True)
class AtWork:
    """What one account has done, and when it may do the next."""

    delay_ms: int
    sent: int = 0
    next_at: datetime | None = None


@dataclass(slots=True)
class Progress:
    senders: dict[str, Served]
    accounts: dict[str, AtWork] = field(default_factory=dict)
    started_s: float = 0.0

    def elapsed_s(self) -> float:
        return clock.monotonic() - self.started_s

    def is_done(self) -> bool:
        return all(sender.sent == sender.total for sender in self.senders.values())

    def count(self, *, account: str, sender: str) -> None:
        self.accounts[account].sent += 1
        served = self.senders[sender]
        served.sent += 1
        if served.sent == served.total:
            served.done_after_s = self.elapsed_s()


class Demonstration:
    """`over` ends it early, cleanly: what is being sent is finished, the leases are dropped."""

    def __init__(self, store: Store, *, owner: str, over: asyncio.Event) -> None:
        self.progress = Progress({name: Served(total) for name, total in SENDERS.items()})
        self._store = store
        self._owner = owner
        self._over = over
        self._sender_of: dict[EmailId, str] = {}

    async def run(self, show: Callable[[Progress], None], *, every_s: float) -> None:
        """Runs until all is sent, or the time is up, or somebody ends it; shows how it is going meanwhile."""
        await self._clear()
        accounts = await self._accounts()
        await self._enqueue()
        runners: list[Runner] = []
        try:
            runners = await self._start(accounts)
            self.progress.started_s = clock.monotonic()
            await self._work(runners, show, every_s)
        finally:
            for runner in runners:
                await runner.stop()
            await self._clear()

    async def _clear(self) -> None:
        """Nothing of a demonstration stays behind: not its leases, not its waiting e-mails. Only ours are touched."""
        await self._store.fetch(
            """SELECT fairpost.drop_lease(l.account_id, l.epoch) FROM fairpost.leases l
               JOIN fairpost.accounts a ON a.id = l.account_id WHERE l.owner = $1 AND a.pool = $2""",
            *(self._owner, POOL),
        )
        await self._store.fetch(
            """SELECT fairpost.cancel(q.id, 'the demonstration ended') FROM fairpost.queue q
               WHERE q.workspace = ANY ($1) AND q.route = $2 AND q.state IN ('waiting', 'claimed')""",
            *(list(SENDERS), POOL),
        )

    async def _accounts(self) -> list[Account]:
        known = {account.name: account for account in await self._store.accounts()}
        for name, delay_ms in DELAYS_MS.items():
            if name not in known:
                limits = Limits(delay_ms=delay_ms)
                await self._store.add_account(name, address=f"{name}@demo.invalid", pool=POOL, limits=limits)
            elif known[name].pool != POOL:
                raise FairpostError(f"The account {name} is not the demonstration's. Try: fairpost up --no-demo")
        return [account for account in await self._store.accounts() if account.name in DELAYS_MS]

    async def _enqueue(self) -> None:
        content = await self._store.value("SELECT fairpost.put_content($1)", json.dumps(CONTENT))
        for sender, total in SENDERS.items():
            email = {"workspace": sender, "pool": POOL, "stream": "demo", "on_doubt": "resend", "content_id": content}
            emails = [{**email, "to": f"reader{n}@demo.invalid"} for n in range(total)]
            rows = await self._store.enqueue_many(emails)
            self._sender_of |= dict.fromkeys((EmailId(row["id"]) for row in rows), sender)

    async def _start(self, accounts: list[Account]) -> list[Runner]:
        runners = []
        for account in accounts:
            runner = await Runner.start(self._store, ScriptedTransport(), account.id, owner=self._owner)
            if runner is not None:
                runners.append(runner)
                self.progress.accounts[account.name] = AtWork(account.limits.delay_ms)
        if not runners:
            raise FairpostError("Somebody else drives the demonstration's accounts. See: fairpost account list")
        return runners

    async def _work(self, runners: list[Runner], show: Callable[[Progress], None], every_s: float) -> None:
        names = list(self.progress.accounts)
        tasks = [asyncio.create_task(self._drive(name, runner)) for name, runner in zip(names, runners, strict=True)]
        watch = asyncio.create_task(self._watch(show, every_s))
        clock_out = asyncio.get_running_loop().call_later(DEMO_S_MAX, self._over.set)
        try:
            await asyncio.gather(*tasks)
        finally:
            clock_out.cancel()
            self._over.set()
            watch.cancel()
            await asyncio.gather(*tasks, watch, return_exceptions=True)
        show(self.progress)

    async def _drive(self, name: str, runner: Runner) -> None:
        while not self._over.is_set():
            match await runner.step():
                case Handled(email_id, "sent"):
                    self._count(name, email_id)
                case Handled():
                    pass
                case Rested(Idle.BUSY):
                    await runner.await_turn()
                case Rested(Idle.LOST | Idle.INACTIVE):
                    return
                case Rested(_, until):
                    self.progress.accounts[name].next_at = until
                    await self._rest(until)

    def _count(self, account: str, email_id: EmailId) -> None:
        if email_id in self._sender_of:  # another's, if somebody else uses the pool
            self.progress.count(account=account, sender=self._sender_of[email_id])
        if self.progress.is_done():
            self._over.set()

    async def _rest(self, until: datetime | None) -> None:
        ahead_s = (until - clock.now()).total_seconds() if until else LOOK_AGAIN_S
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), min(max(ahead_s, 0), 1.0))

    async def _watch(self, show: Callable[[Progress], None], every_s: float) -> None:
        while True:
            show(self.progress)
            await asyncio.sleep(every_s)
