"""What is good and what is bad about a mail, before it goes to people. Pure, never raises, and bounded whatever the mail is.

It says what can be seen in the mail itself. Nothing is asked of anybody: no link is opened, no signature is verified.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Literal
from urllib.parse import unquote

from fairpost.inbox.markup import HTML_CHARS_MAX, IMAGES_MAX, LINKS_MAX, Markup, read_markup
from fairpost.inbox.reading import HEADERS_MAX, PARTS_MAX, Reading

SUBJECT_CHARS_MAX = 78
HTML_BYTES_MAX = 102_000  # Gmail shows no more
LINE_BYTES_MAX = 998  # RFC 5321, without the line's end
HOST_CHARS_MAX = 253
TEXT_CHARS_MAX = 1_000_000
URL_CHARS_MAX = 2_000
SHOWN_CHARS_MAX = 100
SIGNATURES_MAX = 20
ONE_CLICK = "List-Unsubscribe=One-Click"


class Level(StrEnum):
    GOOD = "good"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`what` is one of a few short names, and may come several times; `text` says what is so, and what to do."""

    level: Level
    what: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLink:
    """A link of http or https, and what a reader sees of it."""

    url: str
    text: str
    part: Literal["html", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    findings: tuple[Finding, ...]
    links: tuple[FoundLink, ...]


def check(raw: bytes, reading: Reading) -> Checked:
    """`reading` is what `read` made of the same bytes."""
    markup = read_markup(reading.html or "")
    hrefs = [FoundLink(url=link.url, text=link.text, part="html") for link in markup.links]
    links = [*hrefs, *_links_of_text(reading.text or "")]
    findings = (
        *_sender(reading),
        *_date(reading),
        *_message_id(reading),
        *_subject(reading),
        *_bytes(raw, reading),
        *_parts(reading),
        *_links(links),
        *_template_marks(reading, markup, links),
        *_images(reading, markup),
        *_unsubscribe(reading),
        *_authentication(reading),
        *_limits(reading, markup, links),
    )
    shown = (
        FoundLink(url=_cut(link.url, URL_CHARS_MAX), text=link.text, part=link.part)
        for link in links
        if _is_web(link.url)
    )
    return Checked(findings=findings, links=tuple(shown))


def _good(what: str, text: str) -> Finding:
    return Finding(level=Level.GOOD, what=what, text=text)


def _note(what: str, text: str) -> Finding:
    return Finding(level=Level.NOTE, what=what, text=text)


def _bad(what: str, text: str) -> Finding:
    return Finding(level=Level.BAD, what=what, text=text)


def _cut(text: str, most: int = SHOWN_CHARS_MAX) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _values(reading: Reading, name: str) -> list[str]:
    return [value for key, value in reading.headers if key.lower() == name]


# ── the head ──────────────────────────────────────────────────────────────────────────────────────────────

_DOMAIN = re.compile(r"\[[^\[\]\s]+\]|[\w-][\w.-]*")
_MESSAGE_ID = re.compile(r"<[^<>@\s]+@[^<>@\s]+>")


def _sender(reading: Reading) -> Iterator[Finding]:
    match _values(reading, "from"):
        case []:
            yield _bad("from", "There is no From header, and most servers refuse a mail without one. Set the sender.")
        case [value] if _is_address(_address_in(value)):
            yield _good("from", f"It is from {_cut(value)}.")
        case [value]:
            yield _bad(
                "from",
                f"From has no address in it that could be answered: {_cut(value)!r}. Write it like Ann <ann@example.com>.",
            )
        case values:
            yield _bad("from", f"There are {len(values)} From headers, and many servers refuse that. Leave one.")


def _address_in(value: str) -> str:
    return value.rpartition("<")[2].partition(">")[0]


def _is_address(text: str) -> bool:
    local, at, domain = text.strip().rpartition("@")
    is_plain = local.startswith('"') or not any(c.isspace() or c in ",;<>()" for c in local)
    return bool(local and at) and is_plain and _DOMAIN.fullmatch(domain) is not None


def _date(reading: Reading) -> Iterator[Finding]:
    match _values(reading, "date"):
        case []:
            yield _bad(
                "date", "There is no Date header, and filters count that against a mail. Set it when the mail is made."
            )
        case [value] if _is_date(value):
            yield _good("date", f"Its date is {_cut(value)}.")
        case [value]:
            yield _bad("date", f"Date cannot be read: {_cut(value)!r}. Write it like Tue, 01 Jan 2030 09:00:00 +0000.")
        case values:
            yield _bad("date", f"There are {len(values)} Date headers, and there must be one. Leave one.")


def _is_date(value: str) -> bool:
    try:
        parsedate_to_datetime(value[:SHOWN_CHARS_MAX])
    except Exception:  # the library documents none of what it may raise here
        return False
    return True


def _message_id(reading: Reading) -> Iterator[Finding]:
    match _values(reading, "message-id"):
        case []:
            yield _bad(
                "message-id",
                "There is no Message-ID, and filters count that against a mail. Give each mail one of its own.",
            )
        case [value] if _MESSAGE_ID.fullmatch(value):
            yield _good("message-id", f"Its Message-ID is {_cut(value)}.")
        case [value]:
            yield _bad("message-id", f"Message-ID is not like <one@example.com>: {_cut(value)!r}. Make it so.")
        case values:
            yield _bad("message-id", f"There are {len(values)} Message-IDs, and there must be one. Leave one.")


def _subject(reading: Reading) -> Iterator[Finding]:
    subject = reading.header("subject")
    if not subject:
        yield _bad("subject", "There is no subject. Write one.")
    elif len(subject) > SUBJECT_CHARS_MAX:
        yield _note(
            "subject",
            f"The subject has {len(subject):,} characters, and most programs show fewer than {SUBJECT_CHARS_MAX}. Make it shorter.",
        )
    else:
        yield _good("subject", f"The subject has {_count(len(subject), 'character')}.")
    if len(_values(reading, "subject")) > 1:
        yield _bad("subject", "There are several subjects, and there must be one. Leave one.")


def _bytes(raw: bytes, reading: Reading) -> Iterator[Finding]:
    end = re.search(rb"\r?\n\r?\n", raw)
    head = raw[: end.start()] if end else raw
    if reading.headers and not head.isascii():
        yield _bad(
            "headers", "Headers have bytes beyond ASCII, which only some servers take. Encode them: =?utf-8?q?…?=."
        )
    if _has_long_line(raw.replace(b"\r\n", b"\n")):
        yield _bad(
            "lines",
            f"A line has more than {LINE_BYTES_MAX} bytes, and servers may refuse that. Use quoted-printable or base64.",
        )


def _has_long_line(raw: bytes) -> bool:
    """From each place to the last end of a line within reach: a thousand bytes at a step."""
    at = 0
    while len(raw) - at > LINE_BYTES_MAX:
        end = raw.rfind(b"\n", at, at + LINE_BYTES_MAX + 1)
        if end < 0:
            return True
        at = end + 1
    return False


# ── the parts ─────────────────────────────────────────────────────────────────────────────────────────────


def _parts(reading: Reading) -> Iterator[Finding]:
    text, html = (
        None if part is None else len(part.encode()) if part.strip() else 0 for part in (reading.text, reading.html)
    )
    match text, html:
        case ((None | 0), (None | 0)):
            yield _bad("parts", "It has no words, neither as text nor as html. Write some.")
        case None, _:
            yield _note(
                "parts", "It is html alone, and some people and filters look at the text. Add a text part beside it."
            )
        case 0, int():
            yield _note("parts", "Its text part is empty beside the html. Say the same in it.")
        case _, None:
            yield _good("parts", "It is text alone, which every program shows.")
        case _:
            yield _good("parts", "It has a text part beside the html.")
    sizes = f"The text has {text or 0:,} bytes, and the html {html or 0:,}."
    if max(text or 0, html or 0) > HTML_BYTES_MAX:
        yield _bad(
            "size",
            f"{sizes} Gmail clips a mail after {HTML_BYTES_MAX:,}, often with the link to unsubscribe. Make it shorter.",
        )
    else:
        yield _good("size", sizes)


# ── links ─────────────────────────────────────────────────────────────────────────────────────────────────

_IN_TEXT = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}:", re.IGNORECASE)
_AUTHORITY = re.compile(r"https?:[/\\]*([^/\\?#]*)", re.IGNORECASE)
_SHOWN_URL = re.compile(r"(?<![\w.@-])(?:https?://|www\.)[^\s/?#<>\"]+", re.IGNORECASE)
_BARE_HOST = re.compile(r"[\w-]{1,63}(?:\.[\w-]{1,63}){0,10}\.[a-z]{2,24}")
_RUNNING = ("javascript:", "data:", "vbscript:", "file:", "blob:")
_HERE = ("localhost", "127.0.0.1", "0.0.0.0", "[::1]")  # noqa: S104
# What looks like a host when it stands alone, and is the name of a file.
_FILES = {
    "csv",
    "doc",
    "docx",
    "gif",
    "htm",
    "html",
    "ics",
    "jpeg",
    "jpg",
    "js",
    "json",
    "pdf",
    "php",
    "png",
    "pptx",
    "txt",
    "webp",
    "xls",
    "xlsx",
    "xml",
}


