"""Cached results: read once, however many callers ask, and limited in number."""

import asyncio

import pytest

from fairpost.observe.recent import KEPT_S_MAX, Recent, Recents
from fairpost.system import clock


async def test_a_look_that_took_long_is_kept_for_longer_and_not_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    recent: Recent[float] = Recent(kept_s=1.0, cost_max=0.1)
    now_s = 0.0
    monkeypatch.setattr(clock, "monotonic", lambda: now_s)

    async def look(took_s: float) -> float:
        nonlocal now_s
        now_s += took_s
        return now_s

    assert await recent.look(lambda: look(0.25)) == 0.25
    now_s = 2.7
    assert await recent.look(lambda: look(20)) == 0.25
    now_s = 2.75
    assert await recent.look(lambda: look(20)) == 22.75
    now_s = 22.75 + KEPT_S_MAX
    assert await recent.look(lambda: look(0)) == now_s


async def test_concurrent_requests_for_a_name_share_one_read() -> None:
    recents, looks = Recents(kept_s=60.0, kept_max=10), 0

    async def look() -> int:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return looks

    assert await asyncio.gather(*(recents.look("a", look) for _ in range(50))) == [1] * 50
    assert await recents.look("b", look) == 2
    assert await recents.look("a", look) == 1


async def test_names_without_end_take_no_more_room_and_those_in_use_stay() -> None:
    recents, looks = Recents(kept_s=60.0, kept_max=10), 0

    async def look() -> int:
        nonlocal looks
        looks += 1
        return looks

    for n in range(5_000):
        assert await recents.look("in use", look) == 1
        await recents.look(f"name {n}", look)
        assert len(recents) <= 10
