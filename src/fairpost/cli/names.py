"""Parsers for workspace, list, template, sequence and campaign names."""

from typing import Annotated

import typer

from fairpost.model.errors import FairpostError
from fairpost.model.names import NAME_RULE, is_name
from fairpost.settings import read_settings


def require_name(what: str, text: str) -> None:
    """Check a name. `what` is the argument's name in the help."""
    if not is_name(text):
        raise FairpostError(f"{what} must be {NAME_RULE}, for example spring; got {text!r}")


def checked_name(text: str) -> str:
    """Reject characters that require quoting or have a special meaning in an e-mail's key."""
    from fairpost.campaigns import values

    try:
        return values.name(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def checked_workspace(text: str | None) -> str | None:
    from fairpost.campaigns import values

    try:
        return None if text is None else values.workspace(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _workspace(context: typer.Context, parameter: typer.CallbackParam, text: str) -> str | None:
    source = context.get_parameter_source(str(parameter.name))
    if source is None or source.name != "DEFAULT":
        return checked_workspace(text)
    return text if context.resilient_parsing else read_settings().workspace


# Declare the parameter as `workspace: Workspace = ""`. The value that the command receives is never empty.
Workspace = Annotated[
    str, typer.Option(callback=_workspace, show_default=False, help="Workspace. [default: FAIRPOST_WORKSPACE]")
]
