"""Counts phrases that Fairpost's prose avoids, and terms that are not in its glossary.

english.json has the count of each file that still contains some. It may only shrink:

    python -m tests.docs.english            lower the counts to the current ones
    python -m tests.docs.english --show     list every place
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).with_suffix(".json")
PLACES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks", "docs", "src", "examples", "tests", "deploy")
SUFFIXES = {
    ".css",
    ".example",
    ".html",
    ".js",
    ".md",
    ".py",
    ".service",
    ".sql",
    ".svg",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
}
ABOUT_ENGLISH = {"docs/testing.md", "tests/docs/english.py", "tests/docs/test_english.py"}

PHRASES = (
    r"(?<![\"'`~/=])nobody(?![\"'`@-])",  # where it is quoted, it is an invented address or name, or the Unix user
    "whoever",
    "somebody",
    "those who",
    "anew",
    "so many",
    "so often as",
    "(?:he|him|his|himself)",
    "what (?:is|are|was|were) [^.,;:|`\n]{1,40} (?:is|are|was|were)",
    "who (?:is|has|was|does) not, (?:is|has|was|does|gets)",
)
# The glossary's terms are on the right.
TERMS = (
    "nursery",  # supervisor
    "bur(?:y|ies|ied)",  # reclaim
    "course(?<!of course)",  # progress
    "standing",  # snapshot
    "(?-i:(?<![\"'.-])outlook(?![\"'.,-]))",  # revised forecast; the provider is in quotes or part of a host name
    "crowd",  # concurrency limits
    "doorkeeper",  # authentication
    "entrance",
    "grievance",  # account rejection
    "told off",  # throttled
    "tak(?:e|es|en|ing) to heart",
    "suspicion",  # reason of a suspension
    "in hand",  # claimed
    "heed(?:s|ed)?",  # apply
    "stirs?",  # mark as changed
    "tall(?:y|ies)",  # counters
    "witness(?:es)?",  # identity checks
    "unsuppress",  # suppress remove
    "foreseen?",  # forecast
    "told apart",  # distinguished
)
# Names that stay because stored data, the HTTP API, SQL callers or old command lines use them.
NAMES = (
    "foreseen_at_launch",
    "foreseen_by_now",
    "in_hand",
    "unsuppress",
)
NAME = re.compile(rf"(?<![a-z_])(?:{'|'.join(NAMES)})(?![a-z_])")
FOUND = re.compile(rf"(?<![a-z])(?:{'|'.join((*PHRASES, *TERMS))})(?![a-z])", re.IGNORECASE)


def files() -> Iterator[Path]:
    for place in PLACES:
        path = ROOT / place
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = each.relative_to(ROOT).as_posix()
            if each.suffix in SUFFIXES and each.is_file() and name not in ABOUT_ENGLISH and "/migrations/" not in name:
                yield each


def found_in(text: str) -> Iterator[tuple[int, str]]:
    """Yields each line and phrase. Names count as prose: `test_nobody_waits` contains one."""
    prose = NAME.sub("", text).replace("_", " ")
    for match in FOUND.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, match.group()


def counts() -> dict[str, int]:
    found = {each.relative_to(ROOT).as_posix(): len(list(found_in(each.read_text("utf-8")))) for each in files()}
    return {name: count for name, count in found.items() if count}


def allowed() -> dict[str, int]:
    return dict(json.loads(COUNTS.read_text())) if COUNTS.exists() else counts()


def main() -> None:
    if "--show" in sys.argv:
        for each in files():
            for line, phrase in found_in(each.read_text("utf-8")):
                sys.stdout.write(f"{each.relative_to(ROOT)}:{line}: {phrase}\n")
        return
    before = allowed()
    after = {name: min(count, before.get(name, 0)) for name, count in counts().items() if name in before}
    COUNTS.write_text(json.dumps(after, indent=0) + "\n")
    sys.stdout.write(f"{sum(before.values())} before, {sum(after.values())} now, in {len(after)} files\n")


if __name__ == "__main__":
    main()
