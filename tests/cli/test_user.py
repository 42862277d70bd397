"""Senders: registered, shown, listed, throttled and unthrottled manually."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.model.sender import Sender, SenderId
from fairpost.store import senders
from fairpost.store.store import Store
from tests.cli.conftest import Cli, deliver, missing, send

Db = psycopg.Connection[Any]

ANN = ("acme", "ann")
TO_SPAM = ("--reason", "a bought list")


@pytest.fixture
def sales(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--provider", "none")


@pytest.fixture
def strict(cli: Cli) -> Cli:
    """With scores that have consequences."""
    return Cli({**cli.environment, "FAIRPOST_ABUSE_DETECTION": "enforce"})


@pytest.fixture
def lenient(cli: Cli) -> Cli:
    """With scores that are only observed."""
    return Cli({**cli.environment, "FAIRPOST_ABUSE_DETECTION": "observe"})


def be_busy(db: Db, *, user: str = "ann", hours_ago: int = 0, **counts: int) -> None:
    """Ten a day so far, and this many within one hour."""
    db.execute(
        """INSERT INTO fairpost.activity_days (workspace, user_name, day, volume)
           SELECT 'acme', %s, (now() AT TIME ZONE 'UTC')::date - n, 10 FROM generate_series(2, 4) n ON CONFLICT DO NOTHING""",
        (user,),
    )
    names = ("volume", "sent", "bounced", "rejected")
    db.execute(
        """INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume, sent, bounced, rejected)
           VALUES ('acme', %s, fairpost.hour_of(now() - make_interval(hours => %s)), 'default', %s, %s, %s, %s)""",
        (user, hours_ago, *(counts.get(name, 0) for name in names)),
    )


def be_bad(db: Db, *, user: str = "ann") -> None:
    """Has 55 points."""
    be_busy(db, user=user, volume=100, sent=70, bounced=30)


def days_ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


def state(cli: Cli, id_: str) -> str:
    shown: str = cli.json("email", "show", id_)["state"]
    return shown


# ── set ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("names", [("acme",), ANN], ids=["workspace", "user"])
def test_plan_and_age_make_the_tier_at_once(cli: Cli, db: Db, names: tuple[str, ...]) -> None:
    for options, tier, plan, weight in (
        (("--plan", "team", "--since", days_ago(1)), "low", "team", 0.5),
        (("--since", days_ago(7.1)), "high", "team", 2),
        (("--plan", "free"), "low", "free", 0.5),
        (("--plan", ""), "normal", None, 1),
    ):
        assert missing(cli.ok("user", "set", "--workspace", *names, *options), names[-1], tier, plan or "plan") == []
        shown = cli.json("user", "show", "--workspace", *names)
        assert (shown["tier"], shown["plan"], shown["weight"]) == (tier, plan, weight)
    assert db.execute("SELECT tier FROM fairpost.sender_rules").fetchall() == [(None,)]


def test_an_age_is_a_day_or_a_moment(cli: Cli) -> None:
    for number, since in enumerate(("2020-01-31", "2020-01-31T00:00:00Z", "2020-01-31T02:00:00+02:00")):
        said = cli.ok("user", "set", "--workspace", "acme", f"ann{number}", "--since", since)
        assert missing(said, f"ann{number}", "acme", "normal", "2020-01-31 00:00:00 UTC") == []
        assert cli.json("user", "show", "--workspace", "acme", f"ann{number}")["since"] == "2020-01-31T00:00:00Z"


def test_omitted_values_are_kept(cli: Cli) -> None:
    cli.ok("user", "set", "--workspace", *ANN, "--plan", "team", "--since", "2020-01-31", "--daily-max", 50)
    cli.ok("user", "set", "--workspace", *ANN, "--waiting-max", 500)
    cli.ok("user", "set", "--workspace", *ANN, "--plan", "gold")
    known = {
        "plan": "gold",
        "since": "2020-01-31T00:00:00Z",
        "tier": "normal",
        "daily_max": 50,
        "waiting_max": 500,
        "throttle": None,
        "immune_until": None,
    }
    shown = cli.json("user", "show", "--workspace", *ANN)
    assert {name: shown[name] for name in known} == known
    cli.ok("user", "set", "--workspace", *ANN, "--daily-max", "none")
    shown = cli.json("user", "show", "--workspace", *ANN)
    assert (shown["daily_max"], shown["waiting_max"]) == (None, 500)


def test_a_home_is_given_and_stays_until_another_one_is(cli: Cli) -> None:
    cli.ok("user", "set", "--workspace", *ANN, "--home", "Acme.example")
    cli.ok("user", "set", "--workspace", *ANN, "--plan", "team")
    assert cli.json("user", "show", "--workspace", *ANN)["home"] == "acme.example"
    assert missing(cli.ok("user", "show", "--workspace", *ANN), "acme.example") == []
    cli.ok("user", "set", "--workspace", *ANN, "--home", "other.example")
    assert cli.json("user", "show", "--workspace", *ANN)["home"] == "other.example"
    assert missing(cli.error("user", "set", "--workspace", *ANN, "--home", "no domain"), "no domain") == []
    assert missing(cli.error("user", "set", "--workspace", "acme", "--home", "acme.example", code=2), "--home") == []


def test_which_plans_are_paid_is_set(cli: Cli) -> None:
    golden = Cli({**cli.environment, "FAIRPOST_PAID_PLANS": "gold"})
    golden.ok("user", "set", "--workspace", *ANN, "--plan", "gold")
    assert golden.json("user", "show", "--workspace", *ANN)["tier"] == "high"


def test_a_registered_sender_is_scored_at_once(lenient: Cli, strict: Cli, db: Db) -> None:
    be_bad(db)
    for where, tier, is_enforced in ((lenient, "high", False), (strict, "throttled", True)):
        assert tier in where.ok("user", "set", "--workspace", *ANN, "--plan", "team")
        shown = where.json("user", "show", "--workspace", *ANN)
        assert (shown["tier"], shown["throttle"]["is_enforced"]) == (tier, is_enforced)


def test_nonsensical_options_are_a_usage_error(bare: Cli) -> None:
    cases: dict[tuple[str, ...], tuple[str, ...]] = {
        ANN: ("--plan", "--since"),
        ("acme", "--home", "acme.example"): ("--home",),
        (*ANN, "--plan", "x" * 101): ("100",),
        ("acme", "", "--plan", "team"): ("200",),
        ("a" * 201, "--plan", "team"): ("200",),
        (*ANN, "--since", "yesterday"): ("--since", "yesterday"),
        (*ANN, "--since", "2020-01-31T09:00:00"): ("--since", "2020-01-31T09:00:00"),
        (*ANN, "--daily-max", "0"): ("--daily-max", "'0'"),
    }
    assert bare.wrong_errors([(("user", "set", *given), facts) for given, facts in cases.items()], code=2) == []


def test_a_start_date_in_the_future_is_refused(cli: Cli) -> None:
    error = cli.error("user", "set", "--workspace", *ANN, "--since", "2099-01-31")
    assert missing(error, "--since", "2099-01-31 00:00:00") == []
    assert cli.json("user", "list") == []


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_about_a_user_is_shown(strict: Cli, db: Db) -> None:
    be_bad(db)
    be_busy(db, hours_ago=20, volume=5, rejected=1)
    send(strict, "--workspace", "acme", "--user", "ann")
    strict.ok("user", "set", "--workspace", *ANN, "--plan", "team", "--since", "2020-01-31", "--daily-max", 50)
    shown = strict.json("user", "show", "--workspace", *ANN)
    throttle, (stop,), reasons = shown.pop("throttle"), shown.pop("held_back_by"), shown.pop("reasons")
    bounced, volume = reasons
    assert missing(bounced, 30, 105, "10%") == []
    assert missing(volume, 105, 24, 5, "10") == []
    assert shown == {
        "workspace": "acme",
        "user": "ann",
        "plan": "team",
        "since": "2020-01-31T00:00:00Z",
        "tier": "throttled",
        "weight": 0.1,
        "immune_until": None,
        "daily_max": 50,
        "waiting_max": None,
        "score": 55,
        "reason_codes": ["sender.too_many_bounces", "sender.unusual_volume"],
        "confidence": round(105 / 125, 3),
        "last_24h": {"volume": 105, "sent": 70, "bounced": 30, "rejected": 1},
        "usual_per_day": 10.0,
        "waiting": 1,
        "home": None,
        "next": ["fairpost user unthrottle --workspace acme ann"],
    }
    known = {"is_enforced": True, "is_by_hand": False, "score": 55, "reasons": reasons}
    assert {name: throttle[name] for name in known} == known
    length = datetime.fromisoformat(throttle["until"]) - datetime.fromisoformat(throttle["since"])
    assert length == timedelta(hours=4)
    assert (stop["is_throttle"], stop["until"], stop["reason"]) == (True, throttle["until"], "; ".join(reasons))


def test_the_page_of_a_user_says_it_in_words(strict: Cli, db: Db) -> None:
    be_bad(db)
    strict.ok("user", "set", "--workspace", *ANN, "--plan", "team", "--since", "2020-01-31", "--daily-max", 50)
    lines: dict[str, str] = {}
    for line in strict.ok("user", "show", "--workspace", *ANN).splitlines():
        name, said = re.split(r"\s{2,}", line, maxsplit=1)
        lines.setdefault(name, said)
    for name, facts in {
        "tier": ("throttled", "0.1"),
        "limits": ("50 ", "10,000 "),
        "last 24 h": ("100 ", "70 ", "30 ", "0 "),
        "usual": ("10.0",),
        "score": ("55 ", "100", "0.83", "50"),
        "because": ("30 ", "100 ", "10%"),
        "waiting": ("0 ",),
        "next": ("fairpost user unthrottle --workspace acme ann",),
    }.items():
        assert missing(lines[name], *facts) == [], name


def test_when_a_young_user_grows_up_is_shown(cli: Cli) -> None:
    cli.ok("user", "set", "--workspace", *ANN, "--since", days_ago(1))
    assert missing(cli.ok("user", "show", "--workspace", *ANN), "low", "0.5", "6 d") == []


def test_an_unregistered_user_is_shown_if_it_ever_sent(cli: Cli, db: Db) -> None:
    be_busy(db, user="bob", hours_ago=30, volume=3)
    shown = cli.json("user", "show", "--workspace", "acme", "bob")
    assert (shown["plan"], shown["tier"], shown["score"]) == (None, "normal", 0)
    assert shown["last_24h"]["volume"] == 0
    assert shown["next"] == ["fairpost user set --workspace acme bob --plan PLAN --since DATE"]
    send(cli, "--workspace", "acme", "--user", "eve")
    assert cli.json("user", "show", "--workspace", "acme", "eve")["waiting"] == 1
    assert cli.json("user", "show", "--workspace", "acme")["waiting"] == 1


@pytest.mark.parametrize("names", [("acme", "nobody"), ("nobody",)], ids=["user", "workspace"])
def test_an_unknown_sender_is_an_error(cli: Cli, db: Db, names: tuple[str, ...]) -> None:
    be_busy(db, volume=1)
    assert "nobody" in cli.error("user", "show", "--workspace", *names)


def test_a_workspace_has_a_score_and_limits_and_the_operators_own_is_not_scored(cli: Cli, db: Db) -> None:
    be_bad(db)
    cli.ok("user", "set", "--workspace", "acme", "--plan", "team", "--daily-max", "5000")
    shown = cli.json("user", "show", "--workspace", "acme")
    assert shown["score"] > 50
    assert shown["daily_max"] == 5000
    assert missing(cli.ok("user", "show", "--workspace", "acme"), "score", "5,000") == []
    own = Cli({**cli.environment, "FAIRPOST_WORKSPACE": "acme"})
    assert own.json("user", "show", "--workspace", "acme")["score"] is None


def test_a_user_is_found_by_any_form_of_the_name(cli: Cli) -> None:
    cli.ok("user", "set", "--workspace", "acme", "Ann ", "--daily-max", "7")
    assert cli.json("user", "show", "--workspace", "acme", "ANN")["daily_max"] == 7
    assert [each["user"] for each in cli.json("user", "list")] == ["ann"]


def test_a_sender_registered_in_sql_is_shown_before_an_engine_has_checked(cli: Cli, db: Db) -> None:
    db.execute("SELECT fairpost.set_sender('acme', 'ann', 'team', now())")
    assert cli.json("user", "show", "--workspace", *ANN)["plan"] == "team"
    assert "team" in cli.ok("user", "show", "--workspace", *ANN)
    assert "team" in cli.ok("user", "list")


def test_where_tiers_are_lanes_the_lane_is_shown(cli: Cli, db: Db) -> None:
    cli.ok("user", "set", "--workspace", *ANN, "--plan", "free")
    db.execute("UPDATE fairpost.fairness SET lanes = true")
    assert missing(cli.ok("user", "show", "--workspace", *ANN), "low", "15%") == []


def test_the_page_says_when_scoring_is_off(cli: Cli) -> None:
    off = Cli({**cli.environment, "FAIRPOST_ABUSE_DETECTION": "off", "FAIRPOST_USER_DAILY_MAX": "0"})
    off.ok("user", "set", "--workspace", *ANN, "--plan", "team")
    page = off.ok("user", "show", "--workspace", *ANN)
    assert " of 100" not in page
    assert " 300 " not in page
    shown = off.json("user", "show", "--workspace", *ANN)
    assert (shown["score"], shown["daily_max"]) == (None, None)


def test_a_hold_beside_is_shown_with_what_ends_it(cli: Cli) -> None:
    cli.ok("user", "set", "--workspace", *ANN, "--plan", "team")
    cli.ok("hold", "--workspace", "acme", "--user", "ann", "--reason", "unpaid")
    assert (
        missing(cli.ok("user", "show", "--workspace", *ANN), "unpaid", "fairpost release --workspace acme --user ann")
        == []
    )
    assert cli.json("user", "show", "--workspace", *ANN)["next"] == ["fairpost release --workspace acme --user ann"]


# ── list ─────────────────────────────────────────────────────────────────────────────────────────────────


def listed(cli: Cli, *options: object) -> list[tuple[str, str | None]]:
    return [(row["workspace"], row["user"]) for row in cli.json("user", "list", *options)]


def test_the_throttled_are_listed_first_or_alone(cli: Cli) -> None:
    cli.ok("user", "set", "--workspace", "acme", "--plan", "team")
    cli.ok("user", "set", "--workspace", "acme", "ann", "--plan", "team")
    cli.ok("user", "throttle", "--workspace", "beta", "bob", *TO_SPAM)
    assert listed(cli) == [("beta", "bob"), ("acme", None), ("acme", "ann")]
    assert listed(cli, "--throttled") == [("beta", "bob")]
    assert listed(cli, "--workspace", "acme") == [("acme", None), ("acme", "ann")]
    assert listed(cli, "--limit", 1) == [("beta", "bob")]
    assert missing(cli.ok("user", "list"), "acme", "ann", "beta", "bob", TO_SPAM[1]) == []
    more = CliRunner().invoke(app, ["user", "list", "--limit", "1"], env=cli.environment)
    assert "--limit" in more.stderr


def test_an_empty_list_says_so(cli: Cli) -> None:
    for options in ((), ("--throttled",)):
        assert cli.ok("user", "list", *options)
        assert cli.json("user", "list", *options) == []


def test_an_observed_throttle_is_listed_as_such(lenient: Cli, db: Db) -> None:
    be_bad(db)
    lenient.ok("user", "set", "--workspace", *ANN, "--plan", "team")
    assert "observed" in lenient.ok("user", "list", "--throttled")


# ── throttle and unthrottle ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("sales")
def test_mail_of_a_manually_throttled_user_waits_until_it_is_lifted(cli: Cli, url: str) -> None:
    """Throttles a workspace or a user, whatever the mode of scoring."""
    throttled = {
        (mode, *names): Cli({**cli.environment, "FAIRPOST_ABUSE_DETECTION": mode})
        for mode in ("off", "observe", "enforce")
        for names in ((f"{mode}-all",), (f"{mode}-one", "ann"))
    }
    held = [send(cli, "--workspace", workspace, "--user", "ann") for _, workspace, *_ in throttled]
    others = [send(cli, "--workspace", "off-one", "--user", "bob"), send(cli, "--workspace", "beta")]
    for (_, *names), there in throttled.items():
        assert " 1 " in there.ok("user", "throttle", "--workspace", *names, "--for", "4h", *TO_SPAM), names
    deliver(url)
    assert [state(cli, id_) for id_ in held] == ["ready"] * 6
    assert [state(cli, id_) for id_ in others] == ["sent"] * 2
    for (_, *names), there in throttled.items():
        assert " 1 " in there.ok("user", "unthrottle", "--workspace", *names), names
    deliver(url)
    assert [state(cli, id_) for id_ in held] == ["sent"] * 6


def until(cli: Cli) -> datetime:
    return datetime.fromisoformat(cli.json("user", "show", "--workspace", *ANN)["throttle"]["until"])


def test_a_throttle_lasts_a_day_or_a_span_or_until_a_moment(cli: Cli) -> None:
    cli.ok("user", "throttle", "--workspace", *ANN, *TO_SPAM)
    assert timedelta(hours=23) < until(cli) - datetime.now(UTC) <= timedelta(hours=24)
    cli.ok("user", "throttle", "--workspace", *ANN, "--for", "90m", *TO_SPAM)
    assert timedelta(minutes=80) < until(cli) - datetime.now(UTC) <= timedelta(minutes=90)
    cli.ok("user", "throttle", "--workspace", *ANN, "--until", "2099-01-31T09:00:00Z", *TO_SPAM)
    assert until(cli) == datetime(2099, 1, 31, 9, tzinfo=UTC)
    throttle = cli.json("user", "show", "--workspace", *ANN)["throttle"]
    assert (throttle["is_by_hand"], throttle["reasons"]) == (True, [TO_SPAM[1]])
    assert TO_SPAM[1] in cli.ok("user", "show", "--workspace", *ANN)


def test_a_throttle_until_a_moment_that_has_passed_is_refused(cli: Cli) -> None:
    error = cli.error("user", "throttle", "--workspace", *ANN, "--until", "2001-01-31T09:00:00Z", *TO_SPAM)
    assert missing(error, "--until", "2001-01-31 09:00:00") == []
    assert cli.json("user", "list") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ANN,
        (*ANN, *TO_SPAM, "--for", "1h", "--until", "2099-01-31T09:00:00Z"),
        (*ANN, *TO_SPAM, "--for", "soon"),
        ("acme", "", *TO_SPAM),
    ],
)
def test_a_throttle_that_makes_no_sense_is_a_usage_error(bare: Cli, arguments: tuple[str, ...]) -> None:
    bare.error("user", "throttle", *arguments, code=2)


def test_a_throttle_by_score_is_lifted_and_not_put_back(strict: Cli, db: Db) -> None:
    be_bad(db)
    strict.ok("user", "set", "--workspace", *ANN, "--plan", "team")
    strict.ok("user", "unthrottle", "--workspace", *ANN, "--immune-for", "2h")
    strict.ok("user", "set", "--workspace", *ANN, "--plan", "team")
    shown = strict.json("user", "show", "--workspace", *ANN)
    assert (shown["tier"], shown["score"], shown["throttle"]) == ("high", 55, None), "checked again, with this score"
    immune_until = datetime.fromisoformat(shown["immune_until"])
    assert timedelta(minutes=110) < immune_until - datetime.now(UTC) <= timedelta(hours=2)
    assert f"{immune_until:%H:%M:%S}" in strict.ok("user", "show", "--workspace", *ANN)


def test_unthrottling_a_user_that_is_not_throttled_is_an_error_with_a_next_step(cli: Cli) -> None:
    cli.ok("user", "throttle", "--workspace", "acme", *TO_SPAM)
    assert "fairpost user show --workspace acme 'ann lee'" in cli.error(
        "user", "unthrottle", "--workspace", "acme", "ann lee"
    )
    assert [row["user"] for row in cli.json("user", "list")] == [None], "listing registers no user"


def test_lifting_says_what_still_stands_in_the_way(cli: Cli) -> None:
    cli.ok("user", "throttle", "--workspace", *ANN, *TO_SPAM)
    cli.ok("hold", "--workspace", "acme", "--reason", "unpaid")
    _, still, then = cli.ok("user", "unthrottle", "--workspace", *ANN).splitlines()
    assert missing(still, "acme", "unpaid") == []
    assert then.endswith("fairpost release --workspace acme")


def test_a_decision_that_comes_too_late_is_made_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between reading and writing, the application reports that the user now pays."""
    real = senders.decide
    tries: list[bool | None] = []

    async def disturbed(store: Store, after: Sender, **more: Any) -> bool | None:
        if not tries:
            await senders.set_sender(store, SenderId(workspace="acme", name="ann"), plan="team", since=None)
        tries.append(await real(store, after, **more))
        return tries[-1]

    cli.ok("user", "set", "--workspace", *ANN, "--plan", "free")
    monkeypatch.setattr(senders, "decide", disturbed)
    cli.ok("user", "throttle", "--workspace", *ANN, *TO_SPAM)
    assert tries == [False, True]
    shown = cli.json("user", "show", "--workspace", *ANN)
    assert (shown["plan"], shown["tier"]) == ("team", "throttled")


def test_a_sender_that_keeps_changing_is_given_up_with_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> bool:
        return False

    monkeypatch.setattr(senders, "decide", never)
    assert missing(cli.error("user", "throttle", "--workspace", *ANN, *TO_SPAM), *ANN) == []
