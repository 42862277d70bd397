"""`fairpost settings`: every setting, what it is now, and where that comes from."""

import os
from typing import TYPE_CHECKING

import typer

from fairpost.cli.output import AsJson, plain, print_json, print_table
from fairpost.settings import SETTINGS, find, read_settings, read_settings_file

if TYPE_CHECKING:
    from fairpost.settings import Found, Setting


def settings(as_json: AsJson = False) -> None:
    """List every setting, its value and where that comes from.

    Secrets are not shown. A wrong one is an error that names it, as with every command.

    \b
    Example: fairpost settings
    """
    read_settings()
    file = read_settings_file()
    found = [_facts(setting, find(setting, os.environ, file)) for setting in SETTINGS]
    if as_json:
        print_json(found)
        return
    rows = ((each["variable"], plain(each["value"] or ""), each["from"]) for each in found)
    print_table(("setting", "value", "from"), rows)
    typer.echo("\nwhat each is for, and what it must be: docs/settings.md, or --json")


def _facts(setting: "Setting", found: "Found") -> dict[str, str | None]:
    return {
        "variable": setting.variable,
        "value": None if found.text is None else setting.show(found.text),
        "from": found.origin,
        "rule": setting.rule,
        "help": setting.help,
    }
