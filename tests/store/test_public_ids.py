"""Public ids: the same in SQL and in Python, one for each number, and revealing nothing about the number."""

from itertools import pairwise
from random import Random
from statistics import fmean

import asyncpg
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Databases

from fairpost.model.ids import EmailId
from fairpost.model.public_ids import ID_MAX, SIGNS, Kind, Permutation, PublicIds, read, written
from fairpost.store.migrations import migrate
from fairpost.store.store import Store

KEY = bytes(range(32))
IDS = PublicIds(KEY, EmailId(0))
VECTORS = {
    0: "em_079kt5312d80w",
    1: "em_f37gfthx8ab4h",
    2: "em_92pttv712fmsm",
    1861234567890123456: "em_d6kshwcgane53",
}
FIRST = 1861234567890123456  # of consecutive ids
WORDS_64 = st.integers(0, 2**64 - 1)
KEYS = st.binary(min_size=32, max_size=32)

ALIKE = """SELECT fairpost.public_id(n), fairpost.private_id(fairpost.public_id(n)) FROM unnest(%s::bigint[]) n"""


@given(key=KEYS, number=WORDS_64)
def test_every_number_comes_back(key: bytes, number: int) -> None:
    permutation = Permutation(key)
    assert permutation.back(permutation.forth(number)) == number
    assert permutation.forth(permutation.back(number)) == number
    assert read(written(number)) == number
    assert len(written(number)) == 13
    assert set(written(number)) <= set(SIGNS)


def test_ids_that_follow_each_other_have_a_public_id_each() -> None:
    assert len({IDS.email(FIRST + n) for n in range(20_000)}) == 20_000


def test_a_public_id_never_changes() -> None:
    assert {number: IDS.email(number) for number in VECTORS} == VECTORS


@given(number=st.integers(0, ID_MAX))
def test_the_kind_of_an_id_stands_before_it_and_changes_all_of_it(number: int) -> None:
    every = {kind: IDS.public(kind, number) for kind in Kind}
    assert {kind: IDS.private(kind, text) for kind, text in every.items()} == dict.fromkeys(Kind, number)
    assert len({text[3:] for text in every.values()}) == len(Kind)
    assert all(IDS.private(other, text) is None for kind, text in every.items() for other in Kind if other is not kind)


@pytest.mark.parametrize(
    "text",
    [
        *("", "em_", "1", "em_1", "em", "EM_079kt5312d80w", "em_079KT5312D80W", "em_079kt5312d80", "em_079kt5312d80w0"),
        *("em_079kt5312d80u", "em_g79kt5312d80w", "em-079kt5312d80w", " em_079kt5312d80w", "em_079kt5312d80w\n"),
        *("em_079kt5312d80é", "em_٣٣٣٣٣٣٣٣٣٣٣٣٣", "pr_079kt5312d80w", "1861234567890123456"),
    ],
)
def test_an_invalid_public_id_leads_nowhere(text: str, url: str) -> None:
    assert IDS.email_id(text) is None
    with psycopg.connect(url) as db:
        assert db.execute("SELECT fairpost.private_id(%s)", [text]).fetchone() == (None,)


def test_only_where_a_number_may_be_given_it_is_taken() -> None:
    assert IDS.email_id("1861234567890123456") is None
    assert IDS.email_id("1861234567890123456", or_number=True) == 1861234567890123456
    assert IDS.email_id("em_d6kshwcgane53", or_number=True) == 1861234567890123456
    assert [IDS.email_id(text, or_number=True) for text in ("0", "-1", "9223372036854775808", "٣", "1 ")] == [None] * 5


