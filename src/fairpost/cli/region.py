"""`fairpost region`: the regions, their state, and their workspaces."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act_at_home
from fairpost.cli.output import AsJson, iso, note, print_json, print_table
from fairpost.cli.session import with_home_store
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.regions.survey import Sight

app = typer.Typer(no_args_is_help=True, help="List regions and assign workspaces to them.")

Workspace = Annotated[
    str,
    typer.Argument(
        metavar="WORKSPACE", help="Workspace name: 1 to 100 characters from a-z, 0-9 and ._-, for example acme."
    ),
]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List regions and their state.

    Shows each region's address, schema, engines and queue. A region that does not respond within 3 seconds is marked as
    such and does not delay the others.

    \b
    Example: fairpost region list
    """
    import asyncio

    from fairpost.regions.survey import survey
    from fairpost.startup.parts import directory_of

    found = asyncio.run(survey(directory_of(read_settings())))
    if as_json:
        print_json(found)
        return
    rows = [
        (each.name, each.place, _answer(each), _schema(each), _number(each.engines), _number(each.queued))
        for each in found
    ]
    print_table(("region", "where", "answers", "schema", ">engines", ">queued"), rows)


@app.command()
def place(workspace: Workspace, region: Annotated[str, typer.Argument(metavar="REGION", help="Region name.")]) -> None:
    """Permanently assign a workspace to a region.

    The assignment is stored in the home database. A workspace cannot be moved later, because its e-mails remain in the
    region.

    \b
    Example: fairpost region place acme eu
    """
    from fairpost.actions import workspaces
    from fairpost.startup.parts import directory_of

    directory_of(read_settings()).region(region)
    request = workspaces.Place(workspace=workspace, region=region)
    act_at_home(workspaces.place, request, fields={"name": "WORKSPACE"})
    typer.echo(f"placed {workspace} in {region}")


@app.command("of")
def of(workspace: Workspace) -> None:
    """Print a workspace's region, for scripts.

    \b
    Example: fairpost region of acme
    """
    from fairpost.store.directory import region_of

    typer.echo(with_home_store(lambda home: region_of(home, workspace)))


@app.command()
def workspaces(
    region: Annotated[str | None, typer.Option(metavar="NAME", help="Only workspaces in this region.")] = None,
    after: Annotated[
        str, typer.Option(metavar="WORKSPACE", help="Only workspaces after this name in alphabetical order.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List workspaces and their regions, up to 1,000 at a time.

    \b
    Example: fairpost region workspaces --region eu
    """
    from fairpost.store.directory import PLACEMENTS_MAX, placements

    found = with_home_store(lambda home: placements(home, region=region, after=after))
    if as_json:
        print_json(found)
    elif found:
        print_table(("workspace", "region", "since"), [(p.workspace, p.region, iso(p.created_at)) for p in found])
    else:
        typer.echo("No workspaces. Assign one: fairpost region place WORKSPACE REGION")
    if len(found) == PLACEMENTS_MAX:
        note(f"more: --after {found[-1].workspace}")


def _answer(each: "Sight") -> str:
    return "yes" if each.answers else f"no: {each.trouble}"


def _schema(each: "Sight") -> str | None:
    if each.pending is None:
        return each.trouble if each.answers else None
    return f"run: fairpost db migrate --region {each.name}" if each.pending else "up to date"


def _number(n: int | None) -> str | None:
    return None if n is None else f"{n:,}"
