"""Draws sentences at random for a reading: does each sound as if a native technical writer had written it?

python -m tests.docs.drawn              100 sentences: help, errors, pages, docs and docstrings in equal parts
python -m tests.docs.drawn --seed 7     the same ones again
"""

import ast
import random
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/fairpost"
EACH = 20
WORDS_MIN = 4
RAISED = re.compile(r"(Error|Invalid\w*|Refused|Reason|_\w+|exit_with|fail)$")
QUOTED = re.compile(r"\"([A-Z][^\"\n]*)\"|'([A-Z][^'\n]*)'|`([A-Z][^`\n]*)`|>\s*([A-Z][^<>{}\n]+)<")
NO_SENTENCE = re.compile(r"^[#<]|^```|^fairpost |^`[^`]*`$|\w \| \w|noqa|type: ignore|^\w+[.:]\S+$")
END = re.compile(r"(?<=[a-z0-9)`”\"][.?!])\s+(?=[A-Z`“])")


def sentences(prose: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*\d]+[.)]?\s|\n(?=#)", prose):
        for each in END.split(" ".join(paragraph.split())):
            if len(re.findall(r"[A-Za-z’']{2,}", each)) >= WORDS_MIN and not NO_SENTENCE.search(each):
                yield each


def of_docs(pages: list[Path]) -> Iterator[str]:
    for page in pages:
        prose = re.sub(r"```.*?```|<!--.*?-->", "\n\n", page.read_text("utf-8"), flags=re.DOTALL)
        for line in re.sub(r"^\|(.*)\|$", r"\n\1\n", prose, flags=re.MULTILINE).split("\n\n"):
            for cell in line.split(" | ") if " | " in line else [line]:
                yield from sentences(cell)


def of_docstrings() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from sentences(ast.get_docstring(node) or "")
        for comment in re.findall(r"(?m)#\s([a-zA-Z].*)$", path.read_text("utf-8")):
            yield from sentences(comment)
    for path in sorted(SOURCE.rglob("*.sql")):
        if "migrations" not in path.parts:
            lines = re.sub(r"(?m)^\s*--\s?", "", "\n".join(re.findall(r"(?m)^(\s*--.*|\s*)$", path.read_text("utf-8"))))
            yield from sentences(lines)


def of_errors() -> Iterator[str]:
    """Yields what is raised, and the sentences of reasons."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and RAISED.search(ast.unparse(node.func)):
                for argument in node.args[:2]:
                    text = _text(argument)
                    if text and not text.lstrip().upper().startswith(("SELECT", "INSERT", "UPDATE")):
                        yield from sentences(text)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(parts):
            return "".join(p.value if isinstance(p, ast.Constant) else "{…}" for p in parts)  # type: ignore[misc]
        case _:
            return ""


def of_pages() -> Iterator[str]:
    for path in sorted((SOURCE / "api").rglob("*")):
        if path.suffix in {".html", ".js"}:
            for found in QUOTED.findall(re.sub(r"(?m)^\s*(//|\*).*$", "", path.read_text("utf-8"))):
                yield from sentences(re.sub(r"\$\{[^}]*\}", "{…}", "".join(found)))


def drawn(seed: int) -> Iterator[tuple[str, str]]:
    commands = ROOT / "docs/commands.md"
    kinds = {
        "help": of_docs([commands]),
        "errors": of_errors(),
        "pages": of_pages(),
        "docs": of_docs([ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p != commands)]),
        "docstrings": of_docstrings(),
    }
    chance = random.Random(seed)
    for kind, found in kinds.items():
        yield from ((kind, each) for each in chance.sample(sorted(set(found)), EACH))


def main() -> None:
    parser = ArgumentParser(description="Draw 100 sentences for a reading.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    seed = parser.parse_args().seed
    sys.stdout.write(f"Seed {seed}\n")
    for n, (kind, each) in enumerate(drawn(seed), 1):
        sys.stdout.write(f"{n:3} {kind:10} {each}\n")


if __name__ == "__main__":
    main()
