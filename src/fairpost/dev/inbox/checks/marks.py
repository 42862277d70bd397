"""Fields of a template that nobody filled in."""

import re
from urllib.parse import unquote

URL_CHARS_MAX = 2_000

_MARK = re.compile(
    r"\{\{[^{}\n]{0,100}\}\}|\{%[^{}%\n]{1,100}%\}|<%[^<>%\n]{1,100}%>|\*\|[\w:]{1,60}\|\*|\$\{[\w.]{1,60}\}|%%\w{2,40}%%"
)


def mark_in(text: str) -> str | None:
    found = _MARK.search(text)
    return found[0] if found else None


def has_mark(url: str) -> bool:
    return mark_in(unquote(url[:URL_CHARS_MAX])) is not None
