"""`fairpost schedule`: when and how much a workspace sends, in the user's notation, on clocks that change."""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.cli.conftest import Case, Cli, missing

Db = psycopg.Connection[Any]

MONDAY = datetime(2030, 1, 7, 10, 30, tzinfo=UTC)
OFFICE = ("--timezone", "Europe/Berlin", "--days", "mon-fri", "--hours", "09:00-17:00")


@pytest.fixture
def hands() -> Iterator[ManualClock]:
    """Of a stopped clock: half past eleven in Berlin, on a Monday."""
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
    what, now = cli.ok("schedule", "set", *OFFICE, "--quota", "200").splitlines()
    assert missing(what, "default", "Monday", "Friday", "09:00–17:00 Europe/Berlin", "200") == []
    assert missing(now, "17:00", "5h 30m") == []
    hands.advance(timedelta(hours=6))
    what, now = cli.ok("schedule", "set", "--quota", "300").splitlines()
    assert missing(what, "09:00–17:00 Europe/Berlin", "300") == []
    assert missing(now, "Tuesday 2030-01-08 09:00", "15h 30m") == []


def window(**given: Any) -> dict[str, Any]:
    return {"days": [1, 2, 3, 4, 5, 6, 7], "start": "00:00:00", "end": "00:00:00", "holidays": [], **given}


def quota(**given: Any) -> dict[str, Any]:
    return {"daily_max": None, "ramp_up_days": 0, "ramp_up_percents": [], **given}


WRITTEN: list[tuple[str, list[str], Any, Any]] = [
    ("--quota none", [], None, quota()),
    ("--quota 1", [" 1 "], None, quota(daily_max=1)),
    ("--days sat,mon,tue", ["Monday, Tuesday", "Saturday", "UTC"], window(days=[1, 2, 6]), quota()),
    ("--days all --hours 22:00-06:00", ["22:00–06:00"], window(start="22:00:00", end="06:00:00"), quota()),
    ("--hours 16:00-24:00", ["16:00–24:00 UTC"], window(start="16:00:00"), quota()),
    ("--holiday 2030-12-25", [" 1 "], window(holidays=["2030-12-25"]), quota()),
    ("--quota 9 --ramp-up yes", [" 9 ", " 10 "], None, quota(daily_max=9, ramp_up_days=10)),
    ("--quota 9 --ramp-up '5%, 10'", [" 9 ", "5%, 10%"], None, quota(daily_max=9, ramp_up_percents=[5, 10])),
    ("--days all --hours all", [], None, quota()),
]


def test_real_world_inputs(cli: Cli, hands: ManualClock) -> None:
    """Each in a separate workspace."""
    wrong = []
    for number, (written, facts, *expected) in enumerate(WRITTEN):
        of = ("--workspace", f"w{number}")
        lacks = missing(cli.ok("schedule", "set", *shlex.split(written), *of), *facts)
        if lacks or (found := settings(cli, *of)) != ("UTC", *expected):
            wrong.append((written, lacks or found))
    assert wrong == []


def test_omitted_values_are_kept(cli: Cli, hands: ManualClock) -> None:
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


UNREADABLE: list[Case] = [
    ([], ["--timezone"]),
    (["--timezone", "berlin"], ["berlin", "Europe/Berlin"]),
    (["--timezone", "New York"], ["America/New_York"]),
    (["--timezone", "Europe/Berln"], ["Europe/Berln", "Europe/Berlin"]),
    (["--timezone", "Europe"], ["--timezone", "Europe/Berlin"]),
    (["--timezone", "UTC+2"], ["UTC+2", "Europe/Berlin"]),
    (["--timezone", "../../etc/passwd"], ["--timezone", "Europe/Berlin"]),
    (["--timezone", ""], ["--timezone", "Europe/Berlin"]),
    (["--timezone", "x" * 5_000], ["--timezone", "Europe/Berlin"]),
    (["--days", ""], ["--days", "mon-fri", "mon,wed,fri"]),
    (["--days", "mo-fr"], ["mo-fr", "mon-fri"]),
    (["--days", "mon,,fri"], ["mon,,fri", "mon-fri"]),
    (["--hours", "9-17"], ["9-17", "09:00-17:00"]),
    (["--hours", "25:00-26:00"], ["25:00-26:00", "09:00-17:00"]),
    (["--hours", "09:00-09:00"], ["--hours", "09:00-09:00"]),
    (["--any-time", "--days", "mon"], ["--days", "--hours"]),
    (["--holiday", "25.12.2030"], ["25.12.2030", "2027-12-25"]),
    (["--holiday", "2030-02-30"], ["2030-02-30", "2027-12-25"]),
    (["--holiday", "0001-01-01"], ["1970", "2199"]),
    (["--quota", "0"], ["--quota", "'0'"]),
    (["--quota", "-5"], ["--quota", "-5"]),
    (["--quota", "99999999999"], ["--quota", "99999999999"]),
    (["--quota", "many"], ["--quota", "many"]),
    (["--ramp-up", "soon"], ["--ramp-up", "10d", "10%,20%,50%"]),
    (["--workspace", "*", "--quota", "5"], ["--workspace"]),
    (["--hours", "10:00-11:00", "--timezone", "nowhere"], ["nowhere", "Europe/Berlin"]),
]
UNFIT: list[Case] = [
    (["--ramp-up", "1000d"], ["--ramp-up", "0..365", "1000"]),
    (["--ramp-up", "50,101"], ["--ramp-up", "1..100", "101"]),
    (["--quota", "none"], ["fairpost schedule set --quota none --ramp-up none"]),
    (["--quota", "none", "--ramp-up", "5d"], ["--quota"]),
]


