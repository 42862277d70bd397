"""How many files a new thing touches: `python -m tests.architecture.touched gmail [COMMIT]`, `python -m tests.architecture.touched limits [COMMIT]`.

A kind of transport, beyond its folder, in two measures. *By word*: every file that contains the word, in code, text, comments or data. *As a kind*: files whose
code depends on the kind, and that a change to it must therefore consider: a Python name that contains the word (GmailSettings,
is_gmail, an import), the word alone as a string ("gmail"), or either in a script of the pages.

A limit of accounts: files that *name* each, and files that *list* them, which name half of all or more. To add a limit, consider
the latter. Development tools (dev/) and migrations are left out.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fairpost.model.account import LIMITS

ROOT = Path(__file__).parents[2]
PACKAGE = "src/fairpost"
SUFFIXES = (".py", ".js", ".sql", ".html", ".toml")


def sources(commit: str | None = None) -> dict[str, str]:
    """Returns every file of the package by path, at a commit or, if None, now."""
    if commit is None:
        paths = sorted(path for path in (ROOT / PACKAGE).rglob("*") if path.suffix in SUFFIXES)
        return {str(path.relative_to(ROOT / PACKAGE)): path.read_text("utf-8") for path in paths}
    listed = _git("ls-tree", "-r", "--name-only", commit, PACKAGE).splitlines()
    wanted = [path for path in listed if path.endswith(SUFFIXES)]
    return {path.removeprefix(f"{PACKAGE}/"): _git("show", f"{commit}:{path}") for path in wanted}


def by_word(files: Mapping[str, str], kind: str) -> list[str]:
    return [path for path, text in files.items() if re.search(rf"\b{kind}\b", text, re.I) and not is_own(path, kind)]


def as_a_kind(files: Mapping[str, str], kind: str) -> list[str]:
    return [path for path, text in files.items() if not is_own(path, kind) and _depends(path, text, kind)]


def naming(files: Mapping[str, str], limit: str) -> list[str]:
    return [
        path
        for path, text in files.items()
        if limit in text and not _is_beside(path) and re.search(rf"\b{limit}\b", text)
    ]


def listing(files: Mapping[str, str], limits: Sequence[str]) -> list[str]:
    counted = Counter(path for limit in limits for path in naming(files, limit))
    return sorted(path for path, count in counted.items() if 2 * count >= len(limits))


def _is_beside(path: str) -> bool:
    return path.startswith(("dev/", "store/sql/migrations/"))


def is_own(path: str, kind: str) -> bool:
    """Returns whether this file is about the kind."""
    return any(re.fullmatch(rf"{kind}(_\w+)?(\.\w+)?", part) for part in path.split("/"))


def _depends(path: str, text: str, kind: str) -> bool:
    if path.endswith(".py") and kind in text.lower():  # few files contain the word, so the others need not be parsed
        tree = ast.parse(text)
        return any(re.search(kind, name, re.I) for name in _names(tree)) or kind in _texts(tree)
    return path.endswith(".js") and re.search(rf"""["'.]{kind}\b(?!\.com|\|)""", text) is not None


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.keyword(arg=str(name)):
                yield name


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(kind: str, commit: str | None = None) -> None:
    files = sources(commit)
    if kind == "limits":
        _count_limits(files)
        return
    words, depending = by_word(files, kind), as_a_kind(files, kind)
    lines = [f"{kind}: {len(words)} files outside its own have the word, {len(depending)} depend on it"]
    lines += [f"  {'depends' if path in depending else 'word   '}  {path}" for path in sorted({*words, *depending})]
    sys.stdout.write("\n".join(lines) + "\n")


def _count_limits(files: Mapping[str, str]) -> None:
    names = [each.name for each in LIMITS]
    lists = listing(files, names)
    lines = [f"{name}: named in {len(naming(files, name))} files" for name in names]
    lines += [f"{len(lists)} files list them:", *(f"  {path}" for path in lists)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
