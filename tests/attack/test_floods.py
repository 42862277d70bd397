"""A key or workspace that sends too many requests is refused, and others are not affected. For addresses, see
tests/api/test_clients.py."""

import asyncio
from collections import Counter

import httpx2 as httpx
import pytest

from tests.api.conftest import Api

pytestmark = pytest.mark.attack

RATE = 10  # per minute
REQUESTS = 3 * RATE


async def flood(client: httpx.AsyncClient) -> Counter[int]:
    answers = await asyncio.gather(*(client.get("/v1/workspace") for _ in range(REQUESTS)))
    return Counter(answer.status_code for answer in answers)


async def test_a_key_that_asks_too_often_is_refused_alone(api: Api) -> None:
    await api.workspace("busy")
    async with api.client("busy", per_minute=RATE) as busy, api.client("busy") as colleague:
        refused, answered = await asyncio.gather(flood(busy), flood(colleague))
    assert answered == {200: REQUESTS}
    assert refused[200] + refused[429] == REQUESTS
    assert RATE <= refused[200] < REQUESTS  # a minute's worth at once, plus what is replenished in the meantime


async def test_many_keys_of_one_workspace_are_no_way_around_its_rate(api: Api) -> None:
    await api.workspace("busy")
    await api.workspace("calm")
    await api.store.value("UPDATE fairpost.workspaces SET per_minute = $1 WHERE name = 'busy'", RATE)
    async with api.client("busy") as one, api.client("busy") as two, api.client("calm") as calm:
        first, second, others = await asyncio.gather(flood(one), flood(two), flood(calm))
    together = first + second
    assert others == {200: REQUESTS}
    assert together[200] + together[429] == 2 * REQUESTS
    assert RATE <= together[200] < 2 * REQUESTS
