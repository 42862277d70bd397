"""Renders e-mail content with placeholders for each recipient, as in `Hello {{ first_name or "there" }}`.

The language is a small subset of Jinja for authors who do not program: fields, fallbacks, `if` and `for`. reader.py
reads each template first, finds its fields, and rejects anything outside that language; minijinja then only runs the
template. A field that is absent, null or blank is missing. A missing field is never printed as empty text.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any
from urllib.parse import quote

import minijinja

from fairpost.model.errors import FairpostError
from fairpost.templates.reader import (
    CHARS_MAX,
    FIELD_DEPTH_MAX,
    INDEX,
    Reader,
    TemplateError,
    line_and_column,
    too_long,
)

VALUE_CHARS_MAX = 100_000
FIELDS_CHARS_MAX = 1_000_000
STEPS_MAX = 20_000  # enough for a thousand entries with three fields each, because a field takes two or three steps
LOOPED_CHARS_MAX = 268_435_456  # the most output that a loop with plain text can print before the steps run out
LIGHT_TAGS_MAX = 100  # to save memory, limits are lower for templates that have a loop or have more tags than this
HEAVY_VALUE_CHARS_MAX = 20_000
COMPILED_KEPT_MAX = 64

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Unrenderable(FairpostError):
    """The template cannot be rendered with this recipient's fields, but it may work for other recipients."""


