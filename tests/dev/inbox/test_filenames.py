"""File names from strangers never lead out of the directory, nor overwrite each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.dev.inbox.filenames import NAME_BYTES_MAX, safe_names


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("Grüße ✓.txt", "Grüße ✓.txt"),
        ("../../x", "x"),
        ("/etc/passwd", "passwd"),
        ("C:\\Windows\\system.ini", "system.ini"),
        ("..\\..\\x", "x"),
        ("a/", "attachment-1"),
        ("..", "attachment-1"),
        (".", "attachment-1"),
        ("", "attachment-1"),
        ("   ", "attachment-1"),
        (".bashrc", "bashrc"),
        ("a\x00b\x1b[2J\r\n.txt", "a_b_[2J__.txt"),
        ("\u202egpj.exe", "_gpj.exe"),
        ('a<b>:"c|d?*.txt', "a_b___c_d__.txt"),
        ("trailing. . ", "trailing"),
        ("NUL", "_NUL"),
        ("com1.txt", "_com1.txt"),
    ],
)
def test_a_name_is_made_safe(name: str, safe: str) -> None:
    assert safe_names([name]) == [safe]


def test_a_long_name_is_cut_and_keeps_its_suffix() -> None:
    (name,) = safe_names(["ü" * 500 + ".pdf"])
    assert name.endswith("ü.pdf")
    assert NAME_BYTES_MAX - 2 <= len(name.encode()) <= NAME_BYTES_MAX


def test_names_that_are_the_same_are_numbered() -> None:
    assert safe_names(["a.txt", "A.TXT", "b/a.txt", "a-2.txt", "", ""]) == [
        *("a.txt", "A-2.TXT", "a-3.txt", "a-2-2.txt", "attachment-5", "attachment-6")
    ]


@given(st.lists(st.text(), max_size=8))
def test_any_names_are_safe_and_differ(names: list[str]) -> None:
    safe = safe_names([name.encode("utf-8", "replace").decode() for name in names])
    assert len({name.casefold() for name in safe}) == len(names)
    for name in safe:
        assert name
        assert not set(name) & set("/\\\x00\n")
        assert name.isprintable()
        assert not name.startswith(".")
        assert len(name.encode()) <= NAME_BYTES_MAX
