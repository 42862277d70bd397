"""Domains are checked again after a day, each by one engine."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fairpost.maintenance.domains import AT_ONCE, DomainWatch
from fairpost.store import workspaces
from fairpost.store.store import Store


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


async def test_a_domain_is_checked_again_after_a_day_by_one_engine(store: Store) -> None:
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


async def overdue(store: Store, *names: str) -> None:
    await workspaces.add_workspace(store, "acme")
    for name in names:
        await workspaces.add_domain(store, "acme", name)
        await workspaces.put_health(store, "acme", name, [])
    await store.value("UPDATE fairpost.domain_health SET at = at - interval '25 hours'")


async def test_slow_domains_do_not_delay_the_others(store: Store) -> None:
    await overdue(store, *(f"d{n}.test" for n in range(AT_ONCE + 2)))
    waiting, done, running, most = asyncio.Event(), list[str](), 0, 0

    async def check(workspace: str, domain: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if len(done) + running == AT_ONCE + 2:
            waiting.set()
        if domain in ("d0.test", "d1.test"):
            await waiting.wait()  # answers only after all others have begun
        else:
            done.append(domain)
        running -= 1

    await DomainWatch(store, check, print).step()
    assert (len(done), most <= AT_ONCE, waiting.is_set()) == (AT_ONCE, True, True)


async def test_a_check_that_fails_or_hangs_leaves_the_others_checked(store: Store) -> None:
    await overdue(store, "fails.test", "hangs.test", "well.test")
    asked = set[str]()

    async def check(workspace: str, domain: str) -> None:
        asked.add(domain)
        if domain == "fails.test":
            raise RuntimeError(domain)
        if domain == "hangs.test":
            await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match=r"fails\.test"):
        await DomainWatch(store, check, print, check_s_max=0.05).step()
    assert asked == {"fails.test", "hangs.test", "well.test"}
