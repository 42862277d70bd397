"""The characters that html writes as `&amp;` and the like."""

import html
import re

_LONG_NUMBER = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")


def unescaped(text: str) -> str:
    """The text with these characters. A number too long for any is taken out first: the library raises on it."""
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))
