"""TLS in all three forms, with every kind of certificate, and servers that try to bypass it."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace

import pytest

from fairpost.model.message import Message
from fairpost.model.report import Reached, Report, Step
from fairpost.smtp.auth import Password
from fairpost.smtp.courier import Courier
from fairpost.smtp.server import Security, Server
from tests.peers.certificates import Certificate, Certificates
from tests.smtp.scripted_server import Says, Script, scripted

MESSAGE = Message(
    sender="me@example.com", recipients=("ann@example.com",), message_id="<1@x>", data=b"Subject: x\r\n\r\nhello\r\n"
)
LOGIN = Password(user="ann", secret="secret")

BAD: dict[str, tuple[Callable[[Certificates], Certificate], str]] = {
    "expired": (lambda c: c.expired, "certificate has expired"),
    "not yet valid": (lambda c: c.not_yet_valid, "certificate is not yet valid"),
    "wrong host": (lambda c: c.wrong_host, "Hostname mismatch"),
    "self-signed": (lambda c: c.self_signed, "self-signed certificate"),
}


def context_of(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.cert, certificate.key)
    return context


def script_with(certificate: Certificate, **given: object) -> Script:
    features = ("STARTTLS", "AUTH PLAIN")
    return replace(Script(features=features, tls=context_of(certificate)), **given)  # type: ignore[arg-type]


async def send(
    script: Script, security: Security, *, ca: Certificates | None = None, login: Password | None = None
) -> Report:
    async with scripted(script, implicit=security is Security.IMPLICIT) as port:
        server = Server(host="localhost", port=port, security=security, ca_file=str(ca.ca) if ca else None)
        courier = Courier(server, login)
        report = await courier.send(MESSAGE, permission=lambda: True)
        await courier.close()
        return report


def is_sent(report: Report) -> bool:
    return report.reached is Reached.REPLIED and report.reply is not None and report.reply.code == 250


CHECKED = [Security.IMPLICIT, Security.STARTTLS]


@pytest.mark.parametrize("security", [*CHECKED, Security.OFFERED])
async def test_a_good_certificate_is_taken(security: Security, certificates: Certificates) -> None:
    script = script_with(certificates.good)
    assert is_sent(await send(script, security, ca=certificates, login=LOGIN))
    assert script.taken == [MESSAGE.data]
    assert script.encrypted


@pytest.mark.parametrize("security", CHECKED)
@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_certificate_is_refused_with_the_reason(
    kind: str, security: Security, certificates: Certificates
) -> None:
    pick, reason = BAD[kind]
    script = script_with(pick(certificates))
    report = await send(script, security, ca=certificates, login=LOGIN)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.TLS)
    assert reason in (report.error or "")
    assert script.taken == []
    assert not any(command.startswith("AUTH") for command in script.commands)


async def test_a_certificate_of_an_unknown_authority_is_refused(certificates: Certificates) -> None:
    report = await send(script_with(certificates.good), Security.STARTTLS)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.TLS)
    assert "unable to get local issuer certificate" in (report.error or "")


@pytest.mark.parametrize("kind", BAD)
async def test_where_tls_is_only_offered_any_certificate_will_do_for_mail(
    kind: str, certificates: Certificates
) -> None:
    """It hides the mail from passive listeners. An attacker who could forge a certificate could also have hidden
    STARTTLS."""
    script = script_with(BAD[kind][0](certificates))
    assert is_sent(await send(script, Security.OFFERED, ca=certificates))
    assert script.encrypted


async def test_without_an_offer_required_tls_sends_nothing() -> None:
    script = Script()
    report = await send(script, Security.STARTTLS)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.STARTTLS)
    assert script.commands == ["EHLO [127.0.0.1]"]


async def test_without_an_offer_offered_tls_sends_in_the_clear() -> None:
    script = Script()
    assert is_sent(await send(script, Security.OFFERED))
    assert not script.encrypted


async def test_an_offer_taken_back_is_no_offer(certificates: Certificates) -> None:
    script = script_with(certificates.good, at="starttls", misdeed=Says("454 4.7.0 TLS not available"))
    assert is_sent(await send(script, Security.OFFERED))
    assert not script.encrypted


@pytest.mark.parametrize("security", [Security.OFFERED, Security.NONE])
async def test_a_password_never_crosses_the_network_in_the_clear(
    security: Security, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "is_local", property(lambda _: False))
    script = Script(features=("AUTH PLAIN",))
    report = await send(script, security, login=LOGIN)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
    assert "password" in (report.error or "")
    assert script.commands == ["EHLO [127.0.0.1]"]


@pytest.mark.parametrize("kind", BAD)
async def test_a_password_needs_a_checked_certificate(
    kind: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "is_local", property(lambda _: False))
    script = script_with(BAD[kind][0](certificates))
    report = await send(script, Security.OFFERED, ca=certificates, login=LOGIN)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.TLS)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        *[(host, True) for host in ("localhost", "127.0.0.1", "127.3.2.1", "::1")],
        *[(host, False) for host in ("mail.example.com", "10.0.0.1", "localhost.example.com", "0.0.0.0")],
    ],
)
def test_only_this_machine_is_local(host: str, is_local: bool) -> None:
    assert Server(host=host, port=25).is_local is is_local


async def test_data_sent_before_tls_is_not_taken_for_an_answer_under_it(certificates: Certificates) -> None:
    """Injection: an attacker adds answers after the unencrypted 220, which must not count as if they had come through
    TLS."""
    ahead = "220 go on\r\n250-evil\r\n250 AUTH PLAIN"
    script = script_with(certificates.good, at="starttls", misdeed=Says(ahead))
    report = await send(script, Security.STARTTLS, ca=certificates, login=LOGIN)
    assert report.reached is Reached.UNTOUCHED
    assert script.taken == []
    assert not any(command.startswith("AUTH") for command in script.commands)


async def test_features_offered_in_the_clear_are_forgotten(certificates: Certificates) -> None:
    script = script_with(certificates.good, features_under_tls=("8BITMIME",))
    report = await send(script, Security.STARTTLS, ca=certificates, login=LOGIN)
    assert (report.reached, report.step, report.reply) == (Reached.UNTOUCHED, Step.AUTH, None)
    assert not any(command.startswith("AUTH") for command in script.commands)


async def test_a_server_that_greets_in_the_clear_where_tls_is_implicit_is_refused() -> None:
    script = Script()
    async with scripted(script) as port:
        courier = Courier(Server(host="localhost", port=port, security=Security.IMPLICIT))
        async with asyncio.timeout(120):
            report = await courier.send(MESSAGE, permission=lambda: True)
        await courier.close()
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.TLS)
    assert not any(command.startswith("EHLO") for command in script.commands)


async def test_messages_larger_than_every_buffer_go_through_tls(certificates: Certificates) -> None:
    script = script_with(certificates.good)
    data = b"Subject: large\r\n\r\n" + (b"." + b"0123456789" * 7 + b"\r\n") * 200_000
    async with scripted(script) as port:
        server = Server(host="localhost", port=port, security=Security.STARTTLS, ca_file=str(certificates.ca))
        courier = Courier(server)
        report = await courier.send(replace(MESSAGE, data=data), permission=lambda: True)
        await courier.close()
    assert is_sent(report)
    assert script.taken == [data]
