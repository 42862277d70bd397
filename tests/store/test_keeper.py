"""The embedded server dies in every possible way while a keeper watches. One server for all tests: each leaves it
running."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from tests.conftest import HOME_PREFIX, IN_MEMORY, MEMORY

from fairpost.model.errors import EmbeddedServerError, ServerStopped
from fairpost.model.reason import Reason
from fairpost.store.binaries import Binaries
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.keeper import Keeper, keeping
from fairpost.store.postmaster import is_alive, wait_until

FAST = {"fsync": "off", "shared_buffers": "16MB"}
S_MAX = 60.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    base = MEMORY if IN_MEMORY else tmp_path_factory.mktemp("home")
    path = base / f"{HOME_PREFIX}{os.getpid()}-keeper"
    yield path
    EmbeddedServer(path).stop("immediate")
    shutil.rmtree(path)


@pytest.fixture
def server(home: Path) -> EmbeddedServer:
    server = EmbeddedServer(home, settings=FAST)
    server.start()
    return server


@pytest.fixture
def said() -> list[Reason]:
    return []


@pytest.fixture
def keeper(server: EmbeddedServer, said: list[Reason]) -> Keeper:
    return Keeper(server, said.append)


def pid_of(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def end(server: EmbeddedServer, number: signal.Signals = signal.SIGKILL) -> None:
    pid = pid_of(server)
    os.kill(pid, number)
    assert wait_until(lambda: not is_alive(pid), s_max=S_MAX)


def answers(server: EmbeddedServer) -> bool:
    with psycopg.connect(server.url) as conn:
        return conn.execute("SELECT 1").fetchone() == (1,)


def launches(server: EmbeddedServer) -> int:
    return server.status().log_file.read_text().count(" LOG:  starting PostgreSQL ")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGTERM, signal.SIGINT])
def test_a_server_that_was_killed_is_started_again_whatever_the_signal(
    server: EmbeddedServer, keeper: Keeper, said: list[Reason], number: signal.Signals
) -> None:
    before = pid_of(server)
    end(server, number)
    keeper.step()
    assert pid_of(server) != before
    assert answers(server)
    assert [each.code for each in said] == ["postgres.died", "postgres.runs_again"]


def test_one_that_was_stopped_on_purpose_stays_so_until_it_is_asked_for(
    server: EmbeddedServer, keeper: Keeper, said: list[Reason]
) -> None:
    server.stop()
    for _ in range(2):
        assert keeper.step() > 0
    assert not server.status().running
    assert [each.code for each in said] == ["postgres.away"]
    with pytest.raises(ServerStopped):
        server.start(is_again=True)
    server.start()
    keeper.step()
    assert [each.code for each in said[1:]] == ["postgres.runs_again"]
    end(server)
    keeper.step()
    assert server.is_ready()


def test_a_stop_of_one_that_is_dead_already_holds_as_well(server: EmbeddedServer, keeper: Keeper) -> None:
    end(server)
    server.stop()
    keeper.step()
    assert not server.status().running


def test_exactly_one_of_several_keepers_starts_it(home: Path, server: EmbeddedServer) -> None:
    watches = [threading.Thread(target=Keeper(EmbeddedServer(home, settings=FAST), print).step) for _ in range(4)]
    end(server)
    launched = launches(server)
    for watch in watches:
        watch.start()
    for watch in watches:
        watch.join(S_MAX)
    assert answers(server)
    assert launches(server) == launched + 1


def test_a_death_wakes_the_one_who_watches(server: EmbeddedServer, said: list[Reason]) -> None:
    before = pid_of(server)
    with keeping(server, said.append):
        end(server)
        assert wait_until(lambda: server.is_ready() and pid_of(server) != before, s_max=S_MAX)


def test_missing_data_are_not_created_again(home: Path, server: EmbeddedServer, keeper: Keeper) -> None:
    data, away = server.status().data_dir, home / "away"
    end(server)
    data.rename(away)
    assert keeper.step() > 0
    assert not data.exists()
    away.rename(data)
    keeper.step()
    assert answers(server)


def test_data_that_cannot_be_used_are_reported_once_with_a_pause_that_grows(
    server: EmbeddedServer, keeper: Keeper, said: list[Reason]
) -> None:
    data = server.status().data_dir
    for name, spoil, mend in (
        ("permission", lambda: data.chmod(0o755), lambda: data.chmod(0o700)),
        ("damage", lambda: (data / "global").rename(data / "lost"), lambda: (data / "lost").rename(data / "global")),
        (
            "damaged version",
            lambda: (data / "PG_VERSION").rename(data / "V") and (data / "PG_VERSION").write_bytes(b"\xff"),
            lambda: (data / "V").rename(data / "PG_VERSION"),
        ),
        (
            "version",
            lambda: (data / "PG_VERSION").rename(data / "V") and (data / "PG_VERSION").write_text("13\n"),
            lambda: (data / "V").rename(data / "PG_VERSION"),
        ),
    ):
        said.clear()
        end(server)
        spoil()
        pauses = [keeper.step() for _ in range(3)]
        assert pauses == sorted(set(pauses)), name
        assert not server.status().running, name
        assert [each.code for each in said] == ["postgres.died", "postgres.away"], name
        assert "\n" not in str(said[1].params["why"]), name
        mend()
        keeper.step()
        assert answers(server), name


def test_a_frozen_server_is_left_alone_and_named(server: EmbeddedServer, keeper: Keeper, said: list[Reason]) -> None:
    pid = pid_of(server)
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(2):
            keeper.step()
        assert said == [Reason("postgres.frozen", pid=str(pid))]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert pid_of(server) == pid
    assert answers(server)


@pytest.fixture
def scripted(home: Path, server: EmbeddedServer) -> Iterator[Callable[[str], EmbeddedServer]]:
    """The server is dead, and a script replaces its program."""
    end(server)
    programs = home / "programs"
    programs.mkdir(mode=0o755)

    def write(script: str) -> EmbeddedServer:
        program = programs / "postgres"
        program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\n{script}')
        program.chmod(0o755)
        return EmbeddedServer(home, binaries=Binaries(directory=programs, version="18.0", bundled=False))

    yield write
    shutil.rmtree(programs)


PANIC = 'echo "2026-01-01 UTC [$$] PANIC:  No space left on device" >&2\n'
CUT_OFF = 'echo "[$$] LOG:  interrupted while in recovery" >&2\necho "[$$] HINT:  Some data may be corrupted" >&2\n'


def test_how_often_it_panics_before_it_is_ended_is_no_news(
    scripted: Callable[[str], EmbeddedServer], said: list[Reason]
) -> None:
    """The postmaster starts again after each panic, and logs when it was interrupted during that."""
    keeper = Keeper(scripted(PANIC), said.append)
    assert keeper.step() > 0
    scripted(CUT_OFF + PANIC + CUT_OFF + PANIC)
    assert keeper.step() > 0
    assert [each.code for each in said] == ["postgres.died", "postgres.away"]
    assert "PANIC" in str(said[1].params["why"])


def test_a_panic_is_reported_also_while_the_process_is_still_there(
    home: Path, scripted: Callable[[str], EmbeddedServer], said: list[Reason]
) -> None:
    end_of_it = home / "end"
    os.mkfifo(end_of_it)
    ours = os.open(end_of_it, os.O_RDWR)  # it reads until this is closed
    try:
        assert Keeper(scripted(f"{PANIC}read -r _ < {end_of_it}\n"), said.append).step() > 0
        assert "PANIC" in str(said[-1].params["why"])
    finally:
        os.close(ours)
        end_of_it.unlink()


def test_a_full_disk_is_reported_and_the_server_starts_when_there_is_room(
    server: EmbeddedServer, tmp_path: Path, said: list[Reason]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=120m,mode=0700", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk, and not everywhere")
    small = EmbeddedServer(disk, settings=FAST)
    keeper = Keeper(small, said.append)
    try:
        (disk / "postgres").mkdir(mode=0o700)
        server.stop()
        subprocess.run(["cp", "-a", server.status().data_dir, disk / "postgres" / "data"], check=True)
        small.start()
        end(small)
        # For the log, which is on the same disk: if it cannot grow, the server cannot report the problem.
        subprocess.run(["fallocate", "--keep-size", "--length", "65536", small.status().log_file], check=True)
        with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(65_536))
        for _ in range(2):
            assert keeper.step() > 0
        assert [each.code for each in said] == ["postgres.died", "postgres.away"]
        (disk / "ballast").unlink()
        keeper.step()
        assert answers(small)
    except EmbeddedServerError as error:
        pytest.fail(str(error))
    finally:
        small.stop("immediate")
        subprocess.run(["umount", disk], check=True)
