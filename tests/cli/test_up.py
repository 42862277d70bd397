"""`fairpost up` as people start it: a process of its own, in a home of its own."""

import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from fairpost.cli.demo import DELAYS_MS, SENDERS
from fairpost.system import clock
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, Cli, new_home, process_environment, send

pytestmark = pytest.mark.slow


def assert_nothing_is_left(cli: Cli) -> None:
    """No lease held, nothing waiting or in doubt, and the database still there."""
    status = cli.json("status")
    assert [account["driven_by"] for account in status["accounts"]] == [None] * len(DELAYS_MS)
    assert [status["queue"][name] for name in ("waiting", "claimed", "sending", "in_doubt")] == [0, 0, 0, 0]


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    seen = ""
    while text not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    return seen


def end(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=PROCESS_S_MAX)
    assert "Traceback" not in err
    return out + err


@dataclass(frozen=True)
class Done:
    """What `fairpost up` printed, in a home where the user had an account and two e-mails of his own."""

    cli: Cli
    lines: list[str]
    mine: list[str]
    took_s: float


@pytest.fixture(scope="module")
def done() -> Iterator[Done]:
    with new_home() as home:
        cli = Cli({"FAIRPOST_HOME": str(home)})
        cli.ok("account", "add", "sales", "--from", "sales@post.test")
        mine = [send(cli), send(cli, "--workspace", "demo-flood")]
        before_s = clock.monotonic()
        lines = cli.run("up").splitlines()
        yield Done(cli, lines, mine, clock.monotonic() - before_s)


def test_it_shows_the_engine_at_work_and_is_ready(done: Done) -> None:
    assert f"demo-flood {SENDERS['demo-flood']}/{SENDERS['demo-flood']}" in done.lines[-3]
    assert done.lines[-2].startswith("demo-flood queued its 400 e-mails first")
    assert done.lines[-1].startswith("ready: the database runs at postgresql://")
    assert "fairpost email send" in done.lines[-1]
    assert done.took_s < 30  # the demonstration itself takes 15 at most


def test_the_small_are_done_long_before_the_flood(done: Done) -> None:
    with psycopg.connect(done.cli.ok("db", "url").strip()) as conn:
        ends = conn.execute("SELECT workspace FROM fairpost.emails GROUP BY 1 ORDER BY max(finished_at)").fetchall()
    assert [workspace for (workspace,) in ends] == ["demo-ann", "demo-club", "demo-shop", "demo-flood"]


def test_the_users_own_mail_is_left_alone(done: Done) -> None:
    assert [done.cli.json("email", "show", id_)["state"] for id_ in done.mine] == ["ready", "ready"]


def test_without_the_demonstration_it_only_starts_the_database(done: Done) -> None:
    lines = done.cli.run("up", "--no-demo").splitlines()
    assert lines[-1].startswith("ready: ")
    assert len(lines) == 2


def test_running_it_again_uses_the_same_accounts(done: Done) -> None:
    assert "ready: " in done.cli.run("up")
    status = done.cli.json("status")
    assert status["finished_24h"]["sent"] == 2 * sum(SENDERS.values())
    assert {account["name"] for account in status["accounts"]} == {"sales", *DELAYS_MS}
    assert [account["driven_by"] for account in status["accounts"]] == [None] * 4


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_interrupted_midway_and_started_again(at_home: Cli, signum: signal.Signals) -> None:
    first = at_home.start("up")
    read_until(first, "  1.0 s ")
    first.send_signal(signum)
    assert "stopped: " in end(first)
    assert first.returncode == 128 + signum
    assert_nothing_is_left(at_home)
    assert 0 < at_home.json("status")["finished_24h"]["sent"] < sum(SENDERS.values())
    assert "ready: " in at_home.run("up")


def test_it_can_be_interrupted_while_the_database_starts(at_home: Cli) -> None:
    first = at_home.start("up")
    read_until(first, "starting the database")
    first.send_signal(signal.SIGINT)
    end(first)
    assert first.returncode == 130
    assert "ready: " in at_home.run("up", "--no-demo")


def test_a_kill_midway_leaves_nothing_the_next_start_could_stumble_over(at_home: Cli) -> None:
    first = at_home.start("up")
    read_until(first, "  1.0 s ")
    first.kill()
    end(first)
    assert "ready: " in at_home.run("up")
    status = at_home.json("status")
    assert status["queue"]["waiting"] == 0
    assert [account["driven_by"] for account in status["accounts"]] == [None] * len(DELAYS_MS)


def test_a_second_one_in_the_same_home_says_that_one_is_running(at_home: Cli, home: Path) -> None:
    first = at_home.start("up")
    read_until(first, "  1.0 s ")
    second = at_home.run("up", code=1)
    assert f"error: fairpost up is already running in {home} (process {first.pid})" in second
    assert "ready: " in end(first)
    assert first.returncode == 0
    assert_nothing_is_left(at_home)


def test_a_database_elsewhere_gets_no_demonstration_unasked(cli: Cli) -> None:
    assert cli.run("up").splitlines()[-1].startswith("ready: ")
    assert cli.json("account", "list") == []
    assert f"demo-ann {SENDERS['demo-ann']}/{SENDERS['demo-ann']}" in cli.run("up", "--demo")


def test_a_database_elsewhere_is_not_migrated_unasked(blank_url: str, tmp_path: Path) -> None:
    blank = Cli({"FAIRPOST_DATABASE_URL": blank_url, "FAIRPOST_HOME": str(tmp_path)})
    assert "Run: fairpost db migrate" in blank.run("up", code=1)


def test_on_a_terminal_there_is_a_live_picture(cli: Cli) -> None:
    ours, theirs = pty.openpty()
    environment = process_environment({**cli.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"})
    shown = subprocess.Popen([*PROGRAM, "up", "--demo"], env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = _read_terminal(ours)
    os.close(ours)
    assert shown.wait(PROCESS_S_MAX) == 0
    assert "Who waits, who is served" in text
    assert "What each account does" in text
    assert "every 200 ms" in text
    assert "\x1b[1A" in text  # drawn over the last one
    assert text.rstrip().splitlines()[-1].startswith("ready: ")


def _read_terminal(terminal: int) -> str:
    """All that is written there, until the other end is closed."""
    seen = b""
    until_s = clock.monotonic() + PROCESS_S_MAX
    while clock.monotonic() < until_s:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # how Linux says that nobody is left
            break
        if not part:
            break
        seen += part
    return seen.decode()
