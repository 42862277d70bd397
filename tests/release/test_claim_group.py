"""One claim for many accounts: the same e-mails in the same order as for one account, assigned in turn."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.engine.claims import ClaimGroup
from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.email import Outgoing
from fairpost.model.errors import DatabaseUnavailable
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.step import Begins, StepRequest
from fairpost.policy.limits import charge
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from tests.conftest import Databases
from tests.simulation.world import START, broken_promises, clean, connect, draft

NOW = START
POOL = "default"


async def leases_of(store: Store, *names: str) -> list[Lease]:
    found = []
    for name in names:
        id_ = await store.add_account(name, address=f"{name}@post.test", limits=Limits(), pool=POOL)
        lease = await store.take_lease(id_, owner="test", seconds=600, now=NOW)
        assert lease is not None
        found.append(lease)
    return found


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = await connect(url)
    yield made
    await made.close()


Laid = tuple[asyncio.Runner, "asyncpg.Connection"]


@pytest.fixture(scope="module")
def laid(databases: Databases) -> Iterator[Laid]:
    """One connection for all examples: each new one would plan everything again."""
    with databases.new() as url, asyncio.Runner() as runner:
        conn = runner.run(asyncpg.connect(url))
        yield runner, conn
        runner.run(conn.close())


class Undone(Exception):
    pass


@given(
    mails=st.lists(
        st.tuples(st.sampled_from("wxyz"), st.sampled_from("ab"), st.sampled_from(["urgent", "bulk", "bulk"])),
        min_size=1,
        max_size=40,
    ),
    limits=st.lists(st.integers(1, 12), min_size=3, max_size=3),
    earlier=st.integers(1, 12),
)
def test_a_group_gets_what_one_account_would_get(
    laid: Laid, mails: list[tuple[str, str, str]], limits: list[int], earlier: int
) -> None:
    runner, conn = laid
    store = Store(conn)

    async def lay() -> list[Lease]:
        """Some have been served before."""
        accounts = await clean(store)
        leases = [await store.take_lease(id_, owner="test", seconds=600, now=NOW) for id_ in accounts.values()]
        emails = [draft(workspace=w, user=u, to=f"p{i}@there.test") | {"class": c} for i, (w, u, c) in enumerate(mails)]
        await store.enqueue_many(emails, now=NOW)
        held = [lease for lease in leases if lease is not None]
        await store.give_back(held[0], (await store.claim(held[0], limit=earlier, now=NOW)).ids[: earlier // 2])
        return held

    async def undone(take: Callable[[Store], Awaitable[list[list[int]]]]) -> list[list[int]]:
        try:
            async with conn.transaction():
                shares = await take(store)
                assert await broken_promises(store) == {}
                raise Undone
        except Undone:
            return shares

    async def both() -> None:
        leases = await lay()

        async def alone(store: Store) -> list[list[int]]:
            return [[*(await store.claim(leases[0], limit=sum(limits), now=NOW)).ids]]

        async def together(store: Store) -> list[list[int]]:
            got = await store.claim_together(POOL, leases, limits, now=NOW)
            sql = "SELECT id FROM fairpost.queue WHERE state = 'claimed' AND account_id = $1 AND claimed_at = $2"
            for lease in leases[1:]:
                held = {row["id"] for row in await store.fetch(sql, lease.account_id, NOW)}
                assert held == {*got[lease.account_id].ids}
            return [[*got[lease.account_id].ids] for lease in leases]

        (one,), dealt = await undone(alone), await undone(together)
        assert sorted(id_ for ids in dealt for id_ in ids) == sorted(one)
        most = max(map(len, dealt))
        in_turn = [len(ids) in (most, most - 1) or len(ids) == limit for ids, limit in zip(dealt, limits, strict=True)]
        assert all(in_turn)

    runner.run(both())


@pytest.mark.parametrize(
    "matter",
    [
        "UPDATE fairpost.accounts SET status = 'paused', status_reason = 'account.worker_died', status_params = '{{}}' WHERE id = {id}",
        "UPDATE fairpost.accounts SET revision = revision + 1 WHERE id = {id}",
        "UPDATE fairpost.accounts SET pool = 'other' WHERE id = {id}",
        "UPDATE fairpost.leases SET until = '2029-01-01Z' WHERE account_id = {id}",
        "UPDATE fairpost.leases SET epoch = epoch + 1 WHERE account_id = {id}",
        "UPDATE fairpost.leases SET server = '2029-01-01Z' WHERE account_id = {id}",
        "INSERT INTO fairpost.blocks (account_id, workspace, since, until, reason, params) VALUES ({id}, 'w1', now(), 'infinity', 'bounces', '{{}}')",
    ],
)
async def test_an_account_that_cannot_claim_is_left_out_and_the_others_are_served(store: Store, matter: str) -> None:
    leases = await leases_of(store, "a", "b")
    await store.enqueue_many([draft(to=f"p{i}@there.test") for i in range(4)], now=NOW)
    await store.value(matter.format(id=leases[0].account_id))
    got = await store.claim_together(POOL, leases, [2, 2], now=NOW)
    assert {account: len(claim.ids) for account, claim in got.items()} == {leases[1].account_id: 2}


async def test_an_account_with_mail_of_its_own_claims_alone(store: Store) -> None:
    leases = await leases_of(store, "a", "b")
    await store.enqueue_many([draft(to="p@there.test", account="a"), draft(to="q@there.test")], now=NOW)
    got = await store.claim_together(POOL, leases, [2, 2], now=NOW)
    assert [*got] == [leases[1].account_id]
    assert len((await store.claim(leases[0], limit=2, now=NOW)).ids) == 1


async def test_nothing_is_claimed_while_everything_is_paused(store: Store) -> None:
    leases = await leases_of(store, "a", "b")
    await store.enqueue_many([draft()], now=NOW)
    await store.value(
        "INSERT INTO fairpost.pauses (since, until, reason, paused_by, restored, params) VALUES (now(), 'infinity', 'everything.paused', 'b', false, '{}')"
    )
    assert await store.claim_together(POOL, leases, [2, 2], now=NOW) == {}


async def test_with_nothing_due_each_hears_when_to_look_again(store: Store) -> None:
    leases = await leases_of(store, "a", "b")
    soon = NOW.replace(hour=1)
    await store.enqueue_many([draft(due_at=soon)], now=NOW)
    got = await store.claim_together(POOL, leases, [2, 2], now=NOW)
    assert [(claim.ids, claim.next_at) for claim in got.values()] == [((), soon), ((), soon)]


class Watched(Store):
    """Counts how many accounts claim at once."""

    def __init__(self, *more: Any) -> None:
        super().__init__(*more)
        self.asked: list[int] = []

    async def claim_together(self, pool: str, leases: Any, limits: Any, *, now: Any = None) -> Any:
        self.asked.append(len(leases))
        return await super().claim_together(pool, leases, limits, now=NOW)

    async def claim(self, lease: Lease, *, limit: int, now: Any = None) -> Any:
        self.asked.append(1)
        return await super().claim(lease, limit=limit, now=NOW)


async def test_requests_during_a_claim_share_the_next_one(store: Store, url: str) -> None:
    leases = await leases_of(store, "a", "b", "c")
    await store.enqueue_many([draft(to=f"p{i}@there.test") for i in range(9)], now=NOW)
    async with Watched.open(url) as watched:
        group = ClaimGroup(watched)
        got = await asyncio.gather(*(group.claim(lease, pool=POOL, limit=3) for lease in leases))
        assert sorted(watched.asked) in ([1, 2], [3])
    assert [len(emails) for _, emails in got] == [3, 3, 3]
    assert all(tuple(email.id for email in emails) == claim.ids for claim, emails in got)


async def test_trouble_of_the_database_reaches_all_who_asked() -> None:
    class Away:
        async def claim_together(self, *_: Any, **__: Any) -> Any:
            raise DatabaseUnavailable("it is away")

        claim = claim_together

    group = ClaimGroup(Away())  # type: ignore[arg-type]
    lease = Lease(account_id=AccountId(1), epoch=1, until=NOW)  # type: ignore[arg-type]
    asked = [group.claim(lease, pool=POOL, limit=1) for _ in range(3)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [DatabaseUnavailable] * 3


# ── ahead of need ─────────────────────────────────────────────────────────────────────────────────────────


class Member:
    """An account at work with room for `room` more e-mails."""

    def __init__(self, lease: Lease, room: int) -> None:
        self.lease = lease
        self.room = room
        self.supplied: asyncio.Future[list[EmailId]] = asyncio.get_running_loop().create_future()
        self.is_unsure = False

    def room_ahead(self) -> int:
        return self.room

    def take_ahead(self, lease: Lease, emails: list[Outgoing]) -> None:
        assert lease == self.lease
        self.room -= len(emails)
        self.supplied.set_result([email.id for email in emails])

    def lose_ahead(self) -> None:
        self.is_unsure = True


async def test_a_claim_supplies_accounts_that_have_few_left(store: Store, url: str) -> None:
    leases = await leases_of(store, "a", "b", "c")
    await store.enqueue_many([draft(to=f"p{i}@there.test") for i in range(9)], now=NOW)
    async with Watched.open(url) as watched:
        group = ClaimGroup(watched)
        low, full = Member(leases[1], 4), Member(leases[2], 0)
        group.join(POOL, low)
        group.join(POOL, full)
        _, emails = await group.claim(leases[0], pool=POOL, limit=2)
        ahead = await low.supplied
        assert watched.asked == [2]
    assert len(ahead) == 4
    assert not {*ahead} & {email.id for email in emails}
    assert (low.room, full.supplied.done()) == (0, False)
    of = await store.value("SELECT array_agg(DISTINCT q.account_id) FROM fairpost.queue q WHERE q.id = ANY ($1)", ahead)
    assert of == [leases[1].account_id]


async def test_an_account_that_gets_nothing_ahead_is_not_tried_again_until_it_asks(store: Store, url: str) -> None:
    lease, other_lease, asking = await leases_of(store, "a", "b", "c")
    async with Watched.open(url) as watched:
        group = ClaimGroup(watched)
        member = Member(lease, 5)
        group.join(POOL, member)
        other = Member(other_lease, 5)
        group.join(POOL, other)
        for _ in range(3):
            assert (await group.claim(asking, pool=POOL, limit=1))[1] == []
        assert watched.asked == [3, 1, 1]
        await store.enqueue_many([draft(to=f"p{i}@there.test") for i in range(9)], now=NOW)
        await group.claim(lease, pool=POOL, limit=1)
        group.claim_ahead(POOL)
        assert len(await member.supplied) == 5


async def test_an_account_can_wait_for_what_is_being_claimed_ahead_for_it(store: Store, url: str) -> None:
    """Otherwise it would claim on its own and then hold twice as many."""
    (lease,) = await leases_of(store, "a")
    await store.enqueue_many([draft(to=f"p{i}@there.test") for i in range(9)], now=NOW)
    async with Watched.open(url) as watched:
        group, member = ClaimGroup(watched), Member(lease, 5)
        group.join(POOL, member)
        group.claim_ahead(POOL)
        await asyncio.sleep(0)  # the claim begins
        assert not member.supplied.done()
        await group.await_supply(lease.account_id)
        assert len(member.supplied.result()) == 5
        await group.await_supply(lease.account_id)  # nothing is in progress any more


async def test_members_hear_that_the_answer_to_a_claim_was_lost(store: Store, url: str) -> None:
    class Lost(Watched):
        async def load(self, ids: Any) -> Any:
            raise DatabaseUnavailable("it went away after the commit")

    leases = await leases_of(store, "a", "b")
    await store.enqueue_many([draft(to=f"p{i}@there.test") for i in range(9)], now=NOW)
    async with Lost.open(url) as lost:
        group, member = ClaimGroup(lost), Member(leases[1], 5)
        group.join(POOL, member)
        with pytest.raises(DatabaseUnavailable):
            await group.claim(leases[0], pool=POOL, limit=2)
    assert member.is_unsure


async def test_steps_continue_during_a_claim_and_a_new_holder_waits_for_it(store: Store, url: str) -> None:
    """One account leads the claim; only its steps wait."""
    leases = await leases_of(store, "a", "b")
    await store.enqueue_many([draft(to=f"p{i}@there.test") for i in range(9)], now=NOW)
    claimed = await store.claim(leases[1], limit=1, now=NOW)
    begins = Begins(email_id=claimed.ids[0], usage=charge(Limits(), Usage(), now=NOW))
    step = StepRequest(lease=leases[1], number=leases[1].step + 1, begins=begins)
    async with asyncio.timeout(60), Store.open(url) as other:
        async with store.together() as claiming:
            got = await claiming.claim_together(POOL, leases, [2, 2], now=NOW)
            assert {*got} == {lease.account_id for lease in leases}
            [answer] = await take_steps(other, [step])
            assert answer is not None
            assert answer.is_begun
            drop = asyncio.create_task(other.drop_lease(leases[1]))
            while not await store.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                assert not drop.done(), "otherwise, the e-mails from this claim would be left behind"
        await drop
    left = await store.fetch("SELECT account_id FROM fairpost.queue WHERE state = 'claimed'")
    assert {row["account_id"] for row in left} == {leases[0].account_id}
