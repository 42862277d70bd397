"""Adds the unsubscribe link to a campaign e-mail that does not already show it. The link is added to rendered parts,
because a template may mention the link only in a comment or in a branch that does not apply to this recipient.
"""

import re
from html import escape
from urllib.parse import quote

FIELD = "unsubscribe_url"
TEXT = "\n\n---\nUnsubscribe: {url}\n"
HTML = (
    '<p style="margin:32px 0 0;font-family:sans-serif;font-size:12px;line-height:18px;color:#666666">'
    '<a href="{url}" style="color:#666666">Unsubscribe</a></p>'
)
_END = re.compile(r"</body\s*>|</html\s*>", re.IGNORECASE)


def with_footer(text: str | None, html: str | None, *, url: str) -> tuple[str | None, str | None]:
    """Adds the unsubscribe link to each part that does not contain the link."""
    if text is not None and not _has(text, url):
        text = text.rstrip("\n") + TEXT.format(url=url)
    if html is not None and not _has(html, url):
        end = _END.search(html)
        at = end.start() if end else len(html)
        html = html[:at] + HTML.format(url=escape(url)) + html[at:]
    return text, html


def _has(part: str, url: str) -> bool:
    """Returns whether the part contains the link, perhaps as a parameter of another link."""
    return any(form in part for form in (url, escape(url), quote(url), quote(url, safe="")))
