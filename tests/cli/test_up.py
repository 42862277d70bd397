"""`fairpost up` as users run it: as a separate process, until a signal ends it.

All tests use one home, one after the other, because creating a server takes seconds, and each start another three.
"""

import os
import pty
import re
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import pytest

from fairpost.cli.up import is_demo_wanted
from fairpost.dev.demo.background import HELD_BECAUSE
from fairpost.dev.demo.burst import CONTENT, OTHERS
from fairpost.dev.demo.stage import PARTS
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings
from fairpost.store.embedded import EmbeddedServer
from fairpost.system import clock
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, Cli, new_home, process_environment, send, until
from tests.peers.process import free_port

pytestmark = pytest.mark.slow

FLOOD = 60  # enough that the others finish before it
MANY = 2_000  # not finished when it is ended
TOTAL = FLOOD + sum(OTHERS.values())
READY = r"(?m)^ready"
DONE = "fairpost inbox list"  # printed when the burst is over
GOES_ON = "fairpost campaign list --workspace demo-shop"  # printed when the background begins
DRAWN_OVER = "\x1b[1A"
DEMO = ("--demo", "--demo-emails", str(FLOOD))


SEEN = """
    SELECT EXISTS (SELECT FROM fairpost.queue q WHERE q.state = 'in_doubt'),
           EXISTS (SELECT FROM fairpost.emails e WHERE e.state = 'bounced'),
           EXISTS (SELECT FROM fairpost.emails e WHERE e.state = 'sent' AND e.campaign_id IS NOT NULL),
           (SELECT l.hour_used = a.hourly_max FROM fairpost.accounts a JOIN fairpost.leases l ON l.account_id = a.id WHERE a.name = 'demo-hourly')"""


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stdout is not None
    seen = ""
    while not re.search(pattern, seen):
        line = process.stdout.readline()
        assert line, seen
        seen += line
    return seen


def end(process: subprocess.Popen[str], signum: signal.Signals = signal.SIGINT) -> str:
    process.send_signal(signum)
    out, err = process.communicate(timeout=PROCESS_S_MAX)
    assert "Traceback" not in err
    assert process.returncode == 0, err
    return out + err


