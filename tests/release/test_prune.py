"""Senders without recent mail are forgotten, unless they have queued mail or a rule."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from fairpost.model.account import Limits
from fairpost.store.store import Store
from tests.simulation.world import START, broken_promises, connect, draft

LATER = START + timedelta(days=30)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = await connect(url)
    yield store
    await store.close()


async def keys(store: Store) -> set[str]:
    return {row["key"] for row in await store.fetch("SELECT key FROM fairpost.nodes WHERE level <> 'route'")}


async def test_only_who_is_idle_for_long_is_forgotten_and_may_come_back(store: Store) -> None:
    account = await store.add_account("a", address="a@post.test", limits=Limits())

    async def send(now: Any, *emails: dict[str, Any]) -> None:
        await store.enqueue_many(emails, now=now)
        lease = await store.take_lease(account, owner="test", seconds=60, now=now)
        assert lease is not None
        claimed = await store.claim(lease, limit=10, now=now)
        await store.value("DELETE FROM fairpost.queue WHERE id = ANY ($1)", list(claimed.ids))
        await store.drop_lease(lease, now=now)

    await send(START, draft(workspace="old", user="u-old"), draft(workspace="mixed", user="u-gone"))
    await send(
        LATER,
        draft(workspace="mixed", user="u-here"),
        draft(workspace="due", user="u-due", due_at=LATER + timedelta(days=1)),
    )
    assert await store.value("SELECT fairpost.prune('default', $1)", LATER - timedelta(days=7)) == 2
    left = await keys(store)
    assert {"mixed", "u-here", "due", "u-due"} <= left
    assert not {"old", "u-old", "u-gone"} & left
    assert await broken_promises(store) == {}

    await store.enqueue_many([draft(workspace="old", user="u-old")], now=LATER)
    lease = await store.take_lease(account, owner="test", seconds=60, now=LATER)
    assert lease is not None
    assert len((await store.claim(lease, limit=10, now=LATER)).ids) == 1
    assert await broken_promises(store) == {}
