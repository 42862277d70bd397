"""`fairpost suppress`: addresses that receive no mail."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fairpost.cli.acting import act
from fairpost.cli.files import STANDARD, TOLD_EVERY, created, opened, tell_bad_lines, watched, with_connection
from fairpost.cli.output import AsJson, iso, plain, print_json, print_table
from fairpost.cli.progress import progress
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError
from fairpost.model.suppression import EVERYBODY, Stops, SuppressionKind
from fairpost.settings import read_settings

if TYPE_CHECKING:
    import asyncpg

    from fairpost.store.store import Store


class AddressOrCommand(TyperGroup):
    """`suppress ann@example.com` means `suppress add ann@example.com`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["add", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=AddressOrCommand,
    no_args_is_help=True,
    help='List, add and remove addresses that receive no mail.\n\n\b\nExample: fairpost suppress ann@example.com --reason "asked us to stop"',
)

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS",
        help="E-mail address. Case is ignored. An international domain can be in Unicode or Punycode.",
    ),
]
Workspace = Annotated[str | None, typer.Option(help="Workspace. [default: FAIRPOST_WORKSPACE]")]
ARGUMENTS = {"address": "ADDRESS"}
Everywhere = Annotated[bool, typer.Option("--everywhere", help="Apply to all workspaces.")]
OnlyWorkspace = Annotated[str | None, typer.Option("--workspace", help="Only entries that apply to this workspace.")]
OnlyKind = Annotated[SuppressionKind | None, typer.Option("--kind", help="Only entries of this kind.")]


@app.command()
def add(
    address: Address,
    reason: Annotated[str, typer.Option(help="Reason, kept as a note.")],
    kind: Annotated[SuppressionKind, typer.Option(help="Kind of suppression.")] = SuppressionKind.MANUAL,
    workspace: Workspace = None,
    everywhere: Everywhere = False,
) -> None:
    """Suppress an address. `add` is optional.

    E-mails that are already queued for the address will not be sent. An unsubscribe stops only bulk mail.

    \b
    Example: fairpost suppress ann@example.com --reason "asked us to stop"
    """
    from fairpost.actions import suppressions

    where = _scope(workspace, everywhere)
    request = suppressions.Suppress(workspace=where, address=address, reason=reason, kind=kind)
    is_new = act(suppressions.add, request, fields=ARGUMENTS).is_new
    typer.echo(f"{'suppressed' if is_new else 'already suppressed'}: {address} in {_in_words(where)}")


