"""Which region a workspace is in: stored in the home database permanently, and without personal data."""

import asyncio
from collections.abc import Awaitable

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.errors import FairpostError, Refusal, Unknown
from fairpost.model.names import WORKSPACE_NAME
from fairpost.model.reason import Reason
from fairpost.store.directory import place, placements, region_of
from fairpost.store.store import Store
from tests.regions.conftest import Regions


async def test_a_workspace_is_placed_once_and_found_again(store: Store) -> None:
    await place(store, "acme", region="eu")
    await place(store, "acme", region="eu")
    assert await region_of(store, "acme") == "eu"
    with pytest.raises(Refusal, match=r"workspace\.placed_elsewhere"):
        await place(store, "acme", region="us")
    assert await region_of(store, "acme") == "eu"
    with pytest.raises(Unknown) as error:
        await region_of(store, "nobody")
    assert error.value.reason == Reason("region.unknown", workspace="nobody")


async def test_ten_who_place_it_at_once_agree(store: Store) -> None:
    names = ["eu", "us"] * 5
    done = await asyncio.gather(*(place(store, "acme", region=name) for name in names), return_exceptions=True)
    lives_in = await region_of(store, "acme")
    assert [each is None for each in done] == [name == lives_in for name in names]


async def test_they_are_listed_by_name_and_page(store: Store) -> None:
    for name, region in (("b", "us"), ("a", "eu"), ("c", "eu")):
        await place(store, name, region=region)
    assert [p.workspace for p in await placements(store)] == ["a", "b", "c"]
    assert [p.workspace for p in await placements(store, region="eu")] == ["a", "c"]
    assert [p.workspace for p in await placements(store, after="a", most=1)] == ["b"]


@settings(max_examples=30)
@given(st.one_of(st.emails(), st.text(max_size=120), st.from_regex(WORKSPACE_NAME, fullmatch=True)))
def test_no_address_is_a_workspace_here_and_the_database_says_the_same(regions: Regions, name: str) -> None:
    async def is_taken() -> tuple[bool, bool]:
        async with Store.open(regions.home_url, connections_max=1) as home:
            by_database = await succeeds(home.value("SELECT fairpost.place_workspace($1, 'eu')", name))
            return by_database, await succeeds(place(home, name, region="eu"))

    wanted = WORKSPACE_NAME.fullmatch(name) is not None
    assert not (wanted and "@" in name)
    assert asyncio.run(is_taken()) == (wanted, wanted)


async def succeeds(work: Awaitable[object]) -> bool:
    try:
        await work
    except (FairpostError, asyncpg.PostgresError):
        return False
    return True
