"""Everything is killed, frozen and cut at random, for as long as FAIRPOST_CHAOS_KILLS says; then all must add up."""

import os
import random
from pathlib import Path

import pytest

from tests.chaos.driver import Stuck, World
from tests.chaos.verdicts import Aftermath

SEED = int(os.environ.get("FAIRPOST_SEED", "11"))
KILLS = int(os.environ.get("FAIRPOST_CHAOS_KILLS", "14"))
KILLS_PER_RUN = 60  # a run must stay well below an hour, or its limits begin anew
SECONDS_PER_KILL = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


def runs() -> list[tuple[int, int]]:
    """Seed and kills of each."""
    whole, rest = divmod(KILLS, KILLS_PER_RUN)
    return list(enumerate([KILLS_PER_RUN] * whole + [rest] * bool(rest), start=SEED))


def told(world: World, kills: int, offences: list[str]) -> str:
    return "\n".join(
        [
            f"Replay: FAIRPOST_SEED={world.seed} FAIRPOST_CHAOS_KILLS={kills} pytest tests/chaos/test_chaos.py",
            *("Deeds:", *world.done.deeds, "Offences:", *offences[:20]),
            *(f"{engine.log}:\n{engine.log.read_text()[-2000:]}" for engine in world.engines),
        ]
    )


async def aftermath(world: World) -> Aftermath:
    done = world.done
    return await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=done.broken, frozen=done.frozen)


@pytest.mark.parametrize(("seed", "kills"), runs())
@pytest.mark.timeout(300 + SECONDS_PER_KILL * min(KILLS, KILLS_PER_RUN))
async def test_whatever_is_killed_nothing_is_lost_and_nothing_repeated(tmp_path: Path, seed: int, kills: int) -> None:
    async with World.made(tmp_path, seed=seed) as world:
        await world.pin()
        await world.fill_up()
        for _ in range(random.Random(seed).choice((1, 2))):
            await world.start_engine()
        stuck = []
        try:
            while world.done.kills < kills:
                await world.do_something()
                await world.hasten()
            await world.drain()
        except Stuck as error:
            stuck.append(str(error))
        after = await aftermath(world)
        offences = [*stuck, *world.done.offences, *after.offences()]
        assert not offences, told(world, kills, offences)
