"""Everything is killed, frozen and cut, in an order drawn from a seed; then all must add up.

Each deed once, unless FAIRPOST_CHAOS_KILLS says how many kills there are to be.
"""

import os
import random
from pathlib import Path

import pytest

from fairpost.postgres.embedded import EmbeddedServer
from tests.chaos.conftest import database_on
from tests.chaos.driver import LONG_KILLS, ROUND, Stuck, World
from tests.chaos.verdicts import Aftermath

SEED = int(os.environ.get("FAIRPOST_SEED", "11"))
KILLS_PER_RUN = 60  # a run must stay well below an hour, or its limits begin anew
SECONDS_PER_KILL = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


def runs() -> list[tuple[int, int]]:
    """Seed and kills of each; 0: each deed once."""
    whole, rest = divmod(LONG_KILLS, KILLS_PER_RUN)
    return list(enumerate([KILLS_PER_RUN] * whole + [rest] * bool(rest) or [0], start=SEED))


def told(world: World, kills: int, offences: list[str]) -> str:
    long = f" FAIRPOST_CHAOS_KILLS={kills}" if kills else ""
    return "\n".join(
        [
            f"Replay: FAIRPOST_SEED={world.seed}{long} pytest tests/chaos/test_chaos.py",
            *("Deeds:", *world.done.deeds, "Offences:", *offences[:20]),
            *(f"{engine.log}:\n{engine.log.read_text()[-2000:]}" for engine in world.engines),
        ]
    )


async def break_everything(world: World, kills: int) -> None:
    if not kills:
        for deed in world.dice.sample(list(ROUND), len(ROUND)):
            await world.do(deed)
            await world.hasten()
    while world.done.kills < kills:
        await world.do_something()
        await world.hasten()


@pytest.mark.parametrize(("seed", "kills"), runs())
@pytest.mark.timeout(300 + SECONDS_PER_KILL * min(LONG_KILLS, KILLS_PER_RUN))
async def test_whatever_is_killed_nothing_is_lost_and_nothing_repeated(
    mortal: EmbeddedServer, tmp_path: Path, seed: int, kills: int
) -> None:
    url = await database_on(mortal)
    async with World.made(tmp_path, url, seed=seed, server=mortal) as world:
        await world.pin()
        await world.fill_up()
        for _ in range(random.Random(seed).choice((1, 2)) if kills else 1):
            await world.start_engine()
        stuck = []
        try:
            await break_everything(world, kills)
            await world.drain()
        except Stuck as error:
            stuck.append(str(error))
        done = world.done
        after = await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=done.broken, frozen=done.frozen)
        offences = [*stuck, *done.offences, *after.offences()]
        assert not offences, told(world, kills, offences)
