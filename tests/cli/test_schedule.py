"""`fairpost schedule`: when a workspace sends and how much, in words that people use, on clocks that change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.cli.conftest import Cli

Db = psycopg.Connection[Any]

MONDAY = datetime(2030, 1, 7, 10, 30, tzinfo=UTC)
OFFICE = ("--timezone", "Europe/Berlin", "--days", "mon-fri", "--hours", "09:00-17:00")


@pytest.fixture
def hands() -> Iterator[ManualClock]:
    """Of a clock that stands: half past eleven in Berlin, on a Monday."""
    with clock.stopped_at(MONDAY) as manual:
        yield manual


def show(cli: Cli, *arguments: str) -> dict[str, Any]:
    shown: dict[str, Any] = cli.json("schedule", "show", *arguments)
    return shown


def settings(cli: Cli, *arguments: str) -> tuple[Any, ...]:
    shown = show(cli, *arguments)
    return shown["timezone"], shown["window"], shown["quota"]


# ── set ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_result_is_said_in_words(cli: Cli, hands: ManualClock) -> None:
    assert cli.ok("schedule", "set", *OFFICE, "--quota", "200") == (
        "workspace default sends Monday to Friday 09:00–17:00 Europe/Berlin, at most 200 a day\n"
        "open until 17:00 (in 5h 30m)\n"
    )
    hands.advance(timedelta(hours=6))
    assert cli.ok("schedule", "set", "--quota", "300").splitlines() == [
        "workspace default sends Monday to Friday 09:00–17:00 Europe/Berlin, at most 300 a day",
        "closed; next opens Tuesday 2030-01-08 09:00 (in 15h 30m)",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--quota", "none"], "at any time, without a daily quota"),
        (["--quota", "1"], "at any time, at most 1 a day (the days of UTC)"),
        (["--days", "sat,mon,tue"], "Monday, Tuesday and Saturday the whole day UTC, without a daily quota"),
        (["--days", "all", "--hours", "22:00-06:00"], "every day 22:00–06:00 (into the next day) UTC, without"),
        (["--hours", "16:00-24:00"], "every day 16:00–24:00 UTC, without"),
        (["--holiday", "2030-12-25"], "every day the whole day UTC but for 1 holiday, without"),
        (["--quota", "9", "--ramp-up", "yes"], "at most 9 a day (the days of UTC), growing evenly over the first 10 days"),
        (["--quota", "9", "--ramp-up", "5%, 10"], "at most 9 a day (the days of UTC), on the first days 5%, 10% of it"),
        (["--days", "all", "--hours", "all"], "at any time, without a daily quota"),
    ],
)  # fmt: skip
def test_what_people_write(cli: Cli, hands: ManualClock, arguments: list[str], words: str) -> None:
    assert words in cli.ok("schedule", "set", *arguments)


def test_what_is_not_named_stays(cli: Cli, hands: ManualClock) -> None:
    cli.ok("schedule", "set", *OFFICE, "--quota", "200", "--ramp-up", "10")
    cli.ok("schedule", "set", "--holiday", "2030-12-25", "--holiday", "2030-12-26")
    cli.ok("schedule", "set", "--holiday", "2031-01-01", "--hours", "08:00-12:00")
    cli.ok("schedule", "set", "--timezone", "Asia/Kolkata")
    window = {
        "days": [1, 2, 3, 4, 5],
        "start": "08:00:00",
        "end": "12:00:00",
        "holidays": ["2030-12-25", "2030-12-26", "2031-01-01"],
    }
    quota = {"daily_max": 200, "ramp_up_days": 10, "ramp_up_percents": []}
    assert settings(cli) == ("Asia/Kolkata", window, quota)
    cli.ok("schedule", "set", "--no-holidays", "--holiday", "2030-05-01")
    assert settings(cli)[1]["holidays"] == ["2030-05-01"]
    cli.ok("schedule", "set", "--any-time", "--ramp-up", "50,75")
    assert settings(cli)[1] == {
        "days": [1, 2, 3, 4, 5, 6, 7],
        "start": "00:00:00",
        "end": "00:00:00",
        "holidays": ["2030-05-01"],
    }
    cli.ok("schedule", "set", "--no-holidays")
    assert settings(cli) == (
        "Asia/Kolkata",
        None,
        {"daily_max": 200, "ramp_up_days": 0, "ramp_up_percents": [50, 75]},
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "give at least one of --timezone"),
        (["--timezone", "berlin"], 2, 'got "berlin": did you mean Europe/Berlin?'),
        (["--timezone", "New York"], 2, "did you mean America/New_York?"),
        (["--timezone", "Europe/Berln"], 2, "did you mean Europe/Berlin"),
        (["--timezone", "Europe"], 2, "must be a name like Europe/Berlin"),
        (["--timezone", "UTC+2"], 2, "must be a name like Europe/Berlin"),
        (["--timezone", "../../etc/passwd"], 2, "must be a name like Europe/Berlin"),
        (["--timezone", ""], 2, "must be a name like Europe/Berlin"),
        (["--timezone", "x" * 5_000], 2, "must be a name like Europe/Berlin"),
        (["--days", ""], 2, "must be days like mon-fri or mon,wed,fri"),
        (["--days", "mo-fr"], 2, "must be days like mon-fri or mon,wed,fri"),
        (["--days", "mon,,fri"], 2, "must be days like mon-fri or mon,wed,fri"),
        (["--hours", "9-17"], 2, "must be times like 09:00-17:00"),
        (["--hours", "25:00-26:00"], 2, "must be times like 09:00-17:00"),
        (["--hours", "09:00-09:00"], 2, "must end at another time"),
        (["--any-time", "--days", "mon"], 2, "leave --days and --hours out"),
        (["--holiday", "25.12.2030"], 2, "must be a day like 2027-12-25"),
        (["--holiday", "2030-02-30"], 2, "must be a day like 2027-12-25"),
        (["--holiday", "0001-01-01"], 2, "must lie in the years 1970..2199"),
        (["--quota", "0"], 2, "'0' is no limit; write a number from 1 to"),
        (["--quota", "-5"], 2, "is no limit"),
        (["--quota", "99999999999"], 2, "is no limit"),
        (["--quota", "many"], 2, "is no limit"),
        (["--ramp-up", "soon"], 2, "must be days like 10d, percents like 10%,20%,50%"),
        (["--ramp-up", "1000d"], 1, "--ramp-up must be 0..365, got 1000. Nothing was changed."),
        (["--ramp-up", "50,101"], 1, "--ramp-up must be 1..100 each, got 101. Nothing was changed."),
        (["--quota", "none"], 1, "To take both away: fairpost schedule set --quota none --ramp-up none"),
        (["--quota", "none", "--ramp-up", "5d"], 1, "--quota must be set for a ramp-up"),
        (["--workspace", "*", "--quota", "5"], 2, "must be the name of one workspace"),
        (["--hours", "10:00-11:00", "--timezone", "nowhere"], 2, "must be a name like Europe/Berlin"),
    ],
)
def test_nonsense_changes_nothing(cli: Cli, hands: ManualClock, arguments: list[str], code: int, words: str) -> None:
    cli.ok("schedule", "set", *OFFICE, "--quota", "200", "--ramp-up", "10")
    before = show(cli)
    assert words in cli.error("schedule", "set", *arguments, code=code)
    assert show(cli) == before


def test_a_window_that_would_never_open_is_refused(cli: Cli, hands: ManualClock) -> None:
    mondays = [MONDAY.date() + timedelta(weeks=n) for n in range(53)]
    given = [word for day in mondays for word in ("--holiday", day.isoformat())]
    said = cli.error("schedule", "set", "--days", "mon", *given)
    assert "--holiday must leave a day open within a year" in said
    assert "Nothing was changed." in said
    assert not show(cli)["is_set"]


def test_there_is_an_end_to_holidays(cli: Cli, hands: ManualClock) -> None:
    days = [(MONDAY.date() + timedelta(days=2 * n)).isoformat() for n in range(1_001)]
    cli.ok("schedule", "set", *(word for day in days[:1_000] for word in ("--holiday", day)))
    assert "at most 1,000 holidays, got 1,001" in cli.error("schedule", "set", "--holiday", days[-1])
    assert len(show(cli)["window"]["holidays"]) == 1_000


def test_one_that_has_closed_for_good_meanwhile_is_still_shown(cli: Cli, hands: ManualClock) -> None:
    mondays = [MONDAY.date() + timedelta(weeks=n) for n in range(1, 60)]
    given = [word for day in mondays for word in ("--holiday", day.isoformat())]
    cli.ok("schedule", "set", "--days", "mon", *given)
    hands.advance(timedelta(days=1))
    assert "closed for a year: give it days, or fewer holidays" in cli.ok("schedule", "show")
    assert show(cli)["opens_at"] is None


def test_workspaces_do_not_see_each_other(cli: Cli, hands: ManualClock) -> None:
    other = ("--workspace", "other")
    cli.ok("schedule", "set", *OFFICE, "--quota", "200")
    assert settings(cli, *other) == ("UTC", None, {"daily_max": None, "ramp_up_days": 0, "ramp_up_percents": []})
    cli.ok("schedule", "set", "--quota", "5", *other)
    assert (show(cli)["quota"]["daily_max"], show(cli, *other)["quota"]["daily_max"]) == (200, 5)


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_nobody_has_set_one_mail_goes_out_at_any_time(cli: Cli, hands: ManualClock) -> None:
    said = cli.ok("schedule", "show")
    assert "at any time, without a daily quota (nobody has set one: fairpost schedule set --help)" in said
    assert "at most" not in said
    shown = show(cli)
    assert (shown["is_set"], shown["is_open"], shown["closes_at"], shown["opens_at"]) == (False, True, None, None)


def test_the_quota_of_today_and_the_days_ahead(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", *OFFICE, "--quota", "100", "--ramp-up", "10", "--holiday", "2030-01-09")
    assert "10 days, beginning with the first launch" in cli.ok("schedule", "show")
    db.execute("UPDATE fairpost.schedules SET first_day = '2030-01-03'")
    cli.ok("schedule", "set", "--quota", "200")
    db.execute("UPDATE fairpost.quotas SET used = 37 WHERE day = '2030-01-07'")
    said = cli.ok("schedule", "show")
    assert (
        "quota      37 of 60 used today, 23 left; the next day begins Tuesday 2030-01-08 00:00 (in 12h 30m)\n" in said
    )
    assert "ramp-up    today is day 3 of 10\n" in said
    assert "holidays   2030-01-09\n" in said
    assert [line.split() for line in said.splitlines()[-7:]] == [
        ["Mon", "2030-01-07", "09:00–17:00", "60"],
        ["Tue", "2030-01-08", "09:00–17:00", "80"],
        ["Wed", "2030-01-09", "nothing", "(holiday)"],
        ["Thu", "2030-01-10", "09:00–17:00", "100"],
        ["Fri", "2030-01-11", "09:00–17:00", "120"],
        ["Sat", "2030-01-12", "nothing"],
        ["Sun", "2030-01-13", "nothing"],
    ]
    shown = show(cli)
    assert shown["today"] == {"used": 37, "allowed": 60, "resets_at": "2030-01-07T23:00:00Z"}
    assert shown["ramp_up"] == {"day": 3, "days": 10}
    assert shown["closes_at"] == "2030-01-07T16:00:00Z"
    assert shown["days"][1] == {
        "day": "2030-01-08",
        "open": [["2030-01-08T08:00:00Z", "2030-01-08T16:00:00Z"]],
        "allowed": 80,
        "ends_at": "2030-01-08T23:00:00Z",
    }


def test_what_is_shown_ahead_is_what_was_laid_for_the_engine(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", *OFFICE, "--quota", "70", "--ramp-up", "5,10,50")
    laid = db.execute("SELECT day::text, allowed FROM fairpost.quotas ORDER BY starts_at LIMIT 7").fetchall()
    assert [(each["day"], each["allowed"]) for each in show(cli)["days"]] == laid


def test_a_new_ramp_up_is_said_to_begin_anew(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", "--quota", "100", "--ramp-up", "10")
    db.execute("UPDATE fairpost.schedules SET first_day = '2030-01-03'")
    assert "anew" not in cli.ok("schedule", "set", "--quota", "200", "--ramp-up", "10d")
    assert show(cli)["ramp_up"] == {"day": 5, "days": 10}
    assert "the ramp-up begins anew, with its first day" in cli.ok("schedule", "set", "--ramp-up", "20")
    assert show(cli)["ramp_up"] == {"day": None, "days": 20}


def test_a_ramp_up_that_is_over_is_said_to_be(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", "--quota", "100", "--ramp-up", "5,10")
    db.execute("UPDATE fairpost.schedules SET first_day = '2029-01-03'")
    assert "over: it had 2 days" in cli.ok("schedule", "show")
    assert [each["allowed"] for each in show(cli)["days"]] == [100] * 7


@pytest.mark.parametrize(
    ("zone", "now", "hours", "days"),
    [
        ("Europe/Berlin", datetime(2030, 3, 30, 12, tzinfo=UTC), "01:30-03:30", ["01:30–03:30"] * 2),
        ("Europe/Berlin", datetime(2030, 3, 30, 12, tzinfo=UTC), "02:00-03:00", ["02:00–03:00", "nothing"]),
        ("Europe/Berlin", datetime(2030, 3, 30, 12, tzinfo=UTC), "02:15-04:00", ["02:15–04:00", "03:00–04:00"]),
        ("Europe/Berlin", datetime(2030, 10, 26, 12, tzinfo=UTC), "02:00-03:00", ["02:00–03:00"] * 2),
        ("Europe/Berlin", datetime(2030, 10, 26, 12, tzinfo=UTC), "01:00-02:30", ["01:00–02:30", "01:00–02:30, 02:00–02:30"]),
        ("Europe/Berlin", datetime(2030, 10, 26, 12, tzinfo=UTC), "22:00-03:00", ["00:00–03:00, 22:00–24:00"] * 2),
        ("Asia/Kathmandu", datetime(2030, 10, 26, 12, tzinfo=UTC), "09:00-17:00", ["09:00–17:00"] * 2),
    ],
)  # fmt: skip
def test_days_on_which_the_clock_changes(cli: Cli, zone: str, now: datetime, hours: str, days: list[str]) -> None:
    with clock.stopped_at(now):
        cli.ok("schedule", "set", "--timezone", zone, "--hours", hours, "--quota", "10")
        lines = [line.split(maxsplit=2)[2].strip() for line in cli.ok("schedule", "show").splitlines()[-7:-5]]
    assert [line.removesuffix("10").strip() for line in lines] == days


def test_the_next_opening_is_on_the_clock_of_the_day_it_comes_on(cli: Cli) -> None:
    with clock.stopped_at(datetime(2030, 3, 29, 20, tzinfo=UTC)):  # a Friday; on Sunday the clock goes forward
        said = cli.ok("schedule", "set", *OFFICE)
        assert "closed; next opens Monday 2030-04-01 09:00 (in 2d 11h)" in said
        assert show(cli)["opens_at"] == "2030-04-01T07:00:00Z"


def test_campaigns_under_way_are_mentioned(cli: Cli, db: Db, hands: ManualClock) -> None:
    db.execute("INSERT INTO fairpost.sequences (workspace, name, created_at) VALUES ('default', 's', now())")
    db.execute(
        """INSERT INTO fairpost.campaigns (workspace, name, state, sequence_id, lists, route, created_at, launched_at)
           SELECT 'default', 'sale', 'running', s.id, '{}', 'default', now(), now() FROM fairpost.sequences s"""
    )
    said = cli.ok("schedule", "set", "--quota", "100", "--ramp-up", "10")
    assert "the campaigns under way keep to it from now on" in said
    shown = show(cli)
    assert (shown["is_sending"], shown["ramp_up"], shown["today"]["allowed"]) == (True, {"day": 1, "days": 10}, 10)


def test_now_is_what_the_database_says(cli: Cli, db: Db) -> None:
    cli.ok("schedule", "set", "--quota", "100")
    before = db.execute("SELECT clock_timestamp()").fetchall()[0][0]
    resets_at = datetime.fromisoformat(show(cli)["today"]["resets_at"])
    assert timedelta() < resets_at - before <= timedelta(days=1)
