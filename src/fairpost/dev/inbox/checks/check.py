"""What is good and what is bad about a mail, before it goes to people. Pure, never raises, and bounded whatever the mail is.

It says what can be seen in the mail itself. Nothing is asked of anybody: no link is opened, no signature is verified.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairpost.dev.inbox.checks.findings import Finding, cut, note
from fairpost.dev.inbox.checks.head import check_bytes, check_date, check_message_id, check_sender, check_subject
from fairpost.dev.inbox.checks.links import TEXT_CHARS_MAX, FoundLink, check_links, is_web, links_of_text
from fairpost.dev.inbox.checks.marks import URL_CHARS_MAX
from fairpost.dev.inbox.checks.trust import check_authentication, check_unsubscribe
from fairpost.dev.inbox.checks.words import check_images, check_marks, check_parts
from fairpost.dev.inbox.markup import HTML_CHARS_MAX, IMAGES_MAX, LINKS_MAX, Markup, read_markup
from fairpost.dev.inbox.reading import HEADERS_MAX, PARTS_MAX, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    findings: tuple[Finding, ...]
    links: tuple[FoundLink, ...]


def check(raw: bytes, reading: Reading) -> Checked:
    """`reading` is what `read` made of the same bytes."""
    markup = read_markup(reading.html or "")
    hrefs = [FoundLink(url=link.url, text=link.text, part="html") for link in markup.links]
    links = [*hrefs, *links_of_text(reading.text or "")]
    findings = (
        *check_sender(reading),
        *check_date(reading),
        *check_message_id(reading),
        *check_subject(reading),
        *check_bytes(raw, reading),
        *check_parts(reading),
        *check_links(links),
        *check_marks(reading, markup, links),
        *check_images(reading, markup),
        *check_unsubscribe(reading),
        *check_authentication(reading),
        *_limits(reading, markup, links),
    )
    shown = (
        FoundLink(url=cut(link.url, URL_CHARS_MAX), text=link.text, part=link.part)
        for link in links
        if is_web(link.url)
    )
    return Checked(findings=findings, links=tuple(shown))


def _limits(reading: Reading, markup: Markup, links: Sequence[FoundLink]) -> Iterator[Finding]:
    in_text = sum(link.part == "text" for link in links)
    if markup.is_cut:
        yield note(
            "limits",
            f"Only the first {HTML_CHARS_MAX:,} characters, {LINKS_MAX:,} links and {IMAGES_MAX:,} images of the html were checked. Make it shorter.",
        )
    if in_text == LINKS_MAX or len(reading.text or "") > TEXT_CHARS_MAX:
        yield note(
            "limits",
            f"Only the first {TEXT_CHARS_MAX:,} characters and {LINKS_MAX:,} links of the text were checked. Make it shorter.",
        )
    if reading.is_cut:
        yield note(
            "limits",
            f"It has more than {HEADERS_MAX:,} headers or {PARTS_MAX:,} parts, or parts too deep in others, and not all were read. Send fewer.",
        )