def test_sql_and_python_say_the_same(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        (key,) = db.execute("SELECT key FROM fairpost.public_ids").fetchone() or (b"",)
        ids = PublicIds(bytes(key), EmailId(0))

        @given(numbers=st.lists(st.integers(-(2**63), ID_MAX), min_size=1, max_size=20))
        def compare(numbers: list[int]) -> None:
            rows = db.execute(ALIKE, [numbers]).fetchall()
            assert rows == [(ids.email(n % 2**64), n) for n in numbers]

        compare()
        db.execute("UPDATE fairpost.public_ids SET key = %s", [KEY])
        rows = db.execute(ALIKE, [list(VECTORS)]).fetchall()
        assert rows == [(text, number) for number, text in VECTORS.items()]
        assert db.execute("SELECT fairpost.public_id(NULL), fairpost.private_id(NULL)").fetchone() == (None, None)
        db.execute("UPDATE fairpost.public_ids SET key = %s", [key])


def test_neither_order_nor_distance_shows_through() -> None:
    """For consecutive ids, as many public ids rise as fall, half of their bits change, and their distances look random."""
    public = [read(IDS.email(FIRST + n)[3:]) for n in range(4_000)]
    steps = list(pairwise(public))
    assert 0.45 < fmean(after > before for before, after in steps) < 0.55
    assert 31 < fmean((before ^ after).bit_count() for before, after in steps) < 33
    assert all(0.45 < fmean(number >> bit & 1 for number in public) < 0.55 for bit in range(64))
    distances = [(after - before) % 2**64 for before, after in steps]
    assert len(set(distances)) == len(distances)
    by_size = [distance * 16 >> 64 for distance in distances]
    assert all(0.04 < by_size.count(part) / len(by_size) < 0.085 for part in range(16))


def test_numbers_far_apart_look_no_other_than_neighbours() -> None:
    dice = Random(7)
    near = [(IDS.email(n), IDS.email(n + 1)) for n in (dice.randrange(2**62) for _ in range(2_000))]
    far = [(IDS.email(n), IDS.email(n + 2**61)) for n in (dice.randrange(2**62) for _ in range(2_000))]

    def alike(pairs: list[tuple[str, str]]) -> float:
        return fmean(sum(a == b for a, b in zip(*pair, strict=True)) - 3 for pair in pairs)

    assert abs(alike(near) - alike(far)) < 0.1


# ── the key ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_database_makes_a_key_of_its_own_and_keeps_it(databases: Databases) -> None:
    keys = []
    for _ in range(2):
        with databases.fresh("template1") as url:
            conn = await asyncpg.connect(url)
            await migrate(conn)
            keys += [await conn.fetchval("SELECT key FROM fairpost.public_ids")]
            await migrate(conn)
            assert await conn.fetchval("SELECT key FROM fairpost.public_ids") == keys[-1]
            with pytest.raises(asyncpg.UniqueViolationError):
                await conn.execute("INSERT INTO fairpost.public_ids (key, since) VALUES (sha256('x'), 0)")
            await conn.close()
    assert len(keys[0]) == 32
    assert keys[0] != keys[1]


async def test_an_upgrade_notes_which_emails_may_have_been_begun_under_their_numbers(databases: Databases) -> None:
    with databases.fresh("template1") as url:
        conn = await asyncpg.connect(url)
        await migrate(conn, up_to=28)
        now = "SELECT ((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 20) | 1048575"
        before = await conn.fetchval(now)
        await conn.execute("SELECT pg_sleep(0.01)")
        await migrate(conn)
        await conn.close()
        async with Store.open(url) as store:
            ids = await store.public_ids()
            assert ids.in_headers(EmailId(before)) is None
            assert ids.name_in_headers(EmailId(before)) == f"{before:x}"
            after = EmailId(await store.value("SELECT fairpost.new_id()"))
            assert ids.in_headers(after) == ids.name_in_headers(after) == ids.email(after)


async def test_a_request_makes_public_ids_and_never_sees_the_key(store: Store) -> None:
    tenant = store.of_tenant("acme")
    public = await tenant.value("SELECT fairpost.public_id(7)")
    assert await tenant.value("SELECT fairpost.private_id($1)", public) == 7
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await tenant.value("SELECT key FROM fairpost.public_ids")
    ids = await store.public_ids()
    assert ids.email(7) == public
    assert ids.since < await store.value("SELECT fairpost.new_id()")
    assert str(ids.key) not in repr(ids)
    assert ids.in_headers(EmailId(ids.since - 1)) is None
    assert ids.in_headers(ids.since) == ids.email(ids.since)
