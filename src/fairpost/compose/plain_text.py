"""The text of an e-mail that has only html."""

import re

HTML_CHARS_MAX = 500_000  # half a second of work; mail readers cut html off far earlier
EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")


def text_of(html: str) -> str:
    """What a reader would see, with the targets of links. Empty where there is nothing to see."""
    if not html or html.isspace():
        return ""
    from inscriptis import get_text  # with lxml, 40 ms that most workers never need
    from inscriptis.model.config import ParserConfig

    readable = html[:HTML_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")
    try:
        text = get_text(readable, ParserConfig(display_links=True, display_images=True))
    except Exception:  # whatever the parser chokes on, the html itself can still be sent
        return ""
    return EMPTY_LINES.sub("\n\n", text).strip("\n").rstrip()
