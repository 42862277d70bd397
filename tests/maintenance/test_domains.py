"""Domains are looked at again after a day, each by one engine."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fairpost.maintenance.domains import DomainWatch
from fairpost.store import workspaces
from fairpost.store.store import Store


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


async def test_a_domain_is_looked_at_again_after_a_day_by_one_engine(store: Store) -> None:
    await workspaces.add_workspace(store, "acme")
    for name in ("old.test", "new.test", "never.test"):
        await workspaces.add_domain(store, "acme", name)
    for name in ("old.test", "new.test"):
        await workspaces.put_health(store, "acme", name, [])
    await store.value("UPDATE fairpost.domain_health SET at = at - interval '25 hours' WHERE domain = 'old.test'")
    asked: list[tuple[str, str]] = []

    async def check(workspace: str, domain: str) -> None:
        asked.append((workspace, domain))

    watches = [DomainWatch(store, check, print) for _ in range(3)]
    assert await asyncio.gather(*(watch.step() for watch in watches)) == [False] * 3
    assert asked == [("acme", "old.test")]
