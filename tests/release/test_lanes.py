"""Lanes by tier, and order of time if the fair queue is off: shares hold, nothing idles, and nothing is left behind."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from fairpost.model.account import Lease, Limits
from fairpost.model.ids import EmailId
from fairpost.model.sender import Fairness, Tier
from fairpost.store import senders
from fairpost.store.store import Store
from tests.simulation.world import START, broken_promises, clean, draft
from tests.thorough import times

LANES = Fairness(has_lanes=True)
FIFO = Fairness(share=0)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store
        assert await broken_promises(store) == {}


async def lease_of(store: Store, name: str = "a0") -> Lease:
    id_ = await store.add_account(name, address="a@post.test", limits=Limits())
    lease = await store.take_lease(id_, owner="test", seconds=1e9, now=START)
    assert lease is not None
    return lease


async def claimed(store: Store, lease: Lease, limit: int, now: datetime = START) -> list[Any]:
    """Removed at once, as if sent."""
    ids = list((await store.claim(lease, limit=limit, now=now)).ids)
    found = {
        row["id"]: row for row in await store.fetch("DELETE FROM fairpost.queue WHERE id = ANY ($1) RETURNING *", ids)
    }
    return [found[id_] for id_ in ids]


async def set_tier(store: Store, workspace: str, user: str, tier: Tier, until: datetime | None = None) -> None:
    await store.value(
        "SELECT fairpost.set_tier($1, 'user', $2, $3, $4, 'throttle.by_hand', '{}', $5)",
        workspace,
        user,
        int(tier),
        until,
        START,
    )


USERS = {"vip": Tier.HIGH, "plain": Tier.NORMAL, "young": Tier.LOW, "bad": Tier.THROTTLED}


async def fill(store: Store, n: int, users: dict[str, Tier] = USERS, *, workspaces: int = 3, stream: str = "") -> None:
    for user in users:
        for w in range(workspaces):
            await store.enqueue_many([draft(workspace=f"w{w}", user=user, stream=stream) for _ in range(n)], now=START)


async def test_lanes_have_their_shares_whatever_senders_they_have(store: Store) -> None:
    lease = await lease_of(store)
    for user, tier in USERS.items():
        for w in range(3):
            await set_tier(store, f"w{w}", user, tier)
    await fill(store, 200)
    assert await senders.lay_fairness(store, LANES)
    served: list[Any] = []
    for size in (7, 50, 13, 30, 50, 50, 50, 50):
        served += await claimed(store, lease, size)
        by_user = Counter(row["user_name"] for row in served)
        if len(served) >= 100:
            shares = {user: 100 * by_user[user] / len(served) for user in USERS}
            assert all(abs(shares[u] - s) <= 2 for u, s in zip(USERS, (40, 40, 15, 5), strict=True)), shares
    assert len(served) == 300
    by_workspace = Counter(row["workspace"] for row in served)
    assert max(by_workspace.values()) - min(by_workspace.values()) <= 4, "inside a lane, it is fair"


async def test_no_slot_is_idle_and_what_a_lane_leaves_goes_to_the_others(store: Store) -> None:
    lease = await lease_of(store)
    await senders.lay_fairness(store, LANES)
    for user, tier in USERS.items():
        await set_tier(store, "w0", user, tier)
    await fill(store, 60, {"young": Tier.LOW, "bad": Tier.THROTTLED}, workspaces=1)
    assert len(await claimed(store, lease, 40)) == 40
    by_user = Counter(row["user_name"] for row in await claimed(store, lease, 40))
    assert by_user == {"young": 30, "bad": 10}, "three to one, like 15 to 5"
    await fill(store, 1, {"vip": Tier.HIGH}, workspaces=1)
    assert "vip" in {row["user_name"] for row in await claimed(store, lease, 2)}, "a newcomer does not have to wait"
    while rows := await claimed(store, lease, 50):
        served = len(rows)
    assert served < 50
    assert await store.value("SELECT count(*) FROM fairpost.queue") == 0


async def test_bad_queue_health_limits_the_low_tiers_and_leaves_no_slot_unused(store: Store) -> None:
    lease = await lease_of(store)
    await senders.lay_fairness(store, Fairness(has_lanes=True, shares=(25, 25, 25, 25)))
    for user, tier in USERS.items():
        await set_tier(store, "w0", user, tier)
    await fill(store, 300, workspaces=1, stream="bulk")

    async def shares(multiplier: float) -> Counter[str]:
        await senders.set_health(store, queued=1, oldest_at=None, multiplier=multiplier, now=START)
        return Counter(row["user_name"] for row in await claimed(store, lease, 100))

    good_day = await shares(2.0)
    assert max(good_day.values()) - good_day["young"] <= 1, "only the throttled sender is limited"
    bad_day = await shares(0.35)
    assert (bad_day["bad"], bad_day["young"]) == (3, 17), "a tenth, and half of 35%"
    assert bad_day.total() == 100
    for user in ("vip", "plain", "young"):
        await store.hold("w0", "user", user, reason="test", now=START)
    assert await shares(0.1) == {"bad": 100}, "a lone sender has no bound"


async def test_a_tier_counts_at_once_for_what_is_queued(store: Store) -> None:
    lease = await lease_of(store)
    await senders.lay_fairness(store, LANES)
    await store.enqueue_many([draft(user="u", stream=f"s{i}") for i in range(30)], now=START)
    await claimed(store, lease, 1)
    for tier in (Tier.HIGH, Tier.THROTTLED, Tier.LOW, Tier.NORMAL, Tier.THROTTLED):
        await set_tier(store, "w1", "u", tier)
        roots = await store.fetch(
            """SELECT DISTINCT split_part(r.key, E'\\x1f', 3) AS lane FROM fairpost.nodes u JOIN fairpost.nodes w ON w.id = u.path[1]
               JOIN fairpost.nodes r ON r.id = w.parent WHERE u.level = 'stream'"""
        )
        lane = {Tier.HIGH: "high", Tier.THROTTLED: "throttled", Tier.LOW: "low", Tier.NORMAL: ""}[tier]
        assert [row["lane"] for row in roots] == [lane]
        assert await broken_promises(store) == {}
    await set_tier(store, "w1", "u", Tier.THROTTLED, START + timedelta(hours=1))
    assert await claimed(store, lease, 50) == []
    assert len(await claimed(store, lease, 50, START + timedelta(hours=1))) == 29


async def test_off_means_the_order_of_time(store: Store) -> None:
    lease = await lease_of(store)
    await senders.lay_fairness(store, FIFO)
    chance = random.Random(3)
    moments = [START - timedelta(minutes=chance.randrange(600)) for _ in range(300)]
    for i, moment in enumerate(moments):
        await store.enqueue_many(
            [draft(workspace=f"w{i % 3}", user=f"u{i % 7}", stream="c", due_at=moment)], now=START - timedelta(days=1)
        )
    served = [row["due_at"] for _ in range(30) for row in await claimed(store, lease, 10)]
    assert served == sorted(moments)


async def test_off_obeys_holds_and_says_when_the_next_is_due(store: Store) -> None:
    lease = await lease_of(store)
    await senders.lay_fairness(store, FIFO)
    await store.enqueue_many([draft(user="held"), draft(user="free")], now=START)
    later = START + timedelta(hours=2)
    await store.enqueue_many([draft(user="free", due_at=later)], now=START)
    await store.hold("w1", "user", "held", reason="test", now=START)
    assert [row["user_name"] for row in await claimed(store, lease, 10)] == ["free"]
    claim = await store.claim(lease, limit=10, now=START)
    assert (claim.ids, claim.next_at) == ((), later)
    await store.release("w1", "user", "held", now=START)
    assert [row["user_name"] for row in await claimed(store, lease, 10)] == ["held"]
    assert [row["user_name"] for row in await claimed(store, lease, 10, later)] == ["free"]


async def test_half_of_the_traffic_can_be_fair(store: Store) -> None:
    lease = await lease_of(store)
    await senders.lay_fairness(store, Fairness(share=50))
    for w in range(40):
        await store.enqueue_many([draft(workspace=f"w{w}", user="u") for _ in range(20)], now=START)
    rows = [row for _ in range(8) for row in await claimed(store, lease, 50)]
    fair = await store.fetch(
        "SELECT w, fairpost.is_fair(w, 50::smallint) AS fair FROM unnest($1::text[]) w", [f"w{w}" for w in range(40)]
    )
    is_fair = {row["w"]: row["fair"] for row in fair}
    assert 8 <= sum(is_fair.values()) <= 32
    by_queue = Counter(is_fair[row["workspace"]] for row in rows)
    assert abs(by_queue[True] - by_queue[False]) <= 2, "half of the capacity each"
    of_fair = Counter(row["workspace"] for row in rows if is_fair[row["workspace"]])
    assert max(of_fair.values()) - min(of_fair.values()) <= 1
    first = [row["workspace"] for row in rows if not is_fair[row["workspace"]]]
    assert first == sorted(first, key=lambda w: int(w[1:])), "the others in order of arrival"


KINDS = (
    Fairness(),
    LANES,
    FIFO,
    Fairness(share=50),
    Fairness(share=30, has_lanes=True),
    Fairness(weights=(0.2, 0.5, 1.0, 4.0)),
)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(times(3)))
async def test_changes_while_mail_is_waiting_lose_and_repeat_nothing(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    await clean(store)
    now, enqueued, served = START, 0, set[EmailId]()
    leases = {name: await lease_of(store, name) for name in ("x", "y")}
    users = [f"u{i}" for i in range(6)]

    async def some_claim(limit: int) -> None:
        for row in await claimed(store, chance.choice(list(leases.values())), limit, now):
            assert row["id"] not in served
            served.add(row["id"])

    for _ in range(120):
        now += timedelta(minutes=chance.randrange(10))
        workspace, user = f"w{chance.randrange(4)}", chance.choice(users)
        match chance.randrange(8):
            case 0 | 1 | 2:
                n = chance.randrange(1, 12)
                route = chance.choice([{}, {}, {"account": "x"}])
                kind = chance.choice(["urgent", "bulk"])
                due = now + timedelta(minutes=chance.choice([0, 0, 0, 30]))
                mail = draft(workspace=workspace, user=user, domain=f"d{chance.randrange(2)}.test", due_at=due)
                mail |= {"class": kind, **route}
                await store.enqueue_many([mail] * n, now=now)
                enqueued += n
            case 3 | 4:
                await some_claim(chance.randrange(1, 30))
            case 5:
                tier = chance.choice(list(Tier))
                until = now + timedelta(minutes=chance.randrange(60)) if tier is Tier.THROTTLED else None
                level, name = ("user", user) if chance.random() < 0.7 else ("workspace", "")
                await store.value(
                    "SELECT fairpost.set_tier($1, $2, $3, $4, $5, 'throttle.by_hand', '{}', $6)",
                    workspace,
                    level,
                    name,
                    int(tier),
                    until,
                    now,
                )
            case 6:
                await store.value(
                    "SELECT fairpost.lay_fairness($1, $2, $3, $4, true, 1000, '', $5)",
                    *_laid(chance.choice(KINDS)),
                    now,
                )
            case 7:
                if chance.random() < 0.5:
                    await store.hold(workspace, "user", user, until=now + timedelta(minutes=20), reason="t", now=now)
                else:
                    await store.release(workspace, "user", user, now=now)
        assert await broken_promises(store) == {}
    now += timedelta(days=2)
    for _ in range(400):
        before = len(served)
        await some_claim(50)
        if len(served) == before and len(served) == enqueued:
            break
    assert len(served) == enqueued


def _laid(kind: Fairness) -> tuple[Any, ...]:
    return kind.share, kind.has_lanes, list(kind.weights), list(kind.shares)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": (0.1, 0.5, 1.0, -2.0)},
        {"weights": (0.1, 0.5, 1.0, 1e9)},
        {"weights": (0.0, 0.5, 1.0, 2.0)},
        {"shares": (0, 20, 40, 40)},
        {"share": 101},
        {"share": -1},
    ],
)
async def test_nonsense_is_refused_and_changes_nothing(store: Store, change: dict[str, Any]) -> None:
    before = await store.row("SELECT * FROM fairpost.fairness")
    with pytest.raises(asyncpg.PostgresError):
        await senders.lay_fairness(store, Fairness(**change))
    assert await store.row("SELECT * FROM fairpost.fairness") == before
    for weight in (-1.0, 0.0, 1e6, float("inf"), float("nan")):
        with pytest.raises(asyncpg.PostgresError):
            await store.set_weight("w1", "user", "u", weight=weight)
    with pytest.raises(asyncpg.PostgresError):
        await store.value("SELECT fairpost.set_tier('w1', 'user', 'u', 7::smallint, NULL, NULL, NULL)")
    with pytest.raises(asyncpg.PostgresError):
        await store.value("SELECT fairpost.set_tier('w1', 'stream', 'u', 2::smallint, NULL, NULL, NULL)")
    assert await store.fetch("SELECT * FROM fairpost.sender_rules") == []


@pytest.mark.parametrize("field", ["tier", "weight", "priority", "lane", "fifo", "fresh"])
async def test_a_login_cannot_change_its_own_tier(store: Store, field: str) -> None:
    (row,) = await store.enqueue_many([{**draft(), field: 2}], now=START)
    assert row["error"] is not None
    assert field in row["error"]


async def test_one_at_a_time_an_empty_lane_saves_nothing_up(store: Store) -> None:
    lease = await lease_of(store)
    await senders.lay_fairness(store, LANES)
    await set_tier(store, "w0", "vip", Tier.HIGH)
    await fill(store, 90, {"plain": Tier.NORMAL}, workspaces=1)
    for _ in range(40):
        await claimed(store, lease, 1)
    await fill(store, 30, {"vip": Tier.HIGH}, workspaces=1)
    served = [(await claimed(store, lease, 1))[0]["user_name"] for _ in range(20)]
    by_user = Counter(served)
    assert by_user == {"vip": 10, "plain": 10}


async def test_a_route_that_comes_while_everyone_is_moved_is_not_left_behind(store: Store, url: str) -> None:
    await lease_of(store)
    await store.enqueue_many([draft(pool="other")], now=START)
    async with Store.open(url) as another, store.connection() as conn:
        moving = conn.transaction()
        await moving.start()
        await senders.lay_fairness(Store(conn), FIFO)
        adding = asyncio.create_task(another.add_account("b", address="b@post.test", pool="other", limits=Limits()))
        await asyncio.wait([adding], timeout=0.3)
        assert not adding.done(), "it waits until all are moved"
        await moving.commit()
        lease = await another.take_lease(await adding, owner="test", seconds=1e9, now=START)
        assert lease is not None
        assert len((await another.claim(lease, limit=5, now=START)).ids) == 1


async def test_the_lower_tier_applies_and_normal_is_the_default(store: Store) -> None:
    async def tier(user: str) -> int:
        return int(await store.value("SELECT fairpost.tier_of('w1', $1)", user))

    await store.value("SELECT fairpost.set_tier('w1', 'workspace', '', 2::smallint, NULL, NULL, NULL)")
    await set_tier(store, "w1", "once_low", Tier.LOW)
    assert await tier("once_low") == Tier.LOW
    await set_tier(store, "w1", "once_low", Tier.NORMAL)
    assert await tier("once_low") == await tier("never_seen") == Tier.HIGH
    await store.value("SELECT fairpost.set_tier('w1', 'workspace', '', 0::smallint, NULL, NULL, NULL)")
    await set_tier(store, "w1", "vip", Tier.HIGH)
    assert await tier("vip") == Tier.LOW


async def test_any_number_of_names_uses_at_most_a_thousand_locks(store: Store) -> None:
    locks = await store.row(
        """SELECT count(DISTINCT fairpost.rules_lock('w' || i)) AS rules, count(DISTINCT fairpost.quota_lock('w', 'u' || i)) AS quotas
           FROM generate_series(1, 20000) i"""
    )
    assert tuple(locks) == (1024, 1024)
    overlap = await store.value(
        """SELECT count(*) FROM generate_series(1, 5000) i
           WHERE fairpost.rules_lock('w' || i) IN (SELECT fairpost.quota_lock('w', 'u' || j) FROM generate_series(1, 5000) j)
              OR fairpost.rules_lock('w' || i) = fairpost.pause_lock()"""
    )
    assert overlap == 0
