"""The declarations in portal.toml (a portal's brand) and in meta.toml (a type with its fields).

values.py defines the values that a field accepts.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

from fairpost.model.durations import read_duration
from fairpost.portals.folder import NAME, NAME_RULE, Problem, Source
from fairpost.portals.values import LINE_RULE, Field, is_line, taken, unfit
from fairpost.templates.reader import RESERVED
from fairpost.templates.rendering import VALUE_CHARS_MAX, Unrenderable

SLOTS = ("content", "preheader", "subject")  # the places in a layout that are filled in for each e-mail
COLOURS = ("accent", "on_accent", "background", "surface", "text", "muted", "border")
READABLE = (("text", "surface"), ("muted", "surface"), ("muted", "background"), ("on_accent", "accent"))
CONTRAST_MIN = 4.5  # WCAG 2.2, level AA
FIELDS_MAX = 50
LINKS_MAX = 20
EXPIRES_MAX = timedelta(days=365)

COLOUR = re.compile("#[0-9a-fA-F]{6}")
EXAMPLE = re.compile(
    r"https?://(?:[^/?#]*\.)?(?:example\.(?:com|net|org)|[^/?#]*\.(?:example|invalid|test))(?:[:/?#]|\Z)"
)
KINDS = ("text", "lines", "url", "email", "code", "number")
CHARS_MAX_BY_DEFAULT = {"text": 200, "lines": 2_000, "url": 2_000, "email": 254, "code": 6, "number": 20}
DECODE_PLACE = re.compile(r"\s*\(at line (\d+), column (\d+)\)|\s*\(at end of document\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The declaration of a type. E-mails of the type are not sent once `expires_after` has passed."""

    description: str
    preheader: str
    is_urgent: bool
    expires_after: timedelta | None
    fields: Mapping[str, Field]

    @property
    def sample(self) -> dict[str, str | int]:
        return {name: field.sample for name, field in self.fields.items()}

    @property
    def fewest(self) -> dict[str, str | int]:
        return {name: field.sample for name, field in self.fields.items() if field.is_required}


@dataclass(frozen=True, slots=True, kw_only=True)
class Portal:
    """A portal. `values` contains all values that templates can use."""

    key: str
    name: str
    sender_name: str
    tone: str
    values: Mapping[str, Any]

    def called(self, name: str) -> Self:
        names = {"name": name, "sender_name": name, "logo_alt": name}
        return replace(self, name=name, sender_name=name, values={**self.values, **names})


def read_portal(key: str, source: Source, problems: list[Problem]) -> Portal | None:
    table = _Table.of(source, problems)
    if table is None:
        return None
    before = len(problems)
    words = {name: table.words(name) for name in ("name", "sender_name", "tone", "footer")}
    words["logo_alt"] = table.words("logo_alt", is_needed=False) or words["name"]
    words |= {name: table.words(name, is_needed=False) for name in ("company", "postal_address")}
    words["support_email"] = table.fitting("support_email", "email")
    words["logo_url"] = table.fitting("logo_url", "url")
    colours, links = table.colours(), table.links()
    table.require_nothing_else()
    if len(problems) > before:
        return None
    values = {name: value for name, value in words.items() if value}
    return Portal(
        key=key,
        name=words["name"],
        sender_name=words["sender_name"],
        tone=words["tone"],
        values=values | {"colours": colours, "links": links},
    )


PORTAL_KEYS = {
    *("name", "sender_name", "tone", "footer", "company", "postal_address"),
    *("logo_alt", "logo_url", "support_email", "colours", "links"),
}


def doubts_about(portal: Portal, source: Source) -> Iterable[Problem]:
    urls = [portal.values.get("logo_url", ""), *(link["url"] for link in portal.values["links"])]
    if any(EXAMPLE.match(url) for url in urls):
        yield source.as_a_whole("the links point to example.com: to change them, write your own portal.toml")
    colours = portal.values["colours"]
    for front, back in READABLE:
        if (contrast := _contrast(colours[front], colours[back])) < CONTRAST_MIN:
            yield source.as_a_whole(
                f"{front} on {back} is hard to read: the contrast is {contrast:.1f} but must be at least {CONTRAST_MIN}"
            )


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def read_meta(source: Source, problems: list[Problem]) -> Meta | None:
    table = _Table.of(source, problems)
    if table is None:
        return None
    before = len(problems)
    meta = Meta(
        description=table.words("description"),
        preheader=table.words("preheader"),
        is_urgent=table.flag("urgent", default=False),
        expires_after=table.duration("expires_after"),
        fields={field.name: field for field in table.fields()},
    )
    table.require_nothing_else()
    return meta if len(problems) == before else None


