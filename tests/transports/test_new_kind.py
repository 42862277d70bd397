"""A kind of transport that is a folder and a line: commands, requests, the page, the database and workers support it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx
import pytest

from fairpost.model.errors import FairpostError
from tests.cli.conftest import PROCESS_S_MAX, Cli, process_environment, until
from tests.transports.pigeon.kind import KIND, PigeonSettings

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "tests.transports.pigeon.program"]
WHISTLE = "three short, one long"


@dataclass(frozen=True)
class Pigeons:
    """Commands of a program that knows the kind."""

    environment: dict[str, str]

    def start(self, *arguments: object) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*PROGRAM, *map(str, arguments)],
            cwd=ROOT,
            env=process_environment(self.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def each(self, *commands: Sequence[object]) -> list[str]:
        """Returns their output, run one after the other in one process."""
        given = json.dumps([[str(word) for word in words] for words in commands])
        process = self.start("each")
        out, errors = process.communicate(given, timeout=PROCESS_S_MAX)
        assert process.returncode == 0, errors
        done = json.loads(out)
        assert [code for code, _ in done] == [0] * len(commands), done
        return [printed for _, printed in done]

    @contextmanager
    def running(self, *arguments: object) -> Iterator[str]:
        """Returns the line that says that it is ready."""
        process = self.start(*arguments)
        assert process.stderr is not None
        try:
            yield next(line for line in process.stderr if "ready" in line.lower())
        finally:
            process.terminate()
            process.communicate(timeout=PROCESS_S_MAX)


@pytest.fixture
def lofts(tmp_path: Path) -> Path:
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def pigeons(url: str, lofts: Path) -> Pigeons:
    return Pigeons({"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(lofts / "home"), "LOFTS": str(lofts)})


@contextmanager
def asking(pigeons: Pigeons, key: str) -> Iterator[httpx.Client]:
    with pigeons.running("api", "--listen", "127.0.0.1:0", "--processes", "1") as ready:
        found = re.search(r"http://127\.0\.0\.1:\d+", ready)
        assert found, ready
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=found[0], headers=headers, timeout=PROCESS_S_MAX) as client:
            yield client


def landed(loft: Path) -> list[str]:
    return [line for path in loft.iterdir() for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("given", "old", "named"),
    [
        ({"pigeon_loft": "north"}, None, "--pigeon-whistle-file"),
        ({"pigeon_whistle_file": "whistle"}, None, "--pigeon-loft"),
        ({"pigeon_loft": "../x", "pigeon_whistle_file": "whistle"}, None, "--pigeon-loft"),
        ({"pigeon_loft": "a" * 21, "pigeon_whistle_file": "whistle"}, None, "--pigeon-loft"),
        ({"pigeon_loft": "south"}, PigeonSettings(loft="north", secret="sealed"), "--pigeon-whistle-file"),
    ],
)
def test_missing_and_invalid_options_are_named(
    given: dict[str, str], old: PigeonSettings | None, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("whistle").write_text(WHISTLE)
    found = KIND.given("ann", KIND.options()(**given), is_new=old is None)
    assert found is not None
    with pytest.raises(FairpostError, match=f"^{named} "):
        found.server("ann", old, mailbox="ann@house.example")


def test_omitted_settings_and_their_secret_are_kept(tmp_path: Path) -> None:
    old = PigeonSettings(loft="north", secret="sealed")
    options = KIND.options()
    assert KIND.given("ann", options(), is_new=False) is None
    same = KIND.given("ann", options(pigeon_loft="north"), is_new=False)
    assert same is not None
    assert (same.server("ann", old, mailbox=""), same.secret) == (old, None)
    (tmp_path / "whistle").write_text(WHISTLE)
    other = KIND.given("ann", options(pigeon_whistle_file=str(tmp_path / "whistle")), is_new=False)
    assert other is not None
    assert (other.server("ann", old, mailbox=""), other.secret) == (PigeonSettings(loft="north"), WHISTLE)


@pytest.mark.slow
def test_an_account_of_a_new_kind_is_added_verified_and_sends(pigeons: Pigeons, lofts: Path) -> None:
    plain = Cli(pigeons.environment)  # which does not know it
    plain.ok("workspace", "add", "acme")
    plain.ok("domain", "grant", "--workspace", "acme", "acme.example")
    key = plain.json("key", "add", "--workspace", "acme", "--scope", "read", "--scope", "send", "--scope", "manage")[
        "key"
    ]
    (lofts / "whistle").write_text(WHISTLE)

    # With a command.
    whistle = ("--pigeon-whistle-file", lofts / "whistle")
    _, verified, shown = pigeons.each(
        ("account", "add", "ann", "--from", "ann@house.example", "--pigeon-loft", "north", *whistle),
        ("account", "verify", "ann", "--json"),
        ("account", "show", "ann", "--json"),
    )
    assert json.loads(verified)["ok"]
    assert json.loads(shown)["server"] == {"kind": "pigeon", "loft": "north", "has_secret": True}
    assert plain.json("account", "show", "ann")["server"] == {"kind": "pigeon"}

    # With requests.
    with asking(pigeons, key) as client:
        choices = client.get("/v1/transports").json()["data"]
        [ours] = [each for each in choices if each["kind"] == "pigeon"]
        entries = {each["name"]: each for each in ours["sign_ins"][0]["entries"]}
        assert (entries["pigeon.loft"]["pattern"], entries["pigeon.whistle"]["is_secret"]) == ("[a-z]+", True)
        account = {"name": "bob", "address": "bob@acme.example", "limits": {"delay_ms": 0}}
        wrong = client.post("/v1/accounts", json={**account, "pigeon": {"loft": "../x", "whistle": WHISTLE}})
        assert [each["field"] for each in wrong.json()["error"]["details"]] == ["pigeon.loft"]
        both = {"pigeon": {"loft": "south", "whistle": WHISTLE}, "smtp": {"host": "smtp.acme.example"}}
        assert client.post("/v1/accounts", json={**account, **both}).status_code == 422
        added = client.post("/v1/accounts", json={**account, "pigeon": both["pigeon"]})
        assert added.status_code == 201, added.text
        assert added.json()["data"]["server"] == {"kind": "pigeon", "loft": "south", "has_secret": True}
        kept = client.patch("/v1/accounts/bob", json={"pigeon": {"loft": "south"}, "display_name": "Bob"})
        assert kept.status_code == 200, kept.text
        assert kept.json()["data"]["server"]["has_secret"]
        assert client.post("/v1/accounts/bob/verify").json()["data"]["ok"]
        mail = {"to": "eve@there.example", "from": "bob@acme.example", "subject": "by request", "text": "t"}
        assert client.post("/v1/emails", json=mail).status_code == 201

    plain.ok("email", "send", "--to", "eve@there.example", "--subject", "by command", "--text", "t")
    with pigeons.running("work"):
        until(lambda: landed(lofts / "north") and landed(lofts / "south"), what="the pigeons")
        until(lambda: len(plain.json("email", "list", "--state", "sent")) == 2, what="their e-mails")
    assert landed(lofts / "north") == [f"{WHISTLE} ann@house.example by command"]
    assert landed(lofts / "south") == [f"{WHISTLE} bob@acme.example by request"]
