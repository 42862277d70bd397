"""`fairpost prospects`: the people you write to, in lists imported from CSV files."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act
from fairpost.cli.files import opened, tell_bad_lines, watched
from fairpost.cli.names import Workspace, require_name
from fairpost.cli.output import AsJson, iso, plain, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from fairpost.model.prospect import Prospect

app = typer.Typer(no_args_is_help=True, help="Import, list, pause and remove recipients.")

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="E-mail address. Case is ignored.")]
List = Annotated[str, typer.Argument(metavar="LIST", help="Name of the list.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="CSV file, or `-` for standard input.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=FIELD",
        help="Field to import a column into. NAME= skips the column. Repeatable.",
    ),
]
Encoding = Annotated[str | None, typer.Option(help="File encoding: utf-8, cp1252 or utf-16. [default: detected]")]
Delimiter = Annotated[str | None, typer.Option(help="Column separator. [default: detected]")]
FIELDS_SHOWN = 60  # characters


@app.command("import")
def import_(
    list_name: Annotated[
        str,
        typer.Argument(metavar="LIST", help="List to add the prospects to. The list is created if it does not exist."),
    ],
    file: File,
    workspace: Workspace = "",
    column: Columns = None,
    encoding: Encoding = None,
    delimiter: Delimiter = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid lines and import the others.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import a CSV file into a list if all lines are valid.

    The first line contains the column names. One column must contain the e-mail address. The columns `timezone` and `id` have special meanings, and every other column is a field for templates. Existing prospects keep their values for fields that the file does not contain.

    \b
    Example: fairpost prospects import spring leads.csv --column "Vorname=first_name"
    """
    from fairpost.actions.prospects import ImportProspects
    from fairpost.actions.prospects import import_ as imported_by
    from fairpost.prospects.csv_reader import read_prospects

    require_name("LIST", list_name)
    with opened(file) as source:
        lines = read_prospects(source, mapping=_mapping(column), encoding=encoding, delimiter=delimiter)
        request = ImportProspects(
            workspace=workspace, list_name=list_name, lines=watched(lines, source), skip_bad=skip_bad
        )
        imported = act(imported_by, request)
    if as_json:
        print_json(imported)
        return
    typer.echo(
        f"added {imported.added:,}, changed {imported.changed:,}, known {imported.same:,}, "
        f"duplicates {imported.duplicates:,}, bad {imported.bad:,}"
    )
    tell_bad_lines(imported.bad, imported.bad_lines)


@app.command()
def columns(
    file: File, column: Columns = None, encoding: Encoding = None, delimiter: Delimiter = None, as_json: AsJson = False
) -> None:
    """Show how Fairpost would read a CSV file.

    Shows the encoding, the delimiter, and the field that each column maps to. Changes nothing.

    \b
    Example: fairpost prospects columns leads.csv
    """
    from fairpost.prospects.csv_reader import read_header

    with opened(file) as source:
        header = read_header(source, mapping=_mapping(column), encoding=encoding, delimiter=delimiter)
    if as_json:
        print_json(header)
        return
    typer.echo(f"encoding {header.encoding}, columns separated by {header.delimiter!r}")
    print_table(("column", "field"), ((plain(name), field or "(skipped)") for name, field in header.columns.items()))


