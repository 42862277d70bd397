"""`fairpost simulate fairness`, `abuse` and `providers`: what they print, draw and refuse."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.cli.plots import sparkline
from fairpost.cli.simulate import ScenarioName
from fairpost.dev.bench import workload
from fairpost.dev.simulate import providers, scenarios
from fairpost.dev.simulate.providers import Case
from fairpost.dev.simulate.scenarios import SCENARIOS, scenario
from fairpost.dev.simulate.zoo import ZOO, Matter
from tests.cli.conftest import Cli

ABUSER = ("simulate", "fairness", "--scenario", "abuser")
ABUSE = ("simulate", "abuse", "--senders", 20, "--days", 2)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the e-mails and slots, for a quick look."""
    monkeypatch.setattr(scenarios, "scenario", lambda name, *, seed, scale: scenario(name, seed=seed, scale=scale / 20))


@asynccontextmanager
async def empty_already(url: str) -> AsyncIterator[str]:
    """Uses the test's database instead of a new one."""
    yield url


def test_the_same_seed_gives_the_same_json_and_the_plot_is_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "abuser.svg"
    first = cli.json(*ABUSER, "--seed", 7)
    assert cli.json("email", "list") == []
    monkeypatch.setattr(workload, "bench_database", empty_already)
    assert cli.json(*ABUSER, "--seed", 7, "--plot", path) == first
    assert fromstring(path.read_text()).tag.endswith("svg")
    assert (first["scenario"], first["seed"]) == ("abuser", 7)
    assert list(first["algorithms"]) == ["fifo", "seed", "fairpost"]
    expected = {"jain", "gini", "largest_share", "small_wait_s_p50", "small_wait_s_p99", "idle_slots"}
    for figures in first["algorithms"].values():
        assert expected | {"newcomer_rounds", "sent", "bounced", "groups"} == set(figures)
    assert first["algorithms"]["fairpost"]["idle_slots"] == 0
    assert first["algorithms"]["fairpost"]["small_wait_s_p99"] < first["algorithms"]["fifo"]["small_wait_s_p99"]


def test_the_tables_stand_side_by_side(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "bench_database", empty_already)
    shown = cli.ok(*ABUSER)
    assert "Fairpost" in shown
    assert "(20)" in shown
    assert "█" in shown


@pytest.mark.parametrize("command", [ABUSER, ABUSE])
def test_an_impossible_plot_is_reported_before_anything_runs(
    bare: Cli, tmp_path: Path, command: tuple[object, ...]
) -> None:
    for name in ("plot.png", "plot.pdf", "plot"):
        assert "--plot plot.svg" in " ".join(bare.error(*command, "--plot", name, code=2).split())
    assert "--plot plot.svg" in bare.error(*command, "--plot", ".", code=2)
    folder = tmp_path / "missing"
    assert str(folder) in bare.error(*command, "--plot", folder / "plot.svg", code=2)


def test_every_scenario_can_be_chosen(bare: Cli) -> None:
    assert {each.value for each in ScenarioName} == set(SCENARIOS)
    assert "thousand-small" in bare.error("simulate", "fairness", "--scenario", "none", code=2)


def test_a_sparkline_goes_from_nothing_to_all() -> None:
    assert sparkline([0, 0.01, 0.5, 1]) == " ▁▅█"
    assert sparkline([0.0] * 50 + [1.0] * 50, width=4) == "  ██"


def test_abuse_is_simulated_without_a_database_and_the_same_for_the_same_seed(bare: Cli) -> None:
    first = bare.json(*ABUSE, "--seed", 7)
    assert bare.json(*ABUSE, "--seed", 7) == first
    assert bare.json(*ABUSE, "--seed", 8) != first
    rates = {
        "kinds",
        "false_positive_rate",
        "false_negative_rate",
        "precision",
        "detect_s_p50",
        "detect_s_p90",
        "scored",
    }
    assert set(first) == rates | {"seed", "senders", "days", "hourly"}
    assert set(first["hourly"]) == rates
    assert first["kinds"]["blaster"]["throttled"] == first["kinds"]["blaster"]["senders"] == 2
    assert first["detect_s_p50"] < first["hourly"]["detect_s_p50"]


def test_abuse_is_shown_for_both_ways_of_scoring_and_drawn(bare: Cli, tmp_path: Path) -> None:
    shown = bare.ok(*ABUSE, "--plot", tmp_path / "abuse.svg")
    assert "2 of 2" in shown
    assert fromstring((tmp_path / "abuse.svg").read_text()).tag.endswith("svg")


def test_too_few_senders_for_each_kind_are_refused(bare: Cli) -> None:
    assert "20" in bare.error("simulate", "abuse", "--senders", 19, code=2)


def test_providers_are_listed_without_a_database(bare: Cli) -> None:
    assert set(ZOO) <= set(bare.ok("simulate", "providers", "--list").split())
    assert "--list" in bare.error("simulate", "providers", "--only", "none", code=2)


def test_a_case_that_holds_is_printed_and_drawn(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(behaviour="healthy", form="1 s", lasts_s=3)
    monkeypatch.setattr(providers, "CASES", (case,))
    path = tmp_path / "providers.svg"
    (found,) = cli.json("simulate", "providers", "--plot", path)["cases"]
    assert (found["case"], found["violations"]) == (case.name, [])
    assert found["left_to_a_person"] == {"emails": 0, "accounts": 0}
    assert found["conversations"] > 0
    assert fromstring(path.read_text()).tag.endswith("svg")


def test_a_promise_that_does_not_hold_is_named_and_ends_with_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rest that counts as unjustified, because no provider is at fault."""
    behaviour = replace(ZOO["gmail-401"], name="blameless", matter=Matter.NEITHER, is_closing=False)
    monkeypatch.setitem(ZOO, "blameless", behaviour)
    monkeypatch.setattr(providers, "CASES", (Case(behaviour="blameless", form="100 ms", lasts_s=5),))
    shown = CliRunner().invoke(app, ["simulate", "providers"], env=cli.environment)
    assert shown.exit_code == 1
    assert {"blame", "idle"} <= set(shown.output.split())
