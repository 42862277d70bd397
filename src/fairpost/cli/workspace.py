"""`fairpost workspace`: those who share this installation."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.output import AsJson, print_json, print_pairs, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.model.workspace import ApiKey, Domain, Workspace
    from fairpost.postgres.store import Store

app = typer.Typer(no_args_is_help=True, help="Add, list, show, suspend and readmit workspaces.")

BY = "cli"
Name = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]
Pools = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        metavar="POOL",
        help="A pool of yours that it may send through; may be given again. [default: default]",
    ),
]


@app.command()
def add(name: Name, pools: Pools = None, as_json: AsJson = False) -> None:
    """Add a workspace.

    Small letters, digits, dots, dashes and underscores. Its e-mails, people and accounts are seen by its own keys alone. With regions, it
    lives in the one of FAIRPOST_REGION, for good, and no other has a workspace of this name.

    \b
    Example: fairpost workspace add acme --pool default
    """
    from fairpost.app import open_home
    from fairpost.postgres import workspaces
    from fairpost.postgres.directory import place

    settings = read_settings()
    workspaces.require_name(name)

    async def work(store: "Store") -> "tuple[bool, Workspace]":
        if settings.regions is not None:
            async with open_home(settings) as home:
                await place(home, name, region=settings.region_name)
        async with store.together() as one:
            is_new = await workspaces.add_workspace(one, name, pools=pools or ("default",))
            if is_new:
                await workspaces.write_audit(one, workspace=name, who=BY, action="workspace.add", subject=name)
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
            ("pools", ", ".join(found.pools) or "none of yours"),
            ("requests a minute", f"{found.per_minute:,}"),
            ("keys", str(sum(key.revoked_at is None for key in keys))),
            ("domains", ", ".join(d.domain if d.proven_at else f"{d.domain} (not proven)" for d in domains) or "none"),
        ]
    )


@app.command()
def pools(name: Name, pools: Pools = None, as_json: AsJson = False) -> None:
    """Say which of your pools a workspace may send through.

    Those given replace the ones it had. Its own accounts need no leave.

    \b
    Example: fairpost workspace pools acme --pool default --pool fast
    """
    from fairpost.postgres import workspaces

    async def work(store: "Store") -> "Workspace":
        async with store.together() as one:
            await workspaces.workspace_named(one, name)
            await workspaces.set_pools(one, name, pools or ("default",))
            await workspaces.write_audit(
                one,
                workspace=name,
                who=BY,
                action="workspace.pools",
                subject=name,
                detail={"pools": pools or ["default"]},
            )
            return await workspaces.workspace_named(one, name)

    found = with_store(work)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{name} may send through {', '.join(found.pools)}")


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


def _state(workspace: "Workspace") -> str:
    if workspace.suspended_at is None:
        return "active"
    return f"suspended: {workspace.reason}" if workspace.reason else "suspended"
