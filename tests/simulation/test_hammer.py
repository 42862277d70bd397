"""Everything at once, on real connections, for a while: no deadlock, nothing lost, and nothing sent twice by guesswork.

Workers crash, freeze past their lease and wake up; connections are cut; people cancel, hold, release and resolve;
senders keep sending. Then the noise ends, the rest is sent, and the counts are checked.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import asyncpg
import pytest

from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.sender import Fairness, SenderId, SenderLevel, Throttle, Tier
from fairpost.model.verdict import InDoubt, Retry, Sent, Untouched
from fairpost.store import senders
from fairpost.store.store import Store
from fairpost.system import clock
from tests.simulation.world import broken_promises, draft
from tests.thorough import times

SECONDS = times(1, own="FAIRPOST_HAMMER_S")
TURNS_MIN = 6  # for every participant, however long that takes
SEED = int(os.environ.get("FAIRPOST_SEED", "7"))
LEASE_S = 0.4
KINDS = (Fairness(), Fairness(has_lanes=True), Fairness(share=0), Fairness(share=50, has_lanes=True))
CUT = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.AdminShutdownError,
    asyncpg.InternalClientError,
    ConnectionError,
)


@dataclass
class Post:
    """The outside world's view."""

    on_the_wire: set[int] = field(default_factory=set)
    sends: Counter[int] = field(default_factory=Counter)
    allowed: Counter[int] = field(default_factory=Counter)  # how often a resend was decided
    settled: Counter[str] = field(default_factory=Counter)

    @property
    def zombies(self) -> int:
        return self.settled["stale"] + self.settled["evidence"]

    def begin(self, id_: int) -> None:
        self.sends[id_] += 1
        assert self.sends[id_] <= 1 + self.allowed[id_], f"e-mail {id_} went out twice without a decision to resend it"


