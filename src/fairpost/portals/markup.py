"""A strict subset of HTML that all mail programs interpret alike: closed tags, double quotes, and no active content.

The source contains template tags ({{ … }}, {% … %}), which an HTML parser would move or break. The source is therefore
parsed strictly here and refused if two parsers could interpret it differently. This keeps a field from becoming a tag
or an attribute.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from fairpost.portals.folder import PROBLEMS_MAX, Problem, Source
from fairpost.templates.reader import OPENING, TOKEN

# These characters, which no file contains, replace template tags in the masked source.
PRINT, STATEMENT = "\ufdd1", "\ufdd2"
PIECE = re.compile(
    r"<!--(?P<comment>.*?)-->"
    r"|(?P<doctype><!DOCTYPE[^<>]*>)"
    r'|<(?P<close>/?)(?P<name>[A-Za-z][A-Za-z0-9]*)(?P<attributes>(?:\s+[A-Za-z][\w:-]*="[^"<>]*")*)\s*/?>',
    re.DOTALL | re.IGNORECASE,
)
ATTRIBUTE = re.compile(r'\s+(?P<name>[A-Za-z][\w:-]*)="(?P<value>[^"<>]*)"')
PATH = re.compile(r"\{\{-?\s*([\w.]+)\s*-?\}\}")
ENCODED = re.compile(r"\|\s*urlencode\s*-?\}\}\Z")
LITERAL_LINK = re.compile(r"https?://[\w.\-:]+(?:[/?#]|\Z)|mailto:[^?]", re.IGNORECASE)
LINK_BEFORE_FIELDS = re.compile(r"https?://[\w.\-:]+[/?#]", re.IGNORECASE)

INLINE = frozenset(["a", "abbr", "b", "br", "code", "em", "i", "img", "small", "span", "strong", "sub", "sup", "u"])
BLOCKS = frozenset(
    [
        "blockquote",
        "center",
        "div",
        "h1",
        "h2",
        "h3",
        "h4",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)
PAGE = frozenset(["html", "head", "meta", "title", "style", "body"])
VOID = frozenset({"br", "hr", "img", "meta"})
ONLY_INLINE = frozenset(
    [
        "a",
        "abbr",
        "b",
        "code",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "i",
        "p",
        "pre",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "u",
    ]
)
ONLY_TEXT = frozenset({"title", "style"})
PARENTS = {
    "tr": {"table", "tbody", "thead"}, "td": {"tr"}, "th": {"tr"}, "tbody": {"table"}, "thead": {"table"},
    "li": {"ul", "ol"}, "head": {"html"}, "body": {"html"}, "title": {"head"}, "style": {"head"}, "meta": {"head"},
}  # fmt: skip
# A parser would move text that is directly inside these elements.
NO_TEXT = frozenset({"table", "tbody", "thead", "tr", "ul", "ol", "html", "head"})
NEEDED = {"img": ("src", "alt", "width"), "a": ("href",)}
LINKS = {"href", "src"}
WITH_FIELDS = LINKS | {"alt", "title", "aria-label"}


class TemplateTag(NamedTuple):
    start: int
    end: int
    word: str  # `if`, `endif` and so on for a statement, `{{` for a print, `{#` for a comment
    text: str


class Attribute(NamedTuple):
    name: str
    value: str  # the masked source
    start: int
    value_start: int


class Element(NamedTuple):
    name: str
    start: int
    end: int
    is_closing: bool
    attributes: tuple[Attribute, ...]


def template_tags(source: str) -> Iterator[TemplateTag]:
    """Yields the template tags of a source that rendering.py has accepted."""
    at = 0
    while opening := OPENING.search(source, at):
        word = opening[0][:2]
        if word == "{#":
            at = source.index("#}", opening.end()) + 2
        else:
            at = opening.end()
            while token := TOKEN.match(source, at):
                at = token.end()
                word = token[0].strip() if word == "{%" else word
                if token.lastgroup == "end":
                    break
        yield TemplateTag(opening.start(), at, word, source[opening.start() : at])


def masked(source: str) -> str:
    """Masks template tags. The result has the same length, so all positions stay valid."""
    pieces, at = [], 0
    for tag in template_tags(source):
        mark = {"{{": PRINT, "{#": " "}.get(tag.word, STATEMENT)
        pieces += [source[at : tag.start], mark * (tag.end - tag.start)]
        at = tag.end
    return "".join([*pieces, source[at:]])


def elements(mask: str) -> Iterator[Element]:
    """Yields the HTML tags. Skips comments, as well as malformed parts, which `problems_of` reports."""
    for piece in PIECE.finditer(mask):
        if piece["name"]:
            yield _element(piece)


def _element(piece: re.Match[str]) -> Element:
    offset = piece.start("attributes")
    attributes = tuple(
        Attribute(found["name"].lower(), found["value"], offset + found.start(), offset + found.start("value"))
        for found in ATTRIBUTE.finditer(piece["attributes"])
    )
    return Element(piece["name"].lower(), piece.start(), piece.end(), bool(piece["close"]), attributes)


def problems_of(source: Source, *, urls: frozenset[str] | None) -> list[Problem]:
    """Returns the problems in a source. `urls` lists the fields that can be a whole link. For a layout, which is
    checked again after it has been filled in, `urls` is None.
    """
    return _Check(source, urls).problems


class _Open(NamedTuple):
    name: str  # the element name; an `if` or `for` has the prefix %
    at: int


class _Enough(Exception):
    pass


class _Check:
    """Checks a source in linear time, because it can come from untrusted authors."""

    def __init__(self, source: Source, urls: frozenset[str] | None) -> None:
        self.source, self.urls = source, urls
        self.mask = masked(source.text)
        self.problems: list[Problem] = []
        self.open: list[_Open] = []
        tags = list(template_tags(source.text))
        self.prints = [tag for tag in tags if tag.word == "{{"]
        self.statements = [tag for tag in tags if tag.word not in ("{{", "{#")]
        with suppress(_Enough):
            self._read()

    def _read(self) -> None:
        at = 0
        while (start := self.mask.find("<", at)) >= 0:
            self._between(at, start)
            at = self._piece(start)
        self._between(at, len(self.mask))
        for left in self.open:
            self._refuse(left.at, f"<{left.name}> is never closed")

    def _piece(self, start: int) -> int:
        piece = PIECE.match(self.mask, start)
        if not piece:
            self._refuse(
                start,
                'this "<" does not start a valid tag: write &lt;, or close the tag and put double quotes around each value',
            )
            return start + 1
        if piece["comment"] is not None:
            if re.search(f"[{PRINT}{STATEMENT}]|<(?:style|script)", piece["comment"], re.IGNORECASE):
                self._refuse(start, "a comment cannot contain fields or styles: write {# like this #} instead")
        elif piece["name"]:
            element = _element(piece)
            if element.is_closing:
                self._closing(element)
            else:
                self._opening(element)
        elif self.source.text[:start].strip():
            self._refuse(start, "a doctype is allowed only at the beginning of a layout")
        return piece.end()

    def _between(self, start: int, end: int) -> None:
        """Checks the text and the template tags between two HTML tags."""
        inside = self.open[-1].name if self.open else ""
        at = start
        for statement in _within(self.statements, start, end):
            self._text(at, statement.start)
            at = statement.end
            self._statement(statement)
        self._text(at, end)
        if inside == "style" and STATEMENT in self.mask[start:end]:
            self._refuse(start, "a style cannot contain if or for")

    def _text(self, start: int, end: int) -> None:
        parent = self._parent()
        text = self.mask[start:end]
        if parent in NO_TEXT and text.strip():
            at = start + len(text) - len(text.lstrip())
            self._refuse(at, f"text is not allowed directly inside <{parent}>: mail programs would move the text")

    def _statement(self, tag: TemplateTag) -> None:
        if tag.word in ("if", "for"):
            self.open.append(_Open(f"%{tag.word}", tag.start))
        elif not self.open or not self.open[-1].name.startswith("%"):
            opened = f"<{self.open[-1].name}>" if self.open else "it"
            self._refuse(
                tag.start, f'"{tag.word}" comes before {opened} is closed: open and close a tag in the same branch'
            )
            self.open = [left for left in self.open if left.name.startswith("%")]
        if tag.word.startswith("end") and self.open:
            self.open.pop()

    def _parent(self) -> str:
        return next((left.name for left in reversed(self.open) if not left.name.startswith("%")), "")

    def _opening(self, element: Element) -> None:
        name, parent = element.name, self._parent()
        if name not in INLINE | BLOCKS | PAGE:
            self._refuse(
                element.start,
                f"<{name}> is not allowed in an e-mail: mail programs remove it or treat it as suspicious",
            )
        elif parent in ONLY_TEXT or (parent in ONLY_INLINE and name not in INLINE) or name == parent == "a":
            self._refuse(element.start, f"<{name}> is not allowed inside <{parent}>, because it would close <{parent}>")
        elif name in PARENTS and parent not in PARENTS[name]:
            allowed = " or ".join(f"<{each}>" for each in sorted(PARENTS[name]))
            self._refuse(element.start, f"<{name}> is allowed only directly inside {allowed}")
        elif (parent in NO_TEXT and name not in PARENTS) or (name == "html" and parent):
            self._refuse(element.start, f"<{name}> is not allowed directly inside <{parent}>")
        for needed in NEEDED.get(name, ()):
            if needed not in {attribute.name for attribute in element.attributes}:
                self._refuse(element.start, f"<{name}> needs {needed}")
        seen: set[str] = set()
        for attribute in element.attributes:
            self._attribute(attribute, is_again=attribute.name in seen)
            seen.add(attribute.name)
        if name not in VOID:
            self.open.append(_Open(name, element.start))

    def _closing(self, element: Element) -> None:
        if self.open and self.open[-1].name == element.name:
            self.open.pop()
            return
        opened = f"<{self.open[-1].name}> is open here" if self.open else "nothing is open here"
        opened = (
            opened.replace("<%", "{% ").replace("if>", "if %}").replace("for>", "for %}") if "%" in opened else opened
        )
        self._refuse(element.start, f"</{element.name}> does not match the open tag: {opened}")
        if any(left.name == element.name for left in self.open):
            while self.open.pop().name != element.name:
                pass

    def _attribute(self, attribute: Attribute, *, is_again: bool) -> None:
        name, value = attribute.name, attribute.value
        if is_again:
            self._refuse(attribute.start, f"{name} occurs twice")
        elif name.startswith("on") or name in ("srcset", "background"):
            self._refuse(attribute.start, f"{name} is not allowed in an e-mail")
        elif STATEMENT in value:
            self._refuse(attribute.value_start, 'if and for cannot be used inside a tag: use {{ "a" if b else "c" }}')
        elif PRINT in value and name not in WITH_FIELDS:
            self._refuse(
                attribute.value_start, f"{name} cannot contain fields: only {', '.join(sorted(WITH_FIELDS))} can"
            )
        elif name in LINKS and not self._is_link(attribute):
            self._refuse(
                attribute.value_start,
                f"{name} must be a single field of kind url, or begin with https:// and a host, with | urlencode after each field",
            )
        elif name == "style" and re.search(r"url\(|expression|@|\\|&", value, re.IGNORECASE):
            self._refuse(attribute.value_start, "a style cannot load or run anything")

    def _is_link(self, attribute: Attribute) -> bool:
        value, start = attribute.value, attribute.value_start
        prints = [tag.text for tag in _within(self.prints, start, start + len(value))]
        if not prints:
            return bool(LITERAL_LINK.match(value))
        if self.urls is None:
            return True
        whole = PATH.fullmatch(self.source.text, start, start + len(value))
        if whole:
            return whole[1] in self.urls
        return bool(LINK_BEFORE_FIELDS.match(value)) and all(ENCODED.search(text) for text in prints)

    def _refuse(self, at: int, message: str) -> None:
        self.problems.append(self.source.problem(at, message))
        if len(self.problems) == PROBLEMS_MAX:
            raise _Enough


def _within(tags: list[TemplateTag], start: int, end: int) -> list[TemplateTag]:
    return tags[bisect_left(tags, start, key=_start) : bisect_left(tags, end, key=_start)]


def _start(tag: TemplateTag) -> int:
    return tag.start
