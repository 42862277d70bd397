"""Steps of a group whose answer is lost or late, and random sequences of steps with everything that may come between."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.ids import EmailId
from fairpost.model.step import Begins, Settles, StepRequest
from fairpost.model.verdict import Retry, Sent, Untouched, Verdict
from fairpost.policy.limits import charge, refund, roll_windows
from fairpost.store import privacy
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.conftest import Databases
from tests.settle.test_group import NOW, OK, Desk, Undone, desks, everything, waits_for_lock
from tests.simulation.world import connect, draft

LIFE = timedelta(days=100)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = await connect(url)
    yield made
    await made.close()


# ── an answer that is lost ────────────────────────────────────────────────────────────────────────────────────


async def begun_and_sent(store: Store, desk: Desk) -> None:
    """The desk's step was taken exactly once."""
    lease = await store.row(
        "SELECT step, sent_total, day_used FROM fairpost.leases WHERE account_id = $1", desk.lease.account_id
    )
    assert (lease["step"], lease["sent_total"], lease["day_used"]) == (2, 1, 1)
    states = await store.fetch(
        "SELECT id, state::text FROM fairpost.queue WHERE account_id = $1", desk.lease.account_id
    )
    assert {row["id"]: row["state"] for row in states} == {desk.claimed: "sending"}
    assert await store.value("SELECT state::text FROM fairpost.emails WHERE id = $1", desk.sending) == "sent"
    assert await store.value("SELECT count(*) FROM fairpost.attempts WHERE email_id = $1", desk.sending) == 1


@pytest.mark.parametrize("committed_before", ["the repeat", "the lease is resumed", "never"])
async def test_a_statement_that_is_still_running_and_its_repeat_have_one_effect(
    store: Store, url: str, committed_before: str
) -> None:
    first, second = await desks(store, 2)
    zombie = await asyncpg.connect(url)
    try:
        with clock.stopped_at(NOW):
            running = zombie.transaction()
            await running.start()
            assert all(await take_steps(Store(zombie), [first.request(), second.request()]))
            assert await take_steps(store, [first.request(), second.request()]) == [None, None]  # its rows are locked
            if committed_before == "never":  # the connection was cut before the commit
                await running.rollback()
                assert all(await take_steps(store, [first.request(), second.request()]))
            elif committed_before == "the repeat":
                await running.commit()
                assert await take_steps(store, [first.request(), second.request()]) == [None, None]
            else:
                resuming = asyncio.create_task(store.take_up(first.lease, seconds=600, life=None, now=NOW))
                await asyncio.sleep(0)
                await running.commit()
                resumed = await resuming
                assert (resumed.verdict, resumed.sending) == ("held", first.claimed)
                assert resumed.step is not None
                assert resumed.step >= 2
                return
        await begun_and_sent(store, first)
        await begun_and_sent(store, second)
    finally:
        await zombie.close()


async def test_a_statement_that_arrives_after_its_repeat_changes_nothing(store: Store, url: str) -> None:
    (desk,) = await desks(store, 1)
    late = await connect(url)
    try:
        with clock.stopped_at(NOW):
            assert all(await take_steps(store, [desk.request()]))
            assert await take_steps(late, [desk.request()]) == [None]
            answer = await late.take_step(desk.request())
        assert not answer.is_taken
        await begun_and_sent(store, desk)
    finally:
        await late.close()


async def test_after_a_lease_is_resumed_an_earlier_statement_has_no_effect(store: Store, url: str) -> None:
    (desk,) = await desks(store, 1)
    late = await connect(url)
    try:
        with clock.stopped_at(NOW):
            resumed = await store.take_up(desk.lease, seconds=600, life=None, now=NOW)
            assert (resumed.verdict, resumed.sending) == ("held", desk.sending)
            assert await take_steps(late, [desk.request()]) == [None]
        assert await store.value("SELECT state::text FROM fairpost.queue WHERE id = $1", desk.sending) == "sending"
        assert await store.value("SELECT count(*) FROM fairpost.emails WHERE id = $1", desk.sending) == 0
    finally:
        await late.close()


# ── a cancel that waits ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_cancel_that_waits_for_a_group_does_not_cancel_what_began(
    store: Store, url: str, is_committed: bool, isolation: str
) -> None:
    (desk,) = await desks(store, 1)
    stepping, caller = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        step, cancel = stepping.transaction(), caller.transaction(isolation=isolation)
        await step.start()
        with clock.stopped_at(NOW):
            assert all(await take_steps(Store(stepping), [desk.request()]))
        await cancel.start()
        said = asyncio.create_task(caller.fetchval("SELECT fairpost.cancel($1, NULL, $2)", desk.claimed, NOW))
        await waits_for_lock(stepping)
        await (step.commit() if is_committed else step.rollback())
        try:
            assert await said == ("sending" if is_committed else "cancelled")
            await cancel.commit()
        except asyncpg.SerializationError:
            assert (isolation, is_committed) == ("repeatable_read", True)
            await cancel.rollback()
    finally:
        await stepping.close()
        await caller.close()
    sending = "SELECT count(*) FROM fairpost.queue WHERE id = $1 AND state = 'sending'"
    assert await store.value(sending, desk.claimed) == is_committed
    with clock.stopped_at(NOW):
        assert await take_steps(store, [desk.request()]) == [None]


