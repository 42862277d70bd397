"""Two engines on one database: they share the accounts, and one alone takes them all."""

import math
import signal
from functools import partial
from pathlib import Path

import pytest

from fairpost.model.account import Limits
from fairpost.system import clock
from tests.chaos.driver import LEASE_S, ORPHANS_S_MAX, STUCK_S, Stuck, World, until
from tests.chaos.processes import Engine, signal_to, still_alive
from tests.chaos.verdicts import Aftermath

SENDERS = {f"a{i}": Limits(delay_ms=20) for i in range(6)}
FORGOTTEN_S = 5  # an engine that says nothing for so long is no longer counted
FEW_S = 30

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


async def drives(world: World, engine: Engine, accounts: int, *, s_max: float = STUCK_S) -> None:
    """Until the engine drives so many, with work for all of them the whole time."""
    deadline_s = clock.monotonic() + s_max
    while len(set(engine.workers().values())) != accounts:
        if clock.monotonic() > deadline_s:
            raise Stuck(f"drives {sorted(engine.workers().values())} after {s_max:.0f} s, and not {accounts} accounts")
        await world.progress(1)


async def test_two_engines_share_the_accounts_and_the_survivor_takes_them_all(tmp_path: Path) -> None:
    async with World.made(tmp_path, seed=11, senders=SENDERS) as world:
        await world.fill_up()
        one = await world.start_engine()
        await drives(world, one, len(SENDERS))
        other = await world.start_engine()
        share = math.ceil(len(SENDERS) / 2)
        await drives(world, one, share)
        await drives(world, other, share)
        for _ in range(10):
            await world.progress(20)
            assert not set(one.workers().values()) & set(other.workers().values())
            assert max(len(one.workers()), len(other.workers())) <= share
        orphans = other.kill()
        await until(lambda: not still_alive(orphans), "orphans end", s_max=ORPHANS_S_MAX)
        await drives(world, one, len(SENDERS), s_max=max(LEASE_S, FORGOTTEN_S) + FEW_S)
        await world.drain()
        after = await Aftermath.of(
            world.store, world.recorder, keys=world.keys, broken=len(orphans) - 1, frozen=world.done.frozen
        )
        assert after.offences() == []


def is_gone(pid: int) -> bool:
    return not still_alive([pid])


async def test_accounts_packed_into_one_process_keep_every_promise_when_it_is_killed(tmp_path: Path) -> None:
    kills = 3
    async with World.made(tmp_path, seed=12, senders=SENDERS) as world:
        await world.fill_up()
        packed = ("--accounts-per-process", str(len(SENDERS)))
        engine = await world.start_engine("--lease-s", str(LEASE_S), "--idle-s", "5", *packed)
        for _ in range(kills):
            await world.progress(40)
            (worker,) = engine.workers()
            signal_to(worker, signal.SIGKILL)
            await until(partial(is_gone, worker), "the worker is dead")
        await world.drain()
        after = await Aftermath.of(
            world.store, world.recorder, keys=world.keys, broken=kills * len(SENDERS), frozen=world.done.frozen
        )
        assert after.offences() == []


LONG_LEASES = ("--lease-s", "600", "--idle-s", "5")


async def test_what_a_killed_engine_held_is_free_for_the_next_one_on_the_machine(tmp_path: Path) -> None:
    async with World.made(tmp_path, seed=13, senders=SENDERS) as world:
        await world.fill_up()
        engine = await world.start_engine(*LONG_LEASES)
        await drives(world, engine, len(SENDERS))
        everybody = engine.children()
        for pid in everybody:  # frozen first: nobody gives anything back in good order
            signal_to(pid, signal.SIGSTOP)
        engine.kill()
        other = await world.start_engine(*LONG_LEASES)
        for _ in range(20):
            await world.store.value("SELECT pg_sleep(0.1)")
            assert other.workers() == {}, "the frozen ones still live, and might go on"
        assert other.said("was killed") == 0
        for pid in everybody:
            signal_to(pid, signal.SIGKILL)
        await drives(world, other, len(SENDERS))
        assert other.said("its 6 accounts are free") == 1
        await world.drain()
        after = await Aftermath.of(
            world.store, world.recorder, keys=world.keys, broken=len(SENDERS), frozen=world.done.frozen
        )
        assert after.offences() == []
