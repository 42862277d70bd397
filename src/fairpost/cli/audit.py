"""`fairpost audit`: changes and who made them."""

from typing import Annotated

import typer

from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.cli.session import with_home_store, with_store


def audit(
    workspace: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORKSPACE]", help="Show this workspace's entries. [default: the installation's entries]"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of entries.")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="ID", help="Only entries older than the one with this ID.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List changes and who made them, newest first.

    \b
    Example: fairpost audit acme --limit 20
    """
    from fairpost.store import workspaces

    on_store = with_home_store if workspace is None else with_store
    found = on_store(lambda store: workspaces.audit(store, workspace, before=before, most=limit))
    if as_json:
        print_json(found)
    elif found:
        print_table(
            (">entry", "when", "who", "what", "of"),
            ((e.id, f"{e.at:%Y-%m-%d %H:%M:%S}", e.who, e.action, e.subject) for e in found),
        )
    else:
        typer.echo("No changes yet.")
