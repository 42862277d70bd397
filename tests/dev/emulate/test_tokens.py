"""The token endpoint: google-auth gets tokens from it, and every kind of refusal."""

import asyncio
from typing import Any

import google.auth.exceptions
import google.auth.transport.requests
import google.oauth2.credentials
import httpx2
import pytest
import requests
from google.oauth2 import service_account

from fairpost.dev.emulate.keys import service_account_info
from fairpost.dev.emulate.mailbox import User
from fairpost.dev.emulate.server import GmailEmulator
from fairpost.dev.emulate.tokens import BAD_TIMES, COMPOSE, FULL_ACCESS, METADATA, NOT_AUTHORIZED, READONLY, SEND
from tests.dev.emulate.conftest import ANN, BEARER, NOON, Client, Connect, Emulate, Time, assertion, mail, refused

# google-auth has no types for these
from_key: Any = service_account.Credentials.from_service_account_info
user_credentials: Any = google.oauth2.credentials.Credentials


async def refresh(credentials: Any) -> Any:
    """google-auth blocks, so it runs in a thread while the emulator answers in the loop."""

    def work() -> None:
        with requests.Session() as session:
            session.trust_env = False
            credentials.refresh(google.auth.transport.requests.Request(session=session))

    await asyncio.to_thread(work)
    return credentials


