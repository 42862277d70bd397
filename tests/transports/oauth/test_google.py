"""Google's tokens, from a token server that really checks signatures and answers like Google."""

import asyncio
import json
import logging
import re
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.google import (
    CONNECT_AGAIN,
    NEW_KEY,
    SCOPES,
    GoogleRefreshToken,
    GoogleServiceAccount,
    read_service_key,
)
from fairpost.transports.oauth.http import ANSWER_BYTES_MAX
from fairpost.transports.oauth.public import GOOGLE_URI
from fairpost.transports.oauth.secrets import RefreshSecret, write_refresh_secret
from tests.transports.oauth.keys import CLIENT_ID, MAILBOX, SERVICE, google, granted, key_file, key_pair, saying
from tests.transports.oauth.token_server import TokenServer, serving

REFRESH = RefreshSecret(refresh_token="1//refresh-me", client_secret="GOCSPX-secret")


def service(server: TokenServer, *, subject: str = MAILBOX, **given: Any) -> GoogleServiceAccount:
    return GoogleServiceAccount(key_file(server.url), subject=subject, **given)


def person(server: TokenServer, secret: RefreshSecret = REFRESH) -> GoogleRefreshToken:
    return GoogleRefreshToken(write_refresh_secret(secret), client_id="7.apps", token_uri=server.url)


async def refusal(source: GoogleServiceAccount | GoogleRefreshToken) -> Refused:
    with pytest.raises(Refused) as caught:
        await source.token()
    assert str(caught.value) == f"{caught.value.what} {caught.value.advice}"
    return caught.value


# ── service accounts ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_service_account_gets_a_token_for_its_mailbox_where_the_key_file_says() -> None:
    with serving(google()) as server:
        token = await service(server).token()
    assert token.secret == "token-1"
    left = token.expires_at - datetime.now(UTC)
    assert timedelta(seconds=3500) < left < timedelta(seconds=3600)


async def test_an_address_in_the_settings_goes_before_the_key_file() -> None:
    with serving(google()) as server:
        source = GoogleServiceAccount(key_file("https://127.0.0.1:1/"), subject=MAILBOX, token_uri=server.url)
        assert (await source.token()).secret == "token-1"


async def test_twenty_who_ask_at_once_are_one_question() -> None:
    with serving(google()) as server:
        source = service(server)
        tokens = await asyncio.gather(*(source.token() for _ in range(20)))
    assert {token.secret for token in tokens} == {"token-1"}
    assert len(server.asked) == 1


async def test_missing_delegation_says_where_to_give_it_and_to_whom() -> None:
    with serving(google(delegated=False)) as server:
        error = await refusal(service(server))
    assert error.reason == "unauthorized_client"
    for fact in (MAILBOX, "unauthorized_client", "Client is unauthorized"):  # the last one is Google's message
        assert fact in error.what
    for fact in ("API controls → Domain-wide delegation", CLIENT_ID, *SCOPES):
        assert fact in error.advice


async def test_a_mailbox_that_does_not_exist_is_named() -> None:
    with serving(google()) as server:
        error = await refusal(service(server, subject="nobody@example.com"))
    assert error.reason == "invalid_grant"
    assert "nobody@example.com" in error.advice


async def test_a_key_that_was_deleted_asks_for_a_new_one() -> None:
    with serving(google()) as server:
        other = key_file(server.url, private_key=key_pair("other").private)
        error = await refusal(GoogleServiceAccount(other, subject=MAILBOX))
    assert NEW_KEY in error.advice


@pytest.mark.parametrize(
    ("off", "told"),
    [
        (timedelta(hours=2, minutes=5), "2 h 5 min ahead"),
        (-timedelta(days=1, hours=3, minutes=30), "1 d 3 h behind"),
    ],
)
async def test_a_clock_that_is_off_is_told_by_how_much(off: timedelta, told: str) -> None:
    with serving(google()) as server:
        source = service(server, now=lambda: datetime.now(UTC) + off + timedelta(seconds=20))
        with pytest.raises(Unreachable) as error:  # the account is not to blame
            await source.token()
    assert "short-lived token" in str(error.value)  # Google's message
    assert told in str(error.value)
    assert "timedatectl set-ntp true" in str(error.value)


