"""`fairpost workspace`: those who share this installation."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.output import AsJson, print_json, print_pairs, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.model.workspace import ApiKey, Domain, Loan, Workspace
    from fairpost.postgres.store import Store

app = typer.Typer(no_args_is_help=True, help="Add, list, show, suspend and readmit workspaces.")

BY = "cli"
Name = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]
Pools = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        metavar="POOL[=FROM,…]",
        help="A pool of yours to lend, and what may stand in From: addresses, domains, `proven` (what it has shown to be its own), "
        "`account` (the account's own address). May be given again. [default: POOL=proven]",
    ),
]


@app.command()
def add(name: Name, pools: Pools = None, as_json: AsJson = False) -> None:
    """Add a workspace.

    Small letters, digits, dots, dashes and underscores. Its e-mails, people and accounts are seen by its own keys alone. With regions, it
    lives in the one of FAIRPOST_REGION, for good, and no other has a workspace of this name. It sends through accounts of its own, and
    through the pools that you lend it.

    \b
    Example: fairpost workspace add acme --pool relay=acme.com
    """
    from fairpost.app import open_home
    from fairpost.lending import first_loans
    from fairpost.postgres import workspaces
    from fairpost.postgres.directory import place

    settings = read_settings()
    workspaces.require_name(name)
    loans = first_loans(name, settings) if pools is None else _loans(pools, name)

    async def work(store: "Store") -> "tuple[bool, Workspace]":
        if settings.regions is not None:
            async with open_home(settings) as home:
                await place(home, name, region=settings.region_name)
        async with store.together() as one:
            is_new = await workspaces.add_workspace(one, name, loans=loans)
            if is_new:
                detail = {"pools": [str(loan) for loan in loans]}
                await workspaces.write_audit(
                    one, workspace=name, who=BY, action="workspace.add", subject=name, detail=detail
                )
            return is_new, await workspaces.workspace_named(one, name)

    is_new, found = with_store(work)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{'added' if is_new else 'there is already'} {name}")
        typer.echo(f"next: fairpost key add {name} --scope send --scope read")


@app.command("list")
def list_workspaces(
    after: Annotated[str, typer.Option(metavar="WORKSPACE", help="Those after this name.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List workspaces by name.

    \b
    Example: fairpost workspace list
    """
    from fairpost.postgres import workspaces

    found = with_store(lambda store: workspaces.workspaces(store, after=after, most=limit))
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("workspace", "pools", "since", "state"),
            ((w.name, ", ".join(w.pools), f"{w.created_at:%Y-%m-%d}", _state(w)) for w in found),
        )
    else:
        typer.echo("no workspaces; add one: fairpost workspace add NAME")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a workspace, its keys and its domains.

    \b
    Example: fairpost workspace show acme
    """
    from fairpost.postgres import workspaces

    async def work(store: "Store") -> "tuple[Workspace, list[ApiKey], list[Domain]]":
        found = await workspaces.workspace_named(store, name)
        return found, await workspaces.keys(store, name), await workspaces.domains(store, name)

    found, keys, domains = with_store(work)
    if as_json:
        print_json({"workspace": found, "keys": keys, "domains": domains})
        return
    print_pairs(
        [
            ("workspace", found.name),
            ("state", _state(found)),
            ("pools of yours", "; ".join(map(str, found.loans)) or "none"),
            ("requests a minute", f"{found.per_minute:,}"),
            ("keys", str(sum(key.revoked_at is None for key in keys))),
            ("domains", ", ".join(d.domain if d.proven_at else f"{d.domain} (not proven)" for d in domains) or "none"),
        ]
    )


@app.command()
def pools(
    name: Name,
    pools: Pools = None,
    none: Annotated[bool, typer.Option("--none", help="It may send through none of yours.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or change which of your pools a workspace may send through.

    Those given replace the ones it had. Its own accounts need no leave. The pool of the service's own e-mails (FAIRPOST_SERVICE_POOL) lends no
    address of its own.

    \b
    Example: fairpost workspace pools acme --pool relay=acme.com,news@acme.org
    """
    from fairpost.postgres import workspaces

    if none and pools:
        raise FairpostError("Give --pool or --none, not both. Nothing was changed.")

    async def work(store: "Store") -> "Workspace":
        async with store.together() as one:
            before = await workspaces.workspace_named(one, name)
            if not (pools or none):
                return before
            loans = _loans(pools or [], name, before=before.loans)
            await workspaces.set_loans(one, name, loans)
            detail = {"pools": [str(loan) for loan in loans]}
            await workspaces.write_audit(
                one, workspace=name, who=BY, action="workspace.pools", subject=name, detail=detail
            )
            return await workspaces.workspace_named(one, name)

    found = with_store(work)
    if as_json:
        print_json(found)
    elif found.loans:
        typer.echo(f"{name} may send through {'; '.join(map(str, found.loans))}")
    else:
        typer.echo(f"{name} may send through none of your pools; lend one: fairpost workspace pools {name} --pool POOL")


