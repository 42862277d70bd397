"""Faults on request: which apply, when, and what was really sent although no answer arrived."""

import asyncio
import json
import time as real_time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from fairpost.dev.emulate.faults import REASONS, Faults, parse, parse_all, tagged
from tests.dev.emulate.conftest import (
    ANN,
    BEARER,
    BOB,
    NOON,
    Client,
    Connect,
    Emulate,
    assertion,
    encoded,
    mail,
    refused,
)

LOST = (httpx2.RemoteProtocolError, httpx2.ReadError)


async def until(happened: Callable[[], object]) -> None:
    """The emulator has no event for it."""
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def given_up_on(client: Client) -> AsyncIterator[None]:
    """Sends a message, cancelled once its only fault has applied."""
    sending = asyncio.create_task(client.ask("POST", "/messages/send", json={"raw": encoded(mail())}))
    await until(lambda: client.emulator.faults.listed()[0][2])
    yield
    sending.cancel()
    await asyncio.wait([sending])


async def send_draft(client: Client, **more: Any) -> httpx2.Response:
    draft = await client.create()
    return await client.ask("POST", "/drafts/send", json={"id": draft["id"]}, **more)


async def test_a_connection_dropped_before_anything_was_applied(ann: Client) -> None:
    ann.emulator.faults.add(route="drafts.send", action="drop", times=1)
    with pytest.raises(LOST):
        await send_draft(ann)
    assert ann.emulator.sent() == []
    (draft,) = ann.emulator.drafts(ANN)
    await ann.send_draft(draft.id)
    assert len(ann.emulator.sent()) == 1


async def test_a_connection_dropped_after_the_message_was_sent(ann: Client) -> None:
    ann.emulator.faults.add(route="drafts.send", action="drop", after=True, times=1)
    draft = await ann.create()
    with pytest.raises(LOST):
        await ann.send_draft(draft["id"])
    assert len(ann.emulator.sent()) == 1
    assert (await ann.error("GET", f"/drafts/{draft['id']}"))[0] == 404
    (message,) = (await ann.get(f"/threads/{draft['message']['threadId']}"))["messages"]
    assert message["labelIds"] == ["SENT"]


@pytest.mark.parametrize("after", [False, True])
async def test_an_answer_that_comes_after_the_client_s_patience(ann: Client, after: bool) -> None:
    """Either way, the message is sent: a server does not notice that the client has left."""
    ann.emulator.faults.add(route="messages.send", action="delay", seconds=2, after=after)
    async with given_up_on(ann):
        await until(lambda: len(ann.emulator.sent()) == int(after))
    await until(ann.emulator.sent)
    assert len(ann.emulator.sent()) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_silence(ann: Client, after: bool) -> None:
    ann.emulator.faults.add(route="messages.send", action="stall", after=after)
    async with given_up_on(ann):
        await until(lambda: len(ann.emulator.sent()) == int(after))
    with pytest.raises(httpx2.ReadTimeout):
        await ann.ask("POST", "/messages/send", json={"raw": encoded(mail())}, timeout=httpx2.Timeout(60, read=0.2))


async def test_half_an_answer_and_then_silence(ann: Client) -> None:
    ann.emulator.faults.add(route="messages.send", action="stall-body")
    with pytest.raises(httpx2.ReadTimeout):
        await ann.ask("POST", "/messages/send", json={"raw": encoded(mail())}, timeout=httpx2.Timeout(60, read=0.5))
    await until(ann.emulator.sent)
    assert len(ann.emulator.sent()) == 1


async def test_half_an_answer_and_then_the_end(ann: Client) -> None:
    ann.emulator.faults.add(route="messages.send", action="cut-body")
    with pytest.raises(LOST):
        await ann.ask("POST", "/messages/send", json={"raw": encoded(mail())})
    assert len(ann.emulator.sent()) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_an_answer_that_is_garbage(ann: Client, after: bool) -> None:
    ann.emulator.faults.add(route="messages.send", action="garbage", after=after)
    response = await ann.ask("POST", "/messages/send", json={"raw": encoded(mail())})
    assert response.status_code == 200
    with pytest.raises(ValueError):
        response.json()
    assert len(ann.emulator.sent()) == int(after)


@pytest.mark.parametrize("after", [False, True])
async def test_an_error_although_it_was_sent(ann: Client, after: bool) -> None:
    ann.emulator.faults.add(route="drafts.send", action="error", status=503, after=after)
    assert refused(await send_draft(ann)) == (503, "backendError", "The service is currently unavailable.")
    assert len(ann.emulator.sent()) == int(after)


@pytest.mark.parametrize("reason", REASONS)
async def test_every_reason_has_google_s_status_and_words(ann: Client, reason: str) -> None:
    ann.emulator.faults.add(action="error", reason=reason)
    status, message, domain = REASONS[reason]
    response = await ann.ask("GET", "/profile")
    assert refused(response) == (status, reason, message)
    assert response.json()["error"]["errors"][0]["domain"] == domain


