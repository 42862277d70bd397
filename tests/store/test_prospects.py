"""Importing lists of prospects: all or none, each once, merged with existing data."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
from tests.facts import missing

from fairpost.model.errors import NotFound
from fairpost.model.prospect import BadProspectLine, ImportedProspects, ProspectLine
from fairpost.store import prospects
from fairpost.store.prospects import BadProspects, import_prospects
from fairpost.store.store import Store


def line(
    n: int, address: str, *, external_id: str | None = None, timezone: str | None = None, **fields: str
) -> ProspectLine:
    return ProspectLine(line=n, address=address, fields=fields, timezone=timezone, external_id=external_id)


@pytest.fixture
async def conn(url: str) -> AsyncIterator["asyncpg.Connection"]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def bring_in(
    conn: "asyncpg.Connection", *lines: ProspectLine | BadProspectLine, **options: Any
) -> ImportedProspects:
    return await import_prospects(
        conn, lines, **{"workspace": "acme", "list_name": "spring", "skip_bad": False, **options}
    )


def counts(imported: ImportedProspects) -> tuple[int, int, int, int, int]:
    return imported.added, imported.changed, imported.same, imported.duplicates, imported.bad


async def test_each_comes_in_once_and_keeps_what_is_known(conn: "asyncpg.Connection", store: Store) -> None:
    first = await bring_in(
        conn,
        line(2, "Ann@Example.com", first_name="Ann", city="Bonn"),
        line(3, "bob@example.com"),
        line(4, "ANN@example.com"),
    )
    assert counts(first) == (2, 0, 0, 1, 0)
    again = await bring_in(
        conn,
        line(2, "ann@example.com", city="Wien", timezone="Europe/Vienna"),
        line(3, "bob@example.com"),
        line(4, "eve@example.com"),
        list_name="autumn",
    )
    assert counts(again) == (1, 1, 1, 0, 0)
    ann = await prospects.known_by(store, "acme", "aNN@example.COM")
    assert (ann.address, ann.fields, ann.timezone) == (
        "Ann@Example.com",
        {"first_name": "Ann", "city": "Wien"},
        "Europe/Vienna",
    )
    assert ann.lists == ("autumn", "spring")
    assert [(name, n) for name, n, _ in await prospects.lists(store, "acme")] == [("autumn", 3), ("spring", 2)]
    assert [p.address for p in await prospects.listed(store, workspace="acme", list_name="spring", most=9)] == [
        "Ann@Example.com",
        "bob@example.com",
    ]
    assert [p.address for p in await prospects.listed(store, workspace="acme", search="wien", most=9)] == [
        "Ann@Example.com"
    ]


async def test_the_same_person_in_any_script_is_one(conn: "asyncpg.Connection") -> None:
    imported = await bring_in(conn, line(2, "ann@müller.example"), line(3, "ann@xn--mller-kva.example"))
    assert counts(imported) == (1, 0, 0, 1, 0)


async def test_bad_lines_keep_everyone_out_unless_they_are_skipped(conn: "asyncpg.Connection", store: Store) -> None:
    bad = BadProspectLine(line=3, text="x", why="has no e-mail address")
    huge = line(4, "huge@example.com", note="x" * 70_000)
    with pytest.raises(BadProspects) as refused:
        await bring_in(conn, line(2, "ann@example.com"), bad, huge)
    assert [each.line for each in refused.value.imported.bad_lines] == [3, 4]
    assert await prospects.listed(store, workspace="acme", most=9) == []
    assert await prospects.lists(store, "acme") == []
    imported = await bring_in(conn, line(2, "ann@example.com"), bad, huge, skip_bad=True)
    assert counts(imported) == (1, 0, 0, 0, 2)


async def test_an_id_stands_for_one_person(conn: "asyncpg.Connection", store: Store) -> None:
    await bring_in(conn, line(2, "ann@example.com", external_id="7"))
    imported = await bring_in(
        conn,
        line(2, "bob@example.com", external_id="7"),
        line(3, "eve@example.com", external_id="8"),
        line(4, "kim@example.com", external_id="8"),
        line(5, "ann@example.com", external_id="7"),
        skip_bad=True,
    )
    assert counts(imported) == (1, 0, 1, 0, 2)
    first, second = imported.bad_lines
    assert (first.line, missing(first.why, "'7'", "ann@example.com")) == (2, [])
    assert (second.line, missing(second.why, "'8'", "eve@example.com")) == (4, [])
    assert (await prospects.known_by(store, "acme", "eve@example.com")).external_id == "8"


async def test_workspaces_know_nothing_of_each_other(conn: "asyncpg.Connection", store: Store) -> None:
    await bring_in(conn, line(2, "ann@example.com", external_id="7"))
    assert counts(await bring_in(conn, line(2, "ann@example.com", external_id="7"), workspace="other")) == (
        1,
        0,
        0,
        0,
        0,
    )
    with pytest.raises(NotFound):
        await prospects.known_by(store, "third", "ann@example.com")


async def test_two_concurrent_imports_create_no_duplicates(url: str, store: Store) -> None:
    people = [line(i, f"p{i}@example.com") for i in range(2_000)]

    async def one(name: str, lines: list[ProspectLine]) -> ImportedProspects:
        conn = await asyncpg.connect(url)
        try:
            return await bring_in(conn, *lines, list_name=name)
        finally:
            await conn.close()

    done = await asyncio.gather(one("a", people), one("b", people[::-1]))
    assert sum(each.added for each in done) == 2_000
    assert [(name, n) for name, n, _ in await prospects.lists(store, "acme")] == [("a", 2_000), ("b", 2_000)]


async def test_a_removed_prospect_is_on_no_list(conn: "asyncpg.Connection", store: Store) -> None:
    await bring_in(conn, line(2, "ann@example.com"))
    ann = await prospects.known_by(store, "acme", "ann@example.com")
    await prospects.pause(store, ann, is_paused=True)
    assert (await prospects.known_by(store, "acme", "ann@example.com")).is_paused
    await prospects.remove(store, [ann])
    assert [(name, n) for name, n, _ in await prospects.lists(store, "acme")] == [("spring", 0)]


async def test_an_import_that_is_cut_off_leaves_nothing(conn: "asyncpg.Connection", store: Store) -> None:
    def lines() -> Iterator[ProspectLine]:
        yield from (line(n, f"p{n}@example.com") for n in range(5_000))
        conn.terminate()
        yield line(5_000, "last@example.com")

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError)):
        await import_prospects(conn, lines(), workspace="acme", list_name="spring", skip_bad=False)
    assert await prospects.listed(store, workspace="acme", most=9) == []
    assert await prospects.lists(store, "acme") == []
