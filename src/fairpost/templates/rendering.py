"""What an e-mail says, with places for what differs from one recipient to the next: `Hello {{ first_name or "there" }}`.

A small part of the Jinja language for authors who do not program: fields, fallbacks, if and for. Each template is read
here first, which tells its fields and refuses what is not part of that language; minijinja then only runs it.
A field that is absent, null or blank is missing, and a missing field is never printed as nothing.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote

import minijinja

from fairpost.model.errors import FairpostError

TEMPLATE_CHARS_MAX = 1_048_576
CHARS_MAX = {"subject": 1_000, "text": 1_048_576, "html": 10_485_760}  # of what is rendered
VALUE_CHARS_MAX = 100_000
FIELDS_CHARS_MAX = 1_000_000
FIELD_DEPTH_MAX = 8
TOKENS_MAX = 100  # of one tag
DEPTH_MAX = 16  # of if and for in each other
ARMS_MAX = 50  # elif of one if
STEPS_MAX = 20_000  # of the engine; printing a field is two or three, so a list of a thousand with three each fits
LOOPED_CHARS_MAX = 268_435_456  # of plain text, should a loop print it until the steps are used up
LIGHT_TAGS_MAX = 100  # with more, or a loop, prints are counted and values are shorter: it could take gigabytes
HEAVY_VALUE_CHARS_MAX = 20_000
COMPILED_KEPT_MAX = 64

OPENING = re.compile(r"\{\{-?|\{%[-+]?|\{#")
TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<end>-?\}\}|[-+]?%\})
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?![\w.]))
    | (?P<path>[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*(?:\.[\w\x80-\U0010ffff]+)*)
    | (?P<sign>[=!<>]=|[<>|(),])
    )""",
    re.DOTALL | re.VERBOSE,
)
INDEX = re.compile("[0-9]{1,4}")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
PROCESSED = re.compile("[“”„‘’«»\xa0]")  # what a word processor makes of quotes and spaces

FILTERS = {  # name: how many values it takes in parentheses
    "default": {1}, "d": {1}, "join": {0, 1}, "round": {0, 1}, "capitalize": {0}, "float": {0}, "int": {0},
    "length": {0}, "lower": {0}, "title": {0}, "trim": {0}, "upper": {0}, "urlencode": {0},
}  # fmt: skip
STATEMENTS = ("if", "elif", "else", "endif", "for", "endfor")
FALLBACKS = {"default", "d"}
PARSING = {"float", "int", "round"}
NUMERIC = PARSING | {"length"}
LOOP = {"loop.index", "loop.length", "loop.first", "loop.last"}
LITERALS = {"true", "false", "True", "False"}
RESERVED = LITERALS | {"and", "or", "not", "in", "is", "if", "else", "for", "none", "None", "loop", "self", "super"}

SAMPLES = (
    ("first", "Ada"), ("given", "Ada"), ("last", "Lovelace"), ("surname", "Lovelace"), ("family", "Lovelace"),
    ("company", "Example Ltd"), ("org", "Example Ltd"), ("agency", "Example Agency"), ("mail", "ada@example.com"),
    ("url", "https://example.com/welcome"), ("link", "https://example.com/welcome"),
    ("website", "https://example.com"), ("domain", "example.com"), ("phone", "+44 20 7946 0018"), ("code", "482913"),
    ("date", "31 January 2030"), ("day", "Thursday"), ("time", "09:30"), ("price", "49.00"), ("amount", "49.00"),
    ("total", "49.00"), ("city", "London"), ("country", "United Kingdom"), ("count", 3), ("number", 3),
    ("title", "Head of Research"), ("role", "Head of Research"), ("name", "Ada Lovelace"),
)  # fmt: skip


