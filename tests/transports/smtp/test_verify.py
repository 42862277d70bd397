"""A server is tested step by step, on real sockets, and gets no mail."""

import ssl
from base64 import b64encode
from pathlib import Path

import pytest

from fairpost.model.report import Step
from fairpost.model.transport import Security, Tls
from fairpost.smtp.auth import Login, Password, Token, without_secret
from fairpost.smtp.server import Server, Timeouts
from fairpost.transports.port import Tried
from fairpost.transports.smtp.verify import tls_of, try_server
from tests.peers.certificates import Certificates, make_certificates
from tests.smtp.scripted_server import CUT, GARBAGE, STALL, Misdeed, Says, Script, scripted

LOGIN = Password(user="ann", secret="hunter2 with words")
HASTE = Timeouts(greeting_s=0.3)  # for a server that sends no greeting


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def script_under(certificates: Certificates, at: str = "", misdeed: Misdeed = "") -> Script:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.good.cert, certificates.good.key)
    return Script(features=("STARTTLS", "AUTH PLAIN"), tls=context, at=at, misdeed=misdeed)


async def tried(
    script: Script, security: Security, *, ca: Path | None = None, login: Login | None = LOGIN
) -> list[Tried]:
    async with scripted(script, implicit=security is Security.IMPLICIT) as port:
        server = Server(host="localhost", port=port, security=security, ca_file=str(ca) if ca else None)
        steps = await try_server(server, login, patience=HASTE if script.misdeed is STALL else Timeouts())
    assert not any(command.startswith("MAIL") for command in script.commands)
    return steps


def in_short(steps: list[Tried]) -> str:
    return " ".join(f"{'+' if each.ok else '-'}{each.step}" for each in steps)


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        (Security.IMPLICIT, "+connect +tls +greeting +hello +auth"),
        (Security.STARTTLS, "+connect +greeting +hello +starttls +tls +auth"),
        (Security.OFFERED, "+connect +greeting +hello +tls +auth"),
        (Security.NONE, "+connect +greeting +hello +auth"),
    ],
)
async def test_each_step_is_reported(security: Security, expected: str, certificates: Certificates) -> None:
    steps = await tried(script_under(certificates), security, ca=certificates.ca)
    assert in_short(steps) == expected
    assert {each.text for each in steps if each.step is Step.TLS} <= {"TLSv1.2", "TLSv1.3"}


async def test_tls_that_is_not_offered_is_reported() -> None:
    steps = await tried(Script(), Security.OFFERED, login=None)
    assert in_short(steps) == "+connect +greeting +hello +tls"
    assert not steps[-1].text.startswith("TLSv1")


@pytest.mark.parametrize(
    ("at", "misdeed", "expected"),
    [
        ("greeting", CUT, "+connect -greeting"),
        ("greeting", STALL, "+connect -greeting"),
        ("greeting", Says("554 no"), "+connect -greeting"),
        ("hello", GARBAGE, "+connect +greeting -hello"),
        ("starttls", Says("454 no"), "+connect +greeting +hello -starttls"),
        ("tls", CUT, "+connect +greeting +hello +starttls -tls"),
        ("auth", Says("535 5.7.8 no"), "+connect +greeting +hello +starttls +tls -auth"),
    ],
)
async def test_the_step_that_fails_is_the_last_one(
    at: str, misdeed: Misdeed, expected: str, certificates: Certificates
) -> None:
    steps = await tried(script_under(certificates, at, misdeed), Security.STARTTLS, ca=certificates.ca)
    assert in_short(steps) == expected
    assert steps[-1].text


async def test_a_missing_server_fails_at_once() -> None:
    async with scripted(Script()) as port:
        pass
    steps = await try_server(Server(host="127.0.0.1", port=port), LOGIN, patience=Timeouts())
    assert in_short(steps) == "-connect"


@pytest.mark.parametrize(
    "echo",
    [
        b64encode(b"\0ann\0" + LOGIN.secret.encode()).decode(),
        b64encode(b"\0ann\0" + LOGIN.secret.encode()).decode()[:20],
        b64encode(LOGIN.secret.encode()).decode(),
        LOGIN.secret,
    ],
)
async def test_a_server_that_repeats_the_password_does_not_make_us_repeat_it(
    echo: str, certificates: Certificates
) -> None:
    script = script_under(certificates, "auth", Says(f"500 what is {echo} ?"))
    steps = await tried(script, Security.STARTTLS, ca=certificates.ca)
    reply = steps[-1].reply
    assert reply is not None
    assert (reply.code, reply.text) == (500, "what is *** ?")


async def test_a_server_that_echoes_everything_does_not_make_us_repeat_the_password(certificates: Certificates) -> None:
    line = b64encode(b"\0ann\0" + LOGIN.secret.encode()).decode()
    steps = await tried(
        script_under(certificates, "auth", Says(f"AUTH PLAIN {line}")), Security.STARTTLS, ca=certificates.ca
    )
    assert (steps[-1].step, steps[-1].reply) == (Step.AUTH, None)
    assert "AUTH PLAIN ***" in steps[-1].text
    assert line[:8] not in repr(steps)


def test_a_token_is_not_repeated_either() -> None:
    encoded = b64encode(b"user=ann\1auth=Bearer ya29.token\1\1").decode()
    login = Token(user="ann", secret="ya29.token")
    assert without_secret(f"no: {encoded}, ya29.token", login) == "no: ***, ***"


async def test_what_a_server_offers_is_reported_without_a_login(certificates: Certificates) -> None:
    async def offered(script: Script, security: Security, ca: Path | None = None) -> Tls:
        async with scripted(script, implicit=security is Security.IMPLICIT) as port:
            found = await tls_of(
                Server(host="localhost", port=port, security=security, ca_file=str(ca) if ca else None)
            )
        assert not any(command.startswith(("MAIL", "AUTH")) for command in script.commands)
        return found

    for security in Security:
        assert await offered(script_under(certificates), security, certificates.ca) is Tls.TRUSTED, security
    assert await offered(script_under(certificates), Security.NONE) is Tls.UNTRUSTED
    assert await offered(Script(), Security.OFFERED) is Tls.NONE
    assert await offered(Script(at="greeting", misdeed=CUT), Security.STARTTLS) is Tls.UNREACHABLE