# ── random sequences ──────────────────────────────────────────────────────────────────────────────────────────

ACTS = (
    *("step", "settle", "refuse", "put back", "give back", "cancel", "erase", "claim", "repeat", "hold", "release"),
    *("lose the lease", "die", "an hour passes", "a day passes"),
)
LATER = {"an hour passes": timedelta(hours=1), "a day passes": timedelta(days=1)}


def charged(usage: Usage) -> Usage:
    """Counts another begin, in the hour and the day that it belongs to."""
    now = clock.now()
    return charge(Limits(), roll_windows(Limits(), usage, now=now), now=now)


@dataclass
class Player:
    """An account, as its worker knows it."""

    name: str
    lease: Lease
    usage: Usage = field(default_factory=Usage)
    sending: EmailId | None = None
    claimed: list[EmailId] = field(default_factory=list)
    last: StepRequest | None = None
    begins: int = 0
    untouched: int = 0


class Game:
    """Accounts of one process that take steps together, while other things happen to their e-mails."""

    def __init__(self, store: Store, players: list[Player], manual: ManualClock) -> None:
        self.store = store
        self.clock = manual
        self.players = players
        self.begun: Counter[EmailId] = Counter()  # hand-overs by e-mail
        self.cancelled: set[EmailId] = set()

    async def play(self, act: str, chosen: list[Player]) -> None:
        match act:
            case "step":
                await self._step(chosen, Sent(), begins=True)
            case "refuse":
                await self._step(chosen, Retry(clock.now() + LIFE, ()), begins=True)
            case "settle":
                await self._step(chosen, Sent(), begins=False)
            case "put back":
                await self._step(chosen, Untouched(), begins=False)
            case "repeat":
                requests = [each.last for each in chosen if each.last is not None]
                assert not any(await take_steps(self.store, requests)) if requests else True
            case "claim":
                for each in chosen:
                    each.claimed += (await self.store.claim(each.lease, limit=2)).ids
            case "give back":
                for each in chosen:
                    await self.store.give_back(each.lease, each.claimed)
                    each.claimed.clear()
            case "cancel":
                for id_ in [id_ for each in chosen for id_ in (*each.claimed[:1], *filter(None, [each.sending]))]:
                    if await self.store.cancel(id_) == "cancelled":
                        self.cancelled.add(id_)
            case "erase":
                for id_ in [id_ for each in chosen for id_ in (*each.claimed[:1], *filter(None, [each.sending]))]:
                    await self._erase(id_)
            case "lose the lease" | "die":
                for each in chosen:
                    await self._lose(each, is_dropped=act == "lose the lease")
            case "an hour passes" | "a day passes":
                self.clock.advance(LATER[act])
            case "hold" | "release":
                until = "infinity" if act == "hold" else "2029-01-01Z"
                sql = """INSERT INTO fairpost.sender_rules (workspace, level, key, held_until) VALUES ($1, 'workspace', '', $2::text::timestamptz)
                         ON CONFLICT (workspace, level, key) DO UPDATE SET held_until = excluded.held_until"""
                await self.store.value(sql, chosen[0].name, until)

    async def _step(self, chosen: list[Player], verdict: Verdict, *, begins: bool) -> None:
        requests = []
        for each in chosen:
            settles = None if each.sending is None else Settles(email_id=each.sending, verdict=verdict, report=OK)
            if isinstance(verdict, Untouched) and settles is not None:
                settles = replace(settles, report=None)
            begun = None
            if begins and each.claimed:
                begun = Begins(email_id=each.claimed[0], usage=charged(each.usage))
            if settles is not None or begun is not None:
                each.last = StepRequest(lease=each.lease, number=each.lease.step + 1, settles=settles, begins=begun)
                requests.append((each, each.last))
        if not requests:
            return
        answers = (
            await take_steps(self.store, [request for _, request in requests])
            if verdict == Sent()
            else [None] * len(requests)
        )
        for (each, request), answer in zip(requests, answers, strict=True):
            taken = answer or await self.store.take_step(request)
            if taken.is_taken:
                each.lease = replace(each.lease, step=each.lease.step + 1)
            if request.settles is not None and taken.settled == "settled":
                each.sending = None
                if verdict == Untouched():
                    each.untouched += 1
                    each.usage = refund(each.usage)
            if request.begins is not None and taken.begun is not None:
                id_ = each.claimed.pop(0)
                if taken.is_begun:
                    assert id_ not in self.cancelled
                    if request.begins.usage.day_started_at != each.usage.day_started_at:  # each day counts its own
                        each.begins = each.untouched = 0
                    each.sending, each.usage = id_, request.begins.usage
                    each.begins += 1
                    self.begun[id_] += 1
                else:
                    await self.store.give_back(each.lease, [id_])

    async def _lose(self, each: Player, *, is_dropped: bool) -> None:
        """Another worker takes the account and continues with the usage that is stored; the e-mail in progress is in
        doubt."""
        id_ = each.lease.account_id
        if is_dropped:
            await self.store.drop_lease(each.lease)
        else:
            await self.store.value("UPDATE fairpost.leases SET until = $2 WHERE account_id = $1", id_, clock.now())
        lease = await self.store.take_lease(id_, owner="next", seconds=LIFE.total_seconds())
        assert lease is not None
        each.lease, each.sending, each.last = lease, None, None
        each.claimed.clear()
        each.usage = (await self.store.account(id_)).usage

    async def _erase(self, id_: EmailId) -> None:
        """Erases the recipient, whose e-mail is cancelled unless it is being sent."""
        row = await self.store.row("SELECT workspace, addresses[1] AS address FROM fairpost.queue WHERE id = $1", id_)
        if row is not None and row["address"] is not None:
            erasure = await privacy.erase(self.store, row["address"], workspace=row["workspace"])
            self.cancelled |= {id_} if erasure.cancelled else set()

    async def check(self) -> None:
        """Holds at any moment."""
        for each in self.players:
            sql = "SELECT id FROM fairpost.queue WHERE account_id = $1 AND state = 'sending'"
            sending = [row["id"] for row in await self.store.fetch(sql, each.lease.account_id)]
            assert sending == [each.sending] * (each.sending is not None)
            usage = (await self.store.account(each.lease.account_id)).usage
            assert usage.day_used == each.begins - each.untouched
            assert (usage.hour_used, usage.day_used) == (each.usage.hour_used, each.usage.day_used)
        sql = (
            """SELECT q.id, q.attempts FROM fairpost.queue q UNION ALL SELECT e.id, e.attempts FROM fairpost.emails e"""
        )
        attempts = {EmailId(row["id"]): row["attempts"] for row in await self.store.fetch(sql)}
        counted = +Counter(attempts)
        assert all(
            counted[id_] <= n for id_, n in self.begun.items()
        )  # an attempt that never used the network is given back
        assert not [id_ for id_ in self.cancelled if attempts[id_] > self.begun[id_]]


