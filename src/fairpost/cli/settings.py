"""`fairpost settings`: every setting with its value and source."""

import typer

from fairpost.cli.output import AsJson, plain, print_json, print_table
from fairpost.settings import ShownSetting, shown_settings


def settings(as_json: AsJson = False) -> None:
    """List settings with their values and sources.

    Secrets are not shown. If a setting is invalid, the command fails.

    \b
    Example: fairpost settings
    """
    found = [_facts(each) for each in shown_settings()]
    if as_json:
        print_json(found)
        return
    rows = ((each["variable"], plain(each["value"] or ""), each["from"]) for each in found)
    print_table(("setting", "value", "from"), rows)
    typer.echo("\nFor descriptions and allowed values, see docs/settings.md or --json")


def _facts(shown: ShownSetting) -> dict[str, str | None]:
    return {
        "variable": shown.variable,
        "value": shown.value,
        "from": shown.origin,
        "rule": shown.rule,
        "help": shown.help,
    }