class Hammer:
    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.dice = random.Random(seed)
        self.post = Post()
        self.accepted: list[int] = []
        self.accounts: list[AccountId] = []
        self.stop_at = clock.monotonic() + SECONDS
        self.work: Sequence[Callable[[], Awaitable[None]]] = ()
        self.turns: Counter[str] = Counter()

    def is_over(self) -> bool:
        """Not before every participant had turns, and some workers woke up: on a busy machine, that takes longer."""
        all_had_turns = min(self.turns[one.__name__] for one in self.work) >= TURNS_MIN
        return clock.monotonic() > self.stop_at and all_had_turns and self.post.zombies > 0

    async def keep(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self.is_over():
            try:
                await work()
                self.turns[work.__name__] += 1
            except CUT:
                self.turns["cut off"] += 1

    # ── participants ──────────────────────────────────────────────────────────────────────────────────────

    async def send_mail(self) -> None:
        pick = self.dice.choice
        emails = [
            draft(
                workspace=pick(["w1", "w2", "w3", "w4"]),
                domain=pick(["d1.test", "d2.test"]),
                user=pick(["u1", "u2", "u3"]),
                stream=pick(["", "c1", "c2"]),
                to=f"p{self.dice.randrange(10**6)}@there.test",
            )
            | ({"account": f"h{self.dice.randrange(len(self.accounts))}"} if self.dice.random() < 0.2 else {})
            for _ in range(self.dice.randrange(1, 30))
        ]
        async with self.store.connection() as conn, conn.transaction():
            rows = await Store(conn).enqueue_many(emails)
            await asyncio.sleep(self.dice.random() * 0.02)  # transactions end in a different order than they began
            if self.dice.random() < 0.1:
                raise asyncpg.InterfaceError("the caller rolled back")
        self.accepted.extend(row["id"] for row in rows)
        await asyncio.sleep(0.1)

    async def drive(self, lease_s: float = LEASE_S) -> None:
        """One worker: takes an account, sends some e-mails, then stops cleanly, crashes, or freezes and wakes up."""
        id_ = self.dice.choice(self.accounts)
        lease = await self.store.take_lease(id_, owner="hammer", seconds=lease_s)
        if lease is None:
            await asyncio.sleep(0.005)
            return
        for _ in range(self.dice.randrange(1, 6)):
            claim = await self.store.claim(lease, limit=self.dice.randrange(1, 20))
            if claim.verdict == "stale":
                return
            if not claim.ids and claim.again:
                await self.store.await_turn(lease)
            for email_id in claim.ids:
                if not await self.send(lease, email_id):
                    return
        if self.dice.random() < 0.6:
            await self.store.drop_lease(lease)

    async def send(self, lease: Lease, email_id: EmailId) -> bool:
        """Returns False if this worker is dead."""
        begun = await self.store.begin(lease, email_id, usage=Usage())
        if begun.verdict == "held":
            await self.store.give_back(lease, [email_id])
        if begun.verdict != "begun":
            return begun.verdict != "stale"
        fate = self.dice.random()
        if fate < 0.02:
            return False  # crashed before a byte was sent, but this is unknown
        if fate < 0.04:
            return await self.settle(lease, email_id, Untouched())
        self.post.begin(email_id)
        if fate < 0.06:
            return False  # crashed after the last byte
        if fate < 0.08:
            await asyncio.sleep(LEASE_S * 1.5)  # frozen past the lease, then awake
        if fate < 0.12:
            return await self.settle(lease, email_id, Retry(clock.now(), ("x@there.test",)))
        return await self.settle(lease, email_id, InDoubt() if fate < 0.14 else Sent())

    async def settle(self, lease: Lease, email_id: EmailId, verdict: Sent | Retry | InDoubt | Untouched) -> bool:
        if isinstance(verdict, Retry):
            self.post.allowed[email_id] += 1  # before the decision: the next worker may be faster than our answer
        result = await self.store.settle(lease, email_id, verdict)
        self.post.settled[result] += 1
        return result == "settled"

    async def cancel(self) -> None:
        await asyncio.sleep(0.01)
        if self.accepted:
            id_ = EmailId(self.dice.choice(self.accepted[-60:]))
            async with self.store.connection() as conn, conn.transaction():
                await Store(conn).cancel(id_)
                await asyncio.sleep(self.dice.random() * 0.05)
                if self.dice.random() < 0.3:
                    raise asyncpg.InterfaceError("rolled back")

    async def hold_and_release(self) -> None:
        workspace = self.dice.choice(["w1", "w2"])
        level, key = self.dice.choice([("workspace", ""), ("domain", "d1.test"), ("user", "u1"), ("stream", "c1")])
        await self.store.hold(workspace, level, key, reason="hammer")  # type: ignore[arg-type]
        await asyncio.sleep(self.dice.random() * 0.1)
        await self.store.release(workspace, level, key)  # type: ignore[arg-type]

    async def change_tiers(self) -> None:
        """With a throttle that ends in a moment."""
        tier = self.dice.choice(list(Tier))
        until = clock.now() + timedelta(seconds=self.dice.random()) if tier is Tier.THROTTLED else None
        level, name = self.dice.choice([("workspace", ""), ("user", "u1"), ("user", "u2"), ("user", "u3")])
        id_ = SenderId(workspace=self.dice.choice(["w1", "w2", "w3"]), level=SenderLevel(level), name=name)
        (active,) = await senders.with_activity(self.store, [id_])
        throttle = Throttle(clock.now(), until) if until else None
        after = replace(active.sender, tier=tier, throttle=throttle, is_enforced=throttle is not None)
        await senders.decide(self.store, after, is_new=False)
        await asyncio.sleep(self.dice.random() * 0.05)

    async def change_fairness(self) -> None:
        await senders.lay_fairness(self.store, self.dice.choice(KINDS))
        await asyncio.sleep(self.dice.random() * 0.5)

    async def decide_doubts(self) -> None:
        for account in self.accounts:
            for email in await self.store.doubts(account, most=20):
                decision = self.dice.choice(["sent", "resend", "resend"])
                if decision == "resend":
                    self.post.allowed[email.id] += 1
                await self.store.resolve(email.id, decision, by="hammer")  # type: ignore[arg-type]
        await asyncio.sleep(0.05)

    async def tidy(self) -> None:
        await self.store.reap_leases()
        await self.store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
        await self.store.value("SELECT fairpost.prune('default', clock_timestamp())")
        await asyncio.sleep(0.02)

    async def cut_connections(self) -> None:
        await self.store.value(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()
               AND backend_type = 'client backend' AND backend_start < now() - interval '300 ms' ORDER BY random() LIMIT 1"""
        )
        await asyncio.sleep(0.5)

    async def drain(self) -> None:
        """Once the noise is over, one careful worker per account sends what is left."""
        await asyncio.sleep(LEASE_S * 1.5)
        await self.store.reap_leases()
        # A process killed between hold and release leaves a hold in force, which is not tested here.
        for row in await self.store.fetch(
            "SELECT workspace, level::text, key FROM fairpost.sender_rules WHERE held_until IS NOT NULL"
        ):
            await self.store.release(row["workspace"], row["level"], row["key"])
        await asyncio.sleep(1)  # the last throttle ends
        for _ in range(3):
            await self.decide_doubts()
            for account in self.accounts:
                lease = await self.store.take_lease(account, owner="drain", seconds=600)
                assert lease is not None
                while (claim := await self.store.claim(lease, limit=50)).ids:
                    for email_id in claim.ids:
                        assert (await self.store.begin(lease, email_id, usage=Usage())).verdict == "begun"
                        self.post.begin(email_id)
                        assert await self.store.settle(lease, email_id, Sent()) == "settled"
                await self.store.drop_lease(lease)


@pytest.mark.slow
@pytest.mark.thorough
async def test_hammered_from_all_sides_nothing_is_lost_or_sent_twice(url: str) -> None:
    async with Store.open(url, connections_max=16) as store:
        await hammer_and_check(Hammer(store, SEED), store)


async def hammer_and_check(hammer: Hammer, store: Store) -> None:
    hammer.accounts = [await store.add_account(f"h{i}", address="h@post.test", limits=Limits()) for i in range(4)]
    work = [hammer.send_mail] * 2 + [hammer.drive] * 6
    work += [hammer.cancel, hammer.hold_and_release, hammer.decide_doubts, hammer.tidy, hammer.cut_connections]
    work += [hammer.change_tiers, hammer.change_tiers, hammer.change_fairness]
    hammer.work = work
    await asyncio.gather(*(hammer.keep(one) for one in work))
    await hammer.drain()

    assert await broken_promises(store) == {}
    final = {r["id"]: r["state"] for r in await store.fetch("SELECT id, state::text FROM fairpost.emails")}
    left = await store.fetch("SELECT state::text, route, workspace, count(*) FROM fairpost.queue GROUP BY 1, 2, 3")
    assert [tuple(row) for row in left] == [], "everything is settled"
    assert set(hammer.accepted) <= set(final), "no committed e-mail is lost"
    for id_, sends in hammer.post.sends.items():
        assert final[id_] == "sent" or sends <= hammer.post.allowed[id_], "everything that was sent is marked as sent"
    assert set(final.values()) == {"sent", "cancelled"}
