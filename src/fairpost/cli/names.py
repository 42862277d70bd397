"""Parsers for names of workspaces, lists, templates, sequences and campaigns."""

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
    """Reject characters that need quoting, or that have a meaning in an e-mail's key."""
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


Workspace = Annotated[
    str | None, typer.Option(callback=checked_workspace, help="Workspace. [default: FAIRPOST_WORKSPACE]")
]


def chosen(workspace: str | None) -> str:
    return workspace or read_settings().workspace
