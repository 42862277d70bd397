"""Settings are checked once, and errors name the setting and its rule."""

import errno
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.errors import SettingsError
from fairpost.model.sender import AbuseMode, Priority, Tier
from fairpost.model.transport import Security
from fairpost.model.urls import without_password
from fairpost.policy.abuse import AbusePolicy
from fairpost.policy.tiers import PLANS, SHARES, WEIGHTS
from fairpost.settings import FILE_BYTES_MAX, SETTINGS, read_settings, read_settings_file


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
    ("variable", "value", "rule"),
    [
        ("FAIRPOST_HOME", "/etc/hostname", ""),
        ("FAIRPOST_HOME", "~nobody-at-all/x", ""),
        ("FAIRPOST_DATABASE_URL", "mysql://h/d", "postgresql://"),
        ("FAIRPOST_WORKSPACE", "*", "1..200"),
        ("FAIRPOST_WORKSPACE", "a\nb", "1..200"),
        ("FAIRPOST_WORKSPACE", "x" * 201, "1..200"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_rule(variable: str, value: str, rule: str) -> None:
    said = refusal({variable: value})
    assert said.startswith(variable)
    assert rule in said
    assert value in said


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
        ("postgresql://h/d?sslpassword=secret&x=1", "postgresql://h/d?sslpassword=***&x=1"),
        ("postgresql://ann:a/b@c@h/d", "postgresql://ann:***@h/d"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
        ("host=h password = 'se cr\\'et' dbname=d", "host=h password = *** dbname=d"),
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
    said = refusal({"FAIRPOST_REDIRECT_ALL": text})
    assert said.startswith("FAIRPOST_REDIRECT_ALL")
    assert text in said


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
        ("FAIRPOST_THROTTLE_MAX", "1d 12h", timedelta(hours=36)),
        ("FAIRPOST_MAX_QUEUE", "1", 1),
        ("FAIRPOST_USER_DAILY_MAX", "0", 0),
        ("FAIRPOST_USER_WAITING_MAX", "0", 0),
        ("FAIRPOST_PAID_PLANS", "gold, silver", frozenset({"gold", "silver"})),
        ("FAIRPOST_FREE_PLANS", "trial", frozenset({"trial"})),
        ("FAIRPOST_OPERATORS", "ann@x.test, ben@x.test", ("ann@x.test", "ben@x.test")),
        ("FAIRPOST_SERVICE_POOL", "ours", "ours"),
        ("FAIRPOST_ENGINE", "off", False),
        ("FAIRPOST_POLL_INTERVAL", "100ms", timedelta(milliseconds=100)),
        ("FAIRPOST_POLL_INTERVAL", "5s", timedelta(seconds=5)),
        ("FAIRPOST_POLL_INTERVAL", "1.5s", timedelta(seconds=1.5)),
        ("FAIRPOST_POLL_INTERVAL", "1m30s", timedelta(seconds=90)),
        ("FAIRPOST_POLL_INTERVAL", "10m", timedelta(minutes=10)),
        ("FAIRPOST_SMTP_HOST", "Mail.Example.com", "mail.example.com"),
        ("FAIRPOST_SMTP_HOST", "my_relay-1", "my_relay-1"),
        ("FAIRPOST_SMTP_HOST", "192.0.2.7", "192.0.2.7"),
        ("FAIRPOST_SMTP_HOST", "2001:DB8::1", "2001:db8::1"),
        ("FAIRPOST_SMTP_PORT", "1025", 1025),
        ("FAIRPOST_SMTP_TLS", "implicit", Security.IMPLICIT),
        ("FAIRPOST_SMTP_USER", "ann@example.com", "ann@example.com"),
        ("FAIRPOST_SMTP_PASSWORD", " p w ✓", " p w ✓"),
        ("FAIRPOST_SMTP_FROM_ADDRESS", "noreply@example.com", "noreply@example.com"),
        ("FAIRPOST_SMTP_FROM_NAME", "Ångström & Söhne", "Ångström & Söhne"),
        ("FAIRPOST_SMTP_BATCH_SIZE", "1000", 1000),
        ("FAIRPOST_SMTP_ACCOUNT", "relay.1", "relay.1"),
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
        ("FAIRPOST_THROTTLE_MAX", ["0h", "31d", "24", "1.5h", "h", "5w", "-1h", "999999999d"]),
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
        ("FAIRPOST_ENGINE", ["true", "OFF", "0"]),
        (
            "FAIRPOST_POLL_INTERVAL",
            ["5", "99ms", "10m1s", "1d", "-5s", "s", "1m30", "5ns", "٥s", "9" * 400 + "s"],
        ),
        (
            "FAIRPOST_SMTP_HOST",
            ["a b", "mail..test", "mail.", ".", "-x", "h:25", "smtp://h", "a@h", "münchen.test", "x" * 254],
        ),
        ("FAIRPOST_SMTP_PORT", ["0", "65536", "smtp"]),
        ("FAIRPOST_SMTP_TLS", ["true", "STARTTLS", "ssl"]),
        ("FAIRPOST_SMTP_USER", ["a\nb", "x" * 501]),
        ("FAIRPOST_SMTP_FROM_ADDRESS", ["noreply", "A <a@x.test>", "a@x.test,b@x.test"]),
        ("FAIRPOST_SMTP_FROM_NAME", ["a\r\nBcc: b@x.test", "x" * 201]),
        ("FAIRPOST_SMTP_BATCH_SIZE", ["0", "1001", "10.5"]),
        ("FAIRPOST_SMTP_ACCOUNT", ["acme/sales", "-x", "a b", "x" * 101]),
    ],
)
def test_a_value_that_breaks_a_settings_rule_is_refused(variable: str, texts: list[str]) -> None:
    (rule,) = [setting.kind.rule for setting in SETTINGS if setting.variable == variable]
    for text in texts:
        said = refusal({variable: text})
        assert said.startswith(variable)
        assert rule in said
        assert said.endswith(text)


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
        ("EMAIL_WORKER_ENABLED", "true", "FAIRPOST_ENGINE", "on"),
        ("EMAIL_WORKER_ENABLED", "false", "FAIRPOST_ENGINE", "off"),
        ("EMAIL_WORKER_POLL_INTERVAL", "1m30s", "FAIRPOST_POLL_INTERVAL", "90s"),
        ("EMAIL_WORKER_BATCH_SIZE", "10", "FAIRPOST_SMTP_BATCH_SIZE", "10"),
        ("SMTP_HOST", "mailpit", "FAIRPOST_SMTP_HOST", "mailpit"),
        ("SMTP_PORT", "1025", "FAIRPOST_SMTP_PORT", "1025"),
        ("SMTP_USER", "ann", "FAIRPOST_SMTP_USER", "ann"),
        ("SMTP_USERNAME", "ann", "FAIRPOST_SMTP_USER", "ann"),
        ("SMTP_PASSWORD", "geheim", "FAIRPOST_SMTP_PASSWORD", "geheim"),
        ("SMTP_FROM_ADDRESS", "noreply@x.test", "FAIRPOST_SMTP_FROM_ADDRESS", "noreply@x.test"),
        ("SMTP_FROM_NAME", "Vetchium", "FAIRPOST_SMTP_FROM_NAME", "Vetchium"),
    ],
)
def test_another_name_says_the_same(alias: str, text: str, variable: str, same: str) -> None:
    assert read_settings({alias: text}) == read_settings({variable: same}) == read_settings({alias: text, variable: ""})
    assert read_settings({alias: ""}) == read_settings({})


