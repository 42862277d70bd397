"""Microsoft's tokens through msal, from a local token server with TLS."""

import asyncio
import logging
from typing import Any

import pytest

from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.microsoft import ADVICE, MicrosoftClient, MicrosoftRefreshToken
from fairpost.transports.oauth.secrets import RefreshSecret, write_refresh_secret
from tests.peers.certificates import Certificates, make_certificates
from tests.transports.oauth.entra import CLIENT_ID, TENANT, authority, entra, refusing
from tests.transports.oauth.keys import granted, saying
from tests.transports.oauth.token_server import Form, Said, TokenServer, serving

SECRET = "Q~client-secret"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def trusted(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))


def client(server: TokenServer, tenant: str = TENANT) -> MicrosoftClient:
    return MicrosoftClient(SECRET, client_id=CLIENT_ID, tenant=tenant, authority=authority(server))


def person(server: TokenServer, client_secret: str | None = None, **given: Any) -> MicrosoftRefreshToken:
    secret = write_refresh_secret(RefreshSecret(refresh_token="refresh-1", client_secret=client_secret))
    return MicrosoftRefreshToken(secret, client_id=CLIENT_ID, tenant=TENANT, authority=authority(server), **given)


async def refusal(source: MicrosoftClient | MicrosoftRefreshToken) -> Refused:
    with pytest.raises(Refused) as caught:
        await source.token()
    return caught.value


async def test_an_application_gets_a_token_for_what_it_was_granted(certificates: Certificates) -> None:
    with entra(saying(*granted(1)), certificates) as server:
        assert (await client(server).token()).secret == "token-1"
    (form,) = server.asked
    assert (form["grant_type"], form["client_id"]) == ("client_credentials", CLIENT_ID)
    assert form["scope"] == "https://outlook.office365.com/.default"
    assert form["client_secret"] == SECRET


async def test_a_forgotten_token_is_fetched_again(certificates: Certificates) -> None:
    """msal has its own cache, which must not bring it back."""
    with entra(lambda _: granted(len(server.asked)), certificates) as server:
        source = client(server)
        assert (await source.token()).secret == "token-1"
        assert (await source.token()).secret == "token-1"
        source.forget()
        assert (await source.token()).secret == "token-2"


async def test_twenty_who_ask_at_once_are_one_question(certificates: Certificates) -> None:
    with entra(saying(*granted(1)), certificates) as server:
        source = client(server)
        await asyncio.gather(*(source.token() for _ in range(20)))
    assert len(server.asked) == 1


@pytest.mark.parametrize("client_secret", [None, SECRET])
async def test_a_refresh_token_gets_a_token_and_its_successor_is_used_and_told(
    certificates: Certificates, client_secret: str | None
) -> None:
    def answer(form: Form) -> Said:
        n = len(server.asked)
        assert form["refresh_token"] == f"refresh-{n}"
        return granted(n, refresh_token=f"refresh-{n + 1}")

    told: list[str] = []
    with entra(answer, certificates) as server:
        source = person(server, client_secret, on_rotated=told.append)
        assert (await source.token()).secret == "token-1"
        source.forget()
        assert (await source.token()).secret == "token-2"
    assert told == ["refresh-2", "refresh-3"]
    form = server.asked[0]
    assert form["grant_type"] == "refresh_token"
    assert {"https://outlook.office.com/SMTP.Send", "offline_access"} <= set(form["scope"].split())
    assert form.get("client_secret") == client_secret


async def test_the_same_refresh_token_again_is_no_news(certificates: Certificates) -> None:
    told: list[str] = []
    with entra(saying(*granted(1, refresh_token="refresh-1")), certificates) as server:
        await person(server, on_rotated=told.append).token()
    assert told == []


@pytest.mark.parametrize(
    ("code", "error", "facts"),
    [
        (700016, "unauthorized_client", [CLIENT_ID, TENANT]),
        (7000215, "invalid_client", [CLIENT_ID, "Certificates & secrets", "fairpost account set NAME --ask-password"]),
        (7000222, "invalid_client", [CLIENT_ID, "Certificates & secrets", "fairpost account set NAME --ask-password"]),
        (50034, "invalid_grant", [TENANT]),
        (50057, "invalid_grant", ["Entra admin center → Users"]),
        (65001, "invalid_grant", ["Grant admin consent"]),
        (70008, "invalid_grant", ["fairpost account set NAME"]),
        (700082, "invalid_grant", [f"--tenant {TENANT} --client-id {CLIENT_ID} --refresh-token-file FILE"]),
        (53003, "access_denied", ["Conditional Access"]),
    ],
)
async def test_a_refusal_says_what_to_do(code: int, error: str, facts: list[str], certificates: Certificates) -> None:
    advice = ADVICE[code].format(client_id=CLIENT_ID, tenant=TENANT)
    assert [fact for fact in facts if fact not in advice] == []
    with entra(refusing(code, "It cannot be.", error), certificates) as server:
        refused = [await refusal(client(server)), await refusal(person(server))]
    for each in refused:
        assert (each.reason, each.advice) == (error, advice)
        assert f"AADSTS{code}: It cannot be" in each.what
    assert len(server.asked) == 2


