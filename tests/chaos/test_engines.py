"""Two engines share the accounts of one database, and each alone takes all of them. Accounts may also share a process."""

import math
import signal
from pathlib import Path

import pytest

from fairpost.model.account import Limits
from fairpost.system import clock
from tests.chaos.driver import ENGINE, LONG_KILLS, STUCK_S, Stuck, World, eventually, until
from tests.chaos.processes import Engine, signal_to, still_alive
from tests.chaos.verdicts import Aftermath

SENDERS = {f"a{i}": Limits(delay_ms=100) for i in range(4)}
SHARE = math.ceil(len(SENDERS) / 2)
LONG_LEASES = ("--lease-s", "600", "--idle-s", "60")
COUNTED = "SELECT count(*) FROM fairpost.engines WHERE seen_at > clock_timestamp() - interval '5 seconds'"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


async def drives(world: World, engine: Engine, accounts: int) -> None:
    """Waits until the engine drives this many accounts, all of which have work the whole time."""
    deadline_s = clock.monotonic() + STUCK_S
    while len(set(engine.workers().values())) != accounts:
        if clock.monotonic() > deadline_s:
            raise Stuck(
                f"drives {sorted(engine.workers().values())} after {STUCK_S:.0f} s, and not {accounts} accounts"
            )
        await world.progress(1)


async def owners(world: World) -> set[str]:
    """Returns the engines that hold a lease."""
    sql = "SELECT DISTINCT owner FROM fairpost.leases WHERE until > clock_timestamp()"
    return {row["owner"] for row in await world.fetch(sql)}


async def all_adds_up(world: World, *, broken: int) -> None:
    await world.drain()
    after = await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=broken, frozen=world.done.frozen)
    assert after.offences() == []


async def test_two_engines_share_the_accounts_and_the_survivor_takes_them_all_once_the_other_is_dead(
    url: str, tmp_path: Path
) -> None:
    async with World.made(tmp_path, url, seed=11, senders=SENDERS) as world:
        await world.fill_up()
        one = await world.start_engine(*LONG_LEASES)
        await drives(world, one, len(SENDERS))
        (survivor,) = await owners(world)
        other = await world.start_engine(*LONG_LEASES)
        await drives(world, one, SHARE)
        await drives(world, other, SHARE)
        for _ in range(3):
            await world.progress(10)
            assert not set(one.workers().values()) & set(other.workers().values())
            assert max(len(one.workers()), len(other.workers())) <= SHARE

        everybody = other.children()
        for pid in everybody:  # frozen first, so that nothing is released properly
            signal_to(pid, signal.SIGSTOP)
        other.kill()
        await eventually(lambda: alone(world), "the other engine is no longer counted")
        await world.engines_look_again()
        assert len(set(one.workers().values())) == SHARE, "the frozen ones are still alive, and might continue"
        assert len(await owners(world)) == 2
        for pid in everybody:
            signal_to(pid, signal.SIGKILL)
        await drives(world, one, len(SENDERS))
        assert await owners(world) == {survivor}
        await all_adds_up(world, broken=SHARE)


async def alone(world: World) -> bool:
    return bool(await world.store.value(COUNTED) == 1)


async def test_accounts_packed_into_one_process_keep_every_promise_when_it_is_killed(url: str, tmp_path: Path) -> None:
    kills = 10 if LONG_KILLS else 2
    async with World.made(tmp_path, url, seed=12, senders=SENDERS) as world:
        await world.fill_up()
        engine = await world.start_engine(*ENGINE, "--accounts-per-process", str(len(SENDERS)))
        killed: list[int] = []
        for n in range(kills):
            await world.progress(10)
            await until(lambda: set(engine.workers()) - set(killed), "a worker is connected")
            workers = list(engine.workers())
            assert n > 0 or len(workers) == 1, (
                "afterwards each runs alone, until it has proven that it was not the cause"
            )
            for worker in workers:
                signal_to(worker, signal.SIGKILL)
            killed.extend(workers)
            await until(lambda: not still_alive(killed), "the worker is dead")
        await all_adds_up(world, broken=kills * len(SENDERS))


async def test_an_engine_whose_database_was_upgraded_finishes_and_says_so_once(url: str, tmp_path: Path) -> None:
    async with World.made(tmp_path, url, seed=13, senders=SENDERS) as world:
        await world.fill_up()
        old = await world.start_engine()
        await drives(world, old, len(SENDERS))
        await world.store.value("INSERT INTO fairpost.migrations (version, name, checksum) VALUES (9999, 'new', '')")
        await until(lambda: old.process.poll() is not None, "the old engine ends by itself")
        assert old.process.returncode == 1
        assert old.said("migration 9999") == 1
        assert old.said("Traceback") == 0
        await world.store.value("DELETE FROM fairpost.migrations WHERE version = 9999")
        await world.start_engine()
        await all_adds_up(world, broken=0)