async def test_a_429_with_its_time_in_the_message(ann: Client) -> None:
    ann.emulator.faults.add(action="error", status=429, retry_after_s=90.5, headers={"Retry-After": "91"})
    response = await ann.ask("GET", "/profile")
    message = "User-rate limit exceeded.  Retry after 2030-01-31T12:01:30.500Z"
    assert refused(response) == (429, "rateLimitExceeded", message)
    assert response.headers["retry-after"] == "91"


async def test_an_error_in_the_words_one_gives(ann: Client) -> None:
    ann.emulator.faults.add(route="getProfile", action="error", status=418, reason="teapot", message="I am one")
    response = await ann.ask("GET", "/profile")
    assert response.status_code == 418
    assert response.json()["error"]["errors"][0] == {"domain": "global", "reason": "teapot", "message": "I am one"}


async def test_faults_strike_whom_and_when_they_should(ann: Client, connect: Connect) -> None:
    bob = await connect(ann.emulator, BOB)
    ann.emulator.faults.add(route="get*", user=ANN.upper(), method="get", nth=[2, 4], times=1, action="error")
    assert [(await ann.ask("GET", "/profile")).status_code for _ in range(5)] == [200, 503, 200, 200, 200]
    assert (await bob.ask("GET", "/profile")).status_code == 200
    ((_, seen, struck),) = ann.emulator.faults.listed()
    assert (seen, struck) == (5, 1)


async def test_a_percentage_is_a_roll_of_the_dice(emulate: Emulate, connect: Connect) -> None:
    rolls = iter([0.05, 0.5, 0.0999, 0.1])
    client = await connect(await emulate(roll=lambda: next(rolls)))
    client.emulator.faults.add(action="error", percent=10)
    assert [(await client.ask("GET", "/profile")).status_code for _ in range(4)] == [503, 200, 503, 200]


async def test_a_delay_takes_its_time(ann: Client) -> None:
    ann.emulator.faults.add(action="delay", seconds=0.2)
    began = real_time.monotonic()
    await ann.get("/profile")
    assert real_time.monotonic() - began >= 0.2


async def test_latency_is_there_without_any_fault(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate(latency_s=0.1))
    began = real_time.monotonic()
    await client.get("/profile")
    assert real_time.monotonic() - began >= 0.1


async def test_expired_tokens_are_renewed(ann: Client, connect: Connect) -> None:
    ann.emulator.faults.add(route="drafts.send", action="expire-tokens", times=1)
    response = await send_draft(ann)
    assert refused(response)[:2] == (401, "authError")
    assert ann.emulator.sent() == []
    again = await connect(ann.emulator)
    (draft,) = ann.emulator.drafts(ANN)
    await again.send_draft(draft.id)


async def test_tokens_that_are_revoked_are_not(ann: Client) -> None:
    info = ann.emulator.refresh_token(ANN)
    ann.emulator.faults.add(route="getProfile", action="revoke-tokens")
    assert (await ann.ask("GET", "/profile")).status_code == 401
    form = {key: info[key] for key in ("client_id", "client_secret", "refresh_token")}
    response = await ann.http.post("/token", data={"grant_type": "refresh_token", **form})
    assert response.json() == {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}


async def ask_for_a_token(client: Client) -> httpx2.Response:
    signed = assertion(client.emulator.service_account_info(name="other"), at=NOON)
    return await client.http.post("/token", data={"grant_type": BEARER, "assertion": signed})


async def test_accounts_and_users_that_are_switched_off(ann: Client) -> None:
    faults = ann.emulator.faults
    info = ann.emulator.service_account_info(name="other")
    form = {"grant_type": BEARER, "assertion": assertion(info, at=NOON)}
    faults.add(route="getProfile", action="disable-mail")
    assert await ann.error("GET", "/profile") == (400, "failedPrecondition", "Mail service not enabled")
    faults.add(route="labels.list", action="disable-user")
    assert (await ann.error("GET", "/labels"))[:2] == (401, "authError")
    assert (await ann.http.post("/token", data=form)).json()["error"] == "invalid_grant"
    faults.add(route="token", action="disable-service-account")
    assert (await ann.http.post("/token", data=form)).json()["error"] == "disabled_client"


async def test_a_clock_that_is_wrong(ann: Client) -> None:
    ann.emulator.faults.add(route="token", action="skew-clock", seconds=-7_200, times=1)
    response = await ask_for_a_token(ann)
    assert response.json()["error_description"].startswith("Invalid JWT: Token must be a short-lived token")
    assert response.headers["date"] == "Thu, 31 Jan 2030 10:00:00 GMT"


