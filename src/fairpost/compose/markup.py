"""Corrects the charset declared in HTML, because the HTML is always sent as UTF-8."""

import re

HEAD_CHARS_MAX = 4096  # browsers search about this many characters for the declaration
_CHARSET = re.compile(r"""(<meta\b[^<>]{0,200}?\bcharset\s*=\s*["']?)([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)


def in_utf8(html: str) -> str:
    """Declares UTF-8 in the markup, because some mail programs trust it more than the header."""
    head = html[:HEAD_CHARS_MAX]
    found = _CHARSET.search(head)
    if found is None or found[2].lower() == "utf-8":
        return html
    return html[: found.start(2)] + "utf-8" + html[found.end(2) :]
