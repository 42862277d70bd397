"""Fair between workspaces, within a workspace between domains, within a domain between users, regardless of size."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.account import Lease, Limits
from fairpost.policy.fairness import FairTree
from fairpost.store.store import Store
from tests.simulation.world import clean, connect, draft
from tests.thorough import times

Path = tuple[str, str, str]


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = await connect(url, connections_max=8)
    yield store
    await store.close()


async def fill(store: Store, mail: Iterable[tuple[Path, int]]) -> None:
    content = await store.value("""SELECT fairpost.put_content('{"subject": "s", "text": "t"}')""")
    emails = [
        {"workspace": w, "from": f"x@{d}", "user": u, "to": "p@there.test", "stream": "c", "content_id": content}
        for (w, d, u), n in mail
        for _ in range(n)
    ]
    for at in range(0, len(emails), 10_000):
        assert all(row["new"] for row in await store.enqueue_many(emails[at : at + 10_000]))


async def fill_each(store: Store, mail: list[tuple[Path, int]]) -> None:
    """Enqueues for each workspace in separate transactions."""
    for workspace in dict.fromkeys(path[0] for path, _ in mail):
        await fill(store, [(path, n) for path, n in mail if path[0] == workspace])


async def leases(store: Store, n: int) -> list[Lease]:
    await clean(store)
    ids = [await store.add_account(f"a{i}", address="a@post.test", limits=Limits()) for i in range(n)]
    taken = [await store.take_lease(id_, owner="test", seconds=3600) for id_ in ids]
    return [lease for lease in taken if lease]


async def claim(store: Store, lease: Lease, limit: int) -> list[Path]:
    """Returns who was served. Claimed e-mails are removed at once, as if they had been sent."""
    claimed = await store.claim(lease, limit=limit)
    rows = await store.fetch(
        "DELETE FROM fairpost.queue WHERE id = ANY ($1) RETURNING workspace, domain, user_name", list(claimed.ids)
    )
    return [(r["workspace"], r["domain"], r["user_name"]) for r in rows]


WHALES: list[tuple[Path, int]] = [
    (("whale", "w.test", "u"), 800),
    *(((f"small{i}", "s.test", "u"), 20) for i in range(8)),
    (("mixed", "whale.test", "u"), 400),
    (("mixed", "small.test", "u"), 20),
    (("team", "t.test", "whale"), 400),
    (("team", "t.test", "small"), 20),
    *((("spreader", f"d{i % 7}.test", f"user{i}"), 1) for i in range(2_000)),
]


async def test_a_whale_at_any_level_delays_no_other_sender_and_spreading_gains_nothing(store: Store) -> None:
    workers = await leases(store, 4)
    await fill_each(store, WHALES)
    served: list[Path] = []
    for turn in range(40):
        served += await claim(store, workers[turn % 4], 12)
    by_workspace = Counter(w for w, _, _ in served)
    assert len(served) == 480
    large = [by_workspace[w] for w in ("whale", "spreader", "mixed", "team")]
    assert max(large) - min(large) <= 1
    assert all(by_workspace[f"small{i}"] == 20 for i in range(8)), "the small ones are finished"
    inside = Counter(served)
    assert inside["mixed", "small.test", "u"] == 20
    assert inside["team", "t.test", "small"] == 20


async def test_a_newcomer_is_served_within_two_rounds_at_every_level(store: Store) -> None:
    workers = await leases(store, 4)
    await fill_each(store, WHALES)
    for turn in range(20):
        await claim(store, workers[turn % 4], 12)
    newcomers: list[Path] = [
        ("newcomer", "n.test", "u"),
        ("mixed", "new.test", "u"),
        ("team", "t.test", "new"),
        ("spreader", "new.test", "new"),
    ]
    await fill(store, [(path, 1) for path in newcomers])
    round_size = 13 * 7  # at the deepest level: every workspace once, times every domain of the spreader
    served: list[Path] = []
    for turn in range(2 * round_size // 12 + 1):
        served += await claim(store, workers[turn % 4], 12)
    assert set(newcomers) <= set(served)


async def test_shares_follow_the_weights_at_every_level(store: Store) -> None:
    workers = await leases(store, 4)
    weights = {"gold": 2.0, "plain": 1.0, "young": 0.5, "throttled": 0.1}
    mail: list[tuple[Path, int]] = [((w, "d.test", "u"), 700) for w in weights]
    mail += [(("inside", f"{w}.test", "u"), 700) for w in weights]
    mail += [(("deep", "d.test", w), 700) for w in weights]
    for name, weight in weights.items():
        await store.set_weight(name, "workspace", weight=weight)
        await store.set_weight("inside", "domain", f"{name}.test", weight=weight)
        await store.set_weight("deep", "user", name, weight=weight)
    await fill(store, mail)
    served = Counter[Path]()
    for turn in range(90):
        served.update(await claim(store, workers[turn % 4], 20))
    for group in (
        {w: sum(n for p, n in served.items() if p[0] == w) for w in weights},
        {w: served["inside", f"{w}.test", "u"] for w in weights},
        {w: served["deep", "d.test", w] for w in weights},
    ):
        _shares_are(group, weights)


def _shares_are(got: dict[str, int], weights: dict[str, float]) -> None:
    total = sum(got.values())
    for name, weight in weights.items():
        fair = total * weight / sum(weights.values())
        assert abs(got[name] - fair) <= max(0.05 * fair, 2), f"{name} got {got[name]} instead of {fair:.0f} of {total}"


async def test_shares_hold_when_four_workers_claim_at_the_same_time(store: Store) -> None:
    workers = await leases(store, 4)
    weights = {f"w{i}": 1.0 for i in range(30)} | {f"heavy{i}": 2.0 for i in range(10)}
    for name, weight in weights.items():
        await store.set_weight(name, "workspace", weight=weight)
    await fill(store, [((w, "d.test", "u"), 150) for w in weights])
    served = Counter[str]()

    async def work(lease: Lease) -> None:
        while sum(served.values()) < 2000:
            got = await claim(store, lease, 20)
            if not got:
                await store.await_turn(lease)
            served.update(w for w, _, _ in got)

    await asyncio.gather(*(work(lease) for lease in workers))
    total = sum(served.values())
    for name, weight in weights.items():
        fair = total * weight / sum(weights.values())
        assert abs(served[name] - fair) <= 0.05 * fair + 20, (
            f"{name} got {served[name]} instead of {fair:.0f}"
        )  # a batch


async def test_urgent_goes_first_and_bulk_keeps_its_tenth(store: Store) -> None:
    (worker,) = await leases(store, 1)
    emails = [draft(workspace="w", stream="c") | {"class": c} for c in ("urgent", "bulk") for _ in range(300)]
    await store.enqueue_many(emails)
    for limit in (1, 10, 50):
        got = Counter[str]()
        while sum(got.values()) < 100:
            claimed = await store.claim(worker, limit=limit)
            rows = await store.fetch(
                "DELETE FROM fairpost.queue WHERE id = ANY ($1) RETURNING class::text", list(claimed.ids)
            )
            got.update(r["class"] for r in rows)
        assert got == {"urgent": 90, "bulk": 10}, f"in batches of {limit}"


async def test_a_pool_and_an_accounts_own_mail_count_as_one(store: Store) -> None:
    """A sender with mail in both gets no more than one with mail in one; pinned mail goes first."""
    (worker,) = await leases(store, 1)
    both = [draft(workspace="both"), draft(workspace="both", account="a0")]
    await store.enqueue_many([e for e in both for _ in range(100)] + [draft(workspace="one") for _ in range(100)])
    got = Counter[tuple[str, str]]()
    for _ in range(10):
        claimed = await store.claim(worker, limit=10)
        rows = await store.fetch(
            "DELETE FROM fairpost.queue WHERE id = ANY ($1) RETURNING workspace, route", list(claimed.ids)
        )
        got.update((r["workspace"], r["route"]) for r in rows)
    assert got == {("both", "@a0"): 50, ("one", "default"): 50}


trees = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x.test", "y.test"]), st.sampled_from("12")),
    st.integers(1, 12),
    min_size=1,
    max_size=8,
)
weightings = st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.5, 1.0, 2.0, 3.0]))


@settings(max_examples=times(15))
@given(tree=trees, weights=weightings, batches=st.lists(st.integers(1, 9), min_size=1, max_size=8))
async def test_the_sql_serves_as_the_plain_model_does(
    store: Store, tree: dict[Path, int], weights: dict[str, float], batches: list[int]
) -> None:
    (worker,) = await leases(store, 1)
    model: FairTree[Path] = FairTree()
    for name, weight in weights.items():
        await store.set_weight(name, "workspace", weight=weight)
        model.node((name,)).weight = weight
    await fill(store, tree.items())
    homes: dict[tuple[str, str], str] = {}  # the first domain of each user
    for path, n in tree.items():
        workspace, domain, user = path
        home = homes.setdefault((workspace, user), domain)
        for _ in range(n):
            model.put((workspace, home, user, domain), path)
    ours, theirs = Counter[str](), Counter[str]()
    detail_ours, detail_theirs = Counter[Any](), Counter[Any]()
    for batch in batches:
        got = await claim(store, worker, batch)
        expected = [p for p in (model.take() for _ in range(batch)) if p is not None]
        assert len(got) == len(expected)
        ours.update(p[0] for p in got)
        theirs.update(p[0] for p in expected)
        detail_ours.update(got)
        detail_theirs.update(expected)
        for name in ours | theirs:
            assert abs(ours[name] - theirs[name]) <= 1, "the same workspaces, except for ties"
        for path in detail_ours | detail_theirs:
            assert abs(detail_ours[path] - detail_theirs[path]) <= 2


async def test_the_worked_example_above_the_claim_is_true_of_the_claim_and_of_its_model(store: Store) -> None:
    senders = {"acme": (10.0, 1.0, 5), "bolt": (10.5, 2.0, 9), "cato": (13.0, 1.0, 40)}
    tree: FairTree[str] = FairTree()
    tree.root.reached = 10.0
    for name, (vtime, weight, waiting) in senders.items():
        for _ in range(waiting):
            tree.put((name,), name)
        tree.node((name,)).vtime, tree.node((name,)).weight = vtime, weight
    assert Counter(tree.take() for _ in range(4)) == {"acme": 2, "bolt": 2}
    assert [tree.node((name,)).vtime for name in senders] == [12.0, 11.5, 13.0]

    await store.fetch(
        "INSERT INTO fairpost.node_state (id, parent, key, route, vtime, weight, waiting, busy)"
        " SELECT -n, -9, name, 'example', vtime, weight, waiting, 1"
        " FROM unnest($1::text[], $2::float[], $3::float[], $4::integer[]) WITH ORDINALITY x(name, vtime, weight, waiting, n)",
        list(senders),
        *(list(column) for column in zip(*senders.values(), strict=True)),
    )
    rows = await store.fetch(
        "SELECT c.key, b.quota FROM unnest(fairpost.share_out("
        " ARRAY[ROW(-9, 10.0, NULL, NULL, NULL, false, 0, 4, '{}', '{}', '{}', '{}')::fairpost.branch], 1, NULL, NULL)) b"
        " JOIN fairpost.node_state c ON c.id = b.node"
    )
    await store.fetch("DELETE FROM fairpost.node_state WHERE parent = -9")
    assert {row["key"]: row["quota"] for row in rows} == {"acme": 2, "bolt": 2}
