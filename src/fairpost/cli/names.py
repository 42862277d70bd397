"""Names that people give to workspaces, lists, templates, sequences and campaigns, as the command line takes them."""

from typing import Annotated

import typer

from fairpost.model.errors import FairpostError
from fairpost.model.names import NAME_RULE, is_name
from fairpost.settings import read_settings


def require_name(what: str, text: str) -> None:
    """`what`: how the help calls it."""
    if not is_name(text):
        raise FairpostError(f"{what} must be {NAME_RULE}, like spring; got {text!r}")


def checked_name(text: str) -> str:
    """With nothing in it that would have to be quoted, or that means something in the key of an e-mail."""
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
    str | None, typer.Option(callback=checked_workspace, help="Of this workspace. [default: FAIRPOST_WORKSPACE]")
]


def chosen(workspace: str | None) -> str:
    return workspace or read_settings().workspace
