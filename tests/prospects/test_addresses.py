"""Addresses as people write them, compared with the database's own rule, and which of them are the same."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.email import Mailbox
from fairpost.prospects.addresses import parse, parse_exactly
from tests.thorough import times

# ── one address ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "address", "name"),
    [
        ("ann@example.com", "ann@example.com", None),
        ("  Ann.Lee+x@EXAMPLE.com\t", "Ann.Lee+x@example.com", None),
        ("\xa0ann@example.com\r\n", "ann@example.com", None),
        ("Ann Lee <ann@example.com>", "ann@example.com", "Ann Lee"),
        (' "Lee, \\"Ann\\"" <ann@Example.com> ', "ann@example.com", 'Lee, "Ann"'),
        ("<ann@example.com>", "ann@example.com", None),
        ("mailto:ann@example.com", "ann@example.com", None),
        ("MAILTO:ann%2Bx@example.com?subject=Hi", "ann+x@example.com", None),
        ("Ann <mailto:ann@example.com>", "ann@example.com", "Ann"),
        ("o'neil@example.com", "o'neil@example.com", None),
        ("root@localhost", "root@localhost", None),
        ("jörg@müller.example", "jörg@müller.example", None),
        ("ann@a--b.example", "ann@a--b.example", None),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, address: str, name: str | None) -> None:
    assert parse(text) == Mailbox(address=address, name=name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nobody",
        "@",
        "ann@",
        "@example.com",
        "ann@example",
        "ann@@example.com",
        "ann@example.com, bob@example.com",
        "ann@example.com;bob@example.com",
        "ann lee@example.com",
        ".ann@example.com",
        "ann..lee@example.com",
        "ann@-example.com",
        "ann@exa_mple.com",
        "ann@example.com.",
        "ann\u200b@example.com",
        "ann\0@example.com",
        "ann\udce4@example.com",
        "Ann <ann@example.com",
        "Ann\n<ann@example.com>",
        "mailto:",
        "mailto:%ff@example.com",
        "a" * 65 + "@example.com",
        "a@" + "b" * 64 + ".com",
        "a@" + "b." * 130 + "com",
    ],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    assert parse(text) is None


SIGNS = st.sampled_from('abAZ09.-_+@@<> "\\,:;()[]\x01\x7f\xa0\xad\u200b\u200d\u2028\ufeffäÄıİſK\U0001f600')
NEAR = st.one_of(
    st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=80),
    st.text(SIGNS, max_size=40),
    st.builds("{}@{}".format, st.text(SIGNS, max_size=70), st.text(SIGNS, max_size=10)),
    st.builds("{}@{}.com".format, st.text(SIGNS, min_size=1, max_size=6), st.text(SIGNS, min_size=1, max_size=6)),
    st.builds("{} <{}@b.c>".format, st.text(SIGNS, max_size=10), st.text("ab.", max_size=5)),
    st.builds('{}"{}"{}<a@b.c>'.format, st.text(" ", max_size=2), st.text(SIGNS, max_size=8), st.text(" ", max_size=2)),
    st.builds(
        "{}@{}".format, st.text("aä", max_size=66), st.lists(st.text("bä", max_size=65), max_size=5).map(".".join)
    ),
    st.emails(),
)
BOUNDARIES = [
    "a" * 64 + "@b.c",
    "ä" * 32 + "@b.c",
    "ä" * 33 + "@b.c",
    "a@" + "b" * 63 + ".c",
    "a@" + "ä" * 63 + ".c",
    "a@" + "b." * 125 + "c",
    "a@" + "b." * 126 + "c",
    '"' + "n" * 256 + '" <a@b.c>',
    '"' + "n" * 257 + '" <a@b.c>',
    '"' + '\\"' * 256 + '"<a@b.c>',
    " " * 5_000 + "<a@b.c>" + " " * 5_000,
    'x"y" <a@b.c>',
    '"" <a@b.c>',
    "a@localhost",
    "a@LOCALHOST",
    "a@b.c\n",
    "a\u200d@b.c",
]


async def judged(conn: Any, texts: list[str]) -> list[Mailbox | None]:
    sql = "SELECT array_agg(fairpost.parse_address(to_jsonb(t)) ORDER BY n) FROM unnest($1::text[]) WITH ORDINALITY x(t, n)"
    answers = [json.loads(answer) if answer else None for answer in await conn.fetchval(sql, texts)]
    return [answer and Mailbox(**answer) for answer in answers]


async def test_the_rule_is_that_of_the_database_at_its_edges(conn: Any) -> None:
    assert [parse_exactly(text) for text in BOUNDARIES] == await judged(conn, BOUNDARIES)


async def test_the_rule_is_that_of_the_database_character_by_character(conn: Any) -> None:
    letters = [chr(point) for point in (*range(1, 0x3100), *range(0xF900, 0x10100))]
    for shape in ("a{}b@c.d", "a@b{}c.d", "{}<a@b.c>"):
        texts = [shape.format(letter) for letter in letters]
        answers = await judged(conn, texts)
        assert [text for text, answer in zip(texts, answers, strict=True) if parse_exactly(text) != answer] == []


@settings(max_examples=times(30))
@given(st.lists(NEAR, min_size=10, max_size=40))
async def test_the_rule_is_that_of_the_database(conn: Any, texts: list[str]) -> None:
    assert [parse_exactly(text) for text in texts] == await judged(conn, texts)


@settings(max_examples=times(30))
@given(st.lists(NEAR | st.builds("mailto:{}".format, NEAR), min_size=5, max_size=20))
async def test_a_parsed_address_is_also_valid_in_the_database(conn: Any, texts: list[str]) -> None:
    found = [mailbox.address for text in texts if (mailbox := parse(text))]
    if found:
        assert await judged(conn, found) == [Mailbox(address=address) for address in found]


@given(
    st.from_regex(
        r"[A-Za-z0-9_+-]{1,9}(\.[a-z]{1,5})?@([A-Za-z0-9]{1,5}-{0,2}[a-z0-9]\.){1,3}[a-zA-Z]{1,9}", fullmatch=True
    )
)
def test_the_short_way_and_the_long_one_lead_to_the_same(text: str) -> None:
    assert parse(text) == parse_exactly(text) is not None


@pytest.mark.timeout(120)  # an algorithm that is not linear takes hours
@pytest.mark.parametrize("part", [" ", '"', "\\", "<", "a.", "@", "-", '\\"', "mailto:", "a-", "."])
def test_no_text_takes_long(part: str) -> None:
    for text in (part * 100_000, f'"{part * 100_000}', f"{part * 100_000}<", f"a@{part * 100_000}"):
        assert parse(text) is None
