"""Moves the style block of a layout into style attributes, because many mail programs ignore all other styles.

Supports a small subset of CSS: selectors such as `p`, `.button` and `td.button`, and lists of such selectors. The more
specific rule wins; among equally specific rules, the later one wins. An element's own style always wins. Media queries
and external files are not supported. We do not use css-inline (4.4 MB), because it parses HTML as browsers do. Parsing
a layout in this way would move `{% if %}` out of a table, and the quotes in `{{ a or "b" }}` would end a link's
attribute.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from fairpost.portals.folder import Problem, Source
from fairpost.portals.markup import PRINT, Element, elements, masked

STYLE = re.compile(r"<style[^<>]*>(?P<css>.*?)</style>", re.DOTALL | re.IGNORECASE)
REMARK = re.compile(r"/\*.*?\*/", re.DOTALL)
RULE = re.compile(r"(?P<selectors>[^{}]*)\{(?P<declarations>[^{}]*)\}")
SELECTOR = re.compile(r"(?P<tag>[a-z][a-z0-9]*)?(?P<classes>(?:\.[a-z][a-z0-9_-]*)*)")
DECLARATION = re.compile(r"(?P<property>[a-z-]+)\s*:\s*(?P<value>[^\s].*)", re.DOTALL)
FORBIDDEN = re.compile(r"url\(|expression|!|[\"<>@\\&]", re.IGNORECASE)
COLOUR_FIELD = re.compile(r"\{\{\s*portal\.colours\.\w+\s*\}\}")


class Rule(NamedTuple):
    tag: str
    classes: frozenset[str]
    declarations: tuple[tuple[str, str], ...]


def problems_of(source: Source) -> list[Problem]:
    """Checks a layout before its fields are filled in."""
    mask = masked(source.text)
    blocks = list(STYLE.finditer(mask))
    problems = [source.problem(block.start(), "a layout can have only one <style>") for block in blocks[1:]]
    for block in blocks[:1]:
        problems += [source.problem(at, message) for at, message in _mistakes(mask, block.start("css"), block["css"])]
        for mark in re.finditer(f"{PRINT}+", block["css"]):
            start, end = (block.start("css") + at for at in mark.span())
            if not COLOUR_FIELD.fullmatch(source.text, start, end):
                problems.append(
                    source.problem(start, "only colours can be inserted here, such as {{ portal.colours.accent }}")
                )
    return problems


def _mistakes(mask: str, start: int, css: str) -> Iterable[tuple[int, str]]:
    css = REMARK.sub(lambda remark: " " * len(remark[0]), css)
    at = 0
    for rule in RULE.finditer(css):
        if css[at : rule.start()].strip():
            yield start + at, "this is not a valid rule"
        at = rule.end()
        here = start + rule.start() + len(rule[0]) - len(rule[0].lstrip())
        for selector in rule["selectors"].split(","):
            if not selector.strip() or not SELECTOR.fullmatch(selector.strip()):
                yield (
                    here,
                    f'"{selector.strip()}" cannot be used: rules can use tags and classes, like p, .button or td.button',
                )
        for declaration in filter(str.strip, rule["declarations"].split(";")):
            found = DECLARATION.fullmatch(declaration.strip())
            if not found or FORBIDDEN.search(declaration):
                yield (
                    here,
                    f'"{declaration.strip().replace(PRINT, "")}" cannot be used: write "name: value", with a value that loads nothing',
                )
    if css[at:].strip():
        yield (
            start + at + len(css[at:]) - len(css[at:].lstrip()),
            "this is not a valid rule; write it like p { color: #333333 }",
        )


def inlined(html: str) -> str:
    """Removes the style block and all classes. Template tags are left unchanged."""
    mask = masked(html)
    block = STYLE.search(mask)
    rules = _rules(block["css"]) if block else []
    pieces, at = [], 0
    for element in elements(mask):
        if element.is_closing or (block and block.start() <= element.start < block.end()):
            continue
        for start, end, text in _edits(element, rules):
            pieces += [html[at:start], text]
            at = end
    html = "".join([*pieces, html[at:]])
    return re.sub(r"[ \t]*<style[^<>]*>.*?</style>\n?", "", html, count=1, flags=re.DOTALL | re.IGNORECASE)


def _rules(css: str) -> list[Rule]:
    """Returns the rules, least specific first. Equally specific rules keep their order."""
    rules = [
        Rule(
            found["tag"] or "",
            frozenset(filter(None, found["classes"].split("."))),
            _declarations(rule["declarations"]),
        )
        for rule in RULE.finditer(REMARK.sub(" ", css))
        for selector in rule["selectors"].split(",")
        if (found := SELECTOR.fullmatch(selector.strip()))
    ]
    return sorted(rules, key=lambda rule: (len(rule.classes), bool(rule.tag)))


def _declarations(text: str) -> tuple[tuple[str, str], ...]:
    found = (DECLARATION.fullmatch(each.strip()) for each in text.split(";"))
    return tuple((each["property"], " ".join(each["value"].split())) for each in found if each)


def _edits(element: Element, rules: list[Rule]) -> Iterable[tuple[int, int, str]]:
    values = {attribute.name: attribute.value for attribute in element.attributes}
    classes = frozenset(values.get("class", "").split())
    style: dict[str, str] = {}
    for rule in rules:
        if rule.tag in ("", element.name) and rule.classes <= classes:
            _put(style, rule.declarations)
    _put(style, _declarations(values.get("style", "")))
    for attribute in element.attributes:
        if attribute.name in ("class", "style"):
            yield attribute.start, attribute.value_start + len(attribute.value) + 1, ""
    if style:
        end = element.attributes[-1].value_start + len(element.attributes[-1].value) + 1 if element.attributes else 0
        end = end or element.start + 1 + len(element.name)
        yield end, end, f' style="{"; ".join(f"{name}: {value}" for name, value in style.items())}"'


def _put(style: dict[str, str], declarations: Iterable[tuple[str, str]]) -> None:
    for name, value in declarations:
        # Moves the property to the end, so that, for example, `padding` overrides an earlier `padding-top`.
        style.pop(name, None)
        style[name] = value
