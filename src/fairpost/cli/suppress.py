"""`fairpost suppress` and `unsuppress`: the addresses that get no mail any more."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fairpost.cli.output import AsJson, iso, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError, NotFound
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.postgres.store import Store

EVERYBODY = "*"


class AddressOrCommand(TyperGroup):
    """`suppress ann@example.com` means `suppress add ann@example.com`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["add", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=AddressOrCommand,
    no_args_is_help=True,
    help='Never write to an address again.\n\n\b\nExample: fairpost suppress ann@example.com --reason "asked us to stop"',
)

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="The address; upper and lower case are the same.")]
Workspace = Annotated[str | None, typer.Option(help="For this workspace. [default: FAIRPOST_WORKSPACE]")]
Everywhere = Annotated[bool, typer.Option("--everywhere", help="For all workspaces.")]


@app.command()
def add(
    address: Address,
    reason: Annotated[str, typer.Option(help="Why, for whoever asks later.")],
    workspace: Workspace = None,
    everywhere: Everywhere = False,
) -> None:
    """Suppress an address; `add` may be left out.

    E-mails already queued for it are not sent either.

    \b
    Example: fairpost suppress ann@example.com --reason "asked us to stop"
    """
    where = _scope(workspace, everywhere)

    async def work(store: "Store") -> bool:
        return await store.suppress(where, await _checked(store, address), reason=reason)

    is_new = with_store(work)
    typer.echo(f"{'suppressed' if is_new else 'already suppressed'}: {address} in {_in_words(where)}")


@app.command("list")
def list_(
    workspace: Annotated[str | None, typer.Option(help="Only what counts for this workspace.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    after: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Go on after this address.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the suppressed addresses, by the alphabet.

    \b
    Example: fairpost suppress list --workspace acme --json
    """
    rows = with_store(lambda store: store.fetch(_LIST, workspace, after or "", limit))
    if as_json:
        print_json([dict(row) for row in rows])
    elif rows:
        columns = ("address", "workspace", "reason", "since")
        cells = ((r["address"], _in_words(r["workspace"]), r["reason"], iso(r["created_at"])) for r in rows)
        print_table(columns, cells)
    else:
        typer.echo("no address is suppressed")


def unsuppress(address: Address, workspace: Workspace = None, everywhere: Everywhere = False) -> None:
    """Take an address off the suppression list.

    \b
    Example: fairpost unsuppress ann@example.com
    """
    where = _scope(workspace, everywhere)

    async def work(store: "Store") -> bool:
        sql = "SELECT fairpost.unsuppress($1, $2)"
        return bool(await store.value(sql, where, await _checked(store, address)))

    if not with_store(work):
        raise NotFound(f"{address} is not suppressed in {_in_words(where)}. See: fairpost suppress list")
    typer.echo(f"no longer suppressed: {address} in {_in_words(where)}")


_LIST = """
    SELECT s.address, s.workspace, s.reason, s.created_at FROM fairpost.suppressions s
    WHERE ($1::text IS NULL OR s.workspace IN ($1, '*')) AND s.address > fairpost.fold($2)
    ORDER BY s.address, s.workspace LIMIT $3"""


async def _checked(store: "Store", address: str) -> str:
    parsed: str | None = await store.value("SELECT fairpost.parse_address(to_jsonb($1::text)) ->> 'address'", address)
    if parsed is None:
        raise FairpostError(f"ADDRESS must be an e-mail address, got {address!r}")
    return parsed


def _scope(workspace: str | None, everywhere: bool) -> str:
    if everywhere and workspace is not None:
        raise typer.BadParameter("give --workspace or --everywhere, not both")
    return EVERYBODY if everywhere else workspace or read_settings().workspace


def _in_words(workspace: str) -> str:
    return "all workspaces" if workspace == EVERYBODY else f"workspace {workspace}"
