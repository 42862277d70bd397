"""`fairpost settings`: every setting, what it is now, and where that comes from."""

import os
from typing import TYPE_CHECKING

import typer

from fairpost.cli.output import AsJson, plain, print_json, print_table
from fairpost.settings import SETTINGS, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairpost.settings import Setting


def settings(as_json: AsJson = False) -> None:
    """List every setting, its value and where that comes from.

    Secrets are not shown. A wrong one is an error that names it, as with every command.

    \b
    Example: fairpost settings
    """
    read_settings()
    found = [_facts(setting, os.environ) for setting in SETTINGS]
    if as_json:
        print_json(found)
        return
    rows = ((each["variable"], plain(each["value"] or ""), each["from"]) for each in found)
    print_table(("setting", "value", "from"), rows)
    typer.echo("\nwhat each is for, and what it must be: docs/settings.md, or --json")


def _facts(setting: "Setting", environ: "Mapping[str, str]") -> dict[str, str | None]:
    variable, text = setting.variable, environ.get(setting.variable)
    if not text and setting.alias is not None:
        variable, text = setting.alias.variable, environ.get(setting.alias.variable)
    value = text or setting.default
    return {
        "variable": setting.variable,
        "value": None if value is None else setting.show(value),
        "from": (variable if variable != setting.variable else "environment") if text else "default",
        "rule": setting.rule,
        "help": setting.help,
    }
