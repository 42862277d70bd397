"""To add a limit of accounts, describe it, add its column, and apply it: everything else follows from the description."""

import json
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from fairpost.model.account import LIMITS
from tests.architecture.source import SRC
from tests.architecture.touched import listing, sources

# A process in which accounts have one more limit. It prints everything about the limit, and sets it for an account by
# command.
MADE_UP = """
import json, sys
from dataclasses import dataclass
from pathlib import Path
import fairpost.model.account as account
from fairpost.model.limit import Share, described, limit

@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(account.Limits):
    letters_max: int | None = limit(
        None, option="letters", unit="letters", ge=2, le=777, label="Letters a week", help="Most letters a week.",
        short="{} letters", share=Share.PART, is_asked_first=True)

account.Limits, account.LIMITS = Limits, described(Limits)

from typer.testing import CliRunner
from fairpost.api.app import build_app
from fairpost.api.limits import limit_fields
from fairpost.cli import app
from fairpost.model.reference import limits_table
from fairpost.policy.slices import sliced
from fairpost.providers.presets import read_presets

home = Path(sys.argv[1])
(home / "providers.toml").write_text("[pigeon]\\nletters_max = 9\\n")

def run(*arguments):
    done = CliRunner().invoke(app, arguments)
    return {"code": done.exit_code, "out": done.output}

print(json.dumps({
    "help": run("account", "set", "--help"),
    "too many": run("account", "add", "ben", "--from", "ben@post.test", "--letters", "778"),
    "added": run("account", "add", "ann", "--from", "ann@post.test", "--provider", "pigeon"),
    "begun": run("account", "show", "ann", "--json"),
    "changed": run("account", "set", "ann", "--letters", "20"),
    "shown": run("account", "show", "ann", "--json"),
    "in words": run("account", "show", "ann"),
    "openapi": build_app(None, log=lambda line: None).openapi()["components"]["schemas"],
    "form": [field.model_dump() for field in limit_fields()],
    "docs": limits_table(),
    "preset": read_presets(home / "providers.toml")["pigeon"].limits.letters_max,
    "slice": sliced(Limits(letters_max=100), 10).letters_max,
}))
"""


@pytest.mark.fresh
def test_a_described_limit_with_a_column_is_everywhere(url: str, tmp_path: Any) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ALTER TABLE fairpost.accounts ADD COLUMN letters_max integer CHECK (letters_max > 1)")
    environment = {"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path), "PYTHONPATH": str(SRC)}
    ran = subprocess.run(
        [sys.executable, "-c", MADE_UP, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)

    assert "--letters N" in said["help"]["out"]
    assert (said["too many"]["code"], "--letters" in said["too many"]["out"]) == (2, True)
    begun, shown = json.loads(said["begun"]["out"]), json.loads(said["shown"]["out"])
    assert (begun["provider"], begun["limits"]["letters_max"]) == ("pigeon", 9)
    assert (said["changed"]["code"], shown["limits"]["letters_max"]) == (0, 20)
    assert "20 letters" in said["in words"]["out"]
    asked = said["openapi"]["LimitsIn"]["properties"]["letters_max"]
    bounds = {key: value for kind in asked["anyOf"] for key, value in kind.items() if key in ("minimum", "maximum")}
    assert (bounds, asked["description"]) == ({"minimum": 2, "maximum": 777}, "Most letters a week.")
    assert "letters_max" in said["openapi"]["LimitsOut"]["required"]
    (field,) = [each for each in said["form"] if each["name"] == "letters_max"]
    assert (field["label"], field["min"], field["max"], field["is_asked_first"]) == ("Letters a week", 2, 777, True)
    assert "| `letters_max` | `--letters` | letters |" in said["docs"]
    assert (said["preset"], said["slice"]) == (9, 10)


def test_limits_are_listed_where_they_are_described_and_where_they_act() -> None:
    """Besides the migration of its column, a new limit touches these files."""
    found = set(listing(sources(), [each.name for each in LIMITS]))
    assert found == {"model/account.py", "policy/limits.py", "providers/presets.toml"}
