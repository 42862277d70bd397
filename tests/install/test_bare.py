"""`pip install fairpost`: an application enqueues over its own driver. The command says how to install the rest."""

import json
from pathlib import Path

import psycopg
import pytest

from fairpost import __version__
from fairpost.__main__ import FOR_DEVELOPMENT
from fairpost.cli.commands import COMMANDS
from fairpost.extras import Extra, how_to_install
from tests.facts import missing
from tests.install.environments import Environment, build_wheel, link_packages, make_environment

LOADED = """
import sys
before = set(sys.modules)
import fairpost
print(*sorted(set(sys.modules) - before))
"""
OURS_MAX = 10
HEAVY = {
    "asyncio",
    "concurrent",
    "email",
    "http",
    "importlib.metadata",
    "logging",
    "pathlib",
    "socket",
    "ssl",
    "urllib",
}

# As an application would, following docs/enqueue.md.
APPLICATION = """
import asyncio, os, asyncpg, fairpost, psycopg
url = os.environ["DATABASE_URL"]
with psycopg.connect(url) as conn:
    fairpost.enqueue(conn, to="ann@there.test", subject="one", text="Hi")

async def other():
    conn = await asyncpg.connect(url)
    async with conn.transaction():
        await fairpost.enqueue_many(conn, [fairpost.Email(to="bob@there.test", subject="two", text="Hi")])
    await conn.close()

asyncio.run(other())
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("bare")
    return make_environment(folder / "venv", build_wheel(folder / "wheel"))


def test_nothing_else_is_installed(bare: Environment) -> None:
    names = bare.run("python", "-c", "from importlib.metadata import distributions as d; print(*(x.name for x in d()))")
    assert names.split() == ["fairpost"]


def test_the_import_loads_what_enqueues_and_nothing_heavy(bare: Environment) -> None:
    """A list and no clock: how long it takes on a busy machine says nothing."""
    loaded = set(bare.run("python", "-c", LOADED).split())
    ours = [name.split(".") for name in loaded if name.startswith("fairpost.")]
    assert {room for _, room, *_ in ours} == {"accept", "model"}
    assert len(ours) <= OURS_MAX
    assert {name for name in loaded if name in HEAVY or name.partition(".")[0] in HEAVY} == set()


def test_an_application_enqueues_over_the_drivers_that_it_brings(bare: Environment, url: str, tmp_path: Path) -> None:
    for driver in ("psycopg[binary]", "asyncpg"):
        link_packages(driver, tmp_path)
    bare.run("python", "-c", APPLICATION, PYTHONPATH=str(tmp_path), DATABASE_URL=url)
    with psycopg.connect(url) as conn:
        assert conn.execute("SELECT c.subject FROM fairpost.contents c ORDER BY 1").fetchall() == [("one",), ("two",)]


def test_the_command_says_its_version_and_what_to_install(bare: Environment) -> None:
    lines = [how_to_install(extra) for extra in Extra]
    assert bare.run("fairpost", "--version") == f"fairpost {__version__}\n"
    assert missing(bare.run("fairpost", "--help"), *lines) == []
    assert missing(bare.run("fairpost", code=2), *lines) == []


def test_every_command_names_the_line_that_installs_it(bare: Environment) -> None:
    """In one process, because each would take a tenth of a second to start."""
    tried = f"""
import json, sys
from fairpost.__main__ import main
said = {{}}
for name in {list(COMMANDS)}:
    sys.argv = ["fairpost", name, "--json"]
    try: main()
    except SystemExit as end: said[name] = end.code
print(json.dumps(said))
"""
    said = json.loads(bare.run("python", "-c", tried))
    expected = {name: Extra.LOCAL if name in FOR_DEVELOPMENT else Extra.SERVER for name in COMMANDS}
    assert {name: each.rpartition(": ")[2] for name, each in said.items()} == {
        name: how_to_install(extra) for name, extra in expected.items()
    }


def test_the_line_is_the_only_one_and_the_exit_code_is_1(bare: Environment) -> None:
    for program in (("fairpost",), ("python", "-m", "fairpost")):
        error = bare.run(*program, "up", code=1)
        assert how_to_install(Extra.LOCAL) in error
        assert error.count("\n") == 1
