"""Rules for the tests, so that the product can change its wording and internals without breaking them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.source import statements

TESTS = Path(__file__).parents[1]

WORDS_MAX = 4
"""Five words or more are a sentence."""
WORD = re.compile(r"(?:(?<=\s)|^)[A-Za-z’']+[,.;:]?(?=\s|$)")
SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP)\b")
TEXT_FINDERS = {"get_by_text", "to_have_text", "to_contain_text"}
MATCHES = re.compile(rf"\bmatch\s*=|{'|'.join(sorted(TEXT_FINDERS))}")
PUBLIC_IN_SPITE_OF_THE_NAME = {"_replace", "_asdict", "_fields", "_exit"}

# Texts of a protocol, of another program, or of the test itself: not our own sentences.
COMMAND_REPLY_OR_FILE = re.compile(r"^(?:fairpost |\d{3} |\d\.\d\.\d )|\n")
NOT_OURS = {
    *("a word for the log alone", "Kim is on leave until Monday", "we do not take this"),
    *("No such file or directory", "No space left on device", "unable to get local issuer certificate"),
    *("The token server is away.", "notFound: Requested entity was not found.", "Dear Ann, spring is here."),
}
FOLDERS_OF_FOREIGN_TEXTS = {
    "compose",
    "docs",
    "emulate",
    "gmail",
    "portals",
    "templates",
}  # their subject is text from others


@cache
def sources() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted(TESTS.rglob("*.py"))}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(sources()[path])


def asserted(path: Path) -> Iterator[ast.AST]:
    """Yields the parts of a test that expect a text."""
    for statement in statements(tree(path).body):
        if isinstance(statement, ast.Assert):
            yield statement.test
    if not MATCHES.search(sources()[path]):
        return
    for node in ast.walk(tree(path)):
        match node:
            case ast.keyword(arg="match", value=value):
                yield value
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in TEXT_FINDERS:
                yield from args


def is_sentence(text: str) -> bool:
    is_foreign = SQL.search(text) or COMMAND_REPLY_OR_FILE.search(text) or text in NOT_OURS
    return not is_foreign and len(WORD.findall(text)) > WORDS_MAX


def test_tests_assert_codes_and_effects_and_no_sentences() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{part.lineno}: {part.value[:80]!r}"
        for path in sources()
        if path.parent.name not in FOLDERS_OF_FOREIGN_TEXTS
        for where in asserted(path)
        for part in ast.walk(where)
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and is_sentence(part.value)
    ]
    assert found == []


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_IN_SPITE_OF_THE_NAME


# Only files that import or derive the name are parsed, and they are few.
MAY_BE_PRIVATE = re.compile(r"(?<!\bself)(?<!\bcls)\s*\.\s*_(?!_)\w|\bimport\b(?:[^\n(]*|\s*\([^)]*)\b_(?!_)\w")


def private_names(path: Path) -> Iterator[tuple[int, str]]:
    if not MAY_BE_PRIVATE.search(sources()[path]):
        return
    for node in ast.walk(tree(path)):
        match node:
            case (
                ast.Attribute(value=ast.Name(id="self" | "cls"))
                | ast.Attribute(value=ast.Call(func=ast.Name(id="super")))
            ):
                pass
            case ast.Attribute(attr=name) if is_private(name):
                yield node.lineno, name
            case ast.ImportFrom(module=module, names=names) if (module or "").startswith(("fairpost", "tests")):
                yield from ((node.lineno, each.name) for each in names if is_private(each.name))


def test_tests_use_no_private_names() -> None:
    assert [
        f"{path.relative_to(TESTS)}:{line}: {name}" for path in sources() for line, name in private_names(path)
    ] == []
