"""When a login at a provider proves the ownership of an address."""

from dataclasses import replace
from typing import Any

import pytest

from fairpost.model.transport import Security, ServerSettings
from fairpost.policy.mailboxes import Unfit, doubt_about, same_mailbox
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.smtp.settings import SmtpSettings

HOST = "smtp.gmail.com"
GOOD = SmtpSettings(host=HOST, port=587, user="ann@gmail.com", secret="sealed")


@pytest.mark.parametrize(
    "change",
    [{}, {"security": Security.IMPLICIT, "port": 465}, {"user": "Ann@Gmail.com"}, {"host": "SMTP.gmail.com."}],
    ids=str,
)
def test_a_login_at_the_providers_own_host_by_the_address_proves_it(change: dict[str, Any]) -> None:
    assert doubt_about("ann@gmail.com", replace(GOOD, **change).login, HOST) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"host": "smtp.evil.example"}, Unfit.OTHER_HOST),
        ({"host": "smtp.gmail.com.evil.example"}, Unfit.OTHER_HOST),
        ({"host": "127.0.0.1"}, Unfit.OTHER_HOST),
        ({"security": Security.OFFERED}, Unfit.NOT_VERIFIED),
        ({"security": Security.NONE}, Unfit.NOT_VERIFIED),
        ({"ca_file": "/tmp/mine.pem"}, Unfit.NOT_VERIFIED),
        ({"user": "bob@gmail.com"}, Unfit.OTHER_USER),
        ({"user": "a.nn@gmail.com"}, Unfit.OTHER_USER),
        ({"user": "ann"}, Unfit.OTHER_USER),
        ({"user": None}, Unfit.NO_LOGIN),
    ],
    ids=str,
)
def test_another_login_proves_nothing(change: dict[str, Any], reason: Unfit) -> None:
    found = doubt_about("ann@gmail.com", replace(GOOD, **change).login, HOST)
    assert found is not None
    assert found.reason is reason


@pytest.mark.parametrize(
    "server",
    [
        None,
        GmailSettings(oauth=OauthSettings(kind=OauthKind.GOOGLE_PERSON, client_id="a", token_uri="https://t.example")),
    ],
    ids=str,
)
def test_without_a_server_there_is_no_login(server: ServerSettings | None) -> None:
    found = doubt_about("ann@gmail.com", server.login if server else None, HOST)
    assert found is not None
    assert found.reason is Unfit.NO_LOGIN


def test_a_domain_of_no_provider_is_proven_by_dns() -> None:
    found = doubt_about("ann@acme.example", GOOD.login, None)
    assert found is not None
    assert found.reason is Unfit.NO_PROVIDER


@pytest.mark.parametrize(
    "address",
    [
        "annlee@gmail.com",
        "Ann.Lee@gmail.com",
        "a.n.n.l.e.e@googlemail.com",
        "annlee+news@gmail.com",
        "ann.lee+a+b@GMAIL.com",
    ],
)
def test_all_addresses_of_a_mailbox_are_one(address: str) -> None:
    assert same_mailbox(address) == "annlee@gmail.com"


def test_dots_count_elsewhere_and_tags_do_not() -> None:
    assert same_mailbox("Ann.Lee+x@outlook.com") == "ann.lee@outlook.com"
    assert same_mailbox("annlee@outlook.com") != same_mailbox("ann.lee@outlook.com")