@app.command("list")
def list_(
    workspace: OnlyWorkspace = None,
    kind: OnlyKind = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only entries whose address or reason contains this text.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of addresses.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Only addresses after this one, for the next page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List suppressed addresses in alphabetical order.

    \b
    Example: fairpost suppress list --workspace acme --kind complaint --json
    """
    from fairpost.store.suppressions import erased, listed

    async def work(store: "Store") -> Any:
        found = await listed(store, workspace=workspace, kind=kind, search=search, after=after or "", most=limit)
        return found, await erased(store, workspace=workspace, kind=kind) if search is after is None else 0

    found, more = with_store(work)
    if as_json:
        print_json(found)
        return
    if found:
        columns = ("address", "workspace", "kind", "stops", "reason", "since")
        rows = ((s.address, _in_words(s.workspace), s.kind, s.stops, s.reason, iso(s.created_at)) for s in found)
        print_table(columns, rows)
    elif not more:
        typer.echo(
            "No addresses are suppressed." if workspace is kind is search is after is None else "No matching addresses."
        )
    if more:
        typer.echo(f"and {more:,} erased addresses, kept as hashes. Check one: fairpost suppress show ADDRESS")


@app.command()
def show(address: Address, as_json: AsJson = False) -> None:
    """Show whether an address is suppressed, why, and since when.

    Covers every workspace and shows the number of soft bounces.

    \b
    Example: fairpost suppress show ann@example.com
    """
    from fairpost.store.suppressions import known_of, soft_bounces_max

    async def work(store: "Store") -> Any:
        return *await known_of(store, await _checked(store, address)), await soft_bounces_max(store)

    where, soft, most = with_store(work)
    if as_json:
        print_json({"address": address, "suppressed": where, "soft_bounces": soft, "soft_bounces_max": most})
        return
    for s in where:
        what = "bulk mail suppressed" if s.stops is Stops.BULK else "suppressed"
        typer.echo(plain(f"{what} in {_in_words(s.workspace)} since {iso(s.created_at)}: {s.kind}, {s.reason}"))
    for b in soft:
        limit = f"of {most}" if most else "no limit"
        times = f"{b.count} ({limit}), the first {iso(b.first_at)}, the last {iso(b.last_at)}"
        typer.echo(plain(f"soft bounces in {_in_words(b.workspace)}: {times}"))
    if not where and not soft:
        typer.echo(plain(f"{address} is not suppressed and has no soft bounces"))


@app.command("soft-bounces")
def soft_bounces(
    most: Annotated[
        int | None,
        typer.Option(
            "--max", min=0, max=1000, help="New limit. With 0, addresses are never suppressed for soft bounces."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or set how many soft bounces lead to suppression.

    Counts consecutive e-mails that failed within 30 days because the mailbox was unavailable.

    \b
    Example: fairpost suppress soft-bounces --max 3
    """
    from fairpost.actions.suppressions import SetSoftBounces, set_soft_bounces
    from fairpost.store.suppressions import soft_bounces_max

    holds = with_store(soft_bounces_max) if most is None else act(set_soft_bounces, SetSoftBounces(most=most))
    if as_json:
        print_json({"soft_bounces_max": holds})
    else:
        typer.echo(f"suppressed after {holds} in a row" if holds else "never suppressed for soft bounces")


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV file, or `-` for standard input.")],
    workspace: Workspace = None,
    everywhere: Everywhere = False,
    kind: Annotated[
        SuppressionKind, typer.Option(help="Kind to record for lines that do not specify one.")
    ] = SuppressionKind.MANUAL,
    reason: Annotated[str, typer.Option(help="Reason to record for lines that do not specify one.")] = "imported",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid lines and import the others.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import addresses from a CSV file if all are valid.

    Columns: address, kind, reason, created_at, workspace, stops. Only `address` is required.

    \b
    Example: fairpost suppress import bounces.csv --kind hard_bounce
    """
    from fairpost.actions.suppressions import ImportSuppressions
    from fairpost.actions.suppressions import import_ as imported_by
    from fairpost.cli.suppress_csv import Defaults, read_list

    defaults = Defaults(workspace=_scope(workspace, everywhere), kind=kind, reason=reason)
    name = "standard input" if file == STANDARD else file
    with opened(file) as source:
        lines = watched(read_list(source, name=name, defaults=defaults), source)
        imported = act(imported_by, ImportSuppressions(lines=lines, kind=kind, reason=reason, skip_bad=skip_bad))
    if as_json:
        print_json(imported)
        return
    typer.echo(
        f"added {imported.added:,}, known {imported.known:,}, duplicates {imported.duplicates:,}, bad {imported.bad:,}"
    )
    tell_bad_lines(imported.bad, imported.bad_lines)


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV file, or `-` for standard output.")],
    workspace: OnlyWorkspace = None,
    kind: OnlyKind = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Export the list as CSV for `suppress import`.

    \b
    Example: fairpost suppress export suppressions.csv --workspace acme
    """
    from fairpost.cli.suppress_csv import cells, rows_into
    from fairpost.store.suppressions import count
    from fairpost.store.suppressions import export as exported

    async def work(conn: "asyncpg.Connection") -> int:
        total, written = await count(conn, workspace=workspace, kind=kind), 0
        with created(file, force) as out, rows_into(out) as write, progress("writing", total) as reach:
            async for entry in exported(conn, workspace=workspace, kind=kind):
                write(cells(entry))
                written += 1
                if written % TOLD_EVERY == 0:
                    reach(written)
        return written

    written = with_connection(work)
    if file != STANDARD:
        typer.echo(f"wrote {written:,} addresses to {file}")


@app.command()
def remove(address: Address, workspace: Workspace = None, everywhere: Everywhere = False) -> None:
    """Remove an address from the suppression list.

    \b
    Example: fairpost suppress remove ann@example.com
    """
    from fairpost.actions import suppressions

    where = _scope(workspace, everywhere)
    act(suppressions.remove, suppressions.RemoveSuppression(workspace=where, address=address))
    typer.echo(f"no longer suppressed: {address} in {_in_words(where)}")


async def _checked(store: "Store", address: str) -> str:
    parsed = await store.parse_address(address)
    if parsed is None:
        raise FairpostError(f"ADDRESS must be an e-mail address, got {address!r}")
    return parsed


def _scope(workspace: str | None, everywhere: bool) -> str:
    if everywhere and workspace is not None:
        raise typer.BadParameter("specify either --workspace or --everywhere")
    return EVERYBODY if everywhere else workspace or read_settings().workspace


def _in_words(workspace: str) -> str:
    return "all workspaces" if workspace == EVERYBODY else f"workspace {workspace}"
