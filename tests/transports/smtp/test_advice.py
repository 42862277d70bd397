"""The advice if a server cannot be used: always a command to run next."""

import pytest

from fairpost.model.report import Reply, Step
from fairpost.model.transport import Security
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.port import Tried
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.verify import advice

SMTP = SmtpSettings(host="smtp.example.com", port=587, user="ann@example.com")


@pytest.mark.parametrize(
    ("step", "text", "server", "then"),
    [
        (Step.CONNECT, "", SMTP, "fairpost account set sales --smtp"),
        (Step.STARTTLS, "", SMTP, "--smtp smtps://ann%40example.com@smtp.example.com:465"),
        (Step.TLS, "the server's certificate was rejected: expired", SMTP, "ca_file=/path/to/ca.pem"),
        (Step.HELLO, "", SMTP, "?hello="),
        (Step.AUTH, "no encryption", SMTP, "smtp+starttls://ann%40example.com@smtp.example.com:587 --ask-password"),
        (Step.GREETING, "", SmtpSettings(host="h", port=465), "smtps://h"),
        (Step.GREETING, "", SMTP, "fairpost account verify sales"),
        (
            Step.TLS,
            "wrong version",
            SmtpSettings(host="h", port=25, security=Security.IMPLICIT),
            "smtp+starttls://h:587",
        ),
        (Step.TLS, "No such file", SmtpSettings(host="h", port=25, ca_file="/ca.pem"), "/ca.pem"),
    ],
)
def test_every_failure_says_what_to_type_next(step: Step, text: str, server: SmtpSettings, then: str) -> None:
    said = advice([Tried(step=step, ok=False, text=text)], server, "sales")
    assert said is not None
    assert then in said


@pytest.mark.parametrize(
    ("host", "code", "then"),
    [
        ("smtp.example.com", 535, "fairpost account set sales --ask-password"),
        ("smtp.gmail.com", 535, "https://myaccount.google.com/apppasswords"),
    ],
)
def test_a_refused_login_says_which_password_is_wanted(host: str, code: int, then: str) -> None:
    refused = Tried(step=Step.AUTH, ok=False, text="refused", reply=Reply(code, "no"))
    said = advice([refused], SmtpSettings(host=host, port=587, user="ann"), "sales")
    assert said is not None
    assert then in said


def test_a_login_that_is_refused_for_now_asks_for_no_other_password() -> None:
    refused = Tried(step=Step.AUTH, ok=False, text="refused", reply=Reply(454, "no"))
    said = advice([refused], SMTP, "sales")
    assert said is not None
    assert "--ask-password" not in said


def test_a_mailbox_that_does_not_take_a_google_token_is_named() -> None:
    refused = Tried(step=Step.AUTH, ok=False, text="refused", reply=Reply(535, "no"))
    oauth = OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT)
    said = advice([refused], SmtpSettings(host="smtp.gmail.com", port=587, user="ann", oauth=oauth), "sales")
    assert said is not None
    assert " ann" in said
    assert "fairpost account set sales --smtp smtp+starttls://USER@smtp.gmail.com --oauth google" in said
    assert "apppasswords" not in said


def test_where_all_went_well_there_is_nothing_to_say() -> None:
    assert advice([Tried(step=Step.CONNECT, ok=True)], SMTP, "sales") is None
