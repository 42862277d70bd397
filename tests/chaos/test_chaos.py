"""Everything is killed, frozen and cut, in an order drawn from a seed; in the end, everything must add up.

Each action happens once, unless FAIRPOST_CHAOS_KILLS sets the number of kills, and FAIRPOST_CHAOS_POSTGRES_KILLS how
many of them hit PostgreSQL.
"""

import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from fairpost.store.embedded import EmbeddedServer
from tests.chaos.conftest import database_on
from tests.chaos.driver import LONG_KILLS, POSTGRES_KILLS, ROUND, Stuck, World
from tests.chaos.verdicts import Aftermath

SEED = int(os.environ.get("FAIRPOST_SEED", "11"))
KILLS_PER_RUN = 60  # a run must stay well below an hour, or its limits would be reset
SECONDS_PER_KILL = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


def runs() -> list[tuple[int, int, int]]:
    """Yields for each run the seed, the number of kills, and how many of them hit PostgreSQL. 0 means each action once."""
    ends = [*range(KILLS_PER_RUN, LONG_KILLS, KILLS_PER_RUN), LONG_KILLS]
    of_postgres = [POSTGRES_KILLS * end // max(1, LONG_KILLS) for end in ends]
    return [
        (SEED + nth, end - before, servers - servers_before)
        for nth, ((before, end), (servers_before, servers)) in enumerate(
            zip(pairwise([0, *ends]), pairwise([0, *of_postgres]), strict=True)
        )
    ]


def told(world: World, kills: int, of_postgres: int, offences: list[str]) -> str:
    long = f" FAIRPOST_CHAOS_KILLS={kills} FAIRPOST_CHAOS_POSTGRES_KILLS={of_postgres}" if kills else ""
    which = "packed" if world.packed > 1 else "alone"
    return "\n".join(
        [
            f"Replay: FAIRPOST_SEED={world.seed}{long} pytest tests/chaos/test_chaos.py -k {which}",
            *("Deeds:", *world.done.deeds, "Offences:", *offences[:20]),
            *(f"{engine.log}:\n{engine.log.read_text()[-2000:]}" for engine in world.engines),
        ]
    )


async def break_everything(world: World, kills: int, of_postgres: int) -> None:
    if not kills:
        for deed in world.dice.sample(list(ROUND), len(ROUND)):
            await world.do(deed)
            await world.hasten()
    while world.done.kills < kills:
        if world.done.postgres_kills * kills < of_postgres * (world.done.kills + 1):
            await world.do("kill_postgres")
        else:
            await world.do_something()
        await world.hasten()


@pytest.mark.parametrize("packed", [1, 3], ids=["alone", "packed"])
@pytest.mark.parametrize(("seed", "kills", "of_postgres"), runs())
@pytest.mark.timeout(300 + SECONDS_PER_KILL * min(LONG_KILLS, KILLS_PER_RUN))
async def test_kills_lose_and_repeat_nothing(
    mortal: EmbeddedServer, tmp_path: Path, seed: int, kills: int, of_postgres: int, packed: int
) -> None:
    url = await database_on(mortal)
    async with World.made(tmp_path, url, seed=seed, server=mortal, packed=packed) as world:
        await world.pin()
        await world.fill_up()
        for _ in range(random.Random(seed).choice((1, 2)) if kills else 1):
            await world.start_engine()
        stuck = []
        try:
            await break_everything(world, kills, of_postgres)
            await world.drain()
        except Stuck as error:
            stuck.append(str(error))
        done = world.done
        after = await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=done.broken, frozen=done.frozen)
        offences = [*stuck, *done.offences, *after.offences()]
        assert not offences, told(world, kills, of_postgres, offences)
