"""When two addresses are the same: the database's rules, compared with Python's tables and its IDNA."""

import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import idna
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

UNICODE = unicodedata.ucd_3_2_0  # the same in every Python


def assigned() -> list[str]:
    """Letters, marks, digits and symbols, and some of the thousands of Chinese and Korean characters."""
    every = (chr(point) for point in range(0x80, sys.maxunicode + 1) if not 0xD800 <= point < 0xE000)
    return [
        c
        for c in every
        if UNICODE.name(c, "")
        and not (UNICODE.name(c).startswith(("CJK UNIFIED", "CJK COMPAT", "HANGUL SYLLABLE")) and ord(c) % 97)
    ]


async def folded(conn: Any, addresses: Sequence[str]) -> list[str]:
    sql = (
        "SELECT array_agg(fairpost.normalize_address(a) ORDER BY n) FROM unnest($1::text[]) WITH ORDINALITY AS x(a, n)"
    )
    return list(await conn.fetchval(sql, list(addresses)))


def as_idna(domain: str) -> str | None:
    try:
        return idna.encode(domain, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann@müller.example", "ANN@XN--MLLER-KVA.EXAMPLE"),
        ("ann@MÜLLER.Example", "ann@xn--mller-kva.example"),
        ("ann@mu\u0308ller.example", "ann@müller.example"),
        ("ann@faß.example", "ann@xn--fa-hia.example"),
        ("ann@пример.рф", "ann@xn--e1afmkfd.xn--p1ai"),
        ("ann@例え。テスト", "ann@xn--r8jz45g.xn--zckzah"),
        ("ann@ｅｘａｍｐｌｅ.test", "ann@example.test"),
        ("JÖRG@there.test", "jörg@there.test"),
        ("jo\u0308rg@there.test", "JÖRG@there.test"),
        ("GROẞ@there.test", "groß@there.test"),
        ("ΟΔΟΣ@there.test", "οδος@there.test"),
        ("ΟΔΟΣ@there.test", "οδοσ@there.test"),
        ("İSMAİL@there.test", "ismail@there.test"),
        ("ISPARTA@there.test", "ısparta@there.test"),
        ("İSMAİL@there.test", "İSMAİL@there.test".lower()),
        ("ДМИТРИЙ@there.test", "дмитрий@there.test"),
        ("ԱՐՄԵՆ@there.test", "արմեն@there.test"),
        ("ᏣᎳᎩ@there.test", "ᏣᎳᎩ@there.test".lower()),
    ],
)
async def test_these_are_one_address(conn: Any, one: str, other: str) -> None:
    first, second = await folded(conn, [one, other])
    assert first == second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann@muller.example", "ann@müller.example"),
        ("jorg@there.test", "jörg@there.test"),
        ("strasse@there.test", "straße@there.test"),
        ("ann@fass.example", "ann@faß.example"),
        ("ann@οδος.example", "ann@οδοσ.example"),
        ("a.b@there.test", "ab@there.test"),
        ("ann+x@there.test", "ann@there.test"),
    ],
)
async def test_these_are_two(conn: Any, one: str, other: str) -> None:
    first, second = await folded(conn, [one, other])
    assert first != second


async def test_every_letter_of_a_domain_is_mapped_as_idna_maps_it(conn: Any) -> None:
    known = [(domain, code) for c in assigned() for domain in (f"a{c}b.example",) if (code := as_idna(domain))]
    assert len(known) > 8_000
    found = await folded(conn, [f"x@{domain}" for domain, _ in known])
    wrong = [domain for (domain, code), got in zip(known, found, strict=True) if got != f"x@{code}"]
    assert wrong == []


async def test_no_letter_has_two_cases(conn: Any) -> None:
    """Except those whose other case is two letters: for a server, ß and SS are not the same."""
    pairs = [(c, other) for c in assigned() for other in {c.lower(), c.upper()} - {c} if len(other) == 1 or c == "İ"]
    assert len(pairs) > 1_500
    small = await folded(conn, [f"{c}@there.test" for c, _ in pairs])
    large = await folded(conn, [f"{other}@there.test" for _, other in pairs])
    assert [pair for pair, a, b in zip(pairs, small, large, strict=True) if a != b] == []


ANY = st.characters(min_codepoint=1, exclude_categories=["Cs"])
LABELS = st.text(st.characters(min_codepoint=33, exclude_categories=("Cs", "Cn", "Co")), min_size=1, max_size=40)


@given(label=LABELS)
@example(label="ü")
@example(label="bücher-und-straßen")
@example(label="\U0010ffff" * 60)
async def test_punycode_is_what_python_says(conn: Any, label: str) -> None:
    if label.isascii():
        return
    assert await conn.fetchval("SELECT fairpost.punycode($1)", label) == label.encode("punycode").decode("ascii")


@given(st.text(ANY, max_size=60))
@example("ΑΣ\u0345@ΑΣ\u0345")
@example("@")
@example("ǅ@ǅ.ǅ")
async def test_normalizing_is_idempotent(conn: Any, text: str) -> None:
    (once,) = await folded(conn, [text])
    assert await folded(conn, [once]) == [once]


@given(st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=60))
async def test_ascii_is_folded_by_its_lower_case_alone(conn: Any, text: str) -> None:
    assert await folded(conn, [text]) == [text.lower()]


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
async def test_the_other_case_of_a_label_is_the_same_domain(conn: Any, one: str, two: str) -> None:
    domain = f"{one}.{two}.example"
    code = as_idna(domain)
    if code is None:
        return
    assert await folded(conn, [f"x@{domain}", f"x@{code}", f"x@{code.upper()}"]) == [f"x@{code}"] * 3
