"""An engine for each region: what happens to one region does not affect the others."""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fairpost.model.account import Limits
from fairpost.model.errors import RegionUnavailable
from fairpost.regions.directory import Directory, Region
from fairpost.regions.stores import RegionStores
from fairpost.settings import Settings, read_settings
from fairpost.startup.engine import Watch, engines_folder
from fairpost.store.store import Store
from fairpost.system.presence import Presence
from tests.chaos.driver import LEASE_S, add_accounts, eventually, until
from tests.chaos.processes import Engine
from tests.chaos.recorder import Recorder
from tests.regions.conftest import Regions, written
from tests.regions.proxy import Proxy
from tests.simulation.world import broken_promises, draft

NOWHERE = "postgresql://fairpost@127.0.0.1:1/home"  # engines need no home database
TWO = ("eu", "us")
EMAILS = 200  # to begin with
PACE = Limits(delay_ms=60)
SOME = 8


@pytest.mark.slow
async def test_when_one_region_dies_the_other_continues_and_it_resumes_when_it_is_back(
    regions: Regions, tmp_path: Path
) -> None:
    """It is dead as seen from here: nothing listens any more, and every connection is gone."""
    recorder = Recorder()

    def sent() -> Counter[str]:
        return Counter(taken.account for taken in recorder.taken)

    async def enqueue(name: str, n: int) -> None:
        async with Store.open(regions.urls[name]) as store:
            await store.enqueue_many([draft(to=f"{name}{i}@there.test", attempts_max=10) for i in range(n)])

    async def more(*names: str) -> None:
        """However long everything has taken so far, as many are added as are waited for."""
        goals = {name: sent()[name] + SOME for name in names}
        for name in names:
            await enqueue(name, SOME)
        await until(lambda: all(sent()[name] >= goal for name, goal in goals.items()), f"{names} send more")

    with recorder.running():
        for name in TWO:
            async with Store.open(regions.urls[name]) as store:
                await add_accounts(store, recorder, {name: PACE})
            await enqueue(name, EMAILS)
        async with AsyncExitStack() as stack:
            proxies = {name: await stack.enter_async_context(Proxy(regions.urls[name])) for name in TWO}
            urls = {name: proxy.url for name, proxy in proxies.items()}
            env = {"FAIRPOST_REGIONS": written(urls)}
            engines = {
                name: Engine.fork(NOWHERE, None, tmp_path, "--region", name, "--lease-s", str(LEASE_S), env=env)
                for name in TWO
            }
            stores = await stack.enter_async_context(RegionStores(Directory(Region(*pair) for pair in urls.items())))

            async def answers(name: str) -> bool:
                try:
                    async with stores.at(name) as store:
                        return bool(await store.value("SELECT true"))
                except RegionUnavailable:
                    return False

            try:
                await more(*TWO)
                await proxies["us"].cut()
                with pytest.raises(RegionUnavailable) as refused:
                    async with stores.at("us"):
                        pass
                assert refused.value.region == "us"
                await more("eu")
                before = sent()["us"]
                await more("eu")
                assert sent()["us"] == before
                assert await answers("eu")
                await proxies["us"].open()
                await eventually(lambda: answers("us"), "the region answers again")
                await more(*TWO)
                assert all(engine.process.poll() is None for engine in engines.values()), "none had to be restarted"
            finally:
                for engine in engines.values():
                    engine.end()
    for name in TWO:
        async with Store.open(regions.urls[name]) as store:
            assert await broken_promises(store) == {}
        ours = [taken for taken in recorder.taken if taken.account == name]
        assert all(taken.recipient.startswith(name) for taken in ours)
        twice = [n for n in Counter(taken.message_id for taken in ours).values() if n > 1]
        assert len(twice) <= (1 if name == "us" else 0), "only e-mails in progress can be in doubt"


def settings_of(regions: Regions, region: str) -> Settings:
    return read_settings(regions.environment(region))


async def test_a_dead_engine_is_only_reclaimed_by_its_own_region(regions: Regions) -> None:
    """All engines share one home. The accounts of a killed engine are free immediately, in its region."""
    dead = "here:1:a"
    folder = engines_folder(settings_of(regions, "eu"))
    Presence.announce(folder, dead).withdraw()
    (folder / dead).touch()  # without its lock, as a kill leaves it behind
    async with Store.open(regions.urls["eu"]) as eu, Store.open(regions.urls["us"]) as us:
        account = await eu.add_account("sales", address="sales@post.test", limits=Limits())
        await eu.take_lease(account, owner=dead, seconds=600)
        await Watch(us, settings_of(regions, "us"), print).reclaim_dead_engines()
        assert (folder / dead).exists()
        assert (await eu.runtimes())[0].is_driven()
        await Watch(eu, settings_of(regions, "eu"), print).reclaim_dead_engines()
        assert not (folder / dead).exists()
        assert not (await eu.runtimes())[0].is_driven()


async def test_an_engines_memory_of_its_database_is_kept(regions: Regions) -> None:
    """Without its memory, no engine would notice that the database was reset to an earlier state."""
    async with Store.open(regions.urls["eu"]) as store:
        watch = Watch(store, settings_of(regions, "eu"), print)
        for _ in range(2):
            await watch.look()
            await watch.reclaim_dead_engines()
    assert len(list((regions.home / "engines").glob("*.json"))) == 1
