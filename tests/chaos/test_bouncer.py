"""The engine behind PgBouncer in transaction mode: no connection is its own for longer than a transaction."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from fairpost.postgres.identity import choose_identity
from tests.chaos.driver import ENGINE, LONG_KILLS, Stuck, World, until
from tests.chaos.processes import signal_to
from tests.chaos.verdicts import Aftermath
from tests.peers.fetch import SYSTEM, Software, peers_home

PROGRAM = "usr/sbin/pgbouncer"
PORT = 6432
KILLS = 10 if LONG_KILLS else 2

CONFIGURATION = """
[databases]
{name} = host={host} port={server_port} user={user}
[pgbouncer]
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 6
max_client_conn = 500
"""


def software() -> Software:
    on_path = shutil.which("pgbouncer")
    places = [Software(SYSTEM, (program.lstrip("/"),)) for program in (on_path, f"/{PROGRAM}") if program]
    places.append(Software(peers_home() / "pgbouncer", (PROGRAM,)))
    found = next((place for place in places if (place.root / place.programs[0]).is_file()), None)
    if found is None:
        pytest.skip("there is no pgbouncer: not on PATH, not in /usr/sbin, not among the unpacked peers")
    return found


@contextmanager
def bouncer(url: str, data_dir: Path) -> Iterator[str]:
    """The URL through it. It refuses to be root, as PostgreSQL does, and gets by in the same way."""
    program, parts = software(), urlsplit(url)
    options, name = parse_qs(parts.query), parts.path.lstrip("/")
    with tempfile.TemporaryDirectory(prefix="fpb") as folder:
        ini = Path(folder, "pgbouncer.ini")
        ini.write_text(
            CONFIGURATION.format(
                name=name,
                host=options["host"][0],
                server_port=options.get("port", ["5432"])[0],
                user=parts.username,
                port=PORT,
                folder=folder,
            )
        )
        identity = choose_identity(data_dir.parent, data_dir)
        command = [*identity.prefix, str(program.root / program.programs[0]), "-q", str(ini)]
        process = subprocess.Popen(command, env=program.environment(), stderr=subprocess.DEVNULL)
        try:
            yield f"postgresql://{parts.username}@/{name}?host={folder}&port={PORT}"
        finally:
            process.terminate()
            process.wait()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc")
async def test_behind_pgbouncer_nothing_is_lost_and_nothing_repeated(url: str, tmp_path: Path) -> None:
    software()
    async with World.made(tmp_path, url, seed=11) as world:
        with bouncer(url, Path(await world.store.value("SHOW data_directory"))) as world.url:
            await world.fill_up()
            engine = await world.start_engine(*ENGINE, "--poll-only")
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
        done = world.done
        after = await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=done.broken, frozen=done.frozen)
        assert after.offences() == []