@app.command()
def rate(
    name: Name,
    per_minute: Annotated[
        int, typer.Argument(metavar="N", min=1, max=1_000_000, help="Requests a minute, of all its keys together.")
    ],
    as_json: AsJson = False,
) -> None:
    """Say how many requests a minute a workspace may make.

    Of all its keys together; each key has a rate of its own beside it. A new workspace has 6,000.

    \b
    Example: fairpost workspace rate acme 30000
    """
    from fairpost.postgres import workspaces

    async def work(store: "Store") -> "Workspace":
        async with store.together() as one:
            await workspaces.workspace_named(one, name)
            await workspaces.set_rate(one, name, per_minute)
            detail = {"per_minute": per_minute}
            await workspaces.write_audit(
                one, workspace=name, who=BY, action="workspace.rate", subject=name, detail=detail
            )
            return await workspaces.workspace_named(one, name)

    found = with_store(work)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{name} may make {found.per_minute:,} requests a minute")


@app.command()
def suspend(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why, for whoever looks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Suspend a workspace: its keys open nothing.

    What it has queued still goes out; to stop that as well: fairpost hold.

    \b
    Example: fairpost workspace suspend acme --reason "unpaid since May"
    """
    _move(name, suspended=True, reason=reason, as_json=as_json)


@app.command()
def readmit(name: Name, as_json: AsJson = False) -> None:
    """Readmit a workspace that was suspended.

    \b
    Example: fairpost workspace readmit acme
    """
    _move(name, suspended=False, reason=None, as_json=as_json)


def _move(name: str, *, suspended: bool, reason: str | None, as_json: bool) -> None:
    from fairpost.postgres import workspaces

    async def work(store: "Store") -> "tuple[bool, Workspace]":
        async with store.together() as one:
            await workspaces.workspace_named(one, name)
            if suspended:
                moved = await workspaces.suspend_workspace(one, name, reason=reason)
            else:
                moved = await workspaces.readmit_workspace(one, name)
            if moved:
                action = "workspace.suspend" if suspended else "workspace.readmit"
                detail = {"reason": reason} if reason else None
                await workspaces.write_audit(one, workspace=name, who=BY, action=action, subject=name, detail=detail)
            return moved, await workspaces.workspace_named(one, name)

    moved, found = with_store(work)
    if as_json:
        print_json(found)
    elif moved:
        typer.echo(f"{name} is {_state(found)}")
    else:
        raise FairpostError(f"Workspace {name} is {_state(found)} already. Nothing was changed.")


def _loans(written: "Sequence[str]", workspace: str, *, before: "Sequence[Loan]" = ()) -> "list[Loan]":
    from fairpost.lending import read_loan, require_lendable

    loans = {loan.pool: loan for loan in map(read_loan, written)}
    for loan in loans.values():
        require_lendable(loan, workspace, read_settings(), before=before)
    return list(loans.values())


def _state(workspace: "Workspace") -> str:
    if workspace.suspended_at is None:
        return "active"
    return f"suspended: {workspace.reason}" if workspace.reason else "suspended"
