"""A store for each region: opened when needed, refused immediately while it is down, and back without intervention."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from fairpost.model.errors import DatabaseUnavailable, MigrationError, NotFound, RegionUnavailable
from fairpost.model.reason import Reason
from fairpost.regions import stores as region_stores
from fairpost.regions.directory import Directory, Region
from fairpost.regions.stores import RegionStores
from fairpost.system import clock
from tests.regions.conftest import Regions
from tests.regions.proxy import Proxy

HANG_S = 30  # nothing takes this long; a deadlock takes longer
HOUR_S = 3_600.0


@pytest.fixture
def regions(lasting_regions: Regions) -> Regions:
    return lasting_regions


@pytest.fixture
async def proxies(regions: Regions) -> AsyncIterator[dict[str, Proxy]]:
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(Proxy(url)) for name, url in regions.urls.items()}


@pytest.fixture
async def stores(proxies: dict[str, Proxy]) -> AsyncIterator[RegionStores]:
    async with RegionStores(Directory(Region(name, proxy.url) for name, proxy in proxies.items())) as stores:
        yield stores


async def ask(stores: RegionStores, name: str, *, answer_s_max: float = HANG_S) -> str:
    async with stores.at(name, answer_s_max=answer_s_max) as store:
        return str(await store.value("SELECT current_database()"))


async def refused(stores: RegionStores, name: str, *, answer_s_max: float = 0.3) -> None:
    with pytest.raises(RegionUnavailable) as error:
        async with asyncio.timeout(HANG_S):
            await ask(stores, name, answer_s_max=answer_s_max)
    assert error.value.region == name
    assert error.value.next_step == Reason("step.list_regions")


async def back(stores: RegionStores, name: str) -> None:
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                await ask(stores, name)
            except RegionUnavailable:
                await asyncio.sleep(0.02)
            else:
                return


async def test_a_region_is_opened_when_it_is_first_asked_and_few_connections_serve_many(
    stores: RegionStores, proxies: dict[str, Proxy]
) -> None:
    assert [proxy.connections for proxy in proxies.values()] == [0, 0, 0]
    await asyncio.gather(*(ask(stores, "eu") for _ in range(50)))
    assert proxies["eu"].connections == 2, "the connection that checked the schema is used as well"
    assert [proxies[name].connections for name in ("us", "ap")] == [0, 0]


async def test_a_region_that_is_gone_is_refused_at_once_and_comes_back_by_itself(
    stores: RegionStores, proxies: dict[str, Proxy]
) -> None:
    before = {name: await ask(stores, name) for name in proxies}
    await proxies["us"].cut()
    await refused(stores, "us", answer_s_max=HOUR_S)
    assert {name: await ask(stores, name) for name in ("eu", "ap")} == {n: before[n] for n in ("eu", "ap")}
    await proxies["us"].open()
    await back(stores, "us")
    assert await ask(stores, "us") == before["us"]


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_silent_region_costs_one_wait_and_then_nothing_for_a_moment(
    stores: RegionStores, proxies: dict[str, Proxy], is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_stores, "COOL_DOWN_S", HOUR_S)
    if is_open:
        await ask(stores, "us")
    proxies["us"].silence()
    waiting = [asyncio.create_task(refused(stores, "us")) for _ in range(20)]
    async with asyncio.timeout(HANG_S):  # one after the other, they would wait for a minute
        for _ in range(20):
            await ask(stores, "eu")
        await asyncio.gather(*waiting)
    asked = proxies["us"].connections
    for _ in range(2):
        await refused(stores, "us", answer_s_max=HOUR_S)
    assert proxies["us"].connections == asked, "the cool-down has not ended"
    proxies["us"].speak()
    later_s = clock.monotonic() + HOUR_S
    monkeypatch.setattr(clock, "monotonic", lambda: later_s)
    monkeypatch.setattr(region_stores, "COOL_DOWN_S", 0.0)
    await back(stores, "us")


async def test_work_that_is_known_to_take_longer_may(regions: Regions) -> None:
    async with RegionStores(Directory([Region("eu", regions.urls["eu"])]), answer_s_max=0.1) as stores:
        async with stores.at("eu", answer_s_max=HANG_S) as store:
            await store.value("SELECT pg_sleep(0.2)")
        with pytest.raises(RegionUnavailable):
            async with stores.at("eu") as store:
                await store.value("SELECT pg_sleep(600)")


async def test_an_error_in_the_callers_work_is_not_blamed_on_the_region(stores: RegionStores) -> None:
    with pytest.raises(TimeoutError):
        async with stores.at("eu"), asyncio.timeout(0.01):
            await asyncio.Event().wait()
    with pytest.raises(KeyError):
        async with stores.at("eu"):
            raise KeyError
    assert await ask(stores, "eu")


async def test_an_unknown_region_is_the_callers_error(stores: RegionStores) -> None:
    with pytest.raises(NotFound, match="'mars'"):
        await ask(stores, "mars")


async def test_a_region_without_its_schema_says_what_to_run(regions: Regions, blank_url: str) -> None:
    directory = Directory([Region("eu", regions.urls["eu"]), Region("new", blank_url)])
    async with RegionStores(directory) as stores:
        for _ in range(2):  # the second time immediately, from the first result
            with pytest.raises(MigrationError, match=r"fairpost db migrate --region new$"):
                await ask(stores, "new")
        assert await ask(stores, "eu")


async def test_a_region_that_fails_is_reported_once_and_so_is_its_return(
    regions: Regions, proxies: dict[str, Proxy]
) -> None:
    told: list[Reason] = []
    directory = Directory(Region(name, proxy.url) for name, proxy in proxies.items())
    async with RegionStores(directory, log=told.append) as stores:
        await ask(stores, "us")
        await proxies["us"].cut()
        for _ in range(3):
            await refused(stores, "us")
        assert [(each.code, each.params["region"]) for each in told] == [("region.away", "us")]
        assert Region("us", proxies["us"].url).place in str(told[0].params["why"])
        await proxies["us"].open()
        await back(stores, "us")
        await ask(stores, "us")
        assert told[1:] == [Reason("region.answers_again", region="us")]


async def test_a_database_that_does_not_exist_is_a_region_that_does_not_answer(regions: Regions) -> None:
    missing = regions.urls["eu"].replace("/test_", "/absent_")
    assert missing != regions.urls["eu"]
    async with RegionStores(Directory([Region("eu", missing)])) as stores:
        with pytest.raises(DatabaseUnavailable, match="absent_"):
            await ask(stores, "eu")


async def test_one_that_is_being_opened_while_all_are_closed_is_closed_as_well(
    regions: Regions, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections, is_there, go_on = [], asyncio.Event(), asyncio.Event()

    async def slowly(conn: asyncpg.Connection) -> list[str]:
        connections.append(conn)
        is_there.set()
        await go_on.wait()
        return []

    monkeypatch.setattr(region_stores, "pending", slowly)
    async with RegionStores(Directory([Region("eu", regions.urls["eu"])])) as stores:
        asking = asyncio.create_task(ask(stores, "eu"))
        async with asyncio.timeout(HANG_S):
            await is_there.wait()
    go_on.set()
    with pytest.raises((asyncpg.InterfaceError, RegionUnavailable)):
        await asking
    assert [conn.is_closed() for conn in connections] == [True]