def test_where_both_names_are_set_ours_counts() -> None:
    both = {"FAIRPOST_ABUSE_THRESHOLD": "70", "SMTP_ABUSE_THRESHOLD": "not even a number"}
    assert read_settings(both).abuse_threshold == 70


@pytest.mark.parametrize("text", ["two\nlines", "x" * 10_001, "\udcff"])
def test_a_password_that_is_refused_is_not_shown(text: str) -> None:
    said = refusal({"SMTP_PASSWORD": text})
    assert said.startswith("SMTP_PASSWORD")
    assert "1..10000" in said
    assert f" {len(text)} " in said
    assert text not in said


def test_the_first_of_two_aliases_counts() -> None:
    assert read_settings({"SMTP_USERNAME": "ben", "SMTP_USER": "ann"}).smtp_user == "ann"


@given(text=st.text(min_size=1, max_size=300) | st.from_regex(r"([0-9.]{1,6}(ms|s|m|h|d)?){1,3}", fullmatch=True))
def test_any_text_is_taken_or_refused(text: str) -> None:
    for setting in SETTINGS:
        if setting.name.startswith("smtp_") or setting.name == "poll_interval":
            value = setting.kind.read(text)
            assert value is None or value != ""


@pytest.mark.parametrize(
    ("alias", "text", "rule"),
    [
        ("SMTP_FAIR_QUEUE_ENABLED", "on", "true"),
        ("SMTP_ABUSE_THRESHOLD", "101", "0..100"),
        ("SMTP_MAX_THROTTLE_DURATION", "24h", "milliseconds, 1..2592000000"),
        ("SMTP_MAX_THROTTLE_DURATION", "2592000001", "milliseconds, 1..2592000000"),
    ],
)
def test_an_error_names_the_variable_that_was_read(alias: str, text: str, rule: str) -> None:
    said = refusal({alias: text})
    assert said.startswith(alias)
    assert rule in said
    assert said.endswith(text)


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────


