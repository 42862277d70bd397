"""`fairpost up` as people start it: a process of its own, in a home of its own, until somebody ends it."""

import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from fairpost.demo.first_act import CONTENT, SENDERS
from fairpost.demo.stage import FIRST_ACT, PARTS
from fairpost.system import clock
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, Cli, new_home, process_environment, send, until

pytestmark = pytest.mark.slow

TOTAL = sum(SENDERS.values())
DONE = "queued its 400 e-mails first"
GOES_ON = "A quiet demonstration goes on"
MIDWAY = r"demo-flood [1-9]\d*/400"  # some of them, in the first line that has any


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
    """The engine processes of this home that live."""
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
    """What `fairpost up` printed until its demonstration was over, and it still runs."""

    cli: Cli
    home: Path
    process: subprocess.Popen[str]
    lines: list[str]
    mine: list[str]


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    with new_home() as home:
        cli = Cli({"FAIRPOST_HOME": str(home)})
        cli.ok("account", "add", "sales", "--from", "sales@post.test")
        mine = [send(cli), send(cli, "--workspace", "demo-flood")]
        with up(cli) as process:
            lines = read_until(process, DONE).splitlines()
            yield Shown(cli, home, process, lines, mine)


def test_it_says_when_it_is_ready_and_shows_the_engine_at_work(shown: Shown) -> None:
    (ready,) = [line for line in shown.lines if line.startswith("ready")]
    assert "smtp://127.0.0.1:" in ready
    assert "fairpost email send" in ready
    (link,) = [line for line in shown.lines if line.startswith("for good: ")]
    assert re.match(r"for good: http://127\.0\.0\.1:\d+/setup\?token=[\w-]{43} ", link)
    assert f"demo-flood {SENDERS['demo-flood']}/{SENDERS['demo-flood']}" in shown.lines[-2]


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
    second = shown.cli.run("up", code=1)
    assert f"error: fairpost up is already running in {shown.home} (process {shown.process.pid})" in second


def test_it_sends_what_is_enqueued_while_it_runs(shown: Shown) -> None:
    id_ = shown.cli.json(
        *("email", "send", "--to", "you@example.com", "--subject", "Hello", "--text", "Hi", "--pool", "demo")
    )["id"]
    until(lambda: shown.cli.json("email", "show", id_)["state"] == "sent", "the e-mail is sent")
    assert [mail["subject"] for mail in shown.cli.json("inbox", "list", "--to", "you@example.com")] == ["Hello"]


def test_then_it_goes_on_quietly_and_there_is_something_to_see_of_everything(shown: Shown) -> None:
    said = read_until(shown.process, GOES_ON)
    assert "http://127.0.0.1:" in said.splitlines()[-1]
    with psycopg.connect(shown.cli.ok("db", "url").strip(), autocommit=True) as conn:
        until(lambda: conn.execute(SEEN).fetchone() == (True,) * 4, "there is something of everything")
    status = shown.cli.json("status")
    assert {account["name"] for account in status["accounts"]} == {"sales", *PARTS}
    assert [hold["reason"] for hold in status["holds"]] == ["three readers complained about his offers"]
    (draft, running) = shown.cli.json("campaign", "list", "--workspace", "demo-shop")
    assert (draft["state"], running["state"]) == ("draft", "running")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_ended_midway_and_started_again(at_home: Cli, home: Path, signum: signal.Signals) -> None:
    with up(at_home) as first:
        read_until(first, MIDWAY)
        assert "stopped: " in end(first, signum)
    assert engines(home) == []
    status = at_home.json("status")  # starts the database again: it was ended too
    assert [account["driven_by"] for account in status["accounts"]] == [None] * len(FIRST_ACT)
    assert [status["queue"][name] for name in ("waiting", "claimed", "sending", "in_doubt")] == [0, 0, 0, 0]
    assert 0 < status["finished_24h"]["sent"] < TOTAL
    with up(at_home) as again:
        read_until(again, GOES_ON)
        end(again)
    status = at_home.json("status")
    assert [status["queue"][name] for name in ("waiting", "claimed", "sending")] == [0, 0, 0]
    assert status["holds"] == []


def test_it_can_be_ended_while_the_database_starts(at_home: Cli) -> None:
    with up(at_home) as first:
        read_until(first, "starting the database")
        assert "stopped: " in end(first)
    with up(at_home, "--no-demo") as again:
        read_until(again, "ready: ")
        assert "demo" not in end(again)


def test_killed_it_leaves_no_engine_behind_and_the_next_goes_on(at_home: Cli, home: Path) -> None:
    with up(at_home) as first:
        read_until(first, GOES_ON)
        first.kill()
        first.communicate()
    until(lambda: engines(home) == [], "the engine is gone")
    with up(at_home) as again:
        read_until(again, GOES_ON)
        campaigns = at_home.json("campaign", "list", "--workspace", "demo-shop")
        assert {each["name"]: each["state"] for each in campaigns} == {
            "spring-sale": "running",
            "autumn-tasting": "draft",
        }
        end(again)
    assert at_home.json("status")["queue"]["waiting"] == 0


def test_a_database_elsewhere_gets_no_demonstration_unasked(cli: Cli) -> None:
    with up(cli) as first:
        read_until(first, "ready: ")
        end(first)
    assert cli.json("account", "list") == []
    with up(cli, "--demo") as again:
        assert f"demo-ann {SENDERS['demo-ann']}/{SENDERS['demo-ann']}" in read_until(again, DONE)
        end(again)


def test_a_database_elsewhere_is_not_migrated_unasked(blank_url: str, tmp_path: Path) -> None:
    blank = Cli({"FAIRPOST_DATABASE_URL": blank_url, "FAIRPOST_HOME": str(tmp_path)})
    assert "Run: fairpost db migrate" in blank.run("up", code=1)


def test_on_a_terminal_there_is_a_live_picture(cli: Cli) -> None:
    ours, theirs = pty.openpty()
    environment = process_environment({**cli.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"})
    shown = subprocess.Popen([*PROGRAM, "up", "--demo"], env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = _read_terminal(ours, DONE)
    shown.send_signal(signal.SIGINT)
    _read_terminal(ours, "stopped: ")
    assert shown.wait(PROCESS_S_MAX) == 0
    os.close(ours)
    for title in ("Who waits, who is served", "What each account does", "What arrives in the inbox"):
        assert title in text
    assert "every 200 ms" in text
    assert "\x1b[1A" in text  # drawn over the last one


def _read_terminal(terminal: int, until: str) -> str:
    """What is written there, as far as this."""
    seen = ""
    until_s = clock.monotonic() + PROCESS_S_MAX
    while until not in seen and clock.monotonic() < until_s:
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 65_536).decode(errors="replace")
    return seen
