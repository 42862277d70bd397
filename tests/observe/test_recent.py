"""What looks found, kept for a moment: asked for once, however many ask; and never more of it than there is room for."""

import asyncio

from fairpost.observe.recent import Recents


async def test_however_many_ask_one_looks_for_each_name() -> None:
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
