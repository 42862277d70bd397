"""The unsubscribe link added to a campaign e-mail whose template has none."""

import re

FIELD = "unsubscribe_url"
TEXT = "\n\n---\nUnsubscribe: {{ unsubscribe_url }}\n"
HTML = (
    '<p style="margin:32px 0 0;font-family:sans-serif;font-size:12px;line-height:18px;color:#666666">'
    '<a href="{{ unsubscribe_url }}" style="color:#666666">Unsubscribe</a></p>'
)
_END = re.compile(r"</body\s*>|</html\s*>", re.IGNORECASE)


def names_link(*parts: str | None) -> bool:
    """Returns whether one of the parts contains the link."""
    return any(FIELD in part for part in parts if part)


def with_footer(text: str | None, html: str | None) -> tuple[str | None, str | None]:
    """Returns the templates with the link added to each part that has none."""
    if text is not None and not names_link(text):
        text = text.rstrip("\n") + TEXT
    if html is not None and not names_link(html):
        end = _END.search(html)
        at = end.start() if end else len(html)
        html = html[:at] + HTML + html[at:]
    return text, html
