"""Checks the parts of a message, its images, and unfilled template fields."""

from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from fairpost.quality.findings import Finding, bad, count, cut, good, note
from fairpost.quality.links import TEXT_CHARS_MAX, FoundLink, is_web
from fairpost.quality.marks import URL_CHARS_MAX, marks_in, name_in
from fairpost.quality.markup import Markup
from fairpost.quality.reading import Reading

NAMES_MAX = 20
WORDS_CHARS_MIN = 30
HTML_BYTES_MAX = 102_000  # Gmail clips longer e-mails


def check_parts(reading: Reading) -> Iterator[Finding]:
    text, html = (
        None if part is None else len(part.encode()) if part.strip() else 0 for part in (reading.text, reading.html)
    )
    match text, html:
        case ((None | 0), (None | 0)):
            yield bad("parts", "The e-mail has neither text nor HTML. Add some content.")
        case None, _:
            yield note(
                "parts", "The e-mail has only HTML, but some people and filters read the text part. Add a text part."
            )
        case 0, int():
            yield note("parts", "The text part is empty. Give it the same content as the HTML part.")
        case _, None:
            yield good("parts", "The e-mail has only a text part, which every mail program can show.")
        case _:
            yield good("parts", "The e-mail has both text and HTML.")
    sizes = f"The text is {text or 0:,} bytes, the HTML {html or 0:,} bytes."
    if max(text or 0, html or 0) > HTML_BYTES_MAX:
        yield bad(
            "size",
            f"{sizes} Gmail clips e-mails after {HTML_BYTES_MAX:,} bytes, which often hides the unsubscribe link. Shorten it.",
            fault="clipped",
        )
    else:
        yield good("size", sizes)


def check_marks(reading: Reading, markup: Markup, links: Sequence[FoundLink]) -> Iterator[Finding]:
    head = " ".join(reading.header(name) for name in ("from", "to", "reply-to", "list-unsubscribe"))
    places = {
        "the subject": marks_in(reading.header("subject")),
        "the headers": marks_in(head),
        "the text": marks_in((reading.text or "")[:TEXT_CHARS_MAX]),
        "the html": marks_in(markup.words),
        "a link": [mark for link in links for mark in marks_in(unquote(link.url[:URL_CHARS_MAX]))],
    }
    found = Counter(name_in(mark) for marks in places.values() for mark in marks)
    if found:
        where = ", ".join(place for place, marks in places.items() if marks)
        names = ", ".join(f"{cut(name, 40)} ({times:,})" for name, times in found.most_common(NAMES_MAX))
        yield bad(
            "template marks",
            f"{count(len(found), 'field')} not filled in: {names}. Found in {where}. Check the field names and whether the fields have values.",
            fault="unfilled",
        )
    else:
        yield good("template marks", "There are no unfilled template fields.")


def check_images(reading: Reading, markup: Markup) -> Iterator[Finding]:
    images = markup.images
    if not images:
        return
    bare = [image for image in images if image.alt is None]
    if bare:
        yield bad(
            "images",
            f"{count(len(bare), 'image')} without alt text. The first one is {cut(bare[0].source)!r}. Describe the image for readers who cannot see it.",
            fault="without_alt",
        )
    else:
        yield good("images", f"{count(len(images), 'image')}, all with alt text.")
    if len(" ".join(markup.words.split())) < WORDS_CHARS_MIN:
        yield bad(
            "images",
            f"The e-mail consists of images, with fewer than {WORDS_CHARS_MIN} characters of text, which is typical of spam. Add text with the same content.",
            fault="alone",
        )
    remote = sum(is_web(image.source) or image.source.startswith("//") for image in images)
    if remote:
        yield note(
            "images",
            f"{count(remote, 'image')} will be loaded from the web, which many mail programs block at first. Make sure that the e-mail works without them.",
        )
    there = {file.inline_id for file in reading.attachments}
    missing = [each for each in images if each.source[:4].lower() == "cid:" and unquote(each.source[4:]) not in there]
    if missing:
        yield bad(
            "images",
            f"{count(len(missing), 'image')} with a missing attachment. The first one is {cut(missing[0].source)!r}. Attach it with this Content-ID.",
        )