class TemplateError(FairpostError):
    """The template must be changed: `message` says how. `line` and `column` count from 1."""

    def __init__(self, part: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{part}, line {line}: {message}")
        self.part, self.line, self.column, self.message = part, line, column, message


class Unrenderable(FairpostError):
    """Not with the fields of this recipient. With those of others the template is fine."""


class UnfitValue(Unrenderable):
    """At this place of the template. `line` and `column` count from 1."""

    def __init__(self, part: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{part}, line {line}: {message}")
        self.part, self.line, self.column, self.message = part, line, column, message


class MissingFields(Unrenderable):
    """Those that missing_of tells."""

    def __init__(self, names: tuple[str, ...]) -> None:
        fallback = f'{{{{ {names[0]} or "something else" }}}}'
        super().__init__(f"{', '.join(names)} missing: fill in, or write a fallback into the template: {fallback}")
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


_Tree = dict[str, "_Tree"]  # steps of paths, each with those that follow it


@lru_cache(maxsize=COMPILED_KEPT_MAX)
def compile_template(template: Template) -> "Compiled":
    """Raises TemplateError. The last ones are kept, by their words: compiling one again costs its hash."""
    given = {"subject": template.subject, "text": template.text, "html": template.html}
    sources = {part: source for part, source in given.items() if source is not None}
    return Compiled(sources, [_Reader(part, source) for part, source in sources.items()])


class Compiled:
    """A template ready to render, by any number of threads. It stays in its process: others compile their own.

    `required`: the fields that nobody may lack. `optional`: those with a fallback, or asked for with `if`. A field
    within another one is named with a dot: order.total.
    """

    def __init__(self, sources: dict[str, str], readers: "list[_Reader]") -> None:
        self.required = frozenset(path for reader in readers for path in reader.required)
        self._shape = frozenset(path for reader in readers for path in reader.shape)  # with products.*.name
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
        """Of its sources: what it takes to keep it is about as much."""
        return sum(map(len, self._sources.values()))

    def render(self, fields: Mapping[str, Any]) -> Rendered:
        """Raises Unrenderable, and MissingFields of that kind."""
        if missing := missing_of(self, fields):
            raise MissingFields(missing)
        intake = _Intake(HEAVY_VALUE_CHARS_MAX if self._is_heavy else VALUE_CHARS_MAX)
        values = {name: intake.take(name, fields.get(name)) for name in self._names}
        for name in self._lists:
            if values[name] != "" and type(values[name]) is not _List:
                raise Unrenderable(f"{name} is not a list: there is nothing to repeat")
        subject, text, html = (self._fill(part, values) for part in CHARS_MAX)
        # A line break that came in with a field would end the header, and what follows would be one.
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
            raise Unrenderable(_too_long(part)) from None
        if _run.printed:
            raise Unrenderable(f"{part}: {_run.printed} is a list or an object: print what is in it, not the whole")
        # The engine escapes slashes too. It need not, and links would look disguised to those who search mail for them.
        filled = filled.replace("&#x2f;", "/") if part == "html" else filled
        if len(filled) > CHARS_MAX[part]:
            raise Unrenderable(_too_long(part))
        return filled


def missing_of(compiled: Compiled, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """What this recipient lacks, in order. Nothing is rendered: a million recipients take a second or two."""
    return tuple(path for path in compiled._needs if not _is_filled(_at(fields, path)))


def sample_of(compiled: Compiled) -> dict[str, Any]:
    """Values for a preview, guessed from the names of the fields and from how they are used."""
    numbers = {tuple(path.split(".")) for path in compiled._numbers}
    tree: _Tree = {}
    for path in compiled._shape:
        below = tree
        for step in path.split("."):
            below = below.setdefault(step, {})
    sample = _sample((), tree, numbers)
    return sample if isinstance(sample, dict) else {}


def _sample(at: tuple[str, ...], tree: "_Tree", numbers: set[tuple[str, ...]]) -> Any:
    """`tree`: what there is below this place."""
    if at in numbers:
        return 3
    if tree and all(step == "*" or INDEX.fullmatch(step) for step in tree):
        entries = max(2, *(int(step) + 1 for step in tree if step != "*"), 0)
        return [_sample((*at, min(tree)), tree[min(tree)], numbers)] * min(
            entries, 20
        )  # one for all: lists may be in lists
    if tree or not at:
        return {step: _sample((*at, step), tree[step], numbers) for step in sorted(tree)}
    name = next(step for step in reversed(at) if step != "*" and not INDEX.fullmatch(step)).lower()
    return next((value for word, value in SAMPLES if word in name), name.replace("_", " ").capitalize())


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@dataclass(slots=True)
class _Block:
    kind: str  # if, for
    at: int
    name: str = ""  # what a loop calls the entry at hand
    entries: str = ""  # which field's entries these are, where that is known
    guards: frozenset[str] = frozenset()  # what is not empty here: an if has asked
    arms: int = 0


class _Reader:
    """Reads one part of a template. Each method of the grammar returns what must not be missing for its piece to print.

    A missing field reaches the engine as an empty text, within others as undefined. Both are false; but undefined
    bears no comparison and no filter other than a fallback.
    """

    def __init__(self, part: str, source: str) -> None:
        self.part, self.source = part, source
        self.required: set[str] = set()
        self.shape: set[str] = set()
        self.numbers: set[str] = set()
        self.is_plain, self.has_loop = True, False
        self.tags = self.looped_chars = 0
        self.blocks: list[_Block] = []
        self.tokens: list[_Token] = []
        self.place = 0
        self.ends_as_number = False
        self._read()

    def _read(self) -> None:
        if len(self.source) > TEMPLATE_CHARS_MAX:
            self._refuse(0, f"it has {len(self.source):,} characters, and at most {TEMPLATE_CHARS_MAX:,} are allowed")
        if not self.source.isascii() and (broken := re.search("[\ud800-\udfff]", self.source)):
            self._refuse(broken.start(), "there is half a character: delete it, and type it anew")
        at = 0
        while opening := OPENING.search(self.source, at):
            self.is_plain = False
            self._literal(opening.start() - at)
            at = self._comment(opening) if opening[0] == "{#" else self._tag(opening)
        self._literal(len(self.source) - at)
        if self.is_plain and len(self.source) > CHARS_MAX[self.part]:
            self._refuse(0, _too_long(self.part))
        for block in self.blocks:
            self._refuse(block.at, f'"{block.kind}" is never closed: write {{% end{block.kind} %}} where it ends')

    def _literal(self, chars: int) -> None:
        if any(block.kind == "for" for block in self.blocks):
            self.looped_chars = max(self.looped_chars, chars)

    def _comment(self, opening: re.Match[str]) -> int:
        end = self.source.find("#}", opening.end())
        if end < 0:
            self._refuse(opening.start(), '"{#" begins a remark that is never closed: write "#}", or a space after "{"')
        return end + 2

    def _tag(self, opening: re.Match[str]) -> int:
        closing = "}}" if opening[0].startswith("{{") else "%}"
        self.tokens, self.place, at = [], 0, opening.end()
        while True:
            token = TOKEN.match(self.source, at)
            if not token or len(self.tokens) == TOKENS_MAX:
                self._refuse_tag(opening, closing, at)
            at = token.end()
            kind = token.lastgroup or ""
            self.tokens.append(_Token(kind, token[kind], token.start(kind)))
            if kind == "end":
                break
        if not self.tokens[-1].text.endswith(closing):
            self._refuse(self.tokens[-1].at, f'"{opening[0][:2]}" is not closed by this: write "{closing}"')
        self.tags += 1
        if closing == "}}":
            self.required |= self._expression()
        else:
            self._statement(opening.start())
        if self.tokens[self.place].kind != "end":
            self._refuse_token()
        return at

    def _statement(self, at: int) -> None:
        word = self._take(*STATEMENTS)
        if word in ("if", "for"):
            if len(self.blocks) == DEPTH_MAX:
                self._refuse(at, f"at most {DEPTH_MAX} if and for can be in each other")
            self.blocks.append(_Block("if", at, guards=self._condition()) if word == "if" else self._loop(at))
        elif not word:
            self._refuse_statement(at)
        elif not self.blocks:
            self._refuse(at, f'"{word}" stands alone: nothing was opened before it')
        elif word in ("endif", "endfor"):
            if word != f"end{self.blocks.pop().kind}":
                self._refuse(at, f'"{word}" closes something else: the last one opened comes first')
        else:
            self._arm(at, word)

    def _arm(self, at: int, word: str) -> None:
        block = self.blocks[-1]
        block.name, block.guards, block.arms = "", frozenset(), block.arms + 1
        if block.arms > ARMS_MAX:
            self._refuse(at, f"an if has at most {ARMS_MAX} elif")
        if word == "elif":
            block.guards = self._condition()

    def _loop(self, at: int) -> _Block:
        self.has_loop = True
        name = self.tokens[self.place].text
        if not name.isidentifier() or name in RESERVED:
            self._refuse_token()
        self.place += 1
        self._expect("in")
        over = self.tokens[self.place]
        self.required |= self._expression()
        entries = self._resolved(over.text) if over.kind == "path" else ""
        if entries:
            self.shape.add(f"{entries}.*")
        return _Block("for", at, name=name, entries=entries)

    def _condition(self) -> frozenset[str]:
        """What is not empty where the condition holds. What it asks for may be: that is the question."""
        start = self.place
        self._either()
        words = ["and", *(token.text for token in self.tokens[start : self.place]), "and"]
        if "or" in words or "(" in words:
            return frozenset()
        places = zip(words, words[1:], words[2:], strict=False)
        return frozenset(word for before, word, after in places if before == after == "and")

    def _expression(self) -> set[str]:
        needs = self._either()
        if self._take("if"):
            guards = self._condition()
            self._expect("else")
            needs = {path for path in needs if not _is_guarded(path, guards)} | self._expression()
        return needs

    def _either(self) -> set[str]:
        needs = self._both()
        while self._take("or"):  # what stands before may be empty
            needs = self._both()
        return needs

    def _both(self) -> set[str]:
        needs = self._comparison()
        while self._take("and"):
            needs |= self._comparison()
        return needs

    def _comparison(self) -> set[str]:
        if self._take("not"):
            self._comparison()
            return set()
        needs = self._value()
        sign = self._take("==", "!=", "<", ">", "<=", ">=", "in", "not")
        if not sign:
            return needs
        if sign == "not":
            self._expect("in")
        was_number, at = self.ends_as_number, self.tokens[self.place - 1].at
        self._firm(needs | self._value())
        if was_number != self.ends_as_number or (sign[0] in "<>" and not was_number):
            self._refuse(at, f'"{sign}" compares a number with what may be text: write "| int" after the field')
        return set()

    def _value(self) -> set[str]:
        token = self.tokens[self.place]
        needs: set[str] = set()
        if self._take("("):
            needs = self._expression()
            self._expect(")")
        elif token.kind == "path":
            needs = self._path(token.text)
        elif token.kind not in ("text", "number"):
            self._refuse_token()
        else:
            self.place += 1
        self.ends_as_number = token.kind == "number"
        while self._take("|"):
            needs = self._filter(needs, self._resolved(token.text) if token.kind == "path" else "")
        return needs

    def _path(self, path: str) -> set[str]:
        root, *rest = path.split(".")
        if len(rest) > FIELD_DEPTH_MAX:
            self._refuse(self.tokens[self.place].at, f"a field is at most {FIELD_DEPTH_MAX} deep in others")
        if not root.isidentifier() or not all(step.isidentifier() or INDEX.fullmatch(step) for step in rest):
            self._refuse_token()
        is_known = path in LITERALS or (path in LOOP and any(block.name for block in self.blocks))
        if root in RESERVED and not is_known:
            self._refuse_token()
        self.place += 1
        resolved = self._resolved(path)
        if not resolved:
            return set()
        self.shape.add(resolved)
        is_own = resolved != path or _is_guarded(path, (guard for block in self.blocks for guard in block.guards))
        return set() if is_own else {path}

    def _resolved(self, path: str) -> str:
        """The name from outside: the p.name of a loop over products is products.*.name. Empty: it is no field's."""
        root, dot, rest = path.partition(".")
        if root in RESERVED:
            return ""
        for block in reversed(self.blocks):
            if block.name == root:
                return f"{block.entries}.*{dot}{rest}" if block.entries else ""
        return path

    def _filter(self, needs: set[str], path: str) -> set[str]:
        token, name = self.tokens[self.place], self.tokens[self.place].text
        if name not in FILTERS:
            self._refuse(token.at, f'there is no "{name}": use one of {", ".join(sorted(FILTERS))}')
        self.place += 1
        given, values = set[str](), 0
        if self._take("("):
            while not self._take(")"):
                if values:
                    self._expect(",")
                given |= self._expression()
                values += 1
        if values not in FILTERS[name]:
            self._refuse(token.at, f'"{name}" cannot have {values} values in parentheses')
        if name in FALLBACKS:
            return given
        if name in PARSING:
            self.required |= needs
            self.numbers |= {path} - {""}
        self.ends_as_number = name in NUMERIC
        self._firm(needs)
        return needs | given

    def _firm(self, needs: set[str]) -> None:
        self.required |= {path for path in needs if "." in path}

    def _take(self, *wanted: str) -> str:
        text = self.tokens[self.place].text
        if text not in wanted:
            return ""
        self.place += 1
        return text

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            self._refuse(self.tokens[self.place].at, f'"{wanted}" is missing before "{self.tokens[self.place].text}"')

    def _refuse_tag(self, opening: re.Match[str], closing: str, at: int) -> NoReturn:
        rest = self.source[at:].lstrip(" \t\r\n")
        if rest[:1] in ("", "{", "}", "%") or closing not in rest:
            self._refuse(opening.start(), f'"{opening[0][:2]}" is never closed: write "{closing}" where it ends')
        if rest[0] in "\"'":
            self._refuse(len(self.source) - len(rest), f"the quote {rest[0]} is never closed")
        if closing == "%}" and self.tokens and self.tokens[0].text not in STATEMENTS:
            self._refuse_statement(opening.start())
        if len(self.tokens) == TOKENS_MAX:
            self._refuse(opening.start(), f"at most {TOKENS_MAX} words and signs are allowed between braces")
        self._refuse(len(self.source) - len(rest), f'"{rest[0]}" cannot be used between braces')

    def _refuse_statement(self, at: int) -> NoReturn:
        self._refuse(at, f'"{self.tokens[0].text}" is not available: there are only if and for')

    def _refuse_token(self) -> NoReturn:
        token = self.tokens[self.place]
        if token.kind == "end":
            self._refuse(token.at, f'something is missing before "{token.text}"')
        if PROCESSED.search(token.text):
            self._refuse(token.at, f'"{token.text}" has the quotes or spaces of a word processor: type them anew')
        self._refuse(token.at, f'"{token.text}" cannot be used here')

    def _refuse(self, at: int, message: str) -> NoReturn:
        raise TemplateError(self.part, *_line_and_column(self.source, at), message)


def _is_guarded(path: str, guards: Iterable[str]) -> bool:
    return any(path == guard or path.startswith(f"{guard}.") for guard in guards)


def _line_and_column(source: str, at: int) -> tuple[int, int]:
    return source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────


class _Run(threading.local):
    """What this thread renders at the moment. Its own, since what the engine calls back is one for all threads."""

    room = 0  # characters it may still print
    printed = ""  # the field whose list or object was printed whole


_run = _Run()


class _NoRoom(Exception):
    pass


class _Object:
    """A dict without its methods: the engine would take them for entries."""

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
        _run.printed = self._name  # the engine swallows what is raised here
        return ""


class _List(_Object):
    __slots__ = ()


Sequence.register(_List)


class _Intake:
    """Lets in what JSON can say, and not too much of it. Anything else may have methods, or call itself safe html."""

    __slots__ = ("chars_max", "room")

    def __init__(self, chars_max: int) -> None:
        self.room, self.chars_max = FIELDS_CHARS_MAX, chars_max

    def take(self, name: str, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        chars = len(value) if kind is str else 0
        self.room -= chars + 1
        if self.room < 0 or chars > self.chars_max:
            raise Unrenderable(f"{name} is too long: a value has at most {self.chars_max:,} characters")
        if not _is_filled(value):
            return ""
        if kind is str:
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        if kind is bool or (kind is int and abs(value) < 2**63) or (kind is float and isfinite(value)):
            return value
        if kind not in (dict, list) or depth == FIELD_DEPTH_MAX:
            raise Unrenderable(f"{name} is no text, number, list or object that can be used: {kind.__name__}")
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
    # Undefined may be asked for, and never printed. The engine's type hints do not know this one yet.
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
    if value is None:  # undefined comes as None, and would be printed as such
        raise Unrenderable("a list entry lacks something that the template prints: write a fallback")
    return value


def _meter(value: Any) -> Any:
    if isinstance(value, str):
        _run.room -= len(value)
        if _run.room < 0:
            raise _NoRoom
    return NotImplemented  # the engine prints it as it would have


def _explained(error: minijinja.TemplateError, part: str, source: str) -> FairpostError:
    if error.kind == "OutOfFuel":
        return Unrenderable(f"{part}: it takes too many steps: shorten the lists, or what is repeated")
    at = len(source.encode()[: (error.range or (0, 0))[0]].decode(errors="ignore"))
    line, column = _line_and_column(source, at)
    if error.kind == "SyntaxError":
        return TemplateError(part, line, column, f"it cannot be understood: {error.detail}")
    start = max(source.rfind("{{", 0, at + 2), source.rfind("{%", 0, at + 2))
    tag = source[start : at + len(source[at:].partition("}")[0])].strip("{%-+}").strip()
    if error.kind == "UndefinedError":
        return UnfitValue(part, line, column, f'nothing is there for "{tag}": fill in, or write a fallback')
    return UnfitValue(part, line, column, f'a value does not fit "{tag}": {error.detail or error.message}')


def _too_long(part: str) -> str:
    return f"the {part} becomes longer than {CHARS_MAX[part]:,} characters"
