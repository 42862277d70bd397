"""HTML character references such as `&amp;`."""

import html
import re

_LONG_NUMBER = re.compile(r"&#(?:[0-9]{9,}|[xX][0-9a-fA-F]{9,});?")


def unescaped(text: str) -> str:
    """Decodes character references. References with too many digits are removed first, because the library raises an
    exception for them.
    """
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))