def test_nonsense_changes_nothing(cli: Cli, hands: ManualClock) -> None:
    cli.ok("schedule", "set", *OFFICE, "--quota", "200", "--ramp-up", "10")
    before = show(cli)
    for code, cases in ((2, UNREADABLE), (1, UNFIT)):
        commands = [(("schedule", "set", *arguments), facts) for arguments, facts in cases]
        assert cli.wrong_errors(commands, code=code) == []
    assert show(cli) == before


def test_a_window_that_would_never_open_is_refused(cli: Cli, hands: ManualClock) -> None:
    mondays = [MONDAY.date() + timedelta(weeks=n) for n in range(53)]
    given = [word for day in mondays for word in ("--holiday", day.isoformat())]
    assert "--holiday" in cli.error("schedule", "set", "--days", "mon", *given)
    assert not show(cli)["is_set"]


def test_there_is_an_end_to_holidays(cli: Cli, hands: ManualClock) -> None:
    days = [(MONDAY.date() + timedelta(days=2 * n)).isoformat() for n in range(1_001)]
    cli.ok("schedule", "set", *(word for day in days[:1_000] for word in ("--holiday", day)))
    assert missing(cli.error("schedule", "set", "--holiday", days[-1]), "1,000", "1,001") == []
    assert len(show(cli)["window"]["holidays"]) == 1_000


def test_one_that_has_closed_for_good_in_the_meantime_is_still_shown(cli: Cli, hands: ManualClock) -> None:
    mondays = [MONDAY.date() + timedelta(weeks=n) for n in range(1, 60)]
    given = [word for day in mondays for word in ("--holiday", day.isoformat())]
    cli.ok("schedule", "set", "--days", "mon", *given)
    hands.advance(timedelta(days=1))
    cli.ok("schedule", "show")
    assert (show(cli)["is_open"], show(cli)["opens_at"]) == (False, None)


def test_workspaces_do_not_see_each_other(cli: Cli, hands: ManualClock) -> None:
    other = ("--workspace", "other")
    cli.ok("schedule", "set", *OFFICE, "--quota", "200")
    assert settings(cli, *other) == ("UTC", None, {"daily_max": None, "ramp_up_days": 0, "ramp_up_percents": []})
    cli.ok("schedule", "set", "--quota", "5", *other)
    assert (show(cli)["quota"]["daily_max"], show(cli, *other)["quota"]["daily_max"]) == (200, 5)


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_schedule_mail_goes_out_at_any_time(cli: Cli, hands: ManualClock) -> None:
    assert "fairpost schedule set --help" in cli.ok("schedule", "show")
    shown = show(cli)
    assert (shown["is_set"], shown["is_open"], shown["closes_at"], shown["opens_at"]) == (False, True, None, None)


