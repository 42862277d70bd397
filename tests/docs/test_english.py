"""Prose follows plain English and the glossary: the exceptions in english.json may only shrink."""

from tests.docs.english import allowed, counts, found_in


def test_no_file_has_more_banned_phrases_than_english_json_excuses() -> None:
    limits = allowed()
    grown = {name: count for name, count in counts().items() if count > limits.get(name, 0)}
    assert grown == {}, "rewrite these sentences: python -m tests.docs.english --show lists them"


def test_phrases_are_found_in_prose_and_in_names() -> None:
    assert [phrase for _, phrase in found_in("Nobody waits.\ndef test_nobody_waits")] == ["Nobody", "nobody"]
    assert [line for line, _ in found_in("one\nwhat is late is dropped")] == [2]


def test_words_that_only_contain_a_phrase_are_no_phrase() -> None:
    assert list(found_in("The anewton is outstanding, of course; Outlook and this.")) == []