async def test_a_refusal_that_is_not_known_says_where_to_look_it_up(certificates: Certificates) -> None:
    with entra(refusing(99999, "It cannot be.", "invalid_grant"), certificates) as server:
        assert "https://login.microsoftonline.com/error?code=99999" in (await refusal(client(server))).advice


@pytest.mark.parametrize(
    ("error", "advice"), [("invalid_grant", "fairpost account set NAME"), ("odd", "API permissions")]
)
async def test_a_refusal_without_a_number_has_an_advice_too(
    error: str, advice: str, certificates: Certificates
) -> None:
    with entra(saying(400, {"error": error}), certificates) as server:
        assert advice in (await refusal(client(server))).advice


@pytest.mark.parametrize("code", ADVICE)
def test_every_advice_can_be_written_out(code: int) -> None:
    assert "{" not in ADVICE[code].format(client_id="1", tenant="2")


async def test_a_tenant_that_does_not_exist_is_named(certificates: Certificates) -> None:
    with entra(saying(*granted(1)), certificates) as server:
        error = await refusal(client(server, tenant="typo.example"))
        assert error.reason == "not_found"
        words = "AADSTS90002: Tenant 'typo.example' not found."
        server.answer = saying(400, {"error": "invalid_tenant", "error_description": words, "error_codes": [90002]})
        assert (await refusal(client(server))).advice == ADVICE[90002].format(tenant=TENANT)
    assert TENANT in ADVICE[90002].format(tenant=TENANT)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "body", "fact"),
    [
        (500, "<html>", "500"),
        (503, {"error": "temporarily_unavailable"}, "503"),
        (429, {"error": "throttled"}, "429"),
        (200, "garbage", "JSON"),
        (200, {}, "Microsoft"),
        (400, {"error": "temporarily_unavailable", "error_description": "later"}, "later"),
        (400, {"error": "invalid_grant", "error_description": "AADSTS90033: later"}, "AADSTS90033"),
    ],
)
async def test_a_server_in_trouble_may_work_later_and_is_asked_once(
    status: int, body: Any, fact: str, certificates: Certificates
) -> None:
    with entra(saying(status, body), certificates) as server, pytest.raises(Unreachable, match=fact):
        await client(server).token()
    assert len(server.asked) == 1


@pytest.mark.parametrize("page", ["<html>", {"issuer": "x"}, [1], {"token_endpoint": 5, "authorization_endpoint": 5}])
async def test_a_configuration_that_is_none_may_be_one_later(page: Any, certificates: Certificates) -> None:
    with entra(saying(*granted(1)), certificates) as server:
        server.pages[f"/{TENANT}/v2.0/.well-known/openid-configuration"] = page
        with pytest.raises(Unreachable):
            await client(server).token()


async def test_a_configuration_that_leads_out_of_tls_is_not_followed(certificates: Certificates) -> None:
    with entra(saying(*granted(1)), certificates) as server:
        page = server.pages[f"/{TENANT}/v2.0/.well-known/openid-configuration"]
        page["token_endpoint"] = "http://elsewhere.example/token"
        with pytest.raises((Refused, Unreachable)):
            await client(server).token()
    assert server.asked == []


async def test_a_server_with_an_untrusted_certificate_gets_no_secret(certificates: Certificates) -> None:
    with (
        serving(TokenServer(answer=saying(*granted(1))), certificates.self_signed) as server,
        pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        await client(server).token()
    assert server.asked == []


async def test_no_secret_is_shown_or_logged_even_when_the_server_repeats_it(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(form: Form) -> Said:
        return 400, {"error": "invalid_grant", "error_description": f"AADSTS70000: what is {form}?"}

    with entra(echo, certificates) as server:
        application, human = client(server), person(server, SECRET)
        said = [str(await refusal(application)), str(await refusal(human)), repr(application), repr(human)]
        server.answer = saying(*granted(1, refresh_token="refresh-2"))
        said += [repr(await application.token()), repr(await human.token())]
    for secret in (SECRET, "refresh-1", "refresh-2", "token-1"):
        assert secret not in " ".join(said)
        assert secret not in caplog.text