async def test_a_clock_that_is_off_is_reported_even_where_the_server_names_something_else() -> None:
    answer = saying(400, {"error": "invalid_grant", "error_description": "Bad Request"})
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=10, seconds=50), usegmt=True)
    with serving(TokenServer(answer=answer, date=later)) as server, pytest.raises(Unreachable, match="10 min"):
        await service(server).token()


async def test_without_the_servers_clock_the_advice_is_to_compare() -> None:
    answer = saying(400, {"error": "invalid_grant", "error_description": "Invalid JWT: Token must be short-lived"})
    server_of = serving(TokenServer(answer=answer, date="yesterday"))
    with server_of as server, pytest.raises(Unreachable, match="timedatectl set-ntp true"):
        await service(server).token()


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ({"error": "invalid_grant", "error_description": "Invalid grant: account not found"}, [SERVICE, NEW_KEY]),
        (
            {"error": "invalid_grant", "error_description": "Invalid JWT: Failed audience check."},
            ["token_uri", GOOGLE_URI],
        ),
        ({"error": "disabled_client"}, [SERVICE, NEW_KEY]),
        ({"error": "something_new"}, [SERVICE, MAILBOX]),
        ({"error": {"odd": 1}}, [SERVICE, MAILBOX]),
    ],
)
async def test_any_refusal_has_an_advice(said: Any, advice: list[str]) -> None:
    with serving(TokenServer(answer=saying(400, said))) as server:
        told = (await refusal(service(server))).advice
    assert [fact for fact in advice if fact not in told] == []


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_refresh_token_gets_a_token() -> None:
    with serving(TokenServer(answer=saying(*granted(7)))) as server:
        assert (await person(server).token()).secret == "token-7"
    assert server.asked == [
        {
            "grant_type": "refresh_token",
            "client_id": "7.apps",
            "client_secret": "GOCSPX-secret",
            "refresh_token": "1//refresh-me",
        }
    ]


@pytest.mark.parametrize(
    ("error", "said", "advice"),
    [
        ("invalid_grant", "Token has been expired or revoked.", ["testing", CONNECT_AGAIN]),  # the app is in testing
        ("invalid_client", "The OAuth client was not found.", ["7.apps", CONNECT_AGAIN]),
        ("admin_policy_enforced", "", ["App access control", "7.apps"]),
        ("invalid_rapt", "", ["fairpost account set NAME --oauth google"]),
    ],
)
async def test_a_refused_refresh_token_says_what_to_do(error: str, said: str, advice: list[str]) -> None:
    with serving(TokenServer(answer=saying(400, {"error": error, "error_description": said}))) as server:
        refused = await refusal(person(server))
    assert refused.reason == error
    assert [fact for fact in advice if fact not in refused.advice] == []


@pytest.mark.parametrize(
    "text", ["", "1//bare", "[]", "{}", '{"refresh_token": 1}', '{"refresh_token": "x", "client_secret": 1}']
)
async def test_a_damaged_secret_is_refused_without_asking_anyone(text: str) -> None:
    error = await refusal(GoogleRefreshToken(text, client_id="7.apps", token_uri="http://127.0.0.1:1/"))
    assert error.reason == "damaged_secret"


