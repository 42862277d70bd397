"""Command lines of the previous version. The old command lines still work in this version but print a note."""

from collections.abc import Callable
from typing import Any

import typer
from typer.exceptions import TyperException

RENAMED = {
    ("person",): ("privacy",),
    ("unsuppress",): ("suppress", "remove"),
    ("campaign", "course"): ("campaign", "progress"),
    ("campaign", "who"): ("campaign", "recipients"),
    ("user", "lift"): ("user", "unthrottle"),
}
WORKSPACE_FIRST = ("user", "member", "key", "domain", "hold", "release")  # commands whose first argument was WORKSPACE


def renewed(args: list[str], find: Callable[[str], Any]) -> list[str]:
    """Return the current form of a command line. `find` returns the parser's command with a given name."""
    args = _renamed(args)
    place = 1 if args[:1] in (["hold"], ["release"]) else 2
    if args[:1] and args[0] in WORKSPACE_FIRST and len(args) > place and not args[place].startswith("-"):
        leaf = find(args[0]) if place == 1 else find(args[0]).commands.get(args[1])
        if leaf is not None and _starts_with_workspace(leaf, args[place:]):
            said = " ".join(args[:place])
            typer.echo(f"note: `fairpost {said} WORKSPACE` is now `fairpost {said} --workspace WORKSPACE`", err=True)
            return [*args[:place], "--workspace", *args[place:]]
    return args


def _renamed(args: list[str]) -> list[str]:
    for old, new in RENAMED.items():
        if tuple(args[: len(old)]) == old:
            typer.echo(f"note: `fairpost {' '.join(old)}` is now `fairpost {' '.join(new)}`", err=True)
            return [*new, *args[len(old) :]]
    return args


def _starts_with_workspace(leaf: Any, args: list[str]) -> bool:
    """Return whether --workspace is missing and an argument is left over or could be a workspace."""
    try:
        given, rest, _ = leaf.make_parser(typer.Context(leaf)).parse_args(list(args))
    except TyperException:
        return False  # the parser reports the error
    return "workspace" not in given and bool(rest or given.get("user") is not None)
