"""Tokens are cached, renewed early and fetched once for all callers, by a clock that the tests move."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.tokens import AHEAD, AccessToken, KeptTokens

BEGIN = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = BEGIN

    def __call__(self) -> datetime:
        return self.time

    def forward(self, **given: float) -> None:
        self.time += timedelta(**given)


class Counting(KeptTokens):
    """Grants token-1, token-2, … for an hour each, unless a fault is set."""

    def __init__(self, now: Callable[[], datetime], *, fetch_s_max: float = 5) -> None:
        super().__init__(now=now, fetch_s_max=fetch_s_max)
        self.fetched = 0
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def fetch(self) -> AccessToken:
        self.fetched += 1
        n = self.fetched
        self.gate.wait(120)
        if self.error is not None:
            raise self.error
        return self.lasting(f"token-{n}", seconds=3600, since=self._now())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(clock: Clock) -> Counting:
    return Counting(clock)


async def secret(source: KeptTokens) -> str:
    return (await source.token()).secret


async def test_a_token_is_kept_until_five_minutes_before_its_end(source: Counting, clock: Clock) -> None:
    assert await secret(source) == "token-1"
    clock.forward(minutes=54, seconds=59)
    assert await secret(source) == "token-1"
    clock.forward(seconds=1)
    assert await secret(source) == "token-2"
    assert timedelta(minutes=5) == AHEAD


async def test_twenty_who_ask_at_once_share_one_fetch(source: Counting) -> None:
    source.gate.clear()
    asking = [asyncio.create_task(secret(source)) for _ in range(20)]
    await asyncio.sleep(0.05)
    source.gate.set()
    assert set(await asyncio.gather(*asking)) == {"token-1"}
    assert source.fetched == 1


async def test_the_loop_runs_on_while_a_token_is_fetched(source: Counting) -> None:
    source.gate.clear()
    asking = asyncio.create_task(secret(source))
    async with asyncio.timeout(60):
        for _ in range(10):
            await asyncio.sleep(0.001)
    assert not asking.done()
    source.gate.set()
    assert await asking == "token-1"


async def test_one_who_gives_up_does_not_spoil_it_for_the_others(source: Counting) -> None:
    source.gate.clear()
    first, second = (asyncio.create_task(secret(source)) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.sleep(0.01)
    source.gate.set()
    assert await second == "token-1"
    assert first.cancelled()


async def test_a_token_fetched_for_a_cancelled_caller_is_kept(source: Counting) -> None:
    source.gate.clear()
    asking = asyncio.create_task(secret(source))
    await asyncio.sleep(0.01)
    asking.cancel()
    source.gate.set()
    assert await secret(source) == "token-1"
    assert source.fetched == 1


async def test_a_forgotten_token_is_not_given_again(source: Counting) -> None:
    assert await secret(source) == "token-1"
    source.forget()
    assert await secret(source) == "token-2"
    assert await secret(source) == "token-2"


async def test_a_refusal_is_not_kept(source: Counting) -> None:
    source.error = Refused("invalid_grant", "no.", "Do something.")
    with pytest.raises(Refused):
        await source.token()
    source.error = None
    assert await secret(source) == "token-2"


async def test_everyone_who_waits_hears_of_a_refusal(source: Counting) -> None:
    source.error = Refused("invalid_grant", "no.", "Do something.")
    heard = await asyncio.gather(*(source.token() for _ in range(5)), return_exceptions=True)
    assert {type(each) for each in heard} == {Refused}
    assert source.fetched == 1


async def test_while_renewing_fails_the_old_token_serves_to_its_end(source: Counting, clock: Clock) -> None:
    await source.token()
    source.error = Unreachable("down")
    clock.forward(minutes=57)
    assert await secret(source) == "token-1"
    clock.forward(minutes=2, seconds=31)
    with pytest.raises(Unreachable):
        await source.token()


async def test_a_forgotten_token_does_not_come_back_when_renewing_fails(source: Counting, clock: Clock) -> None:
    await source.token()
    source.error = Unreachable("down")
    clock.forward(minutes=57)
    source.gate.clear()
    asking = asyncio.create_task(source.token())
    await asyncio.sleep(0.01)
    source.forget()
    source.gate.set()
    with pytest.raises(Unreachable):
        await asking


async def test_a_token_refused_for_good_is_not_replaced_by_the_old_one(source: Counting, clock: Clock) -> None:
    await source.token()
    source.error = Refused("invalid_grant", "revoked.", "Connect it again.")
    clock.forward(minutes=57)
    with pytest.raises(Refused, match="revoked"):
        await source.token()


async def test_a_fetch_that_does_not_end_is_given_up(clock: Clock) -> None:
    source = Counting(clock, fetch_s_max=0.05)
    source.gate.clear()
    with pytest.raises(Unreachable, match=r"0\.05 s"):
        await source.token()
    source.gate.set()
    source.fetch_s_max = 30
    assert await secret(source) == "token-2"


def test_a_token_does_not_show_its_secret() -> None:
    token = AccessToken(secret="ya29.secret", expires_at=BEGIN)
    assert "ya29" not in f"{token} {token!r}"