# ── servers in trouble ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "body", "fact"),
    [
        (500, {"error": "internal"}, "500"),
        (503, "<html>busy</html>", "503"),
        (429, {"error": "rate_limited"}, "429"),
        (200, "<html>log in to this Wi-Fi</html>", "200.*JSON"),
        (200, ["token"], "200.*JSON"),
        (403, "<html>proxy</html>", "403.*JSON"),
        (302, "", "302.*JSON"),
        (200, {}, "200"),
        (200, {"access_token": 5, "expires_in": 3599}, "200"),
        (200, {"access_token": "x", "expires_in": "soon"}, "200"),
        (200, '"' + "x" * ANSWER_BYTES_MAX + '"', "127.0.0.1"),
        (400, {"error": "temporarily_unavailable"}, "temporarily_unavailable"),
        (400, {"error": "internal_failure"}, "internal_failure"),
    ],
)
async def test_a_server_in_trouble_may_work_later_and_is_asked_once(status: int, body: Any, fact: str) -> None:
    for source_of in (service, person):
        with serving(TokenServer(answer=saying(status, body))) as server, pytest.raises(Unreachable, match=fact):
            await source_of(server).token()
        assert len(server.asked) == 1


async def test_a_server_that_does_not_exist_may_come_back() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/token"
        with pytest.raises(Unreachable, match=rf"{re.escape(urlsplit(url).netloc)}.*ConnectError"):
            await GoogleServiceAccount(key_file(url), subject=MAILBOX).token()


async def test_a_server_that_does_not_answer_in_time_may_do_so_later() -> None:
    server = TokenServer(answer=lambda _: (server.freed.wait(120), granted(1))[1])
    with serving(server):
        source = service(server)
        source.fetch_s_max = 0.2
        with pytest.raises(Unreachable, match=r"0\.2 s"):
            await source.token()
        server.freed.set()
        source.fetch_s_max = 30
        assert (await source.token()).secret == "token-1"


@pytest.mark.parametrize("url", ["http://oauth2.googleapis.com/token", "ftp://127.0.0.1/", "token", "http://[::1"])
async def test_nothing_is_asked_of_a_server_without_tls(url: str) -> None:
    with pytest.raises(Refused, match="HTTPS") as caught:
        read_service_key(key_file(url))
    assert caught.value.reason == "insecure_token_server"
    source = GoogleRefreshToken(write_refresh_secret(REFRESH), client_id="7.apps", token_uri=url)
    assert (await refusal(source)).reason == "insecure_token_server"


# ── key files ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("-----BEGIN PRIVATE KEY-----", "JSON"),
        ("[1]", "JSON"),
        ("x" * 100_000, "JSON"),
        (json.dumps({"installed": {"client_id": "7.apps", "client_secret": "hush"}}), "OAuth client"),
        (json.dumps({"web": {"client_id": "7.apps"}}), "OAuth client"),
        (json.dumps({"type": "authorized_user", "refresh_token": "hush"}), '"authorized_user"'),
        (key_file(private_key=None), "private_key"),
        (key_file(client_email=""), "client_email"),
        (key_file(private_key="-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"), "private_key"),
        (key_file(private_key=key_pair().public), "private_key"),
    ],
)
async def test_a_wrong_key_file_says_what_it_is_instead(text: str, fact: str) -> None:
    with pytest.raises(Refused) as caught:
        read_service_key(text)
    assert fact in caught.value.what
    assert "hush" not in str(caught.value)
    assert caught.value.advice == NEW_KEY
    assert (await refusal(GoogleServiceAccount(text, subject=MAILBOX))).reason == "wrong_key_file"


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_no_secret_is_shown_or_logged_even_when_the_server_repeats_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echoing = TokenServer(
        answer=lambda form: (400, {"error": "invalid_grant", "error_description": f"what is {form}?"})
    )
    with serving(echoing), serving(google()) as good:
        people, robot, fine = person(echoing), service(echoing), service(good)
        said = [str(await refusal(people)), str(await refusal(robot))]
        token = await fine.token()
        said += [repr(each) for each in (people, robot, fine, token, read_service_key(key_file()), REFRESH)]
    assertion = echoing.asked[-1]["assertion"]
    for secret in ("1//refresh-me", "GOCSPX-secret", "token-1", assertion, key_pair().private[40:80]):
        assert secret not in " ".join(said)
        assert secret not in caplog.text
