"""What commands say about the account from the environment, and what they do if the engine is off."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.settings import read_settings
from fairpost.startup.environment import bring_in_line, given_account
from fairpost.startup.parts import open_store, vault_of
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, Cli, missing, process_environment
from tests.cli.test_up import end, engines, read_until, up

if TYPE_CHECKING:
    import psycopg

SAID = {"SMTP_HOST": "mail.test", "SMTP_FROM_ADDRESS": "noreply@vetchium.test", "SMTP_FROM_NAME": "Vetchium"}
LOGIN = {"SMTP_USER": "ann", "SMTP_PASSWORD": "geheim"}


def told(cli: Cli, **said: str) -> list[tuple[str, str, str | None]]:
    """Returns what the doctor says about the environment: grade, text, and next step."""
    result = CliRunner().invoke(app, ["doctor", "--json"], env={**cli.environment, **said})
    checks = json.loads(result.stdout)["checks"]
    return [(each["grade"], each["text"], each["then"]) for each in checks if each["name"] == "environment"]


def work(cli: Cli, *arguments: str, **said: str) -> "subprocess.Popen[str]":
    """Starts it as a supervisor does, with pipes."""
    return subprocess.Popen(
        [*PROGRAM, "work", *arguments],
        env=process_environment({**cli.environment, **said}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start(cli: Cli, **said: str) -> str | None:
    """Returns what an engine with these variables does with the account when it starts, or None for nothing."""
    settings = read_settings({**cli.environment, **said})
    given = given_account(settings)
    assert given is not None

    async def run() -> str | None:
        async with open_store(settings) as store:
            return await bring_in_line(store, given, vault_of(settings), home=settings.home)

    return asyncio.run(run())


def test_the_doctor_knows_how_it_stands(cli: Cli) -> None:
    assert told(cli) == []
    ((grade, text, then),) = told(cli, **SAID)
    assert (grade, missing(text, "env", "FAIRPOST_SMTP_HOST"), missing(then or "", "fairpost work")) == ("note", [], [])
    assert "env" in (start(cli, **SAID) or "")
    assert cli.json("account", "show", "env")["server"]["host"] == "mail.test"
    ((grade, _, then),) = told(cli, **SAID)
    assert (grade, then) == ("ok", None)
    ((grade, text, _),) = told(cli, **{**SAID, "SMTP_FROM_NAME": "Another", **LOGIN})
    assert (grade, missing(text, "env", "name, server, password")) == ("note", [])
    ((grade, text, then),) = told(cli)
    assert (grade, missing(text, "env"), missing(then or "", "fairpost account remove env")) == ("note", [], [])
    ((grade, text, _),) = told(cli, **SAID, SMTP_USER="ann")
    assert (grade, missing(text, "FAIRPOST_SMTP_USER", "FAIRPOST_SMTP_PASSWORD")) == ("problem", [])
    cli.ok("account", "set", "env", "--smtp", "smtp://other.test:25")
    ((grade, text, then),) = told(cli, **SAID)
    assert (grade, missing(text, "env", "FAIRPOST_SMTP_HOST")) == ("problem", [])
    for advice in (then, start(cli, **SAID)):
        assert missing(advice or "", "fairpost account remove env", "FAIRPOST_SMTP_ACCOUNT") == []
    assert cli.json("account", "show", "env")["server"]["host"] == "other.test"


def test_an_account_shows_where_it_comes_from_and_what_of_it_stays(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    start(cli, **SAID, **LOGIN)
    assert cli.json("account", "show", "env")["origin"] == "environment"
    assert "FAIRPOST_SMTP_" in cli.ok("account", "show", "env")
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--smtp", "smtp://mail.test")
    assert cli.json("account", "show", "sales")["origin"] is None
    assert "FAIRPOST_SMTP_" in cli.ok(
        "account", "set", "env", "--display-name", "Mine"
    )  # the change will be overwritten
    assert "FAIRPOST_SMTP_" not in cli.ok("account", "set", "env", "--daily", 500)
    assert missing(start(cli, **SAID, **LOGIN) or "", "env", "name") == []
    shown = cli.json("account", "show", "env")
    assert (shown["display_name"], shown["limits"]["daily_max"]) == ("Vetchium", 500)
    before = db.execute("SELECT revision FROM fairpost.accounts WHERE name = 'env'").fetchone()
    assert start(cli, **SAID, **LOGIN) is None
    assert db.execute("SELECT revision FROM fairpost.accounts WHERE name = 'env'").fetchone() == before


def test_variables_that_do_not_go_together_end_it_before_anything_starts(cli: Cli) -> None:
    given = Cli({**cli.environment, "SMTP_HOST": "mail.test"})
    facts = ("FAIRPOST_SMTP_HOST", "SMTP_HOST", "FAIRPOST_SMTP_FROM_ADDRESS", "SMTP_FROM_ADDRESS")
    assert given.wrong_errors(((command,), facts) for command in ("work", "up")) == []
    assert not Path(cli.environment["FAIRPOST_HOME"]).exists()


def test_commands_that_do_not_send_are_not_concerned(cli: Cli) -> None:
    assert Cli({**cli.environment, "SMTP_HOST": "mail.test"}).json("account", "list") == []


def read_error(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.readline()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_work_that_is_off_says_so_and_waits_until_it_is_ended(cli: Cli, signum: signal.Signals) -> None:
    waiting = work(cli, EMAIL_WORKER_ENABLED="false", **SAID)
    assert "FAIRPOST_ENGINE" in read_error(waiting)
    assert waiting.poll() is None
    waiting.send_signal(signum)
    assert waiting.communicate(timeout=PROCESS_S_MAX) == ("", "")
    assert waiting.returncode == 0
    assert cli.json("account", "list") == []


def test_disabled_work_ends_with_its_parent(cli: Cli) -> None:
    waiting = work(cli, "--ends-with-stdin", FAIRPOST_ENGINE="off")
    assert "FAIRPOST_ENGINE" in read_error(waiting)
    assert waiting.stdin is not None
    waiting.communicate(timeout=PROCESS_S_MAX)  # closes its input
    assert waiting.returncode == 0


@pytest.mark.slow
def test_up_without_an_engine_runs_everything_else(cli: Cli, tmp_path: Path) -> None:
    off = Cli({**cli.environment, "FAIRPOST_ENGINE": "off"})
    with up(off) as running:
        said = read_until(running, "ready: ")
        assert missing(said, "FAIRPOST_ENGINE", "inbox", "HTTP API") == []
        assert engines(tmp_path / "home") == []
        end(running)
    assert missing(off.error("up", "--demo"), "FAIRPOST_ENGINE", "--no-demo") == []
