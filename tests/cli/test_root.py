"""What applies to every command: help, version, errors and exit codes."""

import os
import subprocess
import sys

import psycopg
import pytest
import typer
from typer.testing import CliRunner

from fairpost import __version__
from fairpost.cli import app
from fairpost.cli.commands import COMMANDS, GROUPS, command
from fairpost.cli.old_forms import RENAMED
from fairpost.extras import PACKAGES, Extra
from fairpost.transports.registry import KINDS
from tests.cli.conftest import Cli, missing


def commands(group: object = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    group = group or typer.main.get_command(app)
    children = getattr(group, "commands", {})
    if not children:
        return [path]
    return [found for name, child in children.items() for found in commands(child, (*path, name))]


def test_the_version_is_printed(bare: Cli) -> None:
    assert bare.ok("--version") == f"fairpost {__version__}\n"


def test_the_help_of_every_command_has_a_summary_and_an_example(bare: Cli) -> None:
    wrong = []
    for path in commands():
        usage, _, rest = bare.ok(*path, "--help").partition("\n\n")
        summary, _, example = rest.partition("Example: ")
        if not (usage.startswith("Usage:") and summary.split("\n")[0].strip().endswith(".") and "fairpost " in example):
            wrong.append(" ".join(path))
    assert wrong == []


def loaded_by(*arguments: str) -> set[str]:
    """Returns the modules that a command has imported when it ends."""
    code = f"import sys, fairpost.cli; sys.argv = {['fairpost', *arguments]}\ntry: fairpost.cli.main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stderr.split())


CLIENTS = {"aiosmtpd", "asyncpg", "cryptography", "google.auth", "httpx", "httpx2", "msal", "psycopg"}


def test_help_needs_nothing_heavy() -> None:
    """A command's modules are imported when it runs, so help is fast and works on any machine."""
    loaded = loaded_by("--help")
    assert {name for extra in Extra for name in PACKAGES[extra] if name in loaded} == {"typer"}
    assert not {f"fairpost.cli.{place.partition(':')[0]}" for place, _ in COMMANDS.values()} & loaded


def test_help_on_accounts_reads_what_kinds_describe_and_none_of_their_clients() -> None:
    loaded = loaded_by("account", "add", "--help")
    assert {f"fairpost.transports.{kind}.kind" for kind in KINDS} <= loaded
    assert not CLIENTS & loaded


def test_the_line_of_a_command_in_the_help_is_its_own_first_one() -> None:
    own = {name: command(name).help.partition("\n\n")[0] for name in COMMANDS}
    assert own == {name: line for name, (_, line) in COMMANDS.items()}


def test_without_a_command_the_help_is_shown(bare: Cli) -> None:
    assert all(f"  {group}  " in bare.run(code=2) for group in GROUPS)


def test_the_help_fits_on_a_screen(bare: Cli) -> None:
    lines = bare.ok("--help").splitlines()
    assert len(lines) <= 54
    assert max(map(len, lines)) <= 80


def test_no_summary_is_cut_off_in_the_help_of_its_group(bare: Cli) -> None:
    groups = {path[:-1] for path in commands() if len(path) > 1}
    assert [path for path in sorted(groups) if "..." in bare.ok(*path, "--help").partition("Commands:")[2]] == []


@pytest.mark.parametrize(
    ("typed", "meant"), [(("emial",), "email"), (("email", "lst"), "list"), (("email", "list", "--stat"), "--state")]
)
def test_a_near_name_is_suggested(bare: Cli, typed: tuple[str, ...], meant: str) -> None:
    assert meant in bare.error(*typed, code=2)


def test_a_misspelt_setting_is_pointed_out(bare: Cli) -> None:
    wrong = Cli({**bare.environment, "FAIRPOST_WORKSPCE": "acme"})
    assert missing(wrong.run("settings"), "FAIRPOST_WORKSPCE", "FAIRPOST_WORKSPACE?") == []


def test_shells_complete_commands_and_options() -> None:
    def completed(*words: str) -> str:
        environment = {
            "_FAIRPOST_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        code = "import sys, fairpost.cli; sys.argv = ['fairpost']; fairpost.cli.main()"
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
        )
        return done.stdout

    assert completed("fairpost", "em").split() == ["email", "emulate"]
    assert "--state" in completed("fairpost", "email", "list", "--st").split()


def test_an_unknown_command_is_a_usage_error(bare: Cli) -> None:
    assert "No such command" in bare.error("send", code=2)


def test_a_wrong_setting_is_one_clear_line(bare: Cli) -> None:
    wrong = Cli({**bare.environment, "FAIRPOST_WORKSPACE": "*"})
    error = wrong.error("status")
    assert missing(error, "FAIRPOST_WORKSPACE", "1..200", "*") == []
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:secret@127.0.0.1:1/nothing",
        "postgresql://ann:secret@no-such-host.invalid/nothing",
        "postgresql://ann:secret@127.0.0.1:port/nothing",
        "postgresql:///nothing?host=/nonexistent&user=ann&password=secret",
    ],
)
@pytest.mark.parametrize("command", [("status",), ("db", "status"), ("db", "migrate"), ("email", "list")])
def test_a_database_that_does_not_answer_is_one_clear_line(bare: Cli, url: str, command: tuple[str, ...]) -> None:
    error = Cli({**bare.environment, "FAIRPOST_DATABASE_URL": url}).error(*command)
    assert missing(error, "PostgreSQL", "postgresql://", "FAIRPOST_DATABASE_URL") == []
    assert "secret" not in error
    assert error.count("\n") == 1


