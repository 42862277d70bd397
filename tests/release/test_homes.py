"""A user has one place in the tree: whatever domains they use in From, share, weight and throttle are those of one
user."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.account import Lease, Limits
from fairpost.store import senders
from fairpost.store.migrations import known_migrations
from fairpost.store.store import Store
from tests.simulation.world import broken_promises, clean, connect, draft
from tests.thorough import times

SHARED = "acme.test"
SUBDOMAINS = tuple(f"s{n}.{SHARED}" for n in range(20))
FIFTY = tuple(f"d{n}.test" for n in range(50))


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = await connect(url, connections_max=8)
    yield store
    await store.close()


async def worker(store: Store, name: str = "a0", *, pool: str = "default") -> Lease:
    account = await store.add_account(name, address="a@post.test", pool=pool, limits=Limits())
    lease = await store.take_lease(account, owner="test", seconds=3600)
    assert lease is not None
    return lease


async def fresh(store: Store) -> Lease:
    await clean(store)
    return await worker(store)


async def put(store: Store, user: str, domains: Sequence[str], each: int, *, workspace: str = "w", **more: Any) -> None:
    emails = [draft(workspace=workspace, domain=d, user=user, stream="c", **more) for d in domains for _ in range(each)]
    assert all(row["new"] for row in await store.enqueue_many(emails))


async def served(store: Store, lease: Lease, turns: int, *, by: str = "user_name", batch: int = 10) -> Counter[str]:
    """Returns how many of this many turns each got. Claimed e-mails are removed at once, as if they had been sent."""
    got = Counter[str]()
    while (left := turns - sum(got.values())) > 0:
        claimed = await store.claim(lease, limit=min(batch, left))
        if not claimed.ids:
            break
        rows = await store.fetch(f"DELETE FROM fairpost.queue WHERE id = ANY ($1) RETURNING {by}", list(claimed.ids))
        got.update(row[by] for row in rows)
    return got


async def drained(store: Store, lease: Lease) -> int:
    return sum((await served(store, lease, 100_000, batch=50)).values())


async def places(store: Store, user: str, *, workspace: str = "w") -> set[str]:
    """Returns the domains below which this user has leaves."""
    rows = await store.fetch(
        """SELECT DISTINCT d.key FROM fairpost.nodes u JOIN fairpost.nodes d ON d.id = u.parent
           WHERE u.workspace = $1 AND u.level = 'user' AND u.key = $2""",
        *(workspace, user),
    )
    return {row["key"] for row in rows}


# ── shares ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("other", [SHARED, FIFTY[0], FIFTY[20]])
async def test_a_user_gets_no_more_over_fifty_domains_than_with_one(store: Store, other: str) -> None:
    lease = await fresh(store)
    await put(store, "ann", [other], 200)
    await put(store, "spreader", FIFTY, 10)
    got = await served(store, lease, 150)
    assert got["ann"] == pytest.approx(75, rel=0.05)
    assert len(await places(store, "spreader")) == 1


@pytest.mark.parametrize(
    "domains", [(SHARED,), (SHARED, *SUBDOMAINS), SUBDOMAINS, SUBDOMAINS[:1], (*SUBDOMAINS, SHARED)]
)
async def test_a_slow_user_gets_no_more_over_twenty_subdomains_than_with_one_domain(
    store: Store, domains: tuple[str, ...]
) -> None:
    lease = await fresh(store)
    await store.set_weight("w", "user", "slow", weight=0.1)
    await put(store, "ann", [SHARED], 600)
    await put(store, "slow", domains, 600 // len(domains) + 1)
    got = await served(store, lease, 550)
    assert got["slow"] == pytest.approx(50, abs=3)


async def test_a_sender_slowed_down_after_spreading_is_slowed_down_everywhere(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", [SHARED], 600)
    await put(store, "slow", SUBDOMAINS, 30)
    assert (await served(store, lease, 100))["slow"] == 50
    await store.value("SELECT fairpost.set_tier('w', 'user', 'slow', -1::smallint, NULL, NULL, NULL)")
    assert (await served(store, lease, 220))["slow"] == pytest.approx(20, abs=2)
    await store.value("SELECT fairpost.set_tier('w', 'user', 'slow', 1::smallint, NULL, NULL, NULL)")
    assert (await served(store, lease, 100))["slow"] == pytest.approx(50, abs=2)


async def test_sharing_a_domain_with_a_slow_user_does_not_slow_others_down(store: Store) -> None:
    lease = await fresh(store)
    await store.set_weight("w", "user", "slow", weight=0.1)
    await put(store, "slow", ["both.test"], 300)
    await put(store, "ann", [SHARED], 300)
    assert (await served(store, lease, 110))["slow"] == pytest.approx(10, abs=2)
    await put(store, "ben", ["both.test"], 300)
    got = await served(store, lease, 220)
    assert got["ann"] == pytest.approx(110, abs=3)
    assert got["ben"] == pytest.approx(100, abs=3)


@settings(max_examples=times(4))
@given(
    domains=st.lists(st.sampled_from([SHARED, *SUBDOMAINS, *FIFTY]), min_size=1, max_size=12, unique=True),
    weight=st.sampled_from([0.1, 0.5, 1.0]),
    home=st.sampled_from([SHARED, FIFTY[0], "elsewhere.test"]),
    batch=st.integers(1, 30),
)
async def test_spreading_over_domains_gives_the_share_of_one(
    store: Store, domains: list[str], weight: float, home: str, batch: int
) -> None:
    shares = []
    for chosen in (domains[:1], domains):
        lease = await fresh(store)
        await store.set_weight("w", "user", "spreader", weight=weight)
        await put(store, "ann", [home], 200)
        await put(store, "spreader", chosen, 200 // len(chosen) + 1)
        shares.append((await served(store, lease, 180, batch=batch))["spreader"])
        assert await broken_promises(store) == {}
    assert abs(shares[1] - shares[0]) <= max(0.05 * shares[0], 2)


async def test_a_thousand_invented_users_cost_other_workspaces_nothing(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", [SHARED], 200, workspace="honest")
    users = [
        draft(workspace="inventor", domain=f"i{n}.test", user=f"u{n}", stream="c") for n in range(1_000) for _ in "ab"
    ]
    await store.enqueue_many(users)
    assert await served(store, lease, 300, by="workspace") == {"honest": 150, "inventor": 150}


async def test_a_users_share_is_divided_among_several_domains(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", FIFTY[:1], 500)
    await put(store, "ann", FIFTY[1:4], 20)
    got = await served(store, lease, 80, by="domain")
    assert [got[domain] for domain in FIFTY[:4]] == [20, 20, 20, 20]


async def test_mail_that_names_no_user_is_shared_by_its_domains(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "", [SHARED], 100)
    await put(store, "", FIFTY[:3], 100)
    got = await served(store, lease, 80, by="domain")
    assert set(got.values()) == {20}


async def test_a_user_has_the_same_home_below_every_route_and_in_every_lane(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", [SHARED], 3)
    await put(store, "ann", ["other.test"], 3, account="a0")
    await put(store, "ann", ["third.test"], 3, **{"class": "urgent"})
    await store.value("SELECT fairpost.set_tier('w', 'user', 'ann', 0::smallint, NULL, NULL, NULL)")
    assert await drained(store, lease) == 9
    assert await places(store, "ann") == {SHARED}


# ── how the home is decided ───────────────────────────────────────────────────────────────────────────────


async def test_two_open_transactions_of_one_new_user_do_not_wait_for_each_other(store: Store) -> None:
    lease = await fresh(store)
    async with store.connection() as one, store.connection() as two, store.connection() as engine:
        for conn in (one, two, engine):
            await conn.execute("SET lock_timeout = '1ms'")
        async with one.transaction():
            await Store(one).enqueue_many([draft(workspace="w", domain="one.test", user="new")])
            async with two.transaction():
                await Store(two).enqueue_many([draft(workspace="w", domain="two.test", user="new")])
                assert (await Store(engine).claim(lease, limit=5)).ids == ()
            assert len((await Store(engine).claim(lease, limit=5)).ids) == 1
        assert len((await Store(engine).claim(lease, limit=5)).ids) == 1
        assert await places(store, "new") == {"two.test"}, "the one whose transaction ended first"


async def test_two_who_stage_at_once_decide_on_one_home(store: Store) -> None:
    await clean(store)
    leases = [await worker(store, f"x{n}", pool=f"p{n}") for n in range(4)]
    users = [f"u{n}" for n in range(30)]
    for n in range(4):
        emails = [draft(workspace="w", domain=f"d{n}.test", user=user, pool=f"p{n}") for user in users]
        await store.enqueue_many(emails)

    async def work(lease: Lease) -> int:
        got = 0
        while got < len(users):
            got += sum((await served(store, lease, 10)).values())
        return got

    assert await asyncio.gather(*(work(lease) for lease in leases)) == [30] * 4
    assert all([len(await places(store, user)) == 1 for user in users])
    assert await broken_promises(store) == {}


async def prove(store: Store, domain: str) -> None:
    await store.value("INSERT INTO fairpost.workspaces (name, created_at) VALUES ('w', now()) ON CONFLICT DO NOTHING")
    await store.value(
        "INSERT INTO fairpost.domains (workspace, domain, token, created_at, proven_at) VALUES ('w', $1, 't', now(), now())",
        domain,
    )


async def test_the_home_is_the_first_proven_domain_they_sent_from(store: Store) -> None:
    lease = await fresh(store)
    await prove(store, SHARED)
    await prove(store, "second.test")
    await put(store, "ann", ["invented.test", f"mail.{SHARED}", "second.test"], 1)
    await put(store, "ben", ["invented.test", "other.test"], 1)
    assert await drained(store, lease) == 5
    assert await places(store, "ann") == {SHARED}, "it covers the subdomain"
    assert await places(store, "ben") == {"invented.test"}, "none is proven: the first"


async def test_a_proven_domain_that_comes_later_becomes_the_home_and_another_one_does_not(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", FIFTY[:3], 20)
    assert sum((await served(store, lease, 30)).values()) == 30
    await prove(store, SHARED)
    await prove(store, "second.test")
    await put(store, "ann", [SHARED], 5)
    await served(store, lease, 1)
    await put(store, "ann", ["second.test"], 5)
    await served(store, lease, 1)
    await senders.settle_homes(store)
    assert await places(store, "ann") == {SHARED}
    assert await broken_promises(store) == {}
    assert await drained(store, lease) == 38


# ── set_sender ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_home_that_is_given_takes_what_waits_along(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ben", ["ben.test"], 100)
    await put(store, "ann", FIFTY[:3], 30)
    await put(store, "ann", FIFTY[:2], 5, account="a0")
    await served(store, lease, 20)
    await store.value("SELECT fairpost.set_sender('w', 'ann', NULL, NULL, 'BEN.test')")
    await senders.settle_homes(store)
    assert await places(store, "ann") == {"ben.test"}
    assert await broken_promises(store) == {}
    await put(store, "ann", ["fourth.test"], 10)
    await store.value("SELECT fairpost.set_sender('w', 'ann', 'team', NULL)")
    await senders.settle_homes(store)
    got = await served(store, lease, 80)
    assert got["ann"] == pytest.approx(40, abs=2)
    assert await places(store, "ann") == {"ben.test"}, "it stays, unless another home is set"
    assert await drained(store, lease) == 110
    assert await broken_promises(store) == {}


async def test_a_home_set_before_the_first_mail_applies_and_its_open_transaction_blocks_nothing(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", [FIFTY[0]], 2)
    async with store.connection() as application, application.transaction():
        await application.execute("SELECT fairpost.set_sender('w', 'ann', NULL, NULL, 'given.test')")
        async with store.connection() as engine:
            await engine.execute("SET lock_timeout = '1ms'")
            assert len((await Store(engine).claim(lease, limit=5)).ids) == 2
            assert await senders.settle_homes(Store(engine)) == 0
    await senders.settle_homes(store)
    assert await places(store, "ann") == {"given.test"}


@pytest.mark.parametrize("home", ["", "a b", "x@y.test", "no<domain>", "d" * 300])
async def test_a_home_that_is_no_domain_is_refused(store: Store, home: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await store.value("SELECT fairpost.set_sender('w', 'ann', NULL, NULL, $1)", home)
    assert refused.value.sqlstate == "FP001"


async def test_a_workspace_has_no_home(store: Store) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await store.value("SELECT fairpost.set_sender('w', NULL, NULL, NULL, 'acme.test')")
    assert refused.value.sqlstate == "FP001"


# ── rules about a domain ──────────────────────────────────────────────────────────────────────────────────


async def test_a_hold_of_a_domain_stops_what_has_it_in_from_and_nothing_else(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", FIFTY[:3], 10)  # with the first domain as the home
    await put(store, "ben", [FIFTY[1]], 10)
    await served(store, lease, 4)
    for held in (FIFTY[0], FIFTY[1]):
        await store.hold("w", "domain", held, reason="test")
        await put(store, "cem", FIFTY[:3], 2)  # a user that appears during the hold
        waiting = await store.value("SELECT count(*) FROM fairpost.queue WHERE domain = $1 AND workspace = 'w'", held)
        (hold,) = await store.fetch("SELECT * FROM fairpost.holds(10)")
        assert (hold["key"], hold["waiting"]) == (held, waiting)
        got = await served(store, lease, 6, by="domain")
        assert sum(got.values()) == 6
        assert got[held] == 0
        assert await broken_promises(store) == {}
        assert await store.release("w", "domain", held)
    assert await drained(store, lease) == 40 - 16 + 12


async def test_a_leaf_is_free_only_when_neither_its_domain_nor_its_stream_is_held(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", FIFTY[:2], 5)
    await store.hold("w", "domain", FIFTY[1], reason="test")
    await store.hold("w", "stream", "c", reason="test")
    assert await drained(store, lease) == 0
    await store.release("w", "stream", "c")
    assert await drained(store, lease) == 5
    await store.hold("w", "stream", "c", reason="test")
    await store.release("w", "domain", FIFTY[1])
    assert await drained(store, lease) == 0
    await store.release("w", "stream", "c")
    assert await drained(store, lease) == 5
    assert await broken_promises(store) == {}


async def test_waiting_mail_is_shown_by_its_from_domain(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", FIFTY[:3], 10)
    await served(store, lease, 3)
    await put(store, "ben", FIFTY[1:2], 7)
    rows = await store.fetch("SELECT name, n FROM fairpost.waiting_by_sender(NULL, 10) WHERE of = 'domain'")
    assert {row["name"]: row["n"] for row in rows} == {FIFTY[0]: 9, FIFTY[1]: 16, FIFTY[2]: 9}


# ── mail from before users had homes ──────────────────────────────────────────────────────────────────────


async def put_as_before(store: Store, user: str, domains: Sequence[str], each: int) -> None:
    """As left by the version without homes: a place below each domain, no names on the leaves, and other hashes."""
    for domain in domains:
        await store.value("SELECT fairpost.set_sender('w', $1, NULL, NULL, $2)", user, domain)
        await put(store, user, [domain], each)
        await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    await store.value("DELETE FROM fairpost.leaves")
    await store.value("DELETE FROM fairpost.homes")
    await store.value("UPDATE fairpost.nodes SET key = 'c' WHERE level = 'stream' AND key = flow::text")
    for table in ("nodes", "node_state", "queue"):
        await store.value(
            f"""UPDATE fairpost.{table} SET flow = md5('before' || flow)::uuid
                WHERE flow IN (SELECT fairpost.flow_of(q.route, q.class, q.workspace, q.domain, q.user_name, q.stream) FROM fairpost.queue q)"""
        )


async def test_waiting_mail_keeps_its_place_and_later_mail_goes_to_the_home(store: Store) -> None:
    lease = await fresh(store)
    await put_as_before(store, "ann", FIFTY[:4], 20)
    await put_as_before(store, "ben", [SHARED], 100)
    assert await broken_promises(store) == {}
    before = {row["id"]: row["ctid"] for row in await store.fetch("SELECT id, ctid::text FROM fairpost.queue")}
    await put(store, "ann", FIFTY[:10], 20)
    await put(store, "ben", [SHARED], 100)
    got = await served(store, lease, 100)
    assert got["ben"] == pytest.approx(20, abs=1), "one place compared with the four from before"
    homes = await store.fetch("SELECT DISTINCT h.user_name, h.domain FROM fairpost.homes h")
    assert {row["user_name"]: row["domain"] for row in homes} == {"ann": FIFTY[0], "ben": SHARED}
    assert await broken_promises(store) == {}
    after = {row["id"]: row["ctid"] for row in await store.fetch("SELECT id, ctid::text FROM fairpost.queue")}
    assert {id_: spot for id_, spot in after.items() if before.get(id_, spot) != spot} == {}, "nothing was rewritten"
    got = await served(store, lease, 100)
    assert got["ben"] == pytest.approx(50, abs=3), "everything that waited before is gone, and both have one place"
    assert await drained(store, lease) == 280
    assert await broken_promises(store) == {}


async def test_earlier_mail_goes_first_within_its_stream(store: Store) -> None:
    lease = await fresh(store)
    await put_as_before(store, "ann", [SHARED], 5)
    last = await store.value("SELECT max(id) FROM fairpost.queue")
    await put(store, "ann", [SHARED], 5)
    claimed = await store.claim(lease, limit=5)
    assert max(claimed.ids) == last


async def test_old_unread_arrivals_get_their_own_leaves(store: Store) -> None:
    lease = await fresh(store)
    await put(store, "ann", FIFTY[:3], 5)
    for table in ("queue", "arrivals"):
        await store.value(f"UPDATE fairpost.{table} SET flow = md5('before' || flow)::uuid")
    await put(store, "ann", FIFTY[:3], 5)
    assert await drained(store, lease) == 30
    assert await places(store, "ann") == {FIFTY[0]}
    assert await broken_promises(store) == {}


async def test_a_hold_of_a_domain_from_before_holds_its_mail_and_no_other(store: Store) -> None:
    lease = await fresh(store)
    await put_as_before(store, "ann", FIFTY[:2], 5)
    await store.hold("w", "domain", FIFTY[0], reason="test")
    await store.value(  # it was the node that was held, and not what is below
        """WITH freed AS (UPDATE fairpost.node_state c SET held_until = NULL WHERE c.flow IS NOT NULL AND c.held_until IS NOT NULL RETURNING c.id)
           SELECT fairpost.activate(array_agg(id)) FROM freed"""
    )
    await store.value(
        """WITH held AS (UPDATE fairpost.node_state c SET held_until = 'infinity' FROM fairpost.nodes n
                         WHERE n.id = c.id AND n.level = 'domain' AND n.key = $1 RETURNING c.id)
           SELECT fairpost.deactivate(array_agg(id)) FROM held""",
        FIFTY[0],
    )
    assert await broken_promises(store) == {}
    (migration,) = [m.sql for m in known_migrations() if m.name == "homes"]
    script = migration[migration.index("DO $$") : migration.index("END $$;") + len("END $$;")]
    await store.value(
        script.replace("fairpost.clocks", "fairpost.node_state").replace("fairpost.rules", "fairpost.sender_rules")
    )
    assert await broken_promises(store) == {}
    await put(store, "ann", FIFTY[:3], 5)
    assert await served(store, lease, 100, by="domain") == {FIFTY[1]: 10, FIFTY[2]: 5}
    await store.release("w", "domain", FIFTY[0])
    assert await drained(store, lease) == 10
    assert await broken_promises(store) == {}
