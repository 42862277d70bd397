"""The embedded PostgreSQL is killed repeatedly under load, and the engine that uses it restarts it."""

import sys
from pathlib import Path

import asyncpg
import pytest

from fairpost.model.account import Limits
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from tests.chaos.driver import LONG_KILLS, World
from tests.chaos.recorder import Manners
from tests.chaos.verdicts import Aftermath

KILLS = 20 if LONG_KILLS else 2
SENDERS = {f"a{i}": Limits(delay_ms=20) for i in range(3)}
STATUSES = "SELECT DISTINCT status::text FROM fairpost.accounts"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


@pytest.mark.timeout(300 + 60 * KILLS)
async def test_an_engine_starts_its_database_again_and_nothing_is_lost_or_repeated(
    mortal: EmbeddedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conn = await asyncpg.connect(mortal.url)
    await migrate(conn)
    await conn.close()
    env = {"FAIRPOST_DATABASE_URL": "", "FAIRPOST_HOME": str(mortal.status().data_dir.parent.parent)}
    async with World.made(
        tmp_path, mortal.url, seed=14, senders=SENDERS, manners=Manners(delay_s_max=0.02), server=mortal
    ) as world:
        world.env = env
        await world.fill_up()
        engine = await world.start_engine()
        for _ in range(KILLS):
            await world.progress(10)
            await world.only("kill_embedded")
        await world.drain()
        after = await Aftermath.of(
            world.store, world.recorder, keys=world.keys, broken=world.done.broken, frozen=world.done.frozen
        )
        assert after.offences() == [], engine.log.read_text()
        assert [row["status"] for row in await world.fetch(STATUSES)] == ["active"]
        assert engine.said("Traceback") == 0, engine.log.read_text()
        if LONG_KILLS:
            with capsys.disabled():
                sys.stdout.write("\n".join(["", *world.done.deeds, ""]))
