"""What commands say of the account that the environment gives, and what they do where the engine is off."""

import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, Cli, process_environment
from tests.cli.test_up import end, engines, read_until, up

if TYPE_CHECKING:
    import psycopg

SAID = {"SMTP_HOST": "mail.test", "SMTP_FROM_ADDRESS": "noreply@vetchium.test", "SMTP_FROM_NAME": "Vetchium"}
LOGIN = {"SMTP_USER": "ann", "SMTP_PASSWORD": "geheim"}


def told(cli: Cli, **said: str) -> list[tuple[str, str, str | None]]:
    """What the doctor says of the environment: grade, text, what to type."""
    result = CliRunner().invoke(app, ["doctor", "--json"], env={**cli.environment, **said})
    checks = json.loads(result.stdout)["checks"]
    return [(each["grade"], each["text"], each["then"]) for each in checks if each["name"] == "environment"]


def work(cli: Cli, *arguments: str, **said: str) -> "subprocess.Popen[str]":
    """As somebody who keeps services running starts it."""
    return subprocess.Popen(
        [*PROGRAM, "work", *arguments],
        env=process_environment({**cli.environment, **said}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_once(cli: Cli, **said: str) -> str:
    """An engine that starts, and is ended when it is ready; what it said."""
    engine = work(cli, **said)
    assert engine.stderr is not None
    seen = ""
    while "ready: " not in seen:
        line = engine.stderr.readline()
        assert line, seen
        seen += line
    engine.send_signal(signal.SIGTERM)
    _, rest = engine.communicate(timeout=PROCESS_S_MAX)
    assert engine.returncode == 0
    return seen + rest


@pytest.mark.slow
def test_the_doctor_knows_how_it_stands(cli: Cli) -> None:
    assert told(cli) == []
    ((grade, text, then),) = told(cli, **SAID)
    assert (grade, text) == ("note", "no engine has made the account env of FAIRPOST_SMTP_HOST yet")
    assert then is not None
    assert then.endswith("fairpost work")
    assert "account env: made from the environment" in run_once(cli, **SAID)
    assert told(cli, **SAID) == [("ok", "the account env is as the variables say", None)]
    assert [(grade, text) for grade, text, _ in told(cli, **{**SAID, "SMTP_FROM_NAME": "Another", **LOGIN})] == [
        ("note", "the account env is not yet as the variables say: name, server, password")
    ]
    ((grade, text, then),) = told(cli)
    assert (grade, text) == ("note", "made from variables that are not set here, and sending as before: env")
    assert then is not None
    assert "fairpost account remove env" in then
    ((grade, text, _),) = told(cli, **SAID, SMTP_USER="ann")
    assert (grade, text.partition(" (")[0]) == ("problem", "FAIRPOST_SMTP_USER")
    cli.ok("account", "set", "env", "--smtp", "smtp://other.test:25")
    ((grade, text, _),) = told(cli, **SAID)
    assert (grade, text) == ("problem", "people look after the account env: FAIRPOST_SMTP_HOST has no effect")
    assert "there is an account env that people look after" in run_once(cli, **SAID)
    assert cli.json("account", "show", "env")["server"]["host"] == "other.test"


@pytest.mark.slow
def test_an_account_tells_where_it_comes_from_and_what_of_it_stays(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    run_once(cli, **SAID, **LOGIN)
    assert cli.json("account", "show", "env")["origin"] == "environment"
    assert "the environment: engines keep" in cli.ok("account", "show", "env")
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--smtp", "smtp://mail.test")
    assert cli.json("account", "show", "sales")["origin"] is None
    assert "goes by FAIRPOST_SMTP_… again" in cli.ok("account", "set", "env", "--display-name", "Mine")
    assert "FAIRPOST_SMTP" not in cli.ok("account", "set", "env", "--daily", 500)
    assert "brought in line with the environment (name)" in run_once(cli, **SAID, **LOGIN)
    shown = cli.json("account", "show", "env")
    assert (shown["display_name"], shown["limits"]["daily_max"]) == ("Vetchium", 500)
    before = db.execute("SELECT revision FROM fairpost.accounts WHERE name = 'env'").fetchone()
    assert "account env" not in run_once(cli, **SAID, **LOGIN)
    assert db.execute("SELECT revision FROM fairpost.accounts WHERE name = 'env'").fetchone() == before


@pytest.mark.parametrize("command", ["work", "up"])
def test_variables_that_do_not_go_together_end_it_before_anything_starts(cli: Cli, command: str) -> None:
    said = Cli({**cli.environment, "SMTP_HOST": "mail.test"}).run(command, code=1)
    assert said == (
        "error: FAIRPOST_SMTP_HOST (or SMTP_HOST) is set, so FAIRPOST_SMTP_FROM_ADDRESS (or SMTP_FROM_ADDRESS) must be, too\n"
    )


def test_commands_that_do_not_send_are_not_concerned(cli: Cli) -> None:
    assert Cli({**cli.environment, "SMTP_HOST": "mail.test"}).json("account", "list") == []


def read_error(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.readline()


OFF = "FAIRPOST_ENGINE is off: nothing is sent from here; Ctrl-C or SIGTERM ends this\n"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_work_that_is_off_says_so_and_waits_until_it_is_ended(cli: Cli, signum: signal.Signals) -> None:
    waiting = work(cli, EMAIL_WORKER_ENABLED="false", **SAID)
    assert read_error(waiting) == OFF
    assert waiting.poll() is None
    waiting.send_signal(signum)
    assert waiting.communicate(timeout=PROCESS_S_MAX) == ("", "")
    assert waiting.returncode == 0
    assert cli.json("account", "list") == []


def test_work_that_is_off_ends_with_whoever_started_it(cli: Cli) -> None:
    waiting = work(cli, "--ends-with-stdin", FAIRPOST_ENGINE="off")
    assert read_error(waiting) == OFF
    assert waiting.stdin is not None
    waiting.communicate(timeout=PROCESS_S_MAX)  # closes its input
    assert waiting.returncode == 0


@pytest.mark.slow
def test_up_without_an_engine_runs_everything_else(cli: Cli, tmp_path: Path) -> None:
    off = Cli({**cli.environment, "FAIRPOST_ENGINE": "off"})
    with up(off) as running:
        said = read_until(running, "ready: ")
        assert "FAIRPOST_ENGINE is off: nothing is sent from here" in said
        assert "ready: inbox and HTTP API run" in said
        assert engines(tmp_path / "home") == []
        end(running)
    assert "The demonstration needs the engine" in off.run("up", "--demo", code=1)
