"""Words in the layout of their portal: where they go, what a layout may not do to them, and where in them a problem is.

A layout is filled in once with all that is the portal's. What is left are its slots, each a mark that no file has.
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
    """Of a layout with the portal's values in it."""
    mistakes = []
    if filled.count(SLOT["content"]) != 1:
        mistakes.append("write {{ content }} once, where the words of each e-mail go")
    if OPENING.search(filled) or re.search(r"\{\ufdd0", filled):
        mistakes.append("a brace before a value looks like a template's: put a space between")
    elif part == "html":
        found = markup.problems_of(Source("", filled), urls=frozenset())
        mistakes += [f"with what portal.toml says: {problem.message}" for problem in found]
        if any(SLOT["content"] in filled[each.start : each.end] for each in markup.elements(filled)):
            mistakes.append("{{ content }} cannot stand within a tag")
    return mistakes


def in_layout(layout: str, words: Mapping[str, str]) -> str:
    for name, text in words.items():
        layout = layout.replace(SLOT[name], text)
    return layout


def escape_words(words: str) -> str:
    """Plain words as html. What stands in their braces stays: the engine escapes what is printed there."""
    pieces, at = [], 0
    for tag in markup.template_tags(words):
        pieces += [html.escape(words[at : tag.start]), tag.text]
        at = tag.end
    return "".join([*pieces, html.escape(words[at:])])


def placed(words: Source, before: str, problem: Problem) -> Problem:
    """A problem of words in their layout, at their own place. `before`: what the layout has there before them."""
    message = f"in the portal's layout: {problem.message}"
    blank_lines = len(words.text) - len(words.text.lstrip("\n"))  # left out in the layout
    first_line, indent = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    line = problem.line - first_line + 1
    column = problem.column - (indent if line == 1 else 0)
    if line < 1 or column < 1 or line > words.text.strip("\n").count("\n") + 1:
        return words.as_a_whole(message)
    return Problem(words.file, line + blank_lines, column, message)