async def test_the_token_endpoint_fails_in_its_own_words(ann: Client) -> None:
    faults = ann.emulator.faults
    faults.add(route="token", user=ANN, action="error", status=503, nth=1)
    faults.add(route="token", action="error", reason="invalid_client", message="Nope", status=401, nth=2)
    faults.add(route="token", action="error", nth=3)
    answers = [await ask_for_a_token(ann) for _ in range(4)]
    assert [(a.status_code, a.json().get("error")) for a in answers] == [
        (503, "internal_failure"),
        (401, "invalid_client"),
        (400, "invalid_grant"),
        (200, None),
    ]


@pytest.mark.parametrize("way", ["draft", "message"])
@pytest.mark.parametrize(
    ("tag", "status", "sent"),
    [
        ("send-error-429", 429, 0),
        ("send-error", 503, 0),
        ("send-error-500-after", 500, 1),
        ("x+send-delay-1ms", 200, 1),
    ],
)
async def test_an_address_can_carry_a_fault(ann: Client, way: str, tag: str, status: int, sent: int) -> None:
    raw = mail(to=f"Cleo <cleo+{tag}@there.test>")
    if way == "draft":
        draft = await ann.create(raw)
        response = await ann.ask("POST", "/drafts/send", json={"id": draft["id"]})
    else:
        response = await ann.ask("POST", "/messages/send", json={"raw": encoded(raw)})
    assert response.status_code == status
    assert len(ann.emulator.sent()) == sent


async def test_an_address_can_spoil_the_draft(ann: Client) -> None:
    body = {"message": {"raw": encoded(mail(to="cleo+draft-error-500@there.test"))}}
    assert (await ann.ask("POST", "/drafts", json=body)).status_code == 500
    body = {"message": {"raw": encoded(mail(to="cleo+draft-drop-after@there.test"))}}
    with pytest.raises(LOST):
        await ann.ask("POST", "/drafts", json=body)
    assert len(ann.emulator.drafts(ANN)) == 1


def test_other_tags_are_just_tags() -> None:
    assert tagged(["a+b@x", "a+send@x", "a+send-lunch@x", "a", "+@"], route="messages.send") == []
    assert tagged(["a+draft-drop@x"], route="messages.send") == []


async def test_stopping_does_not_wait_for_what_is_stalled(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate())
    client.emulator.faults.add(route="getProfile", action="stall")
    client.emulator.faults.add(route="messages.send", action="delay", seconds=3_600)
    asks = [asyncio.create_task(ask) for ask in (client.ask("GET", "/profile"), client.send())]
    await asyncio.sleep(0.2)
    async with asyncio.timeout(60):  # without cancelling, it would take an hour
        await client.emulator.stop()
    for ask in asks:
        with pytest.raises(httpx2.TransportError):
            await ask
    assert client.emulator.sent() == []


@pytest.mark.parametrize(
    "written",
    [
        None,
        7,
        "drop",
        {},
        {"action": "explode"},
        {"action": 1},
        {"action": "delay"},
        {"action": "delay", "seconds": -1},
        {"action": "delay", "seconds": "5"},
        {"action": "drop", "seconds": 5},
        {"action": "drop", "nth": 0},
        {"action": "drop", "nth": []},
        {"action": "drop", "nth": "1"},
        {"action": "drop", "times": 1.5},
        {"action": "drop", "percent": 101},
        {"action": "drop", "after": "yes"},
        {"action": "drop", "colour": "red"},
        {"action": "cut-body", "after": True},
        {"action": "skew-clock", "seconds": 5, "after": True},
        {"action": "error", "status": 200},
        {"action": "error", "status": True},
        {"action": "error", "headers": {"X": "a\r\nb"}},
        {"action": "error", "headers": {"X y": "a"}},
        {"action": "error", "headers": []},
        {"action": "error", "headers": {"Content-Length": "7"}},
        {"action": "garbage", "status": 204},
        {"action": "garbage", "content_type": "a\nb"},
        {"route": ["x"], "action": "drop"},
    ],
)
def test_a_fault_that_is_misspelt_is_refused(written: Any) -> None:
    """A fault that silently never applies would prove nothing."""
    with pytest.raises(ValueError):
        parse(written)


def test_a_script_has_a_limit() -> None:
    with pytest.raises(ValueError, match=r"\b1000\b"):
        parse_all([{"action": "drop"}] * 1_001)
    faults = Faults(parse_all([{"action": "drop"}] * 1_000), roll=lambda: 0)
    with pytest.raises(ValueError, match=r"\b1000\b"):
        faults.add(action="drop")


def test_a_fault_can_be_written_as_json() -> None:
    text = '{"route": "messages.*", "nth": [1, 3], "action": "error", "status": 403}'
    fault = parse(json.loads(text))
    assert (fault.route, fault.nth) == ("messages.*", frozenset({1, 3}))