async def ask(emulator: GmailEmulator, **form: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as http:
        return await http.post(emulator.token_url, data=form)


async def refusal(emulator: GmailEmulator, **form: str) -> tuple[int, str, str]:
    response = await ask(emulator, **form)
    return response.status_code, response.json()["error"], response.json()["error_description"]


async def test_google_auth_gets_a_token_for_a_user_that_a_service_account_acts_for() -> None:
    async with GmailEmulator([ANN]) as emulator:
        credentials = from_key(emulator.service_account_info(), scopes=[FULL_ACCESS])
        await refresh(credentials.with_subject(ANN))
        user = await refresh(credentials.with_subject(ANN))
        assert user.valid
        async with httpx2.AsyncClient(trust_env=False) as http:
            headers = {"Authorization": f"Bearer {user.token}"}
            profile = await http.get(f"{emulator.url}/gmail/v1/users/me/profile", headers=headers)
    assert profile.json()["emailAddress"] == ANN


@pytest.mark.parametrize(
    ("sub", "scopes", "message"),
    [
        ("nobody@example.com", [FULL_ACCESS], "invalid_grant: Invalid email or User ID"),
        (ANN, [SEND, READONLY], f"unauthorized_client: {NOT_AUTHORIZED}"),
        (ANN, ["https://nonsense.test/"], "invalid_scope: Invalid OAuth scope or ID token audience provided."),
    ],
)
async def test_google_auth_understands_the_refusals(sub: str, scopes: list[str], message: str) -> None:
    async with GmailEmulator([ANN]) as emulator:
        info = emulator.service_account_info(scopes=[FULL_ACCESS, SEND])
        credentials = from_key(info, scopes=scopes)
        with pytest.raises(google.auth.exceptions.RefreshError) as caught:
            await refresh(credentials.with_subject(sub))
    assert caught.value.args[0] == message
    assert not caught.value.retryable


async def test_google_auth_refreshes_a_user_token() -> None:
    async with GmailEmulator([ANN]) as emulator:
        info = emulator.refresh_token(ANN)
        given = {name: info[name] for name in ("refresh_token", "token_uri", "client_id", "client_secret")}
        user = user_credentials(None, **given)
        await refresh(user)
        assert user.token.startswith("ya29.")
        emulator.tokens.revoke(ANN)
        with pytest.raises(google.auth.exceptions.RefreshError, match=r"Token has been expired or revoked\."):
            await refresh(user)


async def test_an_answer_has_what_google_s_has(emulate: Emulate) -> None:
    emulator = await emulate(token_life_s=1_800)
    signed = assertion(emulator.service_account_info(), at=NOON, scope=f"{SEND} {READONLY}")
    response = await ask(emulator, grant_type=BEARER, assertion=signed)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    granted = response.json()
    assert granted.pop("access_token").startswith("ya29.")
    assert granted == {"expires_in": 1_800, "token_type": "Bearer", "scope": " ".join(sorted([SEND, READONLY]))}


@pytest.mark.parametrize(
    ("claims", "error", "description"),
    [
        ({"iss": "who@else.test"}, "invalid_grant", "Invalid grant: account not found"),
        ({"aud": "https://else.test/token"}, "invalid_grant", "Invalid JWT: Failed audience check."),
        ({"sub": "nobody@example.com"}, "invalid_grant", "Invalid email or User ID"),
        ({"exp": int(NOON.timestamp()) + 3_601}, "invalid_grant", BAD_TIMES),
        ({"exp": int(NOON.timestamp()) - 1}, "invalid_grant", BAD_TIMES),
        ({"iat": int(NOON.timestamp()) - 7_200, "exp": int(NOON.timestamp()) - 3_600}, "invalid_grant", BAD_TIMES),
        ({"iat": int(NOON.timestamp()) + 301, "exp": int(NOON.timestamp()) + 600}, "invalid_grant", BAD_TIMES),
        ({"scope": ""}, "invalid_scope", "Invalid OAuth scope or ID token audience provided."),
        ({"scope": "openid nonsense"}, "invalid_scope", "Invalid OAuth scope or ID token audience provided."),
        ({"scope": "https://www.googleapis.com/auth/drive"}, "unauthorized_client", NOT_AUTHORIZED),
    ],
)
async def test_an_assertion_that_does_not_hold_is_refused(
    emulate: Emulate, claims: dict[str, Any], error: str, description: str
) -> None:
    emulator = await emulate()
    signed = assertion(emulator.service_account_info(), at=NOON, **claims)
    status = 401 if error == "unauthorized_client" else 400
    assert await refusal(emulator, grant_type=BEARER, assertion=signed) == (status, error, description)


@pytest.mark.parametrize("skew_s", [-300, 300])
async def test_a_clock_may_be_some_minutes_off(emulate: Emulate, time: Time, skew_s: int) -> None:
    emulator = await emulate()
    signed = assertion(emulator.service_account_info(), at=NOON)
    time.pass_by(-skew_s if skew_s > 0 else 3_600 + 300)
    assert (await ask(emulator, grant_type=BEARER, assertion=signed)).status_code == 200


async def test_the_address_that_google_auth_writes_is_an_audience(emulate: Emulate) -> None:
    emulator = await emulate()
    signed = assertion(emulator.service_account_info(), at=NOON, aud="https://oauth2.googleapis.com/token")
    assert (await ask(emulator, grant_type=BEARER, assertion=signed)).status_code == 200


async def test_a_signature_of_another_key_is_refused(emulate: Emulate) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    emulator = await emulate()
    emulator.service_account_info()
    stranger = service_account_info(
        token_url=emulator.token_url, key=rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    )
    signed = assertion(stranger, at=NOON)
    expected = (400, "invalid_grant", "Invalid JWT Signature.")
    assert await refusal(emulator, grant_type=BEARER, assertion=signed) == expected
    head, body, signature = signed.split(".")
    stranger["private_key_id"] = emulator.service_account_info()["private_key_id"]
    assert await refusal(emulator, grant_type=BEARER, assertion=assertion(stranger, at=NOON)) == expected
    assert await refusal(emulator, grant_type=BEARER, assertion=f"{head}.{body}.{signature[:-8]}") == expected


@pytest.mark.parametrize(
    "nonsense", ["x", "a.b.c", "e30.e30.e30", "e30.W10.", "..", "é.é.é", "bnVsbA.bnVsbA.bnVsbA", "x" * 60_000]
)
async def test_an_invalid_assertion_is_refused(emulate: Emulate, nonsense: str) -> None:
    status, error, _ = await refusal(await emulate(), grant_type=BEARER, assertion=nonsense)
    assert (status, error) == (400, "invalid_grant")


@pytest.mark.parametrize(
    "claims", [{"iat": "soon"}, {"exp": True}, {"iat": 1e300}, {"sub": 7}, {"scope": ["a"]}, {"aud": 1}]
)
async def test_claims_of_another_type_are_refused(emulate: Emulate, claims: dict[str, Any]) -> None:
    emulator = await emulate()
    signed = assertion(emulator.service_account_info(), at=NOON, **claims)
    status, error, _ = await refusal(emulator, grant_type=BEARER, assertion=signed)
    assert (status, error) == (400, "invalid_grant")


async def test_a_user_who_has_not_delegated_is_out_of_reach(emulate: Emulate) -> None:
    emulator = await emulate(User(address=ANN, delegated=False))
    signed = assertion(emulator.service_account_info(), at=NOON)
    assert await refusal(emulator, grant_type=BEARER, assertion=signed) == (401, "unauthorized_client", NOT_AUTHORIZED)


async def test_a_disabled_service_account_gets_nothing(emulate: Emulate) -> None:
    emulator = await emulate()
    info = emulator.service_account_info()
    emulator.tokens.accounts[info["client_email"]].disabled = True
    status, error, _ = await refusal(emulator, grant_type=BEARER, assertion=assertion(info, at=NOON))
    assert (status, error) == (401, "disabled_client")


@pytest.mark.parametrize(
    ("change", "status", "error", "description"),
    [
        ({"client_id": "nobody"}, 401, "invalid_client", "The OAuth client was not found."),
        ({"client_secret": "wrong"}, 401, "invalid_client", "Unauthorized"),
        ({"client_secret": "é"}, 401, "invalid_client", "Unauthorized"),
        ({"client_id": ""}, 400, "invalid_request", "Could not determine client ID from request."),
        ({"refresh_token": ""}, 400, "invalid_request", "Missing required parameter: refresh_token"),
        ({"refresh_token": "1//else"}, 400, "invalid_grant", "Token has been expired or revoked."),
        ({"grant_type": ""}, 400, "invalid_request", "Missing required parameter: grant_type"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type", "Invalid grant_type: password"),
    ],
)
async def test_a_refresh_that_does_not_hold_is_refused(
    emulate: Emulate, change: dict[str, str], status: int, error: str, description: str
) -> None:
    emulator = await emulate()
    info = emulator.refresh_token(ANN)
    form = {key: info[key] for key in ("client_id", "client_secret", "refresh_token")}
    answer = await refusal(emulator, **{"grant_type": "refresh_token", **form, **change})
    assert answer == (status, error, description)


async def test_a_refresh_gives_no_more_scopes_than_were_granted(emulate: Emulate) -> None:
    emulator = await emulate()
    info = emulator.refresh_token(ANN, scopes=[SEND])
    form = {key: info[key] for key in ("client_id", "client_secret", "refresh_token")}
    status, error, _ = await refusal(emulator, grant_type="refresh_token", scope=FULL_ACCESS, **form)
    assert (status, error) == (400, "invalid_scope")
    assert (await ask(emulator, grant_type="refresh_token", **form)).json()["scope"] == SEND


async def test_a_form_that_is_too_large_or_unreadable_is_refused(emulate: Emulate) -> None:
    emulator = await emulate()
    assert (await refusal(emulator, grant_type="x" * 70_000))[:2] == (400, "invalid_request")
    async with httpx2.AsyncClient(trust_env=False) as http:
        for body in (b"\xff\xfe", b"a=1&" * 200, b""):
            response = await http.post(emulator.token_url, content=body)
            assert (response.status_code, response.json()["error"]) == (400, "invalid_request")


async def test_an_access_token_expires(ann: Client, time: Time) -> None:
    time.pass_by(3_599)
    assert (await ann.ask("GET", "/profile")).status_code == 200
    time.pass_by(1)
    response = await ann.ask("GET", "/profile")
    status, reason, message = refused(response)
    assert (status, reason) == (401, "authError")
    assert message.startswith("Request had invalid authentication credentials.")
    assert response.json()["error"]["status"] == "UNAUTHENTICATED"
    assert 'error="invalid_token"' in response.headers["www-authenticate"]


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "nonsense"])
async def test_without_a_token_one_is_asked_to_log_in(ann: Client, header: str) -> None:
    assert (await ann.error("GET", "/profile", headers={"Authorization": header}))[:2] == (401, "required")