def _links_of_text(text: str) -> list[FoundLink]:
    found = list[FoundLink]()
    for match in _IN_TEXT.finditer(text[:TEXT_CHARS_MAX]):
        url = match[0].rstrip(".,;:!?'*)]}") if "{{" not in match[0] else match[0]
        found.append(FoundLink(url=url, text=_cut(url, URL_CHARS_MAX), part="text"))
        if len(found) == LINKS_MAX:
            break
    return found


def _as_opened(url: str) -> str:
    """As browsers read it: without blanks around it, and without line ends and tabs inside."""
    return re.sub(r"[\t\r\n]", "", url).strip("".join(map(chr, range(33))))


def _is_web(url: str) -> bool:
    return _AUTHORITY.match(_as_opened(url)) is not None


def _host(url: str) -> str:
    """Where a link of http or https leads to; empty: nowhere, or it is another link."""
    found = _AUTHORITY.match(_as_opened(url))
    authority = found[1].rpartition("@")[2] if found else ""
    host = authority.partition("]")[0] + "]" if authority.startswith("[") else authority.partition(":")[0]
    return _folded(host)


def _folded(host: str) -> str:
    """The same for both ways to write an international name."""
    bare = host.rstrip(".").lower()
    if bare.isascii() or len(bare) > HOST_CHARS_MAX:
        return bare
    try:
        return bare.encode("idna").decode()
    except UnicodeError:
        return bare


