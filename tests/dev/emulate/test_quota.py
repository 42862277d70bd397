"""Limits: units per minute, messages per day, and exactly when they apply."""

import re
from datetime import datetime, timedelta

import pytest

from fairpost.dev.emulate.quota import UNITS, Limits, Quota, Window
from tests.dev.emulate.conftest import ANN, BOB, NOON, Client, Connect, Emulate, Time, encoded, mail, refused

MINUTE = timedelta(minutes=1)


async def test_sixty_sends_a_minute_and_no_more(ann: Client, time: Time) -> None:
    for _ in range(60):
        await ann.send()
        time.pass_by(0.5)
    status, reason, message = await ann.error("POST", "/messages/send", json={"raw": encoded(mail())})
    assert (status, reason) == (403, "rateLimitExceeded")
    assert message.startswith("Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user'")
    assert len(ann.emulator.sent()) == 60
    time.pass_by(29.99)
    assert (await ann.ask("GET", "/profile")).status_code == 403
    time.pass_by(0.01)  # the first send is a minute old
    await ann.send()
    assert (await ann.ask("GET", "/profile")).status_code == 403


async def test_a_refused_call_costs_nothing(emulate: Emulate, connect: Connect, time: Time) -> None:
    client = await connect(await emulate(units_per_minute=100))
    await client.get("/profile")
    for _ in range(50):
        assert (await client.ask("POST", "/messages/send", json={"raw": encoded(mail())})).status_code == 403
    time.pass_by(60)
    await client.send()


async def test_each_user_has_a_quota_of_their_own(emulate: Emulate, connect: Connect) -> None:
    emulator = await emulate(units_per_minute=100)
    await (await connect(emulator)).send()
    await (await connect(emulator, BOB)).send(mail(sender=BOB))
    assert [sent.user for sent in emulator.sent()] == [ANN, BOB]


def test_calls_cost_quota_units() -> None:
    assert UNITS["messages.send"] == UNITS["drafts.send"] == 100
    assert UNITS["drafts.create"] == 10
    quota = Quota(Limits(units_per_minute=5))
    assert quota.units_free_at(ANN, "messages.get", now=NOON) == NOON
    assert quota.units_free_at(ANN, "messages.list", now=NOON) == NOON + MINUTE


@pytest.mark.parametrize("way", ["draft", "message"])
@pytest.mark.parametrize("with_header", [False, True])
async def test_the_day_s_last_message(
    emulate: Emulate, connect: Connect, time: Time, way: str, with_header: bool
) -> None:
    emulator = await emulate(messages_per_day=2, retry_after_header=with_header, token_life_s=90_000)
    client = await connect(emulator)
    await client.send()
    time.pass_by(3_600)
    await client.send()
    time.pass_by(3_600)
    if way == "draft":
        draft = await client.create()  # drafts are not limited
        response = await client.ask("POST", "/drafts/send", json={"id": draft["id"]})
    else:
        response = await client.ask("POST", "/messages/send", json={"raw": encoded(mail())})
    status, reason, message = refused(response)
    assert (status, reason, response.json()["error"]["status"]) == (429, "rateLimitExceeded", "RESOURCE_EXHAUSTED")
    match = re.fullmatch(r"User-rate limit exceeded\.  Retry after (\S+\.\d{3}Z) \(Mail sending\)", message)
    assert match is not None
    assert datetime.fromisoformat(match[1]) == NOON + timedelta(hours=24)
    assert response.headers.get("retry-after") == (str(22 * 3_600) if with_header else None)
    assert len(emulator.sent()) == 2
    time.pass_by(22 * 3_600 - 0.001)
    assert (await client.ask("POST", "/messages/send", json={"raw": encoded(mail())})).status_code == 429
    time.pass_by(0.001)
    await client.send()
    assert len(emulator.sent()) == 3


async def test_refused_emails_do_not_count_as_sent(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate(messages_per_day=1))
    assert (await client.ask("POST", "/messages/send", json={"raw": encoded(mail(to=None))})).status_code == 400
    await client.send()
    assert (await client.ask("POST", "/messages/send", json={"raw": encoded(mail())})).status_code == 429


async def test_a_mailbox_that_may_send_nothing(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate(messages_per_day=0))
    assert (await client.ask("POST", "/messages/send", json={"raw": encoded(mail())})).status_code == 429


def test_a_window_says_when_enough_has_left_it() -> None:
    window = Window(MINUTE)
    for second in (0, 10, 20):
        window.add(10, now=NOON + timedelta(seconds=second))
    now = NOON + timedelta(seconds=30)
    assert window.free_at(5, most=35, now=now) == now
    assert window.free_at(5, most=30, now=now) == NOON + MINUTE
    assert window.free_at(15, most=30, now=now) == NOON + timedelta(seconds=70)
    assert window.free_at(50, most=30, now=now) == now + MINUTE
    assert window.free_at(25, most=30, now=NOON + timedelta(seconds=71)) == NOON + timedelta(seconds=80)
