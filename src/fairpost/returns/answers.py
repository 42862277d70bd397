"""Extracts a person's answer: the name, the time, the thread, the text without the quoted part, and HTML that is safe
to show.

Attachments and images are left in the mailbox.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import nh3

from fairpost.model.conversation import Answer
from fairpost.returns.addresses import addresses_in
from fairpost.returns.mail import Headers, Mail, decoded_words, read_mail, text_of_html
from fairpost.returns.notices import sender_of
from fairpost.returns.quotes import written

TEXT_CHARS_MAX = 50_000
HTML_CHARS_MAX = 100_000
SUBJECT_CHARS_MAX = 998
NAME_CHARS_MAX = 256
RECIPIENTS_MAX = 20
REFERENCES_MAX = 20

# fmt: off
_TAGS = {
    "a", "b", "blockquote", "br", "code", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p", "pre", "s", "span",
    "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul",
}
# fmt: on
_ATTRIBUTES = {"a": {"href"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan"}}
_SCHEMES = {"http", "https", "mailto"}
# Where mail programs begin the quoted part: Gmail, Apple Mail and Thunderbird, Outlook, Yahoo.
_QUOTE = re.compile(
    r"""<(?:blockquote\b|div\b[^<>]{0,300}\b(?:gmail_quote|moz-cite-prefix|divRplyFwdMsg|appendonsend|yahoo_quoted))""",
    re.IGNORECASE,
)
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,900}>")


def read_answer(raw: bytes) -> Answer:
    mail = read_mail(raw)
    headers = mail.headers
    text, html = written(mail.text), _html(mail)
    return Answer(
        from_name=_line(_name(headers["from"]))[:NAME_CHARS_MAX],
        from_address=_line(sender_of(mail)),
        to_addresses=_recipients(headers),
        subject=_line(headers.decoded("subject"))[:SUBJECT_CHARS_MAX],
        sent_at=_moment(headers["date"]),
        message_id=_first_id(headers["message-id"]),
        in_reply_to=_first_id(headers["in-reply-to"]),
        references=tuple(dict.fromkeys(_MESSAGE_ID.findall(headers["references"])))[-REFERENCES_MAX:],
        text=text[:TEXT_CHARS_MAX],
        html=safe_html(html[:HTML_CHARS_MAX]) if html else None,
        is_cut=len(text) > TEXT_CHARS_MAX or len(html) > HTML_CHARS_MAX,
    )


def safe_html(source: str) -> str:
    """Returns HTML that contains only text and links, runs no code and loads nothing."""
    return nh3.clean(source, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=_SCHEMES)


def _html(mail: Mail) -> str:
    """Returns the HTML without the quoted part, unless nothing else would remain."""
    html = next((part.text() for part in mail.of_kind("text/html")), "")
    quote = _QUOTE.search(html)
    own = html[: quote.start()] if quote else html
    return own if text_of_html(own).strip() else html


def _line(text: str) -> str:
    return " ".join(text.split())


def _name(value: str) -> str:
    """Returns the display name in a From field, or ""."""
    name, bracket, _ = decoded_words(value).rpartition("<")
    return name.strip().strip('"').replace('\\"', '"') if bracket else ""


def _recipients(headers: Headers) -> tuple[str, ...]:
    found = addresses_in(f"{headers['to']}, {headers['cc']}")
    return tuple(found[:RECIPIENTS_MAX])


def _first_id(value: str) -> str | None:
    found = _MESSAGE_ID.search(value)
    return found[0] if found else None


def _moment(value: str) -> datetime | None:
    """Returns the Date field in UTC."""
    try:
        found = parsedate_to_datetime(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