def _links(links: Sequence[FoundLink]) -> Iterator[Finding]:
    checks: tuple[tuple[Level, Callable[[FoundLink], bool], str], ...] = (
        (
            Level.BAD,
            _runs,
            "would run something or bring its own content, and mail programs take that out. Link to a page.",
        ),
        (
            Level.BAD,
            _is_nowhere,
            "without a host, and a mail has no page that it could belong to. Write https:// and the host.",
        ),
        (Level.BAD, _is_disguised, "with a name before an @, which looks like the host and is not. Take it out."),
        (
            Level.BAD,
            _shows_another,
            "showing another host than it leads to, as those who deceive do. Show the same, or words.",
        ),
        (Level.BAD, _is_plain, "with http, which anybody on the way can read. Use https."),
        (
            Level.NOTE,
            _is_here,
            "to this machine, which nobody else can open. Set the address of your site before you send it.",
        ),
    )
    is_well = True
    for level, is_so, words in checks:
        found = [link for link in links if is_so(link)]
        if found:
            is_well = False
            yield Finding(
                level=level, what="links", text=f"{_count(len(found), 'link')} {words} The first: {_told(found[0])}."
            )
    web = sum(_is_web(link.url) for link in links)
    if is_well:
        yield _good(
            "links", f"{_count(web, 'link')}, and nothing is wrong with them." if web else "There are no links."
        )


def _told(link: FoundLink) -> str:
    same = not link.text or link.text == link.url or link.part == "text"
    return _cut(link.url) if same else f"{_cut(link.url)} ({_cut(link.text)})"


def _runs(link: FoundLink) -> bool:
    return _as_opened(link.url)[:20].lower().startswith(_RUNNING)


def _is_nowhere(link: FoundLink) -> bool:
    url = _as_opened(link.url)
    if _has_mark(url) or (url.startswith("#") and len(url) > 1):
        return False
    return not _host(url) if _is_web(url) else _SCHEME.match(url) is None


def _is_disguised(link: FoundLink) -> bool:
    found = _AUTHORITY.match(_as_opened(link.url))
    return found is not None and "@" in found[1]


def _is_here(link: FoundLink) -> bool:
    host = _host(link.url)
    return host in _HERE or host.endswith(".localhost")


def _is_plain(link: FoundLink) -> bool:
    return _as_opened(link.url)[:5].lower() == "http:" and not _is_here(link)