@app.command("list")
def list_(
    workspace: Workspace = "",
    list_name: Annotated[
        str | None, typer.Option("--list", metavar="LIST", help="Only prospects on this list.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only prospects whose address or fields contain this text.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of prospects.")] = 50,
    after: Annotated[int, typer.Option(metavar="ID", help="Only prospects after this one, for the next page.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List prospects in the order they were added.

    \b
    Example: fairpost prospects list --list spring --search berlin
    """
    from fairpost.store.prospects import listed

    found = with_store(
        lambda store: listed(store, workspace=workspace, list_name=list_name, search=search, after=after, most=limit)
    )
    if as_json:
        print_json(found)
    elif found:
        rows = ((str(p.id), p.address, _fields(p), p.timezone or "", ", ".join(p.lists)) for p in found)
        print_table(("id", "address", "fields", "timezone", "lists"), rows)
    else:
        typer.echo("No prospects. To import a list, run: fairpost prospects import LIST FILE")


@app.command()
def lists(workspace: Workspace = "", as_json: AsJson = False) -> None:
    """Show all lists and their sizes.

    \b
    Example: fairpost prospects lists
    """
    from fairpost.store.prospects import lists as all_lists

    found = with_store(lambda store: all_lists(store, workspace))
    if as_json:
        print_json([{"name": name, "prospects": n, "created_at": created_at} for name, n, created_at in found])
    elif found:
        print_table(("list", "prospects", "since"), ((name, f"{n:,}", iso(at)) for name, n, at in found))
    else:
        typer.echo("No lists. Create one: fairpost prospects import LIST FILE")


@app.command()
def show(address: Address, workspace: Workspace = "", as_json: AsJson = False) -> None:
    """Show everything about one prospect.

    \b
    Example: fairpost prospects show ann@example.com
    """
    from fairpost.store.prospects import known_by

    prospect = with_store(lambda store: known_by(store, workspace, address))
    if as_json:
        print_json(prospect)
        return
    typer.echo(
        plain(f"{prospect.address}, id {prospect.external_id or prospect.id}{', paused' if prospect.is_paused else ''}")
    )
    typer.echo(f"added {iso(prospect.created_at)}, on the lists: {', '.join(prospect.lists) or 'none'}")
    for name, value in {**prospect.fields, **({"timezone": prospect.timezone} if prospect.timezone else {})}.items():
        typer.echo(plain(f"  {name}: {value}"))


@app.command()
def pause(address: Address, workspace: Workspace = "") -> None:
    """Pause a prospect. Nothing is sent to paused prospects until you resume them.

    \b
    Example: fairpost prospects pause ann@example.com
    """
    _set_paused(address, workspace, is_paused=True)
    typer.echo(f"paused {address}; to resume: fairpost prospects resume {address}")


@app.command()
def resume(address: Address, workspace: Workspace = "") -> None:
    """Resume a paused prospect.

    \b
    Example: fairpost prospects resume ann@example.com
    """
    _set_paused(address, workspace, is_paused=False)
    typer.echo(f"resumed {address}")


@app.command()
def remove(address: Address, workspace: Workspace = "") -> None:
    """Remove a prospect from all lists.

    History is kept. A later import can add the address again. To prevent all further mail, suppress the address.

    \b
    Example: fairpost prospects remove ann@example.com
    """
    from fairpost.actions import prospects

    act(prospects.remove, prospects.NamedProspect(workspace=workspace, address=address))
    typer.echo(f"removed {address}")


@app.command("remove-list")
def remove_list(name: List, workspace: Workspace = "") -> None:
    """Remove a list. The list's prospects are kept.

    A list cannot be removed while a campaign uses it.

    \b
    Example: fairpost prospects remove-list spring
    """
    from fairpost.actions import prospects

    act(prospects.remove_list, prospects.RemoveList(workspace=workspace, name=name))
    typer.echo(f"removed list {name}")


def _set_paused(address: str, workspace: str, *, is_paused: bool) -> None:
    from fairpost.actions.prospects import ChangeProspect, change

    act(change, ChangeProspect(workspace=workspace, address=address, is_paused=is_paused))


def _mapping(columns: list[str] | None) -> dict[str, str]:
    pairs = [each.rpartition("=") for each in columns or []]
    if any(not name for name, _, _ in pairs):
        raise FairpostError('--column must be NAME=FIELD, for example "Vorname=first_name"')
    return {name: field for name, _, field in pairs}


def _fields(prospect: "Prospect") -> str:
    text = plain(", ".join(f"{name} {value}" for name, value in prospect.fields.items()))
    return text if len(text) <= FIELDS_SHOWN else f"{text[: FIELDS_SHOWN - 1]}…"
