"""The parts a mail is made of, its pictures, and what was left in by mistake."""

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from fairpost.dev.inbox.checks.findings import Finding, bad, count, cut, good, note
from fairpost.dev.inbox.checks.links import TEXT_CHARS_MAX, FoundLink, is_web
from fairpost.dev.inbox.checks.marks import URL_CHARS_MAX, mark_in
from fairpost.dev.inbox.markup import Markup
from fairpost.dev.inbox.reading import Reading

HTML_BYTES_MAX = 102_000  # Gmail shows no more


def check_parts(reading: Reading) -> Iterator[Finding]:
    text, html = (
        None if part is None else len(part.encode()) if part.strip() else 0 for part in (reading.text, reading.html)
    )
    match text, html:
        case ((None | 0), (None | 0)):
            yield bad("parts", "It has no words, neither as text nor as html. Write some.")
        case None, _:
            yield note(
                "parts", "It is html alone, and some people and filters look at the text. Add a text part beside it."
            )
        case 0, int():
            yield note("parts", "Its text part is empty beside the html. Say the same in it.")
        case _, None:
            yield good("parts", "It is text alone, which every program shows.")
        case _:
            yield good("parts", "It has a text part beside the html.")
    sizes = f"The text has {text or 0:,} bytes, and the html {html or 0:,}."
    if max(text or 0, html or 0) > HTML_BYTES_MAX:
        yield bad(
            "size",
            f"{sizes} Gmail clips a mail after {HTML_BYTES_MAX:,}, often with the link to unsubscribe. Make it shorter.",
        )
    else:
        yield good("size", sizes)


def check_marks(reading: Reading, markup: Markup, links: Sequence[FoundLink]) -> Iterator[Finding]:
    head = " ".join(reading.header(name) for name in ("from", "to", "reply-to", "list-unsubscribe"))
    places = {
        "the subject": mark_in(reading.header("subject")),
        "the headers": mark_in(head),
        "the text": mark_in((reading.text or "")[:TEXT_CHARS_MAX]),
        "the html": mark_in(markup.words),
        "a link": next((mark for link in links if (mark := mark_in(unquote(link.url[:URL_CHARS_MAX])))), None),
    }
    found = {place: mark for place, mark in places.items() if mark is not None}
    if found:
        said = ", ".join(f"{place} ({cut(mark, 40)})" for place, mark in found.items())
        yield bad(
            "template marks",
            f"A template was not filled in: {said}. Look whether its fields have values, and their names.",
        )
    else:
        yield good("template marks", "No field of a template was left over.")


def check_images(reading: Reading, markup: Markup) -> Iterator[Finding]:
    images = markup.images
    if not images:
        return
    bare = [image for image in images if image.alt is None]
    if bare:
        yield bad(
            "images",
            f"{count(len(bare), 'image')} without alt, the first: {cut(bare[0].source)!r}. Say in it what who cannot see the image should know.",
        )
    else:
        yield good("images", f"{count(len(images), 'image')}, with alt.")
    remote = sum(is_web(image.source) or image.source.startswith("//") for image in images)
    if remote:
        yield note(
            "images",
            f"{count(remote, 'image')} will be fetched from the web, and many programs ask the reader first. The mail must do without.",
        )
    there = {file.inline_id for file in reading.attachments}
    missing = [each for each in images if each.source[:4].lower() == "cid:" and unquote(each.source[4:]) not in there]
    if missing:
        yield bad(
            "images",
            f"{count(len(missing), 'image')} of its own that did not come with it, the first: {cut(missing[0].source)!r}. Attach it with this Content-ID.",
        )