async def test_a_token_that_was_never_given_out_is_not_good(ann: Client) -> None:
    assert (await ann.error("GET", "/profile", headers={"Authorization": "Bearer ya29.x"}))[:2] == (401, "authError")


async def test_the_token_of_a_disabled_user_is_not_good_any_more(ann: Client) -> None:
    user = ann.emulator.mailboxes.user(ANN)
    assert user is not None
    user.disabled = True
    assert (await ann.error("GET", "/profile"))[:2] == (401, "authError")


@pytest.mark.parametrize(
    ("scope", "method", "path", "body"),
    [
        (SEND, "POST", "/drafts", {"message": {"raw": ""}}),
        (SEND, "POST", "/drafts/send", {"id": "r-1"}),
        (SEND, "GET", "/profile", None),
        (COMPOSE, "GET", "/messages/1", None),
        (COMPOSE, "GET", "/threads/1", None),
        (COMPOSE, "GET", "/settings/sendAs", None),
        (READONLY, "POST", "/messages/send", {"raw": ""}),
        (READONLY, "DELETE", "/drafts/r-1", None),
        (METADATA, "GET", "/drafts", None),
    ],
)
async def test_a_scope_that_does_not_reach_is_insufficient(
    emulate: Emulate, connect: Connect, scope: str, method: str, path: str, body: Any
) -> None:
    client = await connect(await emulate(), scope=scope)
    response = await client.ask(method, path, json=body) if body else await client.ask(method, path)
    assert refused(response) == (403, "insufficientPermissions", "Request had insufficient authentication scopes.")
    assert response.json()["error"]["details"][0]["reason"] == "ACCESS_TOKEN_SCOPE_INSUFFICIENT"


