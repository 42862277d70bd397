"""The source of the package, parsed once for all that look at it, and a walk that looks at what it must and no more."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
PACKAGE = SRC / "fairpost"


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """All of them, those within others too, and no expressions: these are nine nodes in ten."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, name, ()))
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from statements(part.body)
