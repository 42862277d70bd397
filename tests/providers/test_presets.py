"""Presets as data: the numbers of each provider, an operator's own, and errors in them."""

from pathlib import Path

import pytest

from fairpost.model.account import DailyMode, Limits, WarmUp
from fairpost.model.errors import FairpostError
from fairpost.providers.presets import by_domain, by_mx, read_presets
from fairpost.transports.registry import kinds

PRESETS = read_presets()


@pytest.mark.parametrize(
    ("name", "daily", "hourly", "delay_ms"),
    [
        ("gmail", 500, 100, 3000),
        ("outlook", 300, 60, 4000),
        ("hotmail", 300, 60, 4000),
        ("yahoo", 500, 80, 5000),
        ("custom", 1000, 200, 2000),
        ("gmail-api", 500, None, 400),
        ("workspace", 2000, None, 400),
    ],
)
def test_the_numbers_of_each_provider(name: str, daily: int, hourly: int | None, delay_ms: int) -> None:
    limits = PRESETS[name].limits
    assert (limits.daily_max, limits.hourly_max, limits.delay_ms) == (daily, hourly, delay_ms)


def test_google_counts_any_24_hours_and_the_units_of_its_api() -> None:
    limits = PRESETS["workspace"].limits
    assert limits.daily_mode is DailyMode.SLIDING
    assert (limits.units_per_minute, limits.units_per_send) == (6000, 115)


def test_a_mailbox_is_known_by_its_domain_or_by_who_takes_its_mail() -> None:
    def domain(name: str) -> str | None:
        found = by_domain(PRESETS, name)
        return found.name if found else None

    def mx(*hosts: str) -> str | None:
        found = by_mx(PRESETS, list(hosts))
        return found.name if found else None

    assert [domain(d) for d in ("gmail.com", "GoogleMail.com.", "live.com", "aol.com")] == [
        *("gmail", "gmail", "outlook", "yahoo")
    ]
    assert domain("notgmail.com") is None
    assert mx("aspmx.l.google.com.", "alt1.aspmx.l.google.com") == "workspace"
    assert mx("acme-com.mail.protection.outlook.com") == "microsoft365"
    assert mx("mx.notgoogle.com") is None
    assert mx("first.acme.test", "mta5.am0.yahoodns.net") == "yahoo"
    assert mx() is None


@pytest.mark.parametrize(
    ("provider", "domains"),
    [
        ("gmail", "googlemail.com"),
        ("outlook", "outlook.de outlook.com.br outlook.co.th live.nl live.co.uk live.com.mx msn.com"),
        ("hotmail", "hotmail.co.uk hotmail.fr hotmail.com.tr Hotmail.SE."),
        ("yahoo", "yahoo.fr yahoo.co.uk yahoo.com.br yahoo.de aol.de"),
        ("icloud", "icloud.com me.com mac.com"),
        ("gmx", "gmx.de gmx.net gmx.at gmx.co.uk gmx.com web.de"),
        ("custom", "yahoo.co.jp"),
    ],
)
def test_country_domains_are_their_providers(provider: str, domains: str) -> None:
    found = {domain: by_domain(PRESETS, domain) for domain in domains.split()}
    assert {domain: preset.name if preset else None for domain, preset in found.items()} == dict.fromkeys(
        found, provider
    )


@pytest.mark.parametrize(
    "domain",
    [
        *("outlook.evil.example", "hotmail.de.evil.example", "hotmail.evil.de", "nothotmail.de", "mail.hotmail.de"),
        *("hotmail", "hotmail.", "hotmail.x1", "hotmail.info", "hotmail.org.de", "live.me", ".de", ""),
    ],
)
def test_an_impostor_is_nobodys(domain: str) -> None:
    assert by_domain(PRESETS, domain) is None


def test_a_domain_that_is_listed_goes_before_a_rule(tmp_path: Path) -> None:
    own = tmp_path / "providers.toml"
    own.write_text('[acme]\ndomains = ["hotmail.de", "acme.*"]\n')
    presets = read_presets(own)
    found = [by_domain(presets, domain) for domain in ("hotmail.de", "hotmail.fr", "acme.com.br")]
    assert [each.name for each in found if each] == ["acme", "hotmail", "acme"]