async def test_the_metadata_scope_shows_headers_and_nothing_else(emulate: Emulate, connect: Connect) -> None:
    emulator = await emulate()
    sent = await (await connect(emulator)).send(mail(text="secret"))
    client = await connect(emulator, scope=METADATA)
    path = f"/messages/{sent['id']}"
    assert (await client.get(path, format="metadata"))["payload"]["headers"]
    for form in ("full", "raw"):
        expected = (403, "forbidden", f"Metadata scope doesn't allow format {form.upper()}")
        assert await client.error("GET", path, params={"format": form}) == expected
    assert (await client.error("GET", path))[0] == 403
    expected = (403, "forbidden", "Metadata scope does not support 'q' parameter")
    assert await client.error("GET", "/messages", params={"q": "in:sent"}) == expected


async def test_a_service_account_for_itself_has_no_mailbox(emulate: Emulate, connect: Connect) -> None:
    emulator = await emulate()
    client = await connect(emulator, user=None)
    assert await client.error("GET", "/profile") == (400, "failedPrecondition", "Precondition check failed.")


async def test_another_user_s_mailbox_is_not_delegated(ann: Client) -> None:
    own = await ann.http.get(f"/gmail/v1/users/{ANN.upper()}/profile")
    assert own.json()["emailAddress"] == ANN
    for other in ("bob@example.com", "nobody@example.com"):
        response = await ann.http.get(f"/gmail/v1/users/{other}/profile")
        assert refused(response) == (403, "forbidden", f"Delegation denied for {ANN}")


async def test_a_user_without_mail_service(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate(User(address=ANN, mail_enabled=False)))
    assert await client.error("GET", "/profile") == (400, "failedPrecondition", "Mail service not enabled")