def test_a_database_that_does_not_exist_is_one_clear_line(cli: Cli) -> None:
    url = cli.environment["FAIRPOST_DATABASE_URL"].replace("/test_", "/no_such_")
    assert "does not exist" in Cli({**cli.environment, "FAIRPOST_DATABASE_URL": url}).error("status")


def test_a_terminal_without_the_letters_is_no_error(cli: Cli) -> None:
    cli.ok("email", "send", "--to", "a@b.test", "--subject", "Grüße ✓", "--text", "t")
    poor = Cli({**cli.environment, "PYTHONIOENCODING": "ascii"})
    assert "Gr\\xfc\\xdfe \\u2713" in poor.run("email", "list")


def test_an_error_is_red_on_a_terminal() -> None:
    result = CliRunner().invoke(app, ["status"], env={"FAIRPOST_WORKSPACE": "*"}, color=True)
    assert result.stderr.startswith("\x1b[31merror:")


def test_a_schema_that_does_not_exist_names_the_command_that_lays_it(blank_url: str) -> None:
    blank = Cli({"FAIRPOST_DATABASE_URL": blank_url})
    assert "fairpost db migrate" in blank.error("status")
    assert "0001 core" in blank.ok("db", "migrate")
    assert blank.json("status")["accounts"] == []


def test_a_role_that_may_not_look_gets_an_error(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE ROLE stranger LOGIN")
        try:
            stranger = Cli({"FAIRPOST_DATABASE_URL": f"{url}&user=stranger".replace("//fairpost@", "//")})
            assert "permission denied" in stranger.error("status")
        finally:
            conn.execute("DROP ROLE stranger")


def test_words_of_the_version_before_lead_to_their_successors(bare: Cli) -> None:
    for old, new in RENAMED.items():
        result = CliRunner().invoke(app, [*old, "--help"])
        assert result.stdout == bare.ok(*new, "--help")
        assert f"`fairpost {' '.join(new)}`" in result.stderr


def test_a_workspace_may_come_first_as_in_the_version_before(cli: Cli) -> None:
    lines = {
        "key list acme": "key list --workspace acme",
        "domain add acme acme.example": "domain add --workspace acme acme.example",
        "user set acme --plan team": "user set --workspace acme --plan team",
        "user set acme ann --plan team": "user set --workspace acme ann --plan team",
        "hold acme --reason r": "hold --workspace acme --reason r",
        "release acme": "release --workspace acme",
        "key revoke acme unknown --json": "key revoke --workspace acme unknown --json",
    }
    cli.ok("workspace", "add", "acme")
    for old, new in lines.items():
        result = CliRunner().invoke(app, old.split(), env=cli.environment)
        if new.startswith("release"):
            cli.ok("hold", "--workspace", "acme", "--reason", "r")
        today = CliRunner().invoke(app, new.split(), env=cli.environment)
        note, _, rest = result.stderr.partition("\n")
        assert "--workspace WORKSPACE" in note
        assert (result.exit_code, rest) == (today.exit_code, today.stderr), old
        assert "acme" in result.stdout + rest


def test_without_a_workspace_the_default_one_is_meant(cli: Cli) -> None:
    cli.ok("domain", "add", "here.example")
    assert [each["domain"] for each in cli.json("domain", "list", "--workspace", "default")] == ["here.example"]
    assert "--workspace" in cli.error("key", "list", "--workspace", "", code=2)
    assert "--workspace" in cli.error("key", "list", "--workspace", "*", code=2)


def test_a_line_with_an_unknown_option_is_refused_as_it_stands(bare: Cli) -> None:
    assert missing(bare.error("key", "add", "acme", "--nme", "x", code=2), "--nme", "--name") == []
