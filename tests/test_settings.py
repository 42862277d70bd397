"""Settings are checked once, and a wrong one is named with its rule."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fairpost.model.errors import SettingsError
from fairpost.model.sender import AbuseMode, Priority, Tier
from fairpost.policy.abuse import AbusePolicy
from fairpost.policy.tiers import PLANS, SHARES, WEIGHTS
from fairpost.settings import SETTINGS, read_settings, without_password


def test_without_any_variable_the_defaults_hold() -> None:
    settings = read_settings({})
    assert settings.home == Path.home() / ".fairpost"
    assert settings.database_url is None
    assert settings.workspace == "default"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert read_settings({"FAIRPOST_DATABASE_URL": "", "FAIRPOST_WORKSPACE": ""}) == read_settings({})


def test_variables_replace_the_defaults(tmp_path: Path) -> None:
    settings = read_settings(
        {
            "FAIRPOST_HOME": str(tmp_path),
            "FAIRPOST_DATABASE_URL": "postgresql://host/db",
            "FAIRPOST_WORKSPACE": "acme",
        }
    )
    assert (settings.home, settings.database_url, settings.workspace) == (tmp_path, "postgresql://host/db", "acme")


def test_a_relative_home_is_made_absolute() -> None:
    assert read_settings({"FAIRPOST_HOME": "here"}).home == Path("here").absolute()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FAIRPOST_HOME", "/etc/hostname", "must be a directory, or a path where one can be made, got /etc/hostname"),
        ("FAIRPOST_HOME", "~nobody-at-all/x", "must be a directory"),
        ("FAIRPOST_DATABASE_URL", "mysql://h/d", "must be a URL that begins with postgresql://, got mysql://h/d"),
        ("FAIRPOST_WORKSPACE", "*", "must be 1..200 characters on one line, and not *, got *"),
        ("FAIRPOST_WORKSPACE", "a\nb", "must be 1..200 characters"),
        ("FAIRPOST_WORKSPACE", "x" * 201, "must be 1..200 characters"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_rule(variable: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({variable: value})
    assert f"{variable} {message}" in str(error.value)


def test_no_password_ends_up_in_an_error() -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({"FAIRPOST_DATABASE_URL": "mysql://ann:secret@host/db"})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@h:5/d?x=1", "postgresql://ann:***@h:5/d?x=1"),
        ("postgresql://ann@h/d", "postgresql://ann@h/d"),
        ("postgresql:///d?password=secret&host=%2Ftmp", "postgresql:///d?password=***&host=%2Ftmp"),
        ("postgresql://ann:a/b@c@h/d", "postgresql://ann:***@h/d"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize("address", ["team@example.com", "a.b+c_d@sub.example.com", "root@localhost"])
def test_everything_may_be_redirected_to_one_address(address: str) -> None:
    assert read_settings({"FAIRPOST_REDIRECT_ALL": address}).redirect_all == address


@pytest.mark.parametrize(
    "text",
    [
        "team",
        "@x.test",
        "team@",
        "a@b@c",
        "a@x.test,b@x.test",
        "Team <a@x.test>",
        "a b@x.test",
        "ü@x.test",
        "a@x.test\n",
    ],
)
def test_a_redirect_that_is_not_one_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="FAIRPOST_REDIRECT_ALL must be one e-mail address in ASCII, got"):
        read_settings({"FAIRPOST_REDIRECT_ALL": text})


def test_the_defaults_of_fairness_are_those_of_the_policies() -> None:
    settings = read_settings({})
    assert (settings.fair_queue, settings.priority) == (100, Priority.WEIGHTS)
    assert (settings.tier_weights, settings.lane_shares) == (WEIGHTS, SHARES)
    assert (settings.paid_plans, settings.free_plans) == (PLANS.paid, PLANS.free)
    policy = AbusePolicy(threshold=settings.abuse_threshold, throttle_max=settings.throttle_max)
    assert policy == AbusePolicy()
    assert (settings.max_queue, settings.user_daily_max, settings.user_waiting_max) == (1_000_000, 300, 10_000)
    assert settings.operators == ()


def test_by_default_abuse_is_stopped() -> None:
    assert read_settings({}).abuse_detection is AbuseMode.ENFORCE


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("FAIRPOST_FAIR_QUEUE", "on", 100),
        ("FAIRPOST_FAIR_QUEUE", "off", 0),
        ("FAIRPOST_FAIR_QUEUE", "50%", 50),
        ("FAIRPOST_FAIR_QUEUE", "0%", 0),
        ("FAIRPOST_PRIORITY", "lanes", Priority.LANES),
        (
            "FAIRPOST_TIER_WEIGHTS",
            "1000, 1,0.5,0.001",
            dict(zip(sorted(Tier)[::-1], (1000, 1, 0.5, 0.001), strict=True)),
        ),
        ("FAIRPOST_LANE_SHARES", "97,1, 1,1", dict(zip(sorted(Tier)[::-1], (97, 1, 1, 1), strict=True))),
        ("FAIRPOST_ABUSE_DETECTION", "enforce", AbuseMode.ENFORCE),
        ("FAIRPOST_ABUSE_THRESHOLD", "0", 0),
        ("FAIRPOST_THROTTLE_MAX", "1s", timedelta(seconds=1)),
        ("FAIRPOST_THROTTLE_MAX", "90m", timedelta(minutes=90)),
        ("FAIRPOST_THROTTLE_MAX", "30d", timedelta(days=30)),
        ("FAIRPOST_MAX_QUEUE", "1", 1),
        ("FAIRPOST_USER_DAILY_MAX", "0", 0),
        ("FAIRPOST_USER_WAITING_MAX", "0", 0),
        ("FAIRPOST_PAID_PLANS", "gold, silver", frozenset({"gold", "silver"})),
        ("FAIRPOST_FREE_PLANS", "trial", frozenset({"trial"})),
        ("FAIRPOST_OPERATORS", "ann@x.test, ben@x.test", ("ann@x.test", "ben@x.test")),
        ("FAIRPOST_SERVICE_POOL", "ours", "ours"),
        ("FAIRPOST_PUBLIC_URL", "https://post.x.test:8443/fair/", "https://post.x.test:8443/fair"),
        ("FAIRPOST_PUBLIC_URL", "http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_fairness_can_be_set(variable: str, text: str, value: Any) -> None:
    assert getattr(read_settings({variable: text}), variable.removeprefix("FAIRPOST_").lower()) == value


@pytest.mark.parametrize(
    ("variable", "texts"),
    [
        ("FAIRPOST_FAIR_QUEUE", ["yes", "50", "101%", "-1%", "%", "0.5%", "ON"]),
        ("FAIRPOST_PRIORITY", ["both", "WEIGHTS"]),
        (
            "FAIRPOST_TIER_WEIGHTS",
            ["2,1,0.5", "2,1,0.5,0", "2,1,0.5,-1", "1001,1,1,1", "nan,1,1,1", "1e2,1,1,1", "2,1,,1"],
        ),
        ("FAIRPOST_LANE_SHARES", ["40,40,15", "40,40,15,6", "50,50,0,0", "40.5,39.5,15,5", "40,40,15,5,0"]),
        ("FAIRPOST_ABUSE_DETECTION", ["on", "true", "Enforce"]),
        ("FAIRPOST_ABUSE_THRESHOLD", ["-1", "101", "fifty", "5_0", "٥"]),
        ("FAIRPOST_THROTTLE_MAX", ["0h", "31d", "24", "1.5h", "h", "1w", "-1h", "999999999d"]),
        ("FAIRPOST_MAX_QUEUE", ["0", "1000000001", "many"]),
        ("FAIRPOST_USER_DAILY_MAX", ["-1", "none"]),
        ("FAIRPOST_PAID_PLANS", [",", "team,", "x" * 101, "a\nb"]),
        ("FAIRPOST_SERVICE_POOL", ["@sales", "a\nb", "x" * 101]),
        (
            "FAIRPOST_PUBLIC_URL",
            [
                "post.x.test",
                "ftp://x.test",
                "https://",
                "https://x.test/?a=1",
                "https://x.test/#a",
                "https://a:b@x.test",
                "https://x.test\n",
            ],
        ),
        ("FAIRPOST_OPERATORS", ["ann", "ann@x.test,", "ann@x.test ben@x.test", "Ann <ann@x.test>"]),
        ("FAIRPOST_ALLOWED_NETWORKS", ["10.0.0.5/8", "10.0.0.0/8,", "10.0.0.0/33", "localhost", "10.*", "*"]),
        ("FAIRPOST_ALLOWED_PORTS", ["25,0", "65536", "25,", "smtp", "1-1024"]),
    ],
)
def test_what_breaks_the_rule_of_a_setting_is_refused(variable: str, texts: list[str]) -> None:
    (rule,) = [setting.rule for setting in SETTINGS if setting.variable == variable]
    for text in texts:
        with pytest.raises(SettingsError) as error:
            read_settings({variable: text})
        assert str(error.value) == f"{variable} must be {rule}, got {text}"


@pytest.mark.parametrize(
    ("alias", "text", "variable", "same"),
    [
        ("SMTP_FAIR_QUEUE_ENABLED", "true", "FAIRPOST_FAIR_QUEUE", "on"),
        ("SMTP_FAIR_QUEUE_ENABLED", "false", "FAIRPOST_FAIR_QUEUE", "off"),
        ("SMTP_ABUSE_DETECTION_ENABLED", "true", "FAIRPOST_ABUSE_DETECTION", "enforce"),
        ("SMTP_ABUSE_DETECTION_ENABLED", "false", "FAIRPOST_ABUSE_DETECTION", "off"),
        ("SMTP_ABUSE_THRESHOLD", "60", "FAIRPOST_ABUSE_THRESHOLD", "60"),
        ("SMTP_MAX_THROTTLE_DURATION", "3600000", "FAIRPOST_THROTTLE_MAX", "1h"),
        ("SMTP_PRIORITY_MULTIPLIERS", "4,2,1,0.1", "FAIRPOST_TIER_WEIGHTS", "4,2,1,0.1"),
    ],
)
def test_another_name_says_the_same(alias: str, text: str, variable: str, same: str) -> None:
    assert read_settings({alias: text}) == read_settings({variable: same}) == read_settings({alias: text, variable: ""})
    assert read_settings({alias: ""}) == read_settings({})


def test_where_both_names_are_set_ours_counts() -> None:
    both = {"FAIRPOST_ABUSE_THRESHOLD": "70", "SMTP_ABUSE_THRESHOLD": "not even a number"}
    assert read_settings(both).abuse_threshold == 70


@pytest.mark.parametrize(
    ("alias", "text", "rule"),
    [
        ("SMTP_FAIR_QUEUE_ENABLED", "on", "true or false"),
        ("SMTP_ABUSE_THRESHOLD", "101", "a whole number, 0..100"),
        ("SMTP_MAX_THROTTLE_DURATION", "24h", "milliseconds, 1..2592000000"),
        ("SMTP_MAX_THROTTLE_DURATION", "2592000001", "milliseconds, 1..2592000000"),
    ],
)
def test_an_error_names_the_variable_that_was_read(alias: str, text: str, rule: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({alias: text})
    assert str(error.value) == f"{alias} must be {rule}, got {text}"
