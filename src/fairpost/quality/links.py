"""Checks link targets and the text that readers see for each link."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fairpost.quality.findings import Finding, Level, count, cut, finding, good
from fairpost.quality.marks import URL_CHARS_MAX, has_mark
from fairpost.quality.markup import LINKS_MAX

HOST_CHARS_MAX = 253
TEXT_CHARS_MAX = 1_000_000

_IN_TEXT = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}:", re.IGNORECASE)
_AUTHORITY = re.compile(r"https?:[/\\]*([^/\\?#]*)", re.IGNORECASE)
_SHOWN_URL = re.compile(r"(?<![\w.@-])(?:https?://|www\.)[^\s/?#<>\"]+", re.IGNORECASE)
_BARE_HOST = re.compile(r"[\w-]{1,63}(?:\.[\w-]{1,63}){0,10}\.[a-z]{2,24}")
_RUNNING = ("javascript:", "data:", "vbscript:", "file:", "blob:")
_HERE = ("localhost", "127.0.0.1", "0.0.0.0", "[::1]")  # noqa: S104
# File extensions that make a bare file name look like a host.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLink:
    """An HTTP or HTTPS link, and the text that readers see for it."""

    url: str
    text: str
    part: Literal["html", "text"]


def links_of_text(text: str) -> list[FoundLink]:
    found = list[FoundLink]()
    for match in _IN_TEXT.finditer(text[:TEXT_CHARS_MAX]):
        url = match[0].rstrip(".,;:!?'*)]}") if "{{" not in match[0] else match[0]
        found.append(FoundLink(url=url, text=cut(url, URL_CHARS_MAX), part="text"))
        if len(found) == LINKS_MAX:
            break
    return found


def _as_opened(url: str) -> str:
    """Returns the URL as browsers read it: surrounding blanks and all line endings and tabs are removed."""
    return re.sub(r"[\t\r\n]", "", url).strip("".join(map(chr, range(33))))


def is_web(url: str) -> bool:
    return _AUTHORITY.match(_as_opened(url)) is not None


def host_of(url: str) -> str:
    """Returns the host of an `http` or `https` link, or "" if it has no host or uses another scheme."""
    found = _AUTHORITY.match(_as_opened(url))
    authority = found[1].rpartition("@")[2] if found else ""
    host = authority.partition("]")[0] + "]" if authority.startswith("[") else authority.partition(":")[0]
    return _folded(host)


def _folded(host: str) -> str:
    """Normalizes a host so that both spellings of an internationalized name compare as equal."""
    bare = host.rstrip(".").lower()
    if bare.isascii() or len(bare) > HOST_CHARS_MAX:
        return bare
    try:
        return bare.encode("idna").decode()
    except UnicodeError:
        return bare


FAULTS: Mapping[str, str] = {
    "runs": "would run a script or embed content, which mail programs remove. Link to a page instead.",
    "nowhere": "without a host. Relative links do not work in e-mails. Add `https://` and the host.",
    "disguised": "with a name before an @, which can be mistaken for the host. Remove it.",
    "shows_another": "whose text shows a different host than the target, as in phishing. Show the same host, or use other text.",
    "plain": "using HTTP, which is not encrypted. Use HTTPS.",
    "here": "to this machine, which recipients cannot open. Use your site's address before you send the e-mail.",
}


def check_links(links: Sequence[FoundLink]) -> Iterator[Finding]:
    checks: tuple[tuple[Level, Callable[[FoundLink], bool], str], ...] = (
        (Level.BAD, _runs, "runs"),
        (Level.BAD, _is_nowhere, "nowhere"),
        (Level.BAD, _is_disguised, "disguised"),
        (Level.BAD, _shows_another, "shows_another"),
        (Level.BAD, _is_plain, "plain"),
        (Level.NOTE, _is_here, "here"),
    )
    is_well = True
    for level, is_so, fault in checks:
        found = [link for link in links if is_so(link)]
        if found:
            is_well = False
            text = f"{count(len(found), 'link')} {FAULTS[fault]} The first one is: {_told(found[0])}."
            yield finding(level, "links", text, fault=fault)
    web = sum(is_web(link.url) for link in links)
    if is_well:
        yield good("links", f"{count(web, 'link')}, no problems found." if web else "There are no links.")


def _told(link: FoundLink) -> str:
    same = not link.text or link.text == link.url or link.part == "text"
    return cut(link.url) if same else f"{cut(link.url)} ({cut(link.text)})"


def _runs(link: FoundLink) -> bool:
    return _as_opened(link.url)[:20].lower().startswith(_RUNNING)


def _is_nowhere(link: FoundLink) -> bool:
    url = _as_opened(link.url)
    if has_mark(url) or (url.startswith("#") and len(url) > 1):
        return False
    return not host_of(url) if is_web(url) else _SCHEME.match(url) is None


def _is_disguised(link: FoundLink) -> bool:
    found = _AUTHORITY.match(_as_opened(link.url))
    return found is not None and "@" in found[1]


def _is_here(link: FoundLink) -> bool:
    host = host_of(link.url)
    return host in _HERE or host.endswith(".localhost")


def _is_plain(link: FoundLink) -> bool:
    return _as_opened(link.url)[:5].lower() == "http:" and not _is_here(link)


def _shows_another(link: FoundLink) -> bool:
    host, shown = host_of(link.url), _shown_host(link.text)
    if not host or not shown or link.part == "text" or has_mark(link.url):
        return False
    host, shown = host.removeprefix("www."), shown.removeprefix("www.")
    return host != shown and not host.endswith(f".{shown}") and not shown.endswith(f".{host}")


def _shown_host(text: str) -> str:
    """Returns the host that a link's text shows, if the text is or contains a URL."""
    found = _SHOWN_URL.search(text)
    if found is not None:
        return host_of(found[0] if "://" in found[0][:8] else f"http://{found[0]}").rstrip(".,;:!?)")
    alone = text.strip().partition("/")[0].lower()
    is_host = _BARE_HOST.fullmatch(alone) is not None and alone.rpartition(".")[2] not in _FILES
    return _folded(alone) if is_host else ""
