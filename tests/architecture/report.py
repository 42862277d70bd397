"""Reports long and repeated code: `python -m tests.architecture.report [COMMIT]`. It informs, and fails nothing.

Blank lines, comments and docstrings do not count as lines of code. A repeated run is six or more identical lines in two
places, in one file or in two.
"""

import ast
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.architecture.touched import sources

SHOWN_MAX = 10
RUN_MIN = 6
FILE_LINES, FUNCTION_LINES, CLASS_METHODS = 400, 50, 20  # more deserves a second look


@dataclass(frozen=True, order=True)
class Long:
    size: int
    name: str


@dataclass(frozen=True)
class Run:
    """The same lines in two places."""

    lines: int
    first: str
    second: str


def long_files(files: Mapping[str, str]) -> list[Long]:
    return sorted((Long(len(text.splitlines()), path) for path, text in files.items()), reverse=True)


def long_functions(files: Mapping[str, str]) -> list[Long]:
    """Returns the lines from `def` to the end, without the docstring."""
    found = [
        Long(_length(node), f"{path}:{node.lineno} {node.name}")
        for path, tree in _trees(files)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sorted(found, reverse=True)


def large_classes(files: Mapping[str, str]) -> list[Long]:
    """Returns classes by number of methods."""
    found = [
        Long(_methods(node), f"{path}:{node.lineno} {node.name}")
        for path, tree in _trees(files)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    return sorted(found, reverse=True)


def repeated_runs(files: Mapping[str, str]) -> list[Run]:
    """Returns runs, longest first. Each line of a file is in at most one run."""
    lines = {path: [(n, line) for n, line in _code(path, text)] for path, text in files.items()}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for path, code in lines.items():
        for at in range(len(code) - RUN_MIN + 1):
            places[tuple(line for _, line in code[at : at + RUN_MIN])].append((path, at))
    pairs = [(here, there) for each in places.values() if len(each) > 1 for here, there in itertools.pairwise(each)]
    runs = sorted({_grown(lines, *pair) for pair in pairs}, key=lambda run: -run[0])
    taken: set[tuple[str, int]] = set()
    found = []
    for length, (path, at), (other, there) in runs:
        mine = {(other, there + n) for n in range(length)}
        if (path == other and abs(at - there) < length) or mine & taken:
            continue
        taken |= mine
        found.append(Run(length, f"{path}:{lines[path][at][0]}", f"{other}:{lines[other][there][0]}"))
    return found


def _grown(
    lines: Mapping[str, list[tuple[int, str]]], here: tuple[str, int], there: tuple[str, int]
) -> tuple[int, tuple[str, int], tuple[str, int]]:
    """Extends a run in both directions as far as possible."""
    (path, a), (other, b) = here, there
    mine, others = lines[path], lines[other]
    while a > 0 and b > 0 and mine[a - 1][1] == others[b - 1][1]:
        a, b = a - 1, b - 1
    n = 0
    while a + n < len(mine) and b + n < len(others) and mine[a + n][1] == others[b + n][1]:
        n += 1
    return n, (path, a), (other, b)


def _code(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Returns the code without imports, because every file has its own."""
    comment = {".py": "#", ".sql": "--", ".js": "//", ".toml": "#"}.get(f".{path.rpartition('.')[2]}", "\0")
    is_imported = False  # within the parentheses of an import
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        is_import = is_imported or stripped.startswith(("import ", "from "))
        is_imported = is_import and not stripped.endswith(")") and (is_imported or stripped.endswith("("))
        if stripped and not is_import and not stripped.startswith((comment, '"""')):
            yield number, stripped


def _trees(files: Mapping[str, str]) -> Iterator[tuple[str, ast.Module]]:
    for path, text in files.items():
        if path.endswith(".py"):
            yield path, ast.parse(text)


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    documented = ast.get_docstring(node) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def _methods(node: ast.ClassDef) -> int:
    return sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)


def report(files: Mapping[str, str]) -> str:
    python = {path: text for path, text in files.items() if path.endswith(".py")}
    lines = sum(len(text.splitlines()) for text in python.values())
    runs = repeated_runs(python)
    parts = [
        f"{len(python)} files of Python, {lines:,} lines",
        _part("files", "lines", long_files(python), FILE_LINES),
        _part("functions", "lines", long_functions(files), FUNCTION_LINES),
        _part("classes", "methods", large_classes(files), CLASS_METHODS),
        f"repeated runs of {RUN_MIN} lines and more: {len(runs)}, {sum(run.lines for run in runs):,} lines",
        *(f"  {run.lines:>5}  {run.first} and {run.second}" for run in runs[:SHOWN_MAX]),
    ]
    return "\n".join(parts) + "\n"


def _part(what: str, unit: str, found: list[Long], limit: int) -> str:
    beyond = sum(each.size > limit for each in found)
    shown = "\n".join(f"  {each.size:>5}  {each.name}" for each in found[:SHOWN_MAX])
    return f"{what} with more than {limit} {unit}: {beyond}\n{shown}"


if __name__ == "__main__":
    sys.stdout.write(report(sources(*sys.argv[1:2])))