def _shows_another(link: FoundLink) -> bool:
    host, shown = _host(link.url), _shown_host(link.text)
    if not host or not shown or link.part == "text" or _has_mark(link.url):
        return False
    host, shown = host.removeprefix("www."), shown.removeprefix("www.")
    return host != shown and not host.endswith(f".{shown}") and not shown.endswith(f".{host}")


def _shown_host(text: str) -> str:
    """Of a text that shows an address, or is nothing but one."""
    found = _SHOWN_URL.search(text)
    if found is not None:
        return _host(found[0] if "://" in found[0][:8] else f"http://{found[0]}").rstrip(".,;:!?)")
    alone = text.strip().partition("/")[0].lower()
    is_host = _BARE_HOST.fullmatch(alone) is not None and alone.rpartition(".")[2] not in _FILES
    return _folded(alone) if is_host else ""


# ── what was left in by mistake, and pictures ─────────────────────────────────────────────────────────────

_MARK = re.compile(
    r"\{\{[^{}\n]{0,100}\}\}|\{%[^{}%\n]{1,100}%\}|<%[^<>%\n]{1,100}%>|\*\|[\w:]{1,60}\|\*|\$\{[\w.]{1,60}\}|%%\w{2,40}%%"
)


def _mark_in(text: str) -> str | None:
    found = _MARK.search(text)
    return found[0] if found else None


def _has_mark(url: str) -> bool:
    return _mark_in(unquote(url[:URL_CHARS_MAX])) is not None


def _template_marks(reading: Reading, markup: Markup, links: Sequence[FoundLink]) -> Iterator[Finding]:
    head = " ".join(reading.header(name) for name in ("from", "to", "reply-to", "list-unsubscribe"))
    places = {
        "the subject": _mark_in(reading.header("subject")),
        "the headers": _mark_in(head),
        "the text": _mark_in((reading.text or "")[:TEXT_CHARS_MAX]),
        "the html": _mark_in(markup.words),
        "a link": next((mark for link in links if (mark := _mark_in(unquote(link.url[:URL_CHARS_MAX])))), None),
    }
    found = {place: mark for place, mark in places.items() if mark is not None}
    if found:
        said = ", ".join(f"{place} ({_cut(mark, 40)})" for place, mark in found.items())
        yield _bad(
            "template marks",
            f"A template was not filled in: {said}. Look whether its fields have values, and their names.",
        )
    else:
        yield _good("template marks", "No field of a template was left over.")


def _images(reading: Reading, markup: Markup) -> Iterator[Finding]:
    images = markup.images
    if not images:
        return
    bare = [image for image in images if image.alt is None]
    if bare:
        yield _bad(
            "images",
            f"{_count(len(bare), 'image')} without alt, the first: {_cut(bare[0].source)!r}. Say in it what who cannot see the image should know.",
        )
    else:
        yield _good("images", f"{_count(len(images), 'image')}, with alt.")
    remote = sum(_is_web(image.source) or image.source.startswith("//") for image in images)
    if remote:
        yield _note(
            "images",
            f"{_count(remote, 'image')} will be fetched from the web, and many programs ask the reader first. The mail must do without.",
        )
    there = {file.inline_id for file in reading.attachments}
    missing = [each for each in images if each.source[:4].lower() == "cid:" and unquote(each.source[4:]) not in there]
    if missing:
        yield _bad(
            "images",
            f"{_count(len(missing), 'image')} of its own that did not come with it, the first: {_cut(missing[0].source)!r}. Attach it with this Content-ID.",
        )


# ── how to get rid of it, and whose it is ─────────────────────────────────────────────────────────────────


def _unsubscribe(reading: Reading) -> Iterator[Finding]:
    value, post = (_values(reading, name) for name in ("list-unsubscribe", "list-unsubscribe-post"))
    ways = [way.partition(">")[0].strip() for way in ", ".join(value).split("<")[1:]]
    has_https = any(way.lower().startswith("https://") and _host(way) for way in ways)
    has_mailto = any(way.lower().startswith("mailto:") for way in ways)
    if not value:
        yield _note(
            "unsubscribe",
            "There is no List-Unsubscribe. Mail that many people get needs it; a receipt or a password mail does not.",
        )
    elif any(way.lower().startswith("http:") for way in ways):
        yield _bad("unsubscribe", "List-Unsubscribe leads to http. Use https.")
    elif has_https:
        yield _good("unsubscribe", f"List-Unsubscribe has an https link{' and a mailto' if has_mailto else ''}.")
    elif has_mailto:
        yield _note(
            "unsubscribe",
            "List-Unsubscribe has a mailto alone. Gmail and Yahoo want an https link of mail that many people get: add one.",
        )
    else:
        yield _bad(
            "unsubscribe",
            f"List-Unsubscribe has neither an https link nor a mailto in angle brackets: {_cut(value[0])!r}. Write <https://…>.",
        )
    yield from _one_click(post, has_https=has_https, has_any=bool(value))


