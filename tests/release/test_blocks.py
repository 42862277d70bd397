"""Claims and blocks, however mail is shared out: fairly, in lanes, or in order of time."""

from datetime import timedelta

import pytest

from fairpost.model.account import Lease, Limits
from fairpost.model.fault import Bounces
from fairpost.model.sender import Fairness
from fairpost.store import senders
from fairpost.store.blocks import block
from fairpost.store.store import Store
from tests.simulation.world import START, broken_promises, draft

FAULT = Bounces(sent=20, bounced=3, percent_max=5.0)


async def lease_of(store: Store, name: str) -> Lease:
    account = await store.add_account(name, address=f"{name}@post.test", limits=Limits())
    lease = await store.take_lease(account, owner=name, seconds=3600, now=START)
    assert lease is not None
    return lease


async def served(store: Store, lease: Lease, limit: int) -> dict[str, int]:
    claim = await store.claim(lease, limit=limit, now=START)
    rows = await store.fetch(
        "SELECT workspace, count(*) AS n FROM fairpost.queue WHERE id = ANY ($1) GROUP BY 1", list(claim.ids)
    )
    return {row["workspace"]: row["n"] for row in rows}


@pytest.mark.parametrize(
    "kind",
    [Fairness(), Fairness(has_lanes=True), Fairness(share=0), Fairness(share=50, has_lanes=True)],
    ids=["fair", "lanes", "in order", "both"],
)
async def test_an_account_steps_over_whom_it_may_not_serve_and_others_serve_them(store: Store, kind: Fairness) -> None:
    await senders.lay_fairness(store, kind)
    one, two = await lease_of(store, "one"), await lease_of(store, "two")
    for workspace in ("bad", "worse", "good", "better"):
        mail = [draft(workspace=workspace, user=f"u{n}", due_at=START) for n in range(5)]
        urgent = {**draft(workspace=workspace), "class": "urgent"}
        await store.enqueue_many([*mail, urgent, draft(workspace=workspace, account="one")], now=START)
    for workspace in ("bad", "worse"):
        assert await block(store, one, workspace, FAULT, until=START + timedelta(hours=1), now=START)
    taken = [await served(store, one, limit=4) for _ in range(4)]
    assert sum(sum(each.values()) for each in taken) == 14, "all mail of the others, including pinned mail"
    assert set().union(*taken) == {"good", "better"}
    assert await served(store, two, limit=50) == {"bad": 6, "worse": 6}
    assert await broken_promises(store) == {}
    claim = await store.claim(one, limit=5, now=START)
    assert (claim.ids, claim.again, claim.next_at) == ((), False, START + timedelta(hours=1))