class UnfitValue(Unrenderable):
    """A value does not fit in this position in the template. `line` and `column` count from 1."""

    def __init__(self, part: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{part}, line {line}: {message}")
        self.part, self.line, self.column, self.message = part, line, column, message


class MissingFields(Unrenderable):
    """The recipient lacks required fields, which are the ones that `missing_of` returns."""

    def __init__(self, names: tuple[str, ...]) -> None:
        fallback = f'{{{{ {names[0]} or "something else" }}}}'
        super().__init__(
            f"there is no value for {', '.join(names)}. Add one, or write a fallback in the template: {fallback}"
        )
        self.names = names


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    subject: str
    text: str | None = None
    html: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    subject: str
    text: str | None
    html: str | None


@lru_cache(maxsize=COMPILED_KEPT_MAX)
def compile_template(template: Template) -> "Compiled":
    """Compiles a template. Raises TemplateError.

    Recent templates are cached by content, so compiling one again takes only as long as hashing it.
    """
    given = {"subject": template.subject, "text": template.text, "html": template.html}
    sources = {part: source for part, source in given.items() if source is not None}
    return Compiled(sources, [Reader(part, source) for part, source in sources.items()])


class Compiled:
    """A compiled template, which any number of threads can render. Each process compiles its own copy.

    `required` lists the fields that every recipient needs. `optional` lists the fields that have a fallback or are
    checked with `if`. A nested field is named with a dot, as in `order.total`.
    """

    def __init__(self, sources: dict[str, str], readers: "list[Reader]") -> None:
        self.required = frozenset(path for reader in readers for path in reader.required)
        self._shape = frozenset(path for reader in readers for path in reader.shape)  # such as products.*.name
        self._numbers = frozenset(path for reader in readers for path in reader.numbers)
        self.fields = frozenset(path for path in self._shape if "*" not in path)
        self.optional = self.fields - self.required
        self._needs = tuple(sorted(self.required))
        self._names = tuple(sorted({path.partition(".")[0] for path in self.fields}))
        self._lists = tuple(name for name in self._names if f"{name}.*" in self._shape)
        self._sources = sources
        self._plain = {reader.part for reader in readers if reader.is_plain}
        self._is_heavy = any(reader.has_loop or reader.tags > LIGHT_TAGS_MAX for reader in readers)
        self._engine = _engine(
            steps_max=min(STEPS_MAX, *(LOOPED_CHARS_MAX // max(1, reader.looped_chars) for reader in readers)),
            is_metered=self._is_heavy,
        )
        for part, source in sources.items():
            try:
                self._engine.add_template(part, source)
            except minijinja.TemplateError as error:
                raise _explained(error, part, source) from error

    @property
    def chars(self) -> int:
        """The total length of the sources, which is roughly the memory that the cached template uses."""
        return sum(map(len, self._sources.values()))

    def render(self, fields: Mapping[str, Any]) -> Rendered:
        """Renders the template. Raises Unrenderable, including MissingFields."""
        if missing := missing_of(self, fields):
            raise MissingFields(missing)
        intake = _Intake(HEAVY_VALUE_CHARS_MAX if self._is_heavy else VALUE_CHARS_MAX)
        values = {name: intake.take(name, fields.get(name)) for name in self._names}
        for name in self._lists:
            if values[name] != "" and type(values[name]) is not _List:
                raise Unrenderable(f"{name} is not a list: there is nothing to repeat")
        subject, text, html = (self._fill(part, values) for part in CHARS_MAX)
        # A line break inside a field would end the header and start another.
        return Rendered(subject=CONTROLS.sub(" ", subject or "").strip(), text=text, html=html)

    def _fill(self, part: str, values: dict[str, Any]) -> str | None:
        if part not in self._sources or part in self._plain:
            return self._sources.get(part)
        _run.room, _run.printed = CHARS_MAX[part], ""
        try:
            filled = self._engine.render_template(part, **values)
        except minijinja.TemplateError as error:
            raise _explained(error, part, self._sources[part]) from error
        except _NoRoom:
            raise Unrenderable(too_long(part)) from None
        if _run.printed:
            raise Unrenderable(f"{part}: {_run.printed} is a list or an object: print its entries instead")
        # The engine also escapes slashes. This is unnecessary and would make links look suspicious to mail scanners.
        filled = filled.replace("&#x2f;", "/") if part == "html" else filled
        if len(filled) > CHARS_MAX[part]:
            raise Unrenderable(too_long(part))
        return filled


def missing_of(compiled: Compiled, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the fields that this recipient lacks, in order. Nothing is rendered, so a million recipients take a
    second or two.
    """
    return tuple(path for path in compiled._needs if not _is_filled(_at(fields, path)))


# ── rendering ─────────────────────────────────────────────────────────────────────────────────────────────


class _Run(threading.local):
    """The state of the current rendering. Thread-local, because all threads share the engine's callbacks."""

    room = 0  # characters that may still be printed
    printed = ""  # the field whose list or object was printed as a whole


_run = _Run()


class _NoRoom(Exception):
    pass


class _Object:
    """A mapping without a dict's methods, which the engine would treat as entries."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Any) -> None:
        self._name, self._values = name, values

    def __getitem__(self, key: Any) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        _run.printed = self._name  # recorded here and raised later, because the engine ignores exceptions raised here
        return ""


class _List(_Object):
    __slots__ = ()


Sequence.register(_List)


class _Intake:
    """Accepts only JSON values, within limits. Other objects may have methods or pretend to be safe HTML."""

    __slots__ = ("chars_max", "room")

    def __init__(self, chars_max: int) -> None:
        self.room, self.chars_max = FIELDS_CHARS_MAX, chars_max

    def take(self, name: str, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        chars = len(value) if kind is str else 0
        self.room -= chars + 1
        if self.room < 0 or chars > self.chars_max:
            raise Unrenderable(f"{name} is too long: a value can be at most {self.chars_max:,} characters long")
        if not _is_filled(value):
            return ""
        if kind is str:
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        if kind is bool or (kind is int and abs(value) < 2**63) or (kind is float and isfinite(value)):
            return value
        if kind not in (dict, list) or depth == FIELD_DEPTH_MAX:
            raise Unrenderable(f"{name} must be text, a number, a list or an object, not {kind.__name__}")
        if kind is list:
            return _List(name, [self.take(name, entry, depth + 1) for entry in value if _is_filled(entry)])
        filled = ((key, entry) for key, entry in value.items() if _is_filled(entry))
        return _Object(name, {self.take(name, k, depth + 1): self.take(name, v, depth + 1) for k, v in filled})


def _is_filled(value: Any) -> bool:
    return value is not None and not (type(value) is str and (not value or value.isspace()))


def _at(fields: Mapping[str, Any], path: str) -> Any:
    if "." not in path:
        return fields.get(path)
    value: Any = fields
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif type(value) is list and INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _engine(*, steps_max: int, is_metered: bool) -> minijinja.Environment:
    engine = minijinja.Environment(
        fuel=steps_max,
        auto_escape_callback=lambda part: part == "html",
        keep_trailing_newline=True,
        pycompat=False,
        filters={"default": _default, "d": _default, "join": _join, "urlencode": _urlencode},
    )
    # Undefined values may be tested but never printed. The engine's type hints do not include this option yet.
    engine.undefined_behavior = "semi_strict"  # type: ignore[assignment]
    if is_metered:
        engine.finalizer = _meter
    return engine


def _default(value: Any, fallback: Any) -> Any:
    return value if _is_filled(value) else _defined(fallback)


def _join(values: Any, separator: Any = ", ") -> Any:
    if type(values) is not _List:
        return _defined(values)
    texts = [str(value) for value in values]
    if sum(map(len, texts)) + len(str(separator)) * len(texts) > VALUE_CHARS_MAX:
        raise _NoRoom
    return str(separator).join(texts)


def _urlencode(value: Any) -> str:
    return quote(str(_defined(value)), safe="")


def _defined(value: Any) -> Any:
    if value is None:  # undefined values arrive as None and would be printed as "none"
        raise Unrenderable("a list entry lacks a value that the template prints: write a fallback")
    return value


def _meter(value: Any) -> Any:
    if isinstance(value, str):
        _run.room -= len(value)
        if _run.room < 0:
            raise _NoRoom
    return NotImplemented  # the engine then prints the value as usual


def _explained(error: minijinja.TemplateError, part: str, source: str) -> FairpostError:
    if error.kind == "OutOfFuel":
        return Unrenderable(f"{part}: rendering takes too many steps: shorten the lists or the repeated part")
    at = len(source.encode()[: (error.range or (0, 0))[0]].decode(errors="ignore"))
    line, column = line_and_column(source, at)
    if error.kind == "SyntaxError":
        return TemplateError(part, line, column, f"it cannot be parsed: {error.detail}")
    start = max(source.rfind("{{", 0, at + 2), source.rfind("{%", 0, at + 2))
    tag = source[start : at + len(source[at:].partition("}")[0])].strip("{%-+}").strip()
    if error.kind == "UndefinedError":
        return UnfitValue(part, line, column, f'there is no value for "{tag}": add one, or write a fallback')
    return UnfitValue(part, line, column, f'a value does not fit "{tag}": {error.detail or error.message}')
