"""The command line against a real database: in this process if possible, otherwise as a separate process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.store.embedded import EmbeddedServer
from tests.facts import missing as missing

PROGRAM = [sys.executable, "-c", "from fairpost.cli import main; main()"]
Case = tuple[Sequence[object], Sequence[str]]  # a command, and the facts that its error must name
PROCESS_S_MAX = 150  # only guards against waiting forever: a busy machine is slow


@dataclass(frozen=True)
class Cli:
    environment: dict[str, str]

    def ok(self, *arguments: object) -> str:
        """Returns the output of a command that succeeds."""
        result = CliRunner().invoke(app, [str(a) for a in arguments], env=self.environment)
        assert result.exit_code == 0, result.output
        assert result.stderr == "" or "--before" in result.stderr  # where the next page begins
        return result.stdout

    def json(self, *arguments: object) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def error(self, *arguments: object, code: int = 1) -> str:
        """Returns the errors on stderr of a command that fails with this code, without a traceback."""
        result = CliRunner().invoke(app, [str(a) for a in arguments], env=self.environment)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.stderr
        return result.stderr

    def wrong_errors(self, cases: Iterable[Case], *, code: int = 1, secret: str | None = None) -> list[str]:
        """Runs commands that must fail. An error is one line that names these facts, and never the secret."""
        wrong = []
        for arguments, facts in cases:
            error = self.error(*arguments, code=code)
            lacks = missing(error, *facts)
            if lacks or (code == 1 and error.count("\n") != 1) or (secret and secret in error):
                wrong.append(f"{' '.join(map(str, arguments))} lacks {lacks}: {error}")
        return wrong

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, *arguments],
            env=process_environment(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Runs it as a separate process. Returns stdout, followed by stderr."""
        done = self.start(*arguments)
        out, err = done.communicate(timeout=PROCESS_S_MAX)
        assert done.returncode == code, out + err
        assert "Traceback" not in err
        return out + err


def until(is_so: Callable[[], object], what: str) -> None:
    """Polls, because processes start and end, and rows change, without an event."""
    end_s = time.monotonic() + PROCESS_S_MAX
    while not is_so():
        assert time.monotonic() < end_s, f"waited in vain: {what}"
        time.sleep(0.05)


def process_environment(more: dict[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("FAIRPOST_", "PG"))}
    return {**kept, **more, "PYTHONUNBUFFERED": "1"}


@pytest.fixture(autouse=True)
def no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FAIRPOST_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def cli(url: str, tmp_path: Path) -> Cli:
    return Cli({"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path / "home")})


@pytest.fixture
def bare() -> Cli:
    """Without a database, and without a place to create one, for commands that need none."""
    return Cli({"FAIRPOST_HOME": "/dev/null/home"})


@pytest.fixture
def db(url: str) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(url, autocommit=True) as conn:
        yield conn


@contextmanager
def new_home() -> Iterator[Path]:
    """A short path, because it contains a socket."""
    path = Path(tempfile.mkdtemp(prefix="fp"))
    try:
        yield path
    finally:
        EmbeddedServer(path).stop("immediate")
        shutil.rmtree(path)


@pytest.fixture
def home() -> Iterator[Path]:
    with new_home() as path:
        yield path


@pytest.fixture
def at_home(home: Path) -> Cli:
    """With an empty home of its own, for the embedded database."""
    return Cli({"FAIRPOST_HOME": str(home)})


def send(cli: Cli, *arguments: object) -> str:
    """Queues an e-mail, and returns its id as a string."""
    id_: str = cli.json("email", "send", "--to", "ann@there.test", "--subject", "Hello", "--text", "Hi", *arguments)[
        "id"
    ]
    return id_


def deliver(url: str, *script: Any, account: str = "sales") -> None:
    """Runs the account until it has nothing to do, with this script of replies."""
    import asyncio

    from fairpost.engine.runner import Runner
    from fairpost.store.store import Store
    from fairpost.transports.scripted.send import ScriptedTransport

    async def run() -> None:
        async with Store.open(url) as store:
            (driven,) = [a for a in await store.accounts() if a.name == account]
            runner = await Runner.start(store, ScriptedTransport(script), driven.id, owner="test")
            assert runner is not None
            await runner.run_until_idle()
            await runner.stop()

    asyncio.run(run())