class _Table:
    """A TOML table whose values are read one by one.

    Each invalid value is reported as a problem, along with its line number.
    """

    def __init__(self, source: Source, problems: list[Problem], values: dict[str, Any], path: str = "") -> None:
        self.source, self.problems, self.values, self.path = source, problems, values, path
        self.known: set[str] = set()

    @staticmethod
    def of(source: Source, problems: list[Problem]) -> "_Table | None":
        try:
            return _Table(source, problems, tomllib.loads(source.text))
        except tomllib.TOMLDecodeError as error:
            place = DECODE_PLACE.search(str(error))
            line, column = (int(place[1]), int(place[2])) if place and place[1] else (source.text.count("\n") + 1, 1)
            problems.append(Problem(source.file, line, column, f"this is not TOML: {DECODE_PLACE.sub('', str(error))}"))
        except RecursionError:
            problems.append(source.as_a_whole("this is not TOML: it is nested too deeply"))
        return None

    def words(self, key: str, *, is_needed: bool = True) -> str:
        """Reads one line. Braces are not allowed, because declared values are inserted into templates."""
        value = self._take(key, str, is_needed)
        if value is None:
            return ""
        if not is_line(value):
            self._refuse(key, f"must be {LINE_RULE}")
        elif key != "preheader" and ("{" in value or "}" in value):
            self._refuse(key, "must not contain braces")
        return str(value).strip()

    def fitting(self, key: str, kind: str) -> str:
        value = self.words(key, is_needed=False)
        if value and (reason := unfit(value, kind)):
            self._refuse(key, reason)
        return value

    def flag(self, key: str, *, default: bool | None) -> bool:
        value = self._take(key, bool, default is None)
        return bool(default if value is None else value)

    def count(self, key: str, default: int) -> int:
        value = self._take(key, int, False)
        if value is not None and not 1 <= value <= VALUE_CHARS_MAX:
            self._refuse(key, f"must be between 1 and {VALUE_CHARS_MAX:,}")
        return default if value is None else int(value)

    def duration(self, key: str) -> timedelta | None:
        value = self._take(key, str, False)
        if value is None:
            return None
        duration = read_duration(value)
        if duration is None or not timedelta() < duration <= EXPIRES_MAX:
            self._refuse(key, 'must be a duration such as "10m", "1h" or "7d", up to a year')
            return None
        return duration

    def colours(self) -> dict[str, str]:
        table = self._inner("colours", self._take("colours", dict, True) or {})
        colours = {name: table.words(name) for name in COLOURS}
        for name, colour in colours.items():
            if colour and not COLOUR.fullmatch(colour):
                table._refuse(name, "must be a colour such as #1a2b3c")
        table.require_nothing_else()
        return colours

    def links(self) -> list[dict[str, str]]:
        given = self._take("links", list, False) or []
        if len(given) > LINKS_MAX or not all(isinstance(link, dict) for link in given):
            self._refuse("links", f"must be a list of at most {LINKS_MAX} tables, each with a label and a url")
            return []
        links = []
        for link in given:
            table = self._inner("links", link)
            links.append({"label": table.words("label"), "url": table.fitting("url", "url")})
            if "url" not in link:
                table._refuse("url", "is missing")
            table.require_nothing_else()
        return links

    def fields(self) -> Iterable[Field]:
        given = self._take("fields", dict, False) or {}
        if len(given) > FIELDS_MAX:
            self._refuse("fields", f"has more than {FIELDS_MAX} fields")
            return
        for name, values in given.items():
            if not NAME.fullmatch(name) or name in RESERVED | {"portal", *SLOTS}:
                self._refuse(
                    "fields", f"{name!r} cannot be used as a field name: {NAME_RULE}, and some names are reserved"
                )
            elif not isinstance(values, dict):
                self._refuse("fields", f"{name} must be a table: [fields.{name}]")
            elif (field := self._inner(f"fields.{name}", values).field(name)) is not None:
                yield field

    def field(self, name: str) -> Field | None:
        before = len(self.problems)
        kind = self.words("kind", is_needed=False) or "text"
        if kind not in KINDS:
            self._refuse("kind", f"must be one of {', '.join(KINDS)}")
            return None
        field = Field(
            name=name,
            description=self.words("description"),
            kind=kind,
            sample=self._take("sample", int if kind == "number" else str, True),
            is_required=self.flag("required", default=None),
            chars_max=self.count("chars_max", CHARS_MAX_BY_DEFAULT[kind]),
        )
        self.require_nothing_else()
        if len(self.problems) > before:
            return None
        try:
            if taken(field, field.sample) is None:
                self._refuse("sample", "must not be empty, because previews show it")
        except Unrenderable as error:
            self._refuse("sample", f"is not valid: {error}")
        return field

    def require_nothing_else(self) -> None:
        for key in sorted(self.values.keys() - self.known):
            self._refuse(key, f"is not known here: use one of {', '.join(sorted(self.known))}")

    def _take(self, key: str, kind: type, is_needed: bool) -> Any:
        self.known.add(key)
        value = self.values.get(key)
        if value is None and is_needed:
            self._refuse(key, "is missing")
        if value is not None and type(value) is not kind:
            words = {
                str: "text in quotes",
                bool: "true or false",
                int: "a whole number",
                dict: "a table",
                list: "a list",
            }
            self._refuse(key, f"must be {words[kind]}")
            return None
        return value

    def _inner(self, path: str, values: dict[str, Any]) -> "_Table":
        return _Table(self.source, self.problems, values, path)

    def _refuse(self, key: str, message: str) -> None:
        at = self._place(key)
        name = f"{self.path}.{key}" if self.path else key
        self.problems.append(self.source.problem(at, f"{name} {message}"))

    def _place(self, key: str) -> int:
        """Returns the position of the key or, failing that, of its table or the beginning of the file. The position is
        a guess, because tomllib does not report positions.
        """
        text = self.source.text
        header = (
            re.search(rf"^[ \t]*\[\[?[ \t]*{re.escape(self.path)}[ \t]*\].*", text, re.MULTILINE) if self.path else None
        )
        start = header.start() if header else 0
        following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, header.end() if header else 0)
        end = following.start() if following else len(text)
        written = re.compile(rf"^[ \t]*({re.escape(key)})[ \t]*[=.]", re.MULTILINE).search(text, start, end)
        found = written or re.compile(rf"^[ \t]*\[\[?[ \t]*({re.escape(key)})[ \t]*[.\]]", re.MULTILINE).search(
            text, start
        )
        return found.start(1) if found else start
