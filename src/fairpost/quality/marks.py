"""Finds unfilled template fields."""

import re
from urllib.parse import unquote

URL_CHARS_MAX = 2_000

_MARK = re.compile(
    r"\{\{[^{}\n]{0,100}\}\}|\{%[^{}%\n]{1,100}%\}|<%[^<>%\n]{1,100}%>|\*\|[\w:]{1,60}\|\*|\$\{[\w.]{1,60}\}|%%\w{2,40}%%"
)


def marks_in(text: str) -> list[str]:
    return _MARK.findall(text)


def has_mark(url: str) -> bool:
    return _MARK.search(unquote(url[:URL_CHARS_MAX])) is not None


def name_in(mark: str) -> str:
    """Returns the field name in a mark, without the delimiters around it."""
    return mark.strip("{}<>%*|$ ")