def test_the_quota_of_today_and_the_days_ahead(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", *OFFICE, "--quota", "100", "--ramp-up", "10", "--holiday", "2030-01-09")
    assert show(cli)["ramp_up"] == {"day": None, "days": 10}, "it begins with the first launch"
    db.execute("UPDATE fairpost.schedules SET first_day = '2030-01-03'")
    cli.ok("schedule", "set", "--quota", "200")
    db.execute("UPDATE fairpost.quotas SET used = 37 WHERE day = '2030-01-07'")
    said = cli.ok("schedule", "show")
    assert missing(said, " 37 ", " 60 ", " 23 ", "Tuesday 2030-01-08 00:00", "12h 30m", "2030-01-09") == []
    days = [line.split() for line in said.splitlines()[-7:]]
    assert [(name, day) for name, day, *_ in days] == [
        ("Mon", "2030-01-07"),
        ("Tue", "2030-01-08"),
        ("Wed", "2030-01-09"),
        ("Thu", "2030-01-10"),
        ("Fri", "2030-01-11"),
        ("Sat", "2030-01-12"),
        ("Sun", "2030-01-13"),
    ]
    assert [hours_and_quota for _, _, *hours_and_quota in days if "–" in hours_and_quota[0]] == [
        ["09:00–17:00", allowed] for allowed in ("60", "80", "100", "120")
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


def test_the_days_shown_are_those_stored_for_the_engine(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", *OFFICE, "--quota", "70", "--ramp-up", "5,10,50")
    laid = db.execute("SELECT day::text, allowed FROM fairpost.quotas ORDER BY starts_at LIMIT 7").fetchall()
    assert [(each["day"], each["allowed"]) for each in show(cli)["days"]] == laid


def test_a_new_ramp_up_is_reported_to_start_over(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", "--quota", "100", "--ramp-up", "10")
    db.execute("UPDATE fairpost.schedules SET first_day = '2030-01-03'")
    same = cli.ok("schedule", "set", "--quota", "200", "--ramp-up", "10d")
    assert show(cli)["ramp_up"] == {"day": 5, "days": 10}
    other = cli.ok("schedule", "set", "--ramp-up", "20")
    assert show(cli)["ramp_up"] == {"day": None, "days": 20}
    assert len(other.splitlines()) == len(same.splitlines()) + 1


def test_a_ramp_up_that_is_over_is_said_to_be(cli: Cli, db: Db, hands: ManualClock) -> None:
    cli.ok("schedule", "set", "--quota", "100", "--ramp-up", "5,10")
    db.execute("UPDATE fairpost.schedules SET first_day = '2029-01-03'")
    shown = show(cli)
    assert shown["ramp_up"]["days"] == 2
    assert [each["allowed"] for each in shown["days"]] == [100] * 7
    assert " 2 " in cli.ok("schedule", "show")


SPRING, AUTUMN = datetime(2030, 3, 30, 12, tzinfo=UTC), datetime(2030, 10, 26, 12, tzinfo=UTC)
CHANGES = [
    ("Europe/Berlin", SPRING, "01:30-03:30", ["01:30–03:30"] * 2),
    ("Europe/Berlin", SPRING, "02:00-03:00", ["02:00–03:00", ""]),
    ("Europe/Berlin", SPRING, "02:15-04:00", ["02:15–04:00", "03:00–04:00"]),
    ("Europe/Berlin", AUTUMN, "02:00-03:00", ["02:00–03:00"] * 2),
    ("Europe/Berlin", AUTUMN, "01:00-02:30", ["01:00–02:30", "01:00–02:30, 02:00–02:30"]),
    ("Europe/Berlin", AUTUMN, "22:00-03:00", ["00:00–03:00, 22:00–24:00"] * 2),
    ("Asia/Kathmandu", AUTUMN, "09:00-17:00", ["09:00–17:00"] * 2),
]


def test_days_on_which_the_clock_changes(cli: Cli) -> None:
    wrong = []
    for number, (zone, now, hours, days) in enumerate(CHANGES):
        of = ("--workspace", f"w{number}")
        with clock.stopped_at(now):
            cli.ok("schedule", "set", "--timezone", zone, "--hours", hours, "--quota", "10", *of)
            lines = cli.ok("schedule", "show", *of).splitlines()[-7:-5]
        shown = [", ".join(re.findall(r"\d\d:\d\d–\d\d:\d\d", line)) for line in lines]
        if shown != days:
            wrong.append((zone, hours, shown))
    assert wrong == []


def test_the_next_opening_is_on_the_clock_of_the_day_it_comes_on(cli: Cli) -> None:
    with clock.stopped_at(datetime(2030, 3, 29, 20, tzinfo=UTC)):  # a Friday; on Sunday the clock goes forward
        said = cli.ok("schedule", "set", *OFFICE)
        assert missing(said, "Monday 2030-04-01 09:00", "2d 11h") == []
        assert show(cli)["opens_at"] == "2030-04-01T07:00:00Z"


def test_campaigns_under_way_are_mentioned(cli: Cli, db: Db, hands: ManualClock) -> None:
    db.execute("INSERT INTO fairpost.sequences (workspace, name, created_at) VALUES ('default', 's', now())")
    db.execute(
        """INSERT INTO fairpost.campaigns (workspace, name, state, sequence_id, lists, route, created_at, launched_at)
           SELECT 'default', 'sale', 'running', s.id, '{}', 'default', now(), now() FROM fairpost.sequences s"""
    )
    alone = cli.ok("schedule", "set", "--quota", "100", "--ramp-up", "10", "--workspace", "other")
    said = cli.ok("schedule", "set", "--quota", "100", "--ramp-up", "10")
    assert len(said.splitlines()) == len(alone.splitlines()) + 1
    shown = show(cli)
    assert (shown["is_sending"], shown["ramp_up"], shown["today"]["allowed"]) == (True, {"day": 1, "days": 10}, 10)


def test_now_is_what_the_database_says(cli: Cli, db: Db) -> None:
    cli.ok("schedule", "set", "--quota", "100")
    before = db.execute("SELECT clock_timestamp()").fetchall()[0][0]
    resets_at = datetime.fromisoformat(show(cli)["today"]["resets_at"])
    assert timedelta() < resets_at - before <= timedelta(days=1)
