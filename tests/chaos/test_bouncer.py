"""Processes behind PgBouncer in transaction mode: an engine whose workers are killed, a service with several processes,
and long-running work."""

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.model.workspace import Scope
from fairpost.regions.directory import MAIN
from fairpost.store import workspaces
from fairpost.store.store import Store
from tests.api.conftest import LENT
from tests.chaos.driver import ENGINE, LONG_KILLS, Stuck, World, until
from tests.chaos.processes import signal_to
from tests.chaos.verdicts import Aftermath
from tests.cli.conftest import PROCESS_S_MAX, Cli
from tests.peers.pgbouncer import pgbouncer, sessions, why_not

POOL_SIZE = 6
KILLS = 10 if LONG_KILLS else 2
PROCESSES = 2
REQUESTS = 40
LONG = (
    ("simulate", "accounts", "--accounts", "5", "--days", "0.1", "--emails", "50"),
    ("simulate", "fairness", "--scenario", "abuser"),
    ("bench", "enqueue"),
    ("bench", "render"),
)

LONG_FORM = pytest.mark.skipif(not LONG_KILLS, reason="takes long: make chaos")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
    pytest.mark.skipif(bool(why_not()), reason=str(why_not())),
]


async def test_behind_pgbouncer_nothing_is_lost_and_nothing_repeated(url: str, tmp_path: Path) -> None:
    """The engine is not told about the pooler, and does not listen for notifications."""
    async with World.made(tmp_path, url, seed=11) as world:
        with pgbouncer(url, pool_size=POOL_SIZE) as through:
            world.url = through(url)
            await world.fill_up()
            engine = await world.start_engine(*ENGINE)
            try:
                for _ in range(KILLS):
                    await world.progress(20)
                    await until(engine.workers, "a worker is connected")
                    signal_to(next(iter(engine.workers())), signal.SIGKILL)
                    world.done.broken += 1
                await world.drain()
            except Stuck as stuck:
                raise Stuck(f"{stuck}\n{engine.log.read_text()[-2000:]}") from None
            finally:
                engine.end()
            with sessions(world.url, pool_size=POOL_SIZE) as left_behind:
                assert await asyncio.to_thread(left_behind) == []
        assert len(re.findall("pooler", engine.log.read_text())) == 1
        done = world.done
        after = await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=done.broken, frozen=done.frozen)
        assert after.offences() == []


@LONG_FORM
async def test_a_service_of_several_processes_answers_behind_pgbouncer(url: str, tmp_path: Path) -> None:
    async with Store.open(url) as store:
        await workspaces.add_workspace(store, "acme", loans=LENT)
        more: dict[str, Any] = {
            "region": MAIN,
            "name": "test",
            "scopes": tuple(Scope),
            "by": "a test",
            "per_minute": 100_000,
        }
        _, key = await workspaces.add_key(store, "acme", **more)
        with pgbouncer(url, pool_size=2) as through:
            cli = Cli({"FAIRPOST_DATABASE_URL": through(url), "FAIRPOST_HOME": str(tmp_path)})
            service = cli.start("api", "--listen", "127.0.0.1:0", "--processes", str(PROCESSES))
            try:
                root = await asyncio.to_thread(_address_of, service)
                headers = {"Authorization": f"Bearer {key}"}
                async with httpx.AsyncClient(base_url=root, headers=headers, timeout=PROCESS_S_MAX) as client:
                    mail = {"to": "ann@example.com", "subject": "x", "text": "y"}
                    asked = (client.post("/v1/emails", json=mail) for _ in range(REQUESTS))
                    answers = await asyncio.gather(*asked)
                assert {answer.status_code for answer in answers} == {201}
            finally:
                service.terminate()
                _, errors = service.communicate(timeout=PROCESS_S_MAX)
            assert "Traceback" not in errors
        assert await store.value("SELECT count(*) FROM fairpost.queue") == REQUESTS


def _address_of(service: Any) -> str:
    assert service.stderr is not None
    for line in service.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
    raise AssertionError("the service ended before it was ready")


@LONG_FORM
@pytest.mark.parametrize("command", LONG, ids=lambda command: " ".join(command[:2]))
def test_long_operations_work_behind_pgbouncer(url: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    with pgbouncer(url, pool_size=POOL_SIZE) as through:
        Cli({"FAIRPOST_DATABASE_URL": through(url), "FAIRPOST_HOME": str(tmp_path)}).run(*command)