def _one_click(post: Sequence[str], *, has_https: bool, has_any: bool) -> Iterator[Finding]:
    if not post:
        if has_any:
            yield _note(
                "one-click",
                f"There is no List-Unsubscribe-Post, so nobody can unsubscribe with one click. Add: {ONE_CLICK}",
            )
    elif list(post) != [ONE_CLICK]:
        yield _bad(
            "one-click",
            f"List-Unsubscribe-Post must be {ONE_CLICK}, and is {_cut(', '.join(post))!r}. Write exactly that, once.",
        )
    elif not has_https:
        yield _bad("one-click", "List-Unsubscribe-Post needs an https link in List-Unsubscribe (RFC 8058). Add one.")
    else:
        yield _good("one-click", "One click unsubscribes (RFC 8058). Both headers must be among those that DKIM signs.")


_RESULT = re.compile(r"(?<![\w.-])(dkim|spf|dmarc|arc|dkim-atps|bimi) ?= ?([a-z]{1,20})\b", re.IGNORECASE)
_TAG = re.compile(r"(?:^|;) ?([a-z]{1,3}) ?= ?([^;\s]{1,253})")


def _authentication(reading: Reading) -> Iterator[Finding]:
    names = ("dkim-signature", "authentication-results", "received-spf", "arc-seal")
    signatures, results, spf, seals = (_values(reading, name)[:SIGNATURES_MAX] for name in names)
    if not (signatures or results or spf or seals):
        yield _note(
            "authentication",
            "No signature and no results of SPF, DKIM or DMARC. That is usual here: the servers that it goes through add them.",
        )
    for value in signatures:
        tags = dict(_TAG.findall(value))
        if "d" in tags and "s" in tags:
            yield _good(
                "authentication",
                f"Signed with DKIM for {_cut(tags['d'])}, key {_cut(tags['s'])}. Whether it is valid is not checked here.",
            )
        else:
            yield _bad("authentication", "A DKIM-Signature names no domain (d=) or no key (s=). Look at what signs it.")
    for value in results:
        yield _judged(
            "Authentication-Results",
            [(name.lower(), word.lower()) for name, word in _RESULT.findall(value)[:SIGNATURES_MAX]],
        )
    for value in spf:
        yield _judged("Received-SPF", [("spf", value.partition(" ")[0].lower())])
    if seals:
        yield _judged(
            f"ARC ({_count(len(seals), 'seal')})", [("cv", dict(_TAG.findall(seals[0])).get("cv", "nothing").lower())]
        )


def _judged(header: str, results: Sequence[tuple[str, str]]) -> Finding:
    said = ", ".join(f"{name}={_cut(word, 20)}" for name, word in results) or "nothing that is known"
    words = {word for _, word in results}
    if words & {"fail", "softfail", "permerror", "policy"}:
        return _bad("authentication", f"{header} says {said}. Look at the DNS records of the sender's domain.")
    if words and words <= {"pass"}:
        return _good("authentication", f"{header} says {said}.")
    return _note("authentication", f"{header} says {said}. Where something did not pass, look at the DNS records.")


# ── how far we looked ─────────────────────────────────────────────────────────────────────────────────────


def _limits(reading: Reading, markup: Markup, links: Sequence[FoundLink]) -> Iterator[Finding]:
    in_text = sum(link.part == "text" for link in links)
    if markup.is_cut:
        yield _note(
            "limits",
            f"Only the first {HTML_CHARS_MAX:,} characters, {LINKS_MAX:,} links and {IMAGES_MAX:,} images of the html were checked. Make it shorter.",
        )
    if in_text == LINKS_MAX or len(reading.text or "") > TEXT_CHARS_MAX:
        yield _note(
            "limits",
            f"Only the first {TEXT_CHARS_MAX:,} characters and {LINKS_MAX:,} links of the text were checked. Make it shorter.",
        )
    if reading.is_cut:
        yield _note(
            "limits",
            f"It has more than {HEADERS_MAX:,} headers or {PARTS_MAX:,} parts, or parts too deep in others, and not all were read. Send fewer.",
        )
