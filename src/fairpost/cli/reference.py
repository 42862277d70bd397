"""Generate docs/commands.md from the commands: python -m fairpost.cli.reference docs/commands.md

Each section is generated up to its `<!-- notes -->` marker, if it has one. The notes and the top of the page are kept.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from fairpost.cli import app
from fairpost.cli.commands import GROUPS
from fairpost.model.account import LIMITS

NOTES = "<!-- notes -->"
ALL_LIMITS = "| an option for each limit | See [every limit](limits.md#every-limit). |"
_LIMITS = {each.option for each in LIMITS}
_HEADINGS = re.compile(r"^#{2,3} ", re.MULTILINE)


def regenerated(page: str) -> str:
    """Return the page with the current commands. The top of the page and all notes are kept."""
    head = _HEADINGS.split(page)[0].rstrip()
    notes = {found[1]: found[2].strip() for found in re.finditer(_SECTION, page)}
    groups = ("\n\n".join((f"## {title}", *_sections(names, notes))) for title, names in GROUPS.items())
    return "\n\n".join((head, *groups)) + "\n"


_SECTION = re.compile(rf"^### `fairpost (.+?)`$(?:(?!^#).*\n)*?^{NOTES}$((?:\n(?!#{{2,3}} ).*)*)", re.MULTILINE)


def _sections(names: Any, notes: dict[str, str]) -> Iterator[str]:
    root: Any = get_command(app)
    for name in names:
        for path, command in leaves(root.commands[name], (name,)):
            parts = [f"### `fairpost {' '.join(path)}`", *_described(path, command)]
            written = notes.get(" ".join(path))
            yield "\n\n".join([*parts, NOTES, written] if written else parts)


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if not children:
        yield path, command
        return
    for name, child in children.items():
        yield from leaves(child, (*path, name))


def _described(path: tuple[str, ...], command: Any) -> Iterator[str]:
    text, _, example = command.help.partition("Example: ")
    for paragraph in text.replace("\b", "").strip().split("\n\n"):
        yield f"```\n{paragraph.strip()}\n```" if paragraph.strip().startswith("{{") else _one_line(paragraph)
    yield f"```sh\n{example.strip()}\n```"
    context = typer.Context(command, info_name=" ".join(("fairpost", *path)))
    records = [(param, param.get_help_record(context)) for param in command.params]
    rows = [_row(*record) for param, record in records if record and not _LIMITS & set(param.opts)]
    if any(_LIMITS & set(param.opts) for param in command.params):
        rows.append(ALL_LIMITS)
    if rows:
        yield "\n".join(("| option | description |", "|---|---|", *rows))


def _row(option: str, text: str) -> str:
    option, text = (_one_line(each).replace("|", "\\|") for each in (option, text))
    return f"| `{option}` | {text} |"


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(regenerated(page.read_text("utf-8")), "utf-8")
