"""Styles, moved from a layout's block into attributes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.portals.markup import elements, masked
from fairpost.portals.styles import inlined


def styled(css: str, body: str) -> str:
    return (
        inlined(f"<html><head><style>{css}</style></head><body>{body}</body></html>")
        .partition("<body>")[2]
        .partition("</body>")[0]
    )


@pytest.mark.parametrize(
    ("css", "body", "result"),
    [
        ("p { color: red }", "<p>a</p>", '<p style="color: red">a</p>'),
        ("p, b { color : red ; }", "<p><b>a</b></p>", '<p style="color: red"><b style="color: red">a</b></p>'),
        (".x { color: red }", '<p class="y x">a</p><p class="y">b</p>', '<p style="color: red">a</p><p>b</p>'),
        ("p.x { color: red }", '<b class="x">a</b>', "<b>a</b>"),
        (".x { color: red } p { color: blue }", '<p class="x">a</p>', '<p style="color: red">a</p>'),
        ("p.x { color: red } .x { color: blue }", '<p class="x">a</p>', '<p style="color: red">a</p>'),
        (".x { color: red } .y { color: blue }", '<p class="y x">a</p>', '<p style="color: blue">a</p>'),
        (".x.y { color: red } .y { color: blue }", '<p class="y x">a</p>', '<p style="color: red">a</p>'),
        ("p { color: red }", '<p style="color: blue; margin: 0">a</p>', '<p style="color: blue; margin: 0">a</p>'),
        ("p { padding: 1px; padding-top: 2px } .x { padding: 3px }", '<p class="x">a</p>', '<p style="padding-top: 2px; padding: 3px">a</p>'),
        ("/* p { color: red } */ p { margin: 0\n 1px }", "<p>a</p>", '<p style="margin: 0 1px">a</p>'),
        ("p { font-family: 'A B', serif }", "<p>a</p>", "<p style=\"font-family: 'A B', serif\">a</p>"),
        ("br { clear: both }", "a<br/>b<br>", 'a<br style="clear: both"/>b<br style="clear: both">'),
        ("p { color: red }", "<!-- <p> --><P>a</P>", '<!-- <p> --><P style="color: red">a</P>'),
        ("td { color: red }", "<table>{% if a %}<tr><td>{{ a }}</td></tr>{% endif %}</table>", '<table>{% if a %}<tr><td style="color: red">{{ a }}</td></tr>{% endif %}</table>'),
        ("a { color: red }", '<a href="{{ a or "<p>" }}" title="x">{{ "<a>" }}</a>', '<a href="{{ a or "<p>" }}" title="x" style="color: red">{{ "<a>" }}</a>'),
        ("a { color: red }", '{# <a href="x"> #}<a class="b" href="{{ a }}">x</a>', '{# <a href="x"> #}<a href="{{ a }}" style="color: red">x</a>'),
    ],
)  # fmt: skip
def test_a_rule_becomes_an_attribute(css: str, body: str, result: str) -> None:
    assert styled(css, body) == result


def test_without_a_block_only_the_classes_go() -> None:
    assert inlined('<p class="x" title="y">a</p>') == '<p title="y">a</p>'


def test_the_block_is_gone() -> None:
    assert inlined("<head>\n<style>\np { color: red }\n</style>\n</head>") == "<head>\n</head>"


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>{}\"'\ufdd0\ufdd1\ufdd2"), max_size=8)
tags = st.sampled_from(["{{ a }}", '{{ a or "<p>" }}', "{% if a %}", "{% else %}", "{# <p> #}", "<p>", '<p class="x">', "</p>", '<a href="{{ a or "x" }}">', "<!-- <p> -->"])  # fmt: skip


@given(st.lists(st.one_of(words, tags), max_size=12).map("".join))
def test_words_and_template_tags_stay_unchanged(body: str) -> None:
    after = styled("p { color: red } .x { margin: 0 }", body)
    assert after.replace(' style="color: red; margin: 0"', ' class="x"').replace(' style="color: red"', "") == body
    assert [each.name for each in elements(masked(after))] == [each.name for each in elements(masked(body))]