Court = tuple[asyncio.Runner, asyncpg.Connection]


@pytest.fixture(scope="module")
def court(databases: Databases) -> Iterator[Court]:
    async def laid(url: str) -> asyncpg.Connection:
        made = await connect(url)
        for name in ("a0", "a1", "a2"):
            await made.add_account(name, address=f"{name}@post.test", limits=Limits())
            emails = [draft(workspace=name, to=f"{name}{k}@there.test", account=name) for k in range(5)]
            await made.enqueue_many(emails, now=NOW)
        await made.close()
        return await asyncpg.connect(url)

    with databases.fresh() as url, asyncio.Runner() as runner:
        conn = runner.run(laid(url))
        yield runner, conn
        runner.run(conn.close())


@given(
    moves=st.lists(
        st.tuples(st.sampled_from(ACTS), st.sets(st.integers(0, 2), min_size=1).map(sorted)), min_size=4, max_size=14
    )
)
def test_whatever_happens_between_steps_each_email_is_handed_over_once_per_counted_attempt(
    court: Court, moves: list[tuple[str, list[int]]]
) -> None:
    runner, conn = court

    async def played() -> None:
        store = Store(conn)
        with clock.stopped_at(NOW) as manual:
            players = []
            for name in ("a0", "a1", "a2"):
                account = await store.account_named(name)
                lease = await store.take_lease(account.id, owner="test", seconds=LIFE.total_seconds(), now=NOW)
                assert lease is not None
                players.append(Player(name, lease))
            game = Game(store, players, manual)
            await game.play("claim", players)
            for act, chosen in moves:
                await game.play(act, [players[nth] for nth in chosen])
                await game.check()

    async def undone() -> None:
        try:
            async with conn.transaction():
                await played()
                assert await everything(conn)
                raise Undone
        except Undone:
            pass

    runner.run(undone())
