"""Inserts content into its portal's layout, checks that layouts keep the content intact, and finds positions in the
content.

A layout is rendered once with the portal's values. Each slot is kept as a mark that cannot occur in any file.
"""

import html
import re
from collections.abc import Mapping, Sequence

from fairpost.portals import markup
from fairpost.portals.declared import SLOTS
from fairpost.portals.folder import Problem, Source
from fairpost.templates.reader import OPENING

SLOT = {name: f"\ufdd0{name}\ufdd0" for name in SLOTS}


def layout_mistakes(filled: str, part: str) -> Sequence[str]:
    """Returns the errors in a layout that already contains the portal's values."""
    mistakes = []
    if filled.count(SLOT["content"]) != 1:
        mistakes.append("write {{ content }} exactly once, where each e-mail's content belongs")
    if OPENING.search(filled) or re.search(r"\{\ufdd0", filled):
        mistakes.append("a brace before a value looks like a template tag: put a space between the two")
    elif part == "html":
        found = markup.problems_of(Source("", filled), urls=frozenset())
        mistakes += [f"with the values in portal.toml: {problem.message}" for problem in found]
        if any(SLOT["content"] in filled[each.start : each.end] for each in markup.elements(filled)):
            mistakes.append("{{ content }} cannot be used inside a tag")
    return mistakes


def in_layout(layout: str, words: Mapping[str, str]) -> str:
    for name, text in words.items():
        layout = layout.replace(SLOT[name], text)
    return layout


def escape_words(words: str) -> str:
    """Escapes plain text as HTML, except inside template tags, because the engine escapes what they print."""
    pieces, at = [], 0
    for tag in markup.template_tags(words):
        pieces += [html.escape(words[at : tag.start]), tag.text]
        at = tag.end
    return "".join([*pieces, html.escape(words[at:])])


def placed(words: Source, before: str, problem: Problem) -> Problem:
    """Moves a problem in the filled layout to its position in the content. `before` is the layout up to the content."""
    message = f"in the portal's layout: {problem.message}"
    blank_lines = len(words.text) - len(words.text.lstrip("\n"))  # the filled layout does not contain these lines
    first_line, indent = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    line = problem.line - first_line + 1
    column = problem.column - (indent if line == 1 else 0)
    if line < 1 or column < 1 or line > words.text.strip("\n").count("\n") + 1:
        return words.as_a_whole(message)
    return Problem(words.file, line + blank_lines, column, message)