def test_the_servers_of_those_that_have_one_for_all_their_mailboxes() -> None:
    known = {name: (each.smtp.host, each.smtp.port) for name, each in PRESETS.items() if each.smtp}
    assert known["gmail"] == known["workspace"] == ("smtp.gmail.com", 587)
    assert known["microsoft365"] == ("smtp.office365.com", 587)
    assert "yahoo" not in known  # AOL has its own preset
    assert "custom" not in known


def test_an_operator_adds_and_replaces(tmp_path: Path) -> None:
    own = tmp_path / "providers.toml"
    assert read_presets(own) == PRESETS, "without a file, there are no own presets"
    own.write_text('[gmail]\ndaily_max = 9\n[acme]\nmx = ["mx.acme.test"]\nwarm_up = { start = 3, step = 1 }\n')
    presets = read_presets(own)
    assert presets["gmail"].limits == Limits(daily_max=9)
    assert presets["acme"].limits.warm_up == WarmUp(start=3, step=1)
    assert presets["yahoo"] == PRESETS["yahoo"]


def test_a_preset_names_the_choices_of_the_form_that_offer_it(tmp_path: Path) -> None:
    own = tmp_path / "providers.toml"
    own.write_text('[acme]\nchoices = ["smtp"]\n[plain]\ndaily_max = 9\n')
    presets = read_presets(own)
    assert (presets["acme"].choices, presets["plain"].choices) == (("smtp",), ())
    offered = {name for preset in PRESETS.values() for name in preset.choices}
    assert offered == {choice.name for kind in kinds() for choice in kind.choices}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[gmail", "is not TOML"),
        ("gmail = 5", "[gmail] must be a table"),
        ("[a]\nspeed = 5", "speed"),
        ("[a]\ndaily_max = 0", "daily_max must be 1 to 2,147,483,647, or none, got 0"),
        ("[a]\ndaily_max = true", "daily_max must be 1 to"),
        ('[a]\ndaily_max = "many"', "daily_max must be 1 to"),
        ("[a]\ndaily_max = 1.5", "daily_max must be 1 to"),
        ("[a]\nbatch_max = 1001", "batch_max must be 1 to 1,000"),
        ("[a]\nbounce_percent_max = 101", "bounce_percent_max must be 0 to 100"),
        ("[a]\nbounce_percent_max = nan", "bounce_percent_max must be 0 to 100"),
        ('[a]\ndaily_mode = "lunar"', "daily_mode must be one of anchored, calendar, sliding"),
        ("[a]\nwarm_up = { start = 5, days = 3 }", "warm_up must have either start and step, or days"),
        ("[a]\nwarm_up = { tempo = 5 }", "warm_up has no tempo"),
        ("[a]\ndelay_ms = 10\ngap_max_ms = 5", "gap_max_ms must not be less"),
        ('[a]\ndomains = "acme.test"', "must be lists of names"),
        ('[a]\ndomains = ["*"]', "got '*'"),
        ('[a]\ndomains = ["mail.acme.*"]', "got 'mail.acme.*'"),
        ("[none]\ndaily_max = 5", "[none]"),
        ('[a]\nsmtp = "smtp.acme.test"', "smtp must have host, port and security"),
        ('[a]\nsmtp = { host = "smtp.acme.test", port = 0, security = "none" }', "a port from 1 to 65535"),
        ('[a]\nsmtp = { host = "smtp.acme.test", port = 25, security = "some" }', "'some' is not a valid Security"),
    ],
)
def test_errors_in_a_file_are_reported(tmp_path: Path, text: str, error: str) -> None:
    own = tmp_path / "providers.toml"
    own.write_text(text)
    with pytest.raises(FairpostError) as raised:
        read_presets(own)
    assert error in str(raised.value)
    assert str(own) in str(raised.value)
