"""The plain-text version of an e-mail that has only HTML."""

import re

HTML_CHARS_MAX = 500_000  # converting this much takes half a second; mail programs truncate HTML at much smaller sizes
EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")


def text_of(html: str) -> str:
    """Returns the visible text with link targets, or an empty string if nothing is visible."""
    if not html or html.isspace():
        return ""
    from inscriptis import get_text  # this import loads lxml, which takes 40 ms and which most workers do not need
    from inscriptis.model.config import ParserConfig

    readable = html[:HTML_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")
    try:
        text = get_text(readable, ParserConfig(display_links=True, display_images=True))
    except Exception:  # the HTML can be sent even if it cannot be parsed
        return ""
    return EMPTY_LINES.sub("\n\n", text).strip("\n").rstrip()
