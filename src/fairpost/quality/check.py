"""Checks the quality of a message before it is sent to people. The check never raises, and its time is bounded for any
input. The check reports only what the message itself shows. It makes no requests, so no link is opened and no signature
is verified.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairpost.quality.body_checks import check_images, check_marks, check_parts
from fairpost.quality.findings import Finding, cut, note
from fairpost.quality.head import check_bytes, check_date, check_message_id, check_sender, check_subject
from fairpost.quality.links import TEXT_CHARS_MAX, FoundLink, check_links, is_web, links_of_text
from fairpost.quality.marks import URL_CHARS_MAX
from fairpost.quality.markup import HTML_CHARS_MAX, IMAGES_MAX, LINKS_MAX, Markup, read_markup
from fairpost.quality.reading import HEADERS_MAX, PARTS_MAX, Reading
from fairpost.quality.trust import check_authentication, check_unsubscribe


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    findings: tuple[Finding, ...]
    links: tuple[FoundLink, ...]


def check(raw: bytes, reading: Reading, *, is_sent: bool = True) -> Checked:
    """Checks a message.

    `reading` is the result of `read` for the same bytes. `is_sent` means that the message has passed through servers,
    which may have signed it.
    """
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
        *(check_authentication(reading) if is_sent else ()),
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
            f"Only the first {HTML_CHARS_MAX:,} characters, {LINKS_MAX:,} links and {IMAGES_MAX:,} images of the HTML were checked. Shorten it.",
        )
    if in_text == LINKS_MAX or len(reading.text or "") > TEXT_CHARS_MAX:
        yield note(
            "limits",
            f"Only the first {TEXT_CHARS_MAX:,} characters and {LINKS_MAX:,} links of the text were checked. Shorten it.",
        )
    if reading.is_cut:
        yield note(
            "limits",
            f"The e-mail has more than {HEADERS_MAX:,} headers or {PARTS_MAX:,} parts, or its parts are nested too deeply, so not all were checked. Use fewer headers and parts.",
        )
