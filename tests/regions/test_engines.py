"""Three regions, each with a PostgreSQL server and an engine of its own: what happens to one is no matter of the others."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from fairpost.engine import RUNNING
from fairpost.model.account import Limits
from fairpost.model.errors import RegionUnavailable
from fairpost.postgres.store import Store
from fairpost.regions.directory import Directory, Region
from fairpost.regions.stores import RegionStores
from tests.chaos.driver import LEASE_S, add_accounts, eventually, until
from tests.chaos.processes import Engine, signal_to, still_alive
from tests.chaos.recorder import Recorder
from tests.regions.conftest import NAMES, Regions, written
from tests.regions.lands import lands
from tests.simulation.world import broken_promises, draft

pytestmark = pytest.mark.slow

NOBODY = "postgresql://fairpost@127.0.0.1:1/home"  # engines need no home database
PACE = Limits(delay_ms=20)
SOME = 30


async def test_when_one_region_dies_the_others_go_on_and_it_resumes_when_it_is_back(tmp_path: Path) -> None:
    recorder = Recorder()

    def sent() -> Counter[str]:
        return Counter(taken.account for taken in recorder.taken)

    async def more(names: tuple[str, ...], n: int) -> None:
        goals = {name: sent()[name] + n for name in names}
        await until(
            lambda: all(sent()[name] >= goal for name, goal in goals.items()), f"{names} send {n} more", s_max=60
        )

    with recorder.running():
        async with lands() as three:
            env = {"FAIRPOST_REGIONS": written({name: land.url for name, land in three.items()})}
            for name, land in three.items():
                async with Store.open(land.url) as store:
                    await add_accounts(store, recorder, {name: PACE})
                await land.enqueue(1000)
            engines = {
                name: Engine.start(NOBODY, None, tmp_path, "--region", name, "--lease-s", str(LEASE_S), env=env)
                for name in NAMES
            }
            try:
                await more(NAMES, SOME)
                await three["us"].kill()
                directory = Directory(Region(name, land.url) for name, land in three.items())
                async with RegionStores(directory) as stores:
                    with pytest.raises(RegionUnavailable, match="Region us does not answer"):
                        async with stores.at("us"):
                            pass
                    await more(("eu", "ap"), SOME)
                    before = sent()["us"]
                    await more(("eu", "ap"), 3 * SOME)
                    assert sent()["us"] == before
                    async with stores.at("eu") as store:
                        assert await store.value("SELECT count(*) FROM fairpost.engines") == 1
                    assert await asyncio.to_thread(three["us"].server.start) == three["us"].url

                    async def is_back() -> bool:
                        try:
                            async with stores.at("us") as store:
                                return bool(await store.value("SELECT true"))
                        except RegionUnavailable:
                            return False

                    await eventually(is_back, "the region answers again")
                await more(NAMES, SOME)
                assert all(engine.process.poll() is None for engine in engines.values()), "none had to be started again"
            finally:
                for engine in engines.values():
                    engine.end()
            for name, land in three.items():
                async with Store.open(land.url) as store:
                    assert await broken_promises(store) == {}
                ours = [taken for taken in recorder.taken if taken.account == name]
                assert all(taken.recipient.startswith(name) for taken in ours)
                twice = [n for n in Counter(taken.email_id for taken in ours).values() if n > 1]
                assert len(twice) <= (1 if name == "us" else 0), "only what was under way can be in doubt"


async def test_a_dead_engine_is_buried_by_its_own_region_alone(regions: Regions, tmp_path: Path) -> None:
    """All engines share one home; the accounts of a killed one are free at once, in its region."""
    recorder = Recorder()
    with recorder.running():
        for name in ("eu", "us"):
            async with Store.open(regions.urls[name]) as store:
                await add_accounts(store, recorder, {name: Limits(delay_ms=200)})
                await store.enqueue_many([draft(to=f"{name}{i}@there.test") for i in range(500)])

        def start(name: str) -> Engine:
            arguments = ("--region", name, "--lease-s", "600")
            return Engine.start(NOBODY, None, tmp_path, *arguments, env=regions.environment())

        engines = [start("eu")]
        try:
            await until(lambda: len(recorder.taken) >= 3, "eu sends")
            everybody = engines[0].children()
            for pid in everybody:
                signal_to(pid, signal.SIGSTOP)  # nobody gives anything back in good order
            engines[0].kill()
            for pid in everybody:
                signal_to(pid, signal.SIGKILL)
            await until(lambda: not still_alive(everybody), "all of it is dead")
            engines.append(start("us"))
            await until(lambda: any(taken.account == "us" for taken in recorder.taken), "us sends")
            assert engines[1].said("was killed") == 0
            assert len(list((regions.home / RUNNING / "eu").iterdir())) == 1
            engines.append(start("eu"))
            await until(lambda: engines[2].said("its 1 accounts are free") == 1, "eu is free again")
        finally:
            for engine in engines:
                engine.end()


async def test_what_an_engine_remembers_of_its_database_stays(regions: Regions, tmp_path: Path) -> None:
    """Without its memory nobody would notice that the database has gone back in time."""
    engine = Engine.start(NOBODY, None, tmp_path, "--region", "eu", env=regions.environment())
    try:
        await until(engine.is_ready, "the engine is ready", s_max=60)
        assert len(list((regions.home / "engines").glob("*.json"))) == 1
    finally:
        engine.end()
