"""How many files a new thing touches: `python -m tests.architecture.touched WHAT [COMMIT]`. WHAT is a kind of transport, `limits`,
`presets`, `states`, or the name of an action in the audit log, such as `workspace.readmit`.

A kind of transport, beyond its folder, in two measures. *By word*: every file that contains the word, in code, text, comments or data. *As a kind*: files whose
code depends on the kind, and that a change to it must therefore consider: a Python name that contains the word (GmailSettings,
is_gmail, an import), the word alone as a string ("gmail"), or either in a script of the pages.

A limit of accounts: files that *name* each, and files that *list* them, which name half of all or more. To add a limit, consider
the latter. Presets of providers are counted in the same way, by their names as strings.

A state of e-mails: files that *list* the states, which name half of all or more within ten lines of code: as a string, a member
of State, a field or a key. Words are counted only where they are close, because campaigns and attempts share most of them.

An action: files whose code names it: its name in the audit log, the function that performs it, or a Python name made of its noun
and verb. `reasons/catalogue.py` counts if it contains a refusal that only this action gives.

Development tools and migrations are left out.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fairpost.model.account import LIMITS
from fairpost.model.states import State

ROOT = Path(__file__).parents[2]
PACKAGE = "src/fairpost"
SUFFIXES = (".py", ".js", ".sql", ".html", ".toml")
CATALOGUE, PRESETS = "reasons/catalogue.py", "providers/presets.toml"
DEVELOPMENT = (
    "dev/",
    "bench/",
    "demo/",
    "emulate/",
    "inbox/",
    "simulate/",
)  # folders of their own before there was dev/
TOGETHER = 10  # lines of code within which a file names states that it lists
STATES = {
    ".py": re.compile(r"""\bState\.([A-Z_]+)\b|["']([a-z_]+)["']|^\s*([a-z_]+): """),
    ".js": re.compile(r"""["'`]([a-z_]+)["'`]|\b([a-z_]+):"""),
    ".sql": re.compile(r"'([a-z_]+)'"),
}


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
    return _half(limits, [naming(files, limit) for limit in limits])


def naming_preset(files: Mapping[str, str], preset: str) -> list[str]:
    quoted = re.compile(rf"""["'`]{preset}["'`]|^\[{preset}\]$""", re.M)
    return [path for path, text in files.items() if preset in text and not _is_beside(path) and quoted.search(text)]


def listing_presets(files: Mapping[str, str]) -> list[str]:
    presets = list(tomllib.loads(files[PRESETS]))
    return _half(presets, [naming_preset(files, each) for each in presets])


def _half(names: Sequence[str], found: Iterable[Iterable[str]]) -> list[str]:
    counted = Counter(path for paths in found for path in paths)
    return sorted(path for path, count in counted.items() if 2 * count >= len(names))


def listing_states(files: Mapping[str, str]) -> list[str]:
    return sorted(
        path for path, text in files.items() if not _is_beside(path) and 2 * _together(path, text) >= len(State)
    )


def _together(path: str, text: str) -> int:
    """Returns how many states a file names within a few lines, at most."""
    written = STATES.get(f".{path.rpartition('.')[2]}")
    if written is None:
        return 0
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(("#", "--", "//"))]
    words = [{word.lower() for each in written.finditer(line) for word in each.groups() if word} for line in lines]
    return max(
        (len(set(State).intersection(*[set[str]().union(*words[at : at + TOGETHER])])) for at in range(len(words))),
        default=0,
    )


def of_action(files: Mapping[str, str], name: str) -> list[str]:
    """Returns the files that name an action, and the catalogue if it has a refusal of its own."""
    noun, verb = name.split(".")
    trees = {path: ast.parse(text) for path, text in files.items() if path.endswith(".py") and not _is_beside(path)}
    found = [path for path, tree in trees.items() if verb in files[path].lower() and _names_action(tree, noun, verb)]
    sql = re.compile(rf"\b({noun}_{verb}|{verb}_{noun})\b")
    found += [
        path for path, text in files.items() if path.endswith(".sql") and not _is_beside(path) and sql.search(text)
    ]
    return sorted({*found, *([CATALOGUE] if _has_own_refusal(trees, name) else [])})


def _names_action(tree: ast.Module, noun: str, verb: str) -> bool:
    modules = {
        each.asname or each.name: each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "fairpost.actions"
        for each in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text == f"{noun}.{verb}":
                return True
            case ast.Attribute(attr=attr, value=ast.Name(id=module)) if (
                attr == verb and _one(modules.get(module, "")) == noun
            ):
                return True
    return any(
        {_one(part.lower()) for part in re.findall("[A-Z]?[a-z]+", each)} == {noun, verb} for each in _names(tree)
    )


def _has_own_refusal(trees: Mapping[str, ast.Module], name: str) -> bool:
    """Returns whether an action gives a refusal that nothing else gives."""
    given: Counter[str] = Counter()
    own: set[str] = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Refusal", "Reason"):
                given.update(_texts(node))
            if isinstance(node, ast.AsyncFunctionDef) and name in {
                text for each in node.decorator_list for text in _texts(each)
            }:
                own |= {text for each in node.body for text in _texts(each)}
    return any(given[code] == 1 for code in own)


def _one(noun: str) -> str:
    return noun.removesuffix("s")


def _is_beside(path: str) -> bool:
    return path.startswith(DEVELOPMENT) or "/sql/migrations/" in path


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


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(kind: str, commit: str | None = None) -> None:
    files = {path: text for path, text in sources(commit).items() if not _is_beside(path)}
    if kind == "limits":
        names = [each.name for each in LIMITS]
        _print([f"{name}: named in {len(naming(files, name))} files" for name in names], listing(files, names))
        return
    if kind == "presets":
        names = list(tomllib.loads(files[PRESETS]))
        _print([f"{name}: named in {len(naming_preset(files, name))} files" for name in names], listing_presets(files))
        return
    if kind == "states":
        _print([], listing_states(files))
        return
    if "." in kind:
        found = of_action(files, kind)
        sys.stdout.write("\n".join([f"{kind}: {len(found)} files", *(f"  {path}" for path in found)]) + "\n")
        return
    words, depending = by_word(files, kind), as_a_kind(files, kind)
    lines = [f"{kind}: {len(words)} files outside its own have the word, {len(depending)} depend on it"]
    lines += [f"  {'depends' if path in depending else 'word   '}  {path}" for path in sorted({*words, *depending})]
    sys.stdout.write("\n".join(lines) + "\n")


def _print(named: list[str], lists: list[str]) -> None:
    lines = [*named, f"{len(lists)} files list them:", *(f"  {path}" for path in lists)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
