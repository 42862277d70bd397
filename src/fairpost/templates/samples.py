"""Sample values for a preview, guessed from the field names and from how the fields are used."""

from typing import Any

from fairpost.templates.reader import INDEX
from fairpost.templates.rendering import Compiled

SAMPLES = (
    ("first", "Ada"), ("given", "Ada"), ("last", "Lovelace"), ("surname", "Lovelace"), ("family", "Lovelace"),
    ("company", "Example Ltd"), ("org", "Example Ltd"), ("agency", "Example Agency"), ("mail", "ada@example.com"),
    ("url", "https://example.com/welcome"), ("link", "https://example.com/welcome"),
    ("website", "https://example.com"), ("domain", "example.com"), ("phone", "+44 20 7946 0018"), ("code", "482913"),
    ("date", "31 January 2030"), ("day", "Thursday"), ("time", "09:30"), ("price", "49.00"), ("amount", "49.00"),
    ("total", "49.00"), ("city", "London"), ("country", "United Kingdom"), ("count", 3), ("number", 3),
    ("title", "Head of Research"), ("role", "Head of Research"), ("name", "Ada Lovelace"),
)  # fmt: skip

_Tree = dict[str, "_Tree"]  # each step of a path, with the steps below it


def sample_of(compiled: Compiled) -> dict[str, Any]:
    """Returns values for a preview, guessed from the field names and from how the fields are used."""
    numbers = {tuple(path.split(".")) for path in compiled._numbers}
    tree: _Tree = {}
    for path in compiled._shape:
        below = tree
        for step in path.split("."):
            below = below.setdefault(step, {})
    sample = _sample((), tree, numbers)
    return sample if isinstance(sample, dict) else {}


def _sample(at: tuple[str, ...], tree: "_Tree", numbers: set[tuple[str, ...]]) -> Any:
    """Returns the sample value at one position in the field tree. `tree` contains the fields below it."""
    if at in numbers:
        return 3
    if tree and all(step == "*" or INDEX.fullmatch(step) for step in tree):
        entries = max(2, *(int(step) + 1 for step in tree if step != "*"), 0)
        # Lists, including nested ones, contain the same entry twice.
        return [_sample((*at, min(tree)), tree[min(tree)], numbers)] * min(entries, 20)
    if tree or not at:
        return {step: _sample((*at, step), tree[step], numbers) for step in sorted(tree)}
    name = next(step for step in reversed(at) if step != "*" and not INDEX.fullmatch(step)).lower()
    return next((value for word, value in SAMPLES if word in name), name.replace("_", " ").capitalize())