def written(folder: Path, text: str | bytes) -> dict[str, str]:
    """An environment whose FAIRPOST_CONFIG names a file with this text."""
    path = folder / "fairpost.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return {"FAIRPOST_CONFIG": str(path)}


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as error:
        read_settings(environ)
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "variable", "text"),
    [
        ('database_url = "postgresql://h/d"', "FAIRPOST_DATABASE_URL", "postgresql://h/d"),
        ('tier_weights = "4,2,1,0.1"', "FAIRPOST_TIER_WEIGHTS", "4,2,1,0.1"),
        ("tier_weights = [4, 2, 1.0, 0.00001]", "FAIRPOST_TIER_WEIGHTS", "4,2,1.0,0.00001"),
        ("lane_shares = [97, 1, 1, 1]", "FAIRPOST_LANE_SHARES", "97,1,1,1"),
        ("abuse_threshold = 60", "FAIRPOST_ABUSE_THRESHOLD", "60"),
        ("max_queue = 5_000_000", "FAIRPOST_MAX_QUEUE", "5000000"),
        ('operators = ["ann@x.test", "ben@x.test"]', "FAIRPOST_OPERATORS", "ann@x.test,ben@x.test"),
        ('paid_plans = ["gold"]', "FAIRPOST_PAID_PLANS", "gold"),
        ("workspace = true", "FAIRPOST_WORKSPACE", "true"),
    ],
)
def test_a_file_says_the_same_as_the_environment(tmp_path: Path, line: str, variable: str, text: str) -> None:
    assert read_settings(written(tmp_path, line)) == read_settings({variable: text}) != read_settings({})


def test_the_environment_goes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    environ = written(tmp_path, "abuse_threshold = 60\nmax_queue = 7")
    assert (read_settings(environ).abuse_threshold, read_settings(environ).max_queue) == (60, 7)
    assert read_settings({**environ, "FAIRPOST_ABUSE_THRESHOLD": "70"}).abuse_threshold == 70
    assert read_settings({**environ, "SMTP_ABUSE_THRESHOLD": "80"}).abuse_threshold == 80
    assert read_settings({**environ, "FAIRPOST_ABUSE_THRESHOLD": ""}).abuse_threshold == 60
    assert read_settings(environ).workspace == "default"


