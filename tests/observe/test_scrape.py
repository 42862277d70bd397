"""Serving figures: at most one read per second, and an unavailable database does not stop the server."""

import asyncio
from datetime import UTC, datetime, timedelta

from starlette.requests import Request

from fairpost.observe.scrape import Scrapes
from fairpost.system import clock

REQUEST = Request({"type": "http", "method": "GET", "path": "/metrics", "headers": []})


async def test_many_requests_share_one_read_per_second() -> None:
    looks = 0

    async def look() -> bytes:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return f"look {looks}".encode()

    scrapes = Scrapes(look)
    with clock.stopped_at(datetime(2030, 1, 1, tzinfo=UTC)) as time:
        assert set(await asyncio.gather(*(scrapes.page() for _ in range(20)))) == {b"look 1"}
        time.advance(timedelta(seconds=0.9))
        assert await scrapes.page() == b"look 1"
        time.advance(timedelta(seconds=0.2))
        assert await scrapes.page() == b"look 2"


async def test_a_database_that_is_away_is_said_and_asked_again() -> None:
    is_away = True

    async def look() -> bytes:
        if is_away:
            raise ConnectionRefusedError("nobody listens")
        return b"here"

    scrapes = Scrapes(look)
    answer = await scrapes.answer(REQUEST)
    assert answer.status_code == 503
    assert b"nobody listens" in bytes(answer.body)
    is_away = False
    assert (await scrapes.answer(REQUEST)).status_code == 200
