"""`fairpost forecast`: when a campaign finishes, as text, bars, JSON and a picture, without a database."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from fairpost.cli.forecast_view import bar
from fairpost.system import clock
from tests.cli.conftest import Cli, missing

NOW = datetime(2026, 10, 19, 9, tzinfo=UTC)  # a Monday
GMAIL = ("forecast", "--recipients", 1000, "--account", "gmail")
SEQUENCE = (*GMAIL, "--steps", 3)
WORKDAYS = ("--window", "mon-fri 09:00-17:00", "--timezone", "Europe/Berlin")


@pytest.fixture(autouse=True)
def monday_morning() -> Iterator[None]:
    with clock.stopped_at(NOW):
        yield


def ends_after(facts: dict[str, Any]) -> timedelta:
    return timedelta(seconds=facts["finished_after_s"])


def test_a_thousand_through_gmail_as_json(bare: Cli) -> None:
    facts = bare.json(*GMAIL, "--steps", 1)
    assert facts["emails"] == 1000
    assert facts["finished_after_s"] == 28 * 3600 + 297
    assert facts["starts_at"] == "2026-10-19T09:00:00Z"
    assert facts["ends_at"] == "2026-10-20T13:04:57Z"
    assert facts["per_account"] == {"gmail": 1000}
    assert facts["per_hour"] == [[f"2026-10-{day}T{hour:02}:00:00Z", 100] for day in (19, 20) for hour in range(9, 14)]
    assert facts["per_day"] == [["2026-10-19", 500], ["2026-10-20", 500]]
    assert facts["per_step"] == [
        {"step": 1, "emails": 1000, "first_at": facts["starts_at"], "last_at": facts["ends_at"]}
    ]
    assert facts["bottleneck"] == "daily limit"
    assert "gmail" in facts["suggestions"][0]["change"]
    assert facts["suggestions"][0]["ends_at"] == "2026-10-19T13:04:57Z"


def test_accounts_are_counted_and_added_up(bare: Cli) -> None:
    facts = bare.json(
        "forecast", "--recipients", 500, "--account", "gmail", "--account", "outlook:2", "--account", "gmail"
    )
    assert list(facts["per_account"]) == ["gmail-1", "gmail-2", "outlook-1", "outlook-2"]
    assert sum(facts["per_account"].values()) == 500


def test_it_is_said_in_words_with_bars_and_what_would_help(bare: Cli) -> None:
    shown, facts = bare.ok(*GMAIL), bare.json(*GMAIL)
    assert missing(shown, "1,000 e-mails", "1 account", "Tue 20 Oct 2026 13:04", "UTC", "1 d 4 h") == []
    assert missing(shown, "500 per day", "100 per hour", "3 s") == []
    assert shown.count("█" * 40) == 10
    assert missing(shown, facts["bottleneck"], facts["why"], *(each["words"] for each in facts["suggestions"])) == []
    assert missing(facts["suggestions"][0]["words"], "gmail", "today 13:04", "Tuesday 13:04") == []


def test_a_long_one_is_shown_by_day_or_week_and_many_accounts_together(bare: Cli) -> None:
    shown = bare.ok(*GMAIL, *WORKDAYS, "--quota", 50, "--ramp-up", "10d")
    assert re.search(r"Wed 21 Oct 2026 +15 ", shown)
    assert re.search(r"Thu 22 Oct 2026 +20 ", shown)
    assert "quota" in shown
    shown = bare.ok("forecast", "--recipients", 300_000, "--account", "gmail:15")
    assert re.search(r"Mon 26 Oct 2026 +52,500 ", shown)
    assert re.search(r"\b3 \w+ +60,000", shown)


def test_nothing_for_hours_is_left_out_of_the_bars(bare: Cli) -> None:
    assert re.search(r"^Mon 19 Oct 13:00 .*\n… *\nTue 20 Oct 09:00 ", bare.ok(*GMAIL), re.MULTILINE)


def test_steps_are_three_days_apart_with_gaps_by_default(bare: Cli) -> None:
    facts = bare.json("forecast", "--recipients", 11, "--account", "gmail", "--steps", 3)
    assert ends_after(facts) == timedelta(days=6, minutes=10)
    assert "step" in bare.ok("forecast", "--recipients", 11, "--account", "gmail", "--steps", 3)
    facts = bare.json(
        "forecast", "--recipients", 11, "--account", "gmail", "--steps", 4, "--delay", "1d", "--delay", "2h", "--no-gap"
    )
    assert ends_after(facts) == timedelta(days=1, hours=4, seconds=30)
    facts = bare.json("forecast", "--recipients", 11, "--account", "gmail", "--gap", "10-20")
    assert ends_after(facts) == timedelta(seconds=150)


def test_window_holidays_and_start(bare: Cli) -> None:
    one = ("forecast", "--recipients", 1, "--account", "gmail", *WORKDAYS)
    assert bare.json(*one)["ends_at"] == "2026-10-19T09:00:00Z"
    assert bare.json(*one, "--holiday", "2026-10-19")["ends_at"] == "2026-10-20T07:00:00Z"
    start = ("--start", "2026-10-24T12:00", "--holiday", "2026-10-26")
    assert bare.json(*one, *start)["ends_at"] == "2026-10-27T08:00:00Z"
    assert "Tue 27 Oct 2026 09:00" in bare.ok(*one, *start)
    holiday = bare.json("forecast", "--recipients", 1, "--account", "gmail", "--holiday", "2026-10-19")
    assert holiday["ends_at"] == "2026-10-20T00:00:00Z"


def test_it_is_drawn(bare: Cli, tmp_path: Path) -> None:
    bare.ok(*GMAIL, *WORKDAYS, "--plot", tmp_path / "plan.svg")
    drawn = "".join(fromstring((tmp_path / "plan.svg").read_text()).itertext())
    assert missing(drawn, "e-mails", "Europe/Berlin") == []


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("forecast",), ("fairpost forecast --recipients 1000 --account gmail",)),
        (("forecast", "--recipients", 5), ("--account gmail", "cold, custom, gmail")),
        ((*GMAIL, "--account", "outlook:none"), ("--account", "gmail:3", "10,000", "'outlook:none'")),
        ((*GMAIL, "--account", "outlook:10000"), ("--account", "10,000", "10,001")),
        ((*GMAIL, "--delay", "1d"), ("--delay", "--steps")),
        ((*SEQUENCE, "--delay", "soon"), ("3d", "soon")),
        ((*SEQUENCE, "--gap", "30-90", "--no-gap"), ("--gap", "--no-gap")),
        ((*GMAIL, "--timezone", "Mars"), ("Europe/Berlin", "Mars")),
        ((*GMAIL, "--window", "9-17"), ("mon-fri", "9-17")),
        ((*GMAIL, "--ramp-up", "10d"), ("--ramp-up", "--quota 200")),
        ((*GMAIL, "--start", "2026-10-19T08:59"), ("--start", "2026-10-19T08:59")),
        ((*GMAIL, "--plot", "plan.png"), ("plan.png", "--plot plan.svg")),
    ],
)
def test_errors_say_what_to_type(bare: Cli, arguments: tuple[object, ...], facts: tuple[str, ...]) -> None:
    assert missing(bare.error(*arguments, code=2), *facts) == []


def test_an_impossible_request_is_refused_in_one_line(bare: Cli, tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    cases = (
        ((*GMAIL, "--account", "none-such"), ("'none-such'", "fairpost account providers")),
        ((*GMAIL, "--recipients", 100_000, "--quota", 1), ("10 years", "100,000")),
        ((*GMAIL, "--quota", 10, "--ramp-up", "1000d"), ("ramp_up_days", "1000")),
        ((*GMAIL, "--plot", tmp_path / "folder.svg"), (str(tmp_path / "folder.svg"),)),
    )
    assert bare.wrong_errors(cases) == []


def test_a_bar_is_as_long_as_its_part() -> None:
    assert [bar(part) for part in (0, 0.0001, 0.5, 1)] == ["", "▏", "█" * 20, "█" * 40]