def test_an_empty_file_and_an_empty_name_of_one_set_nothing(tmp_path: Path) -> None:
    assert read_settings(written(tmp_path, "# nothing\n")) == read_settings({})
    assert read_settings({"FAIRPOST_CONFIG": ""}) == read_settings({})


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("abuse_threshold = 101", ["abuse_threshold", "0..100", "101"]),
        ("abuse_threshold = 5.0", ["abuse_threshold", "0..100", "5.0"]),
        ("fair_queue = true", ["fair_queue", "50%", "true"]),
        ("throttle_max = 2030-01-01", ["throttle_max", "30d"]),
        ("paid_plans = {gold = 1}", ["paid_plans", "1..100"]),
        ('paid_plans = ["gold,silver"]', ["paid_plans"]),
        ("paid_plans = [true]", ["paid_plans"]),
        ('paid_plans = ["gold", ""]', ["paid_plans"]),
        ("paid_plans = []", ["paid_plans"]),
        ('redirect_all = ""', ["redirect_all"]),
        (f"max_queue = 0x{'f' * 50_000}", ["max_queue", "1..1000000000", "64"]),
        ("abuse_treshold = 1", ["abuse_treshold", "abuse_threshold"]),
        ('FAIRPOST_WORKSPACE = "a"', ["FAIRPOST_WORKSPACE", "workspace"]),
        ("colour = 1", ["colour", "docs/settings.md"]),
        ("[fairpost]\nmax_queue = 1", ["fairpost"]),
        ("max_queue = 1\nhome =\n", ["TOML", "line 2, column 7"]),
        ("max_queue = 1\nmax_queue = 2\n", ["TOML", "line 2, column 14"]),
        (f"max_queue = {'[' * 50_000}", ["TOML"]),
        (f"max_queue = {'9' * 50_000}", ["TOML"]),
        (b"workspace = '\xff'", ["TOML", "UTF-8"]),
        (f"# {'x' * FILE_BYTES_MAX}", [str(FILE_BYTES_MAX)]),
    ],
    ids=lambda value: None if len(value) > 100 else value if isinstance(value, str) else "",
)
def test_a_wrong_file_is_refused_with_its_path_key_and_reason(
    tmp_path: Path, text: str | bytes, facts: list[str]
) -> None:
    environ = written(tmp_path, text)
    path, _, why = refusal(environ).partition("fairpost.toml")
    assert path + "fairpost.toml" == environ["FAIRPOST_CONFIG"]
    assert [fact for fact in facts if fact not in why] == []
    assert len(why) < 1_000


def test_overridden_settings_must_be_valid_too(tmp_path: Path) -> None:
    environ = written(tmp_path, "max_queue = 0")
    assert "max_queue" in refusal({**environ, "FAIRPOST_MAX_QUEUE": "7"})


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    for path, why in ((missing, errno.ENOENT), (tmp_path, errno.EISDIR)):
        said = refusal({"FAIRPOST_CONFIG": str(path)})
        assert said.startswith("FAIRPOST_CONFIG")
        assert str(path) in said
        assert os.strerror(why) in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    environ = written(tmp_path, "")
    Path(environ["FAIRPOST_CONFIG"]).chmod(0)
    assert os.strerror(errno.EACCES) in refusal(environ)


@pytest.mark.parametrize(
    "line",
    [
        'secret_key = "hunter2"',
        'secret_key = ["hunter2", "hunter2"]',
        "secret_key = hunter2",
        'secret_key_old = "hunter2"',
        'database_url = "mysql://ann:hunter2@h/d"',
        'database_url = "host=h password=hunter2"',
        'database_url = ["mysql://ann:hunter2@h/d"]',
        'database_url = {password = "hunter2"}',
        'database_uri = "postgresql://ann:hunter2@h/d"',
    ],
)
def test_no_secret_of_a_file_ends_up_in_an_error(tmp_path: Path, line: str) -> None:
    assert "hunter2" not in refusal(written(tmp_path, line))


@pytest.mark.parametrize(
    ("line", "has_secret"),
    [
        (f'secret_key = "{"0" * 64}"', True),
        (f'secret_key_old = "{"0" * 64}"', True),
        ('database_url = "postgresql://ann:secret@h/d"', True),
        ('database_url = "postgresql://ann@h/d"', False),
        ("max_queue = 7", False),
        ("", False),
    ],
)
def test_a_file_knows_whether_it_holds_a_secret(tmp_path: Path, line: str, has_secret: bool) -> None:
    assert read_settings_file(written(tmp_path, line)).has_secret is has_secret


@given(
    text=st.text(max_size=200)
    | st.from_regex(r"(home|max_queue|operators) ?= ?[\[\]{}\"'0-9a-z,. ]{0,30}", fullmatch=True)
)
def test_any_text_is_settings_or_a_refusal(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    environ = written(tmp_path_factory.getbasetemp(), text.encode("utf-8", "surrogatepass"))
    said = environ["FAIRPOST_CONFIG"]
    try:
        read_settings(environ)
    except SettingsError as error:
        said = str(error)
    assert environ["FAIRPOST_CONFIG"] in said