@contextmanager
def up(cli: Cli, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = cli.start("up", *options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def engines(home: Path) -> list[int]:
    """Returns the live engine processes of this home."""
    found = []
    for status in Path("/proc").glob("[0-9]*/environ"):
        try:
            is_ours = f"FAIRPOST_HOME={home}".encode() in status.read_bytes()
            if is_ours and b"work" in (status.parent / "cmdline").read_bytes().split(b"\0"):
                found.append(int(status.parent.name))
        except OSError:
            continue
    return found


@dataclass(frozen=True)
class Shown:
    """Returns what `fairpost up` printed until its burst was over; it is still running."""

    cli: Cli
    home: Path
    process: subprocess.Popen[str]
    lines: list[str]
    mine: list[str]


@pytest.fixture(scope="module")
def house() -> Iterator[Path]:
    with new_home() as home:
        yield home


@pytest.fixture(scope="module")
def shown(house: Path) -> Iterator[Shown]:
    cli = Cli({"FAIRPOST_HOME": str(house)})
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    mine = [send(cli), send(cli, "--workspace", "demo-flood")]
    with up(cli, *DEMO) as process:
        lines = read_until(process, DONE).splitlines()
        yield Shown(cli, house, process, lines, mine)


def test_it_can_be_ended_while_the_database_starts(house: Path) -> None:
    with up(Cli({"FAIRPOST_HOME": str(house)})) as first:
        read_until(first, "database")  # the first line
        assert not re.search(READY, end(first))
    assert not EmbeddedServer(house).status().running


def test_a_first_mail_and_an_invitation_arrive_in_the_inbox_without_any_set_up(house: Path) -> None:
    cli = Cli({"FAIRPOST_HOME": str(house)})
    port, inbox_port = free_port(), free_port()
    with up(cli, "--no-demo", "--port", str(port), "--inbox-port", str(inbox_port)) as process:
        assert f"smtp://127.0.0.1:{inbox_port}" in read_until(process, READY)
        send(cli, "--to", "first@post.test")
        assert f"http://127.0.0.1:{port}/" in cli.json("admin", "invite", "ann@post.test", "--send")["link"]
        for address in ("first@post.test", "ann@post.test"):
            until(partial(cli.json, "inbox", "list", "--to", address), f"a mail to {address}")
        assert f"http://127.0.0.1:{port}/" in cli.ok("inbox", "show", "latest")
        assert f"http://127.0.0.1:{port}/" in cli.json("admin", "link", "operator@localhost")["link"]
        assert "default" in [each["name"] for each in cli.json("workspace", "list")]
        assert "account remove dev" in cli.run("account", "add", "sales", "--from", "sales@post.test")
        cli.ok("account", "remove", "sales", "--yes")
        cli.ok("account", "remove", "dev", "--yes")  # the tests below have no account that can send
        end(process)


def test_a_port_that_is_taken_is_an_error_if_it_was_asked_for(house: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for option in ("--port", "--inbox-port"):
            assert port in Cli({"FAIRPOST_HOME": str(house)}).error("up", "--no-demo", option, port)


def test_it_says_when_it_is_ready_and_shows_the_engine_at_work(shown: Shown) -> None:
    (ready,) = [line for line in shown.lines if re.match(READY, line)]
    assert "smtp://127.0.0.1:" in ready
    assert "fairpost email send" in ready
    (link,) = [line for line in shown.lines if "/setup?token=" in line]
    assert re.search(r"http://127\.0\.0\.1:\d+/setup\?token=[\w-]{43} ", link)


def test_the_small_are_done_long_before_the_flood(shown: Shown) -> None:
    with psycopg.connect(shown.cli.ok("db", "url").strip()) as conn:
        ends = conn.execute(
            "SELECT workspace FROM fairpost.emails WHERE stream = 'demo' GROUP BY 1 ORDER BY max(finished_at)"
        ).fetchall()
    assert [workspace for (workspace,) in ends] == ["demo-ann", "demo-club", "demo-shop", "demo-flood"]


def test_every_e_mail_has_arrived_in_the_inbox_once(shown: Shown) -> None:
    with psycopg.connect(shown.cli.ok("db", "url").strip()) as conn:
        row = conn.execute(
            "SELECT count(*), count(DISTINCT message_id) FROM fairpost.inbox WHERE subject = %s", [CONTENT["subject"]]
        ).fetchone()
    assert row == (TOTAL, TOTAL)


def test_mail_without_an_account_that_can_send_is_left_alone(shown: Shown) -> None:
    assert [shown.cli.json("email", "show", id_)["state"] for id_ in shown.mine] == ["ready", "ready"]


def test_a_second_one_in_the_same_home_says_that_one_is_running(shown: Shown) -> None:
    second = shown.cli.error("up")
    assert str(shown.home) in second
    assert str(shown.process.pid) in second


def test_it_sends_what_is_enqueued_while_it_runs(shown: Shown) -> None:
    id_ = shown.cli.json(
        *("email", "send", "--to", "you@example.com", "--subject", "Hello", "--text", "Hi", "--pool", "demo")
    )["id"]
    until(lambda: shown.cli.json("email", "show", id_)["state"] == "sent", "the e-mail is sent")
    assert [mail["subject"] for mail in shown.cli.json("inbox", "list", "--to", "you@example.com")] == ["Hello"]


def test_its_database_killed_it_starts_another_and_continues(shown: Shown) -> None:
    server = EmbeddedServer(shown.home)
    dead = server.status().pid
    assert dead is not None
    os.kill(dead, signal.SIGKILL)
    until(lambda: server.is_ready() and server.status().pid != dead, "another database")
    with psycopg.connect(server.url, autocommit=True) as conn:
        (now,) = conn.execute("SELECT clock_timestamp()").fetchone() or (None,)
        looks = "SELECT count(*) > 0 FROM fairpost.engines WHERE seen_at > %s"
        until(lambda: conn.execute(looks, [now]).fetchone() == (True,), "the engine looks at it")
    assert shown.process.poll() is None


def test_then_it_continues_quietly_and_there_is_something_to_see_of_everything(shown: Shown) -> None:
    said = read_until(shown.process, GOES_ON)
    assert "http://127.0.0.1:" in said.splitlines()[-1]
    with psycopg.connect(shown.cli.ok("db", "url").strip(), autocommit=True) as conn:
        until(lambda: conn.execute(SEEN).fetchone() == (True,) * 4, "there is something of everything")
    status = shown.cli.json("status")
    assert {account["name"] for account in status["accounts"]} == {"sales", *PARTS}
    assert [hold["reason"] for hold in status["holds"]] == [HELD_BECAUSE]
    (draft, running) = shown.cli.json("campaign", "list", "--workspace", "demo-shop")
    assert (draft["state"], running["state"]) == ("draft", "running")


def test_killed_it_leaves_no_engine_behind_and_the_next_shows_itself_on_a_terminal_and_is_ended_midway(
    shown: Shown,
) -> None:
    """Runs last, because it ends what the other tests look at."""
    shown.process.kill()
    shown.process.communicate()
    until(lambda: engines(shown.home) == [], "the engine is gone")
    before = shown.cli.json("status")["finished_24h"]["sent"]
    with on_a_terminal(shown.cli, "up", "--demo", "--demo-emails", str(MANY)) as text:
        assert set(re.findall(r"demo-(?:quick|steady|slow|flood|ann)", text)) == {
            *("demo-quick", "demo-steady", "demo-slow"),  # the accounts
            *("demo-flood", "demo-ann"),  # and the senders
        }
    assert_nothing_of_it_is_left(shown)
    assert before < shown.cli.json("status")["finished_24h"]["sent"] < before + MANY


def assert_nothing_of_it_is_left(shown: Shown) -> None:
    assert engines(shown.home) == []
    status = shown.cli.json("status")
    assert {account["driven_by"] for account in status["accounts"]} == {None}
    assert status["holds"] == []
    queue = [status["queue"][name] for name in ("waiting", "claimed", "sending", "in_doubt")]
    assert queue == [len(shown.mine), 0, 0, 0]
    waiting = [email["id"] for email in shown.cli.json("email", "list", "--state", "ready")]
    assert sorted(waiting) == sorted(shown.mine)


@contextmanager
def on_a_terminal(cli: Cli, *arguments: str) -> Iterator[str]:
    """Returns the output until something arrives in the inbox and a picture replaces the last one; then it is told to
    end."""
    ours, theirs = pty.openpty()
    environment = process_environment({**cli.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"})
    process = subprocess.Popen([*PROGRAM, *arguments], env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        yield _read_terminal(ours, CONTENT["subject"], DRAWN_OVER)
        process.send_signal(signal.SIGTERM)
        _read_terminal(ours, "stopped")
        assert process.wait(PROCESS_S_MAX) == 0
    finally:
        os.close(ours)
        process.kill()
        process.wait()


def test_a_database_elsewhere_gets_no_demonstration_unasked() -> None:
    embedded, elsewhere = read_settings({}), read_settings({"FAIRPOST_DATABASE_URL": "postgresql://db.test/mail"})
    assert is_demo_wanted(embedded, None)
    assert not is_demo_wanted(embedded, False)
    assert not is_demo_wanted(elsewhere, None)
    assert is_demo_wanted(elsewhere, True)
    without_engine = read_settings({"FAIRPOST_ENGINE": "off"})
    assert not is_demo_wanted(without_engine, None)
    with pytest.raises(FairpostError):
        is_demo_wanted(without_engine, True)


def test_a_database_elsewhere_is_not_migrated_unasked(blank_url: str, tmp_path: Path) -> None:
    blank = Cli({"FAIRPOST_DATABASE_URL": blank_url, "FAIRPOST_HOME": str(tmp_path)})
    assert "fairpost db migrate" in blank.error("up")


def _read_terminal(terminal: int, *wanted: str) -> str:
    """Reads the output until it contains all of this."""
    seen = ""
    until_s = clock.monotonic() + PROCESS_S_MAX
    while lacking := [each for each in wanted if each not in seen]:
        assert clock.monotonic() < until_s, (lacking, seen)
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 65_536).decode(errors="replace")
    return seen
