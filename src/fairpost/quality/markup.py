"""Extracts the words, links and images of HTML text. Never raises, and takes linear time.

The standard library's parser is not used, because in Python 3.11 it needs a minute for 16,000 unclosed tags.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fairpost.compose.entities import unescaped

HTML_CHARS_MAX = 1_000_000
LINKS_MAX = 1_000
IMAGES_MAX = 1_000
LINK_TEXT_CHARS_MAX = 500

_BEGIN = re.compile(r"<(?=[a-zA-Z/!?])")
_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_GAP = re.compile(r"[\s/]*")
_ATTRIBUTE = re.compile(r"[^\s/>][^\s/>=]*")
_EQUALS = re.compile(r"\s*=\s*")
_BARE = re.compile(r"[^\s>]*")

_WANTED = {"href", "src", "alt"}
_UNSEEN = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_ENDS = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _UNSEEN}
_BREAKS = {"br", "p", "div", "table", "tr", "td", "th", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "hr"}


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image. `alt` is None if the attribute is missing. An empty `alt` marks the image as decorative."""

    source: str
    alt: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """The content of HTML text. `is_cut` means that the text was not read to its end."""

    words: str
    links: tuple[Link, ...]
    images: tuple[Image, ...]
    is_cut: bool


def read_markup(text: str) -> Markup:
    seen = _Seen(is_cut=len(text) > HTML_CHARS_MAX)
    for token in _tokens(text[:HTML_CHARS_MAX]):
        seen.take(token)
    seen.end_link()
    return Markup(
        words=unescaped("".join(seen.words)), links=tuple(seen.links), images=tuple(seen.images), is_cut=seen.is_cut
    )


@dataclass(frozen=True, slots=True)
class _Open:
    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Close:
    name: str


_Token = str | _Open | _Close


@dataclass(slots=True)
class _Seen:
    is_cut: bool
    words: list[str] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    _url: str | None = None  # the URL of the open link
    _text: list[str] = field(default_factory=list)

    def take(self, token: _Token) -> None:
        if isinstance(token, str):
            self._say(token)
            return
        if token.name in _BREAKS:
            self._say(" ")
        if token.name == "a":
            self.end_link()
        if isinstance(token, _Open):
            self._open(token)

    def end_link(self) -> None:
        if self._url is not None:
            self._add_link(self._url, "".join(self._text))
        self._url, self._text = None, []

    def _add_link(self, url: str, text: str) -> None:
        if len(self.links) < LINKS_MAX:
            self.links.append(Link(unescaped(url), " ".join(unescaped(text).split())[:LINK_TEXT_CHARS_MAX]))
        else:
            self.is_cut = True

    def _open(self, tag: _Open) -> None:
        if tag.name == "a":
            self._url = tag.attributes.get("href")
        if tag.name == "area" and "href" in tag.attributes:
            self._add_link(tag.attributes["href"], tag.attributes.get("alt", ""))
        if tag.name == "img":
            alt = tag.attributes.get("alt")
            if len(self.images) < IMAGES_MAX:
                source = unescaped(tag.attributes.get("src", ""))
                self.images.append(Image(source, None if alt is None else unescaped(alt)))
            else:
                self.is_cut = True
            if self._url is not None and alt:
                self._text.append(alt)

    def _say(self, text: str) -> None:
        self.words.append(text)
        if self._url is not None:
            self._text.append(text)


def _tokens(text: str) -> Iterator[_Token]:
    """Yields tokens as a browser would. If a tag or comment is never closed, the text ends there, so nothing is read
    twice.
    """
    at = 0
    while at < len(text):
        found = _BEGIN.search(text, at)
        opened = len(text) if found is None else found.start()
        if opened > at:
            yield text[at:opened]
        if found is None:
            return
        token, at = _markup_at(text, opened)
        if token is not None:
            yield token


def _markup_at(text: str, opened: int) -> tuple[_Token | None, int]:
    """Returns the token that begins at this `<`, and where the token ends."""
    if text.startswith("<!--", opened):
        return None, _after(text, "-->", opened + 2)
    is_end = text.startswith("/", opened + 1)
    name = _NAME.match(text, opened + 1 + is_end)
    if name is None:
        return None, _after(text, ">", opened + 1)
    attributes, at = _attributes(text, name.end())
    if attributes is None:
        return None, at
    if is_end:
        return _Close(name[0].lower()), at
    return _Open(name[0].lower(), attributes), _behind_unseen(text, name[0].lower(), at)


def _after(text: str, mark: str, start: int) -> int:
    found = text.find(mark, start)
    return len(text) if found < 0 else found + len(mark)


def _behind_unseen(text: str, name: str, at: int) -> int:
    if name not in _ENDS:
        return at
    end = _ENDS[name].search(text, at)
    return len(text) if end is None else end.start()


def _attributes(text: str, at: int) -> tuple[dict[str, str] | None, int]:
    """Returns the relevant attributes, and where the tag ends, or None if the tag never ends."""
    found: dict[str, str] = {}
    while (at := _end(_GAP, text, at)) < len(text):
        if text[at] == ">":
            return found, at + 1
        start, at = at, _end(_ATTRIBUTE, text, at)
        name, value = text[start:at].lower(), ""
        if (equals := _EQUALS.match(text, at)) is not None:
            value, at = _value(text, equals.end())
        if name in _WANTED:
            found.setdefault(name, value)
    return None, len(text)


def _value(text: str, at: int) -> tuple[str, int]:
    quote = text[at : at + 1]
    if quote not in ('"', "'"):
        end = _end(_BARE, text, at)
        return text[at:end], end
    end = text.find(quote, at + 1)
    return ("", len(text)) if end < 0 else (text[at + 1 : end], end + 1)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
