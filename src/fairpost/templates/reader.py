"""Reads a template before it runs. Finds the template's fields, and rejects anything that is not part of the
language.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from fairpost.model.errors import FairpostError

TEMPLATE_CHARS_MAX = 1_048_576
CHARS_MAX = {"subject": 1_000, "text": 1_048_576, "html": 10_485_760}  # maximum characters in the rendered result
FIELD_DEPTH_MAX = 8
TOKENS_MAX = 100  # maximum tokens in one tag
DEPTH_MAX = 16  # maximum nesting depth of `if` and `for`
ARMS_MAX = 50  # maximum `elif` branches in one `if`

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
PROCESSED = re.compile("[“”„‘’«»\xa0]")  # characters that word processors substitute for quotes and spaces

FILTERS = {  # the possible numbers of arguments for each filter
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


class TemplateError(FairpostError):
    """The template must be changed, as described in `message`. `line` and `column` count from 1."""

    def __init__(self, part: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{part}, line {line}: {message}")
        self.part, self.line, self.column, self.message = part, line, column, message


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@dataclass(slots=True)
class _Block:
    kind: str  # "if" or "for"
    at: int
    name: str = ""  # the loop variable
    entries: str = ""  # the field that the loop iterates over, if known
    guards: frozenset[str] = frozenset()  # fields that are not empty in this block, because an `if` has checked them
    arms: int = 0


class Reader:
    """Reads one part of a template. Each method reads one rule of the grammar and returns the fields needed to print
    the text that it has read.

    The engine treats a missing field as empty text, and a missing field inside another field as undefined. Both count
    as false. An undefined value, however, supports no comparisons and, apart from fallbacks, no filters.
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
            self._refuse(0, f"it is {len(self.source):,} characters long, but the maximum is {TEMPLATE_CHARS_MAX:,}")
        if not self.source.isascii() and (broken := re.search("[\ud800-\udfff]", self.source)):
            self._refuse(broken.start(), "it contains an incomplete character: delete and retype that character")
        at = 0
        while opening := OPENING.search(self.source, at):
            self.is_plain = False
            self._literal(opening.start() - at)
            at = self._comment(opening) if opening[0] == "{#" else self._tag(opening)
        self._literal(len(self.source) - at)
        if self.is_plain and len(self.source) > CHARS_MAX[self.part]:
            self._refuse(0, too_long(self.part))
        for block in self.blocks:
            self._refuse(block.at, f'"{block.kind}" is never closed: write {{% end{block.kind} %}} where it ends')

    def _literal(self, chars: int) -> None:
        if any(block.kind == "for" for block in self.blocks):
            self.looped_chars = max(self.looped_chars, chars)

    def _comment(self, opening: re.Match[str]) -> int:
        end = self.source.find("#}", opening.end())
        if end < 0:
            self._refuse(
                opening.start(), '"{#" starts a comment that is never closed: write "#}", or add a space after "{"'
            )
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
            self._refuse(self.tokens[-1].at, f'this does not close "{opening[0][:2]}": write "{closing}"')
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
                self._refuse(at, f"`if` and `for` can be nested at most {DEPTH_MAX} levels deep")
            self.blocks.append(_Block("if", at, guards=self._condition()) if word == "if" else self._loop(at))
        elif not word:
            self._refuse_statement(at)
        elif not self.blocks:
            self._refuse(at, f'"{word}" has no opening tag')
        elif word in ("endif", "endfor"):
            if word != f"end{self.blocks.pop().kind}":
                self._refuse(at, f'"{word}" does not close the most recently opened tag')
        else:
            self._arm(at, word)

    def _arm(self, at: int, word: str) -> None:
        block = self.blocks[-1]
        block.name, block.guards, block.arms = "", frozenset(), block.arms + 1
        if block.arms > ARMS_MAX:
            self._refuse(at, f"an `if` can have at most {ARMS_MAX} `elif` tags")
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
        """Reads a condition and returns the fields that are certainly not empty if the condition is true. Fields in a
        condition may be missing.
        """
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
        while self._take("or"):  # the value on the left-hand side may be empty
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
            self._refuse(at, f'"{sign}" compares a number with a value that may be text: write "| int" after the field')
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
            self._refuse(self.tokens[self.place].at, f"fields can be nested at most {FIELD_DEPTH_MAX} levels deep")
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
        """Returns the full name of the field that a name stands for, or "" if the name does not stand for a field. For
        example, `p.name` in a loop over `products` stands for `products.*.name`.
        """
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
            self._refuse(token.at, f'there is no filter "{name}": use one of {", ".join(sorted(FILTERS))}')
        self.place += 1
        given, values = set[str](), 0
        if self._take("("):
            while not self._take(")"):
                if values:
                    self._expect(",")
                given |= self._expression()
                values += 1
        if values not in FILTERS[name]:
            self._refuse(token.at, f'"{name}" does not accept {values} values in parentheses')
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
            self._refuse(opening.start(), f"at most {TOKENS_MAX} tokens are allowed between braces")
        self._refuse(len(self.source) - len(rest), f'"{rest[0]}" cannot be used between braces')

    def _refuse_statement(self, at: int) -> NoReturn:
        self._refuse(at, f'"{self.tokens[0].text}" is not available: use only if and for')

    def _refuse_token(self) -> NoReturn:
        token = self.tokens[self.place]
        if token.kind == "end":
            self._refuse(token.at, f'something is missing before "{token.text}"')
        if PROCESSED.search(token.text):
            self._refuse(token.at, f'"{token.text}" contains typographic quotes or spaces: retype them')
        self._refuse(token.at, f'"{token.text}" cannot be used here')

    def _refuse(self, at: int, message: str) -> NoReturn:
        raise TemplateError(self.part, *line_and_column(self.source, at), message)


def _is_guarded(path: str, guards: Iterable[str]) -> bool:
    return any(path == guard or path.startswith(f"{guard}.") for guard in guards)


def line_and_column(source: str, at: int) -> tuple[int, int]:
    return source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)


def too_long(part: str) -> str:
    return f"the {part} would be longer than {CHARS_MAX[part]:,} characters"
