"""`fairpost workspace`: the tenants of this installation."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act, act_on
from fairpost.cli.output import AsJson, print_json, print_pairs, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError, Refusal
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.actions.lending import Lent, Operator
    from fairpost.actions.workspaces import WorkspaceAdded, WorkspaceMoved
    from fairpost.model.workspace import ApiKey, Domain, Workspace
    from fairpost.settings import Settings
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Add, list, show, suspend and readmit workspaces.")

ARGUMENTS = {"name": "WORKSPACE"}
Name = Annotated[str, typer.Argument(metavar="WORKSPACE", help="Workspace name.")]
Pools = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        metavar="POOL[=FROM,…]",
        help="Pool to lend and the From addresses that are allowed with it: addresses, domains, `proven` (verified domains) "
        "or `account` (the account's own address). Repeatable. [default: POOL=proven]",
    ),
]


@app.command()
def add(name: Name, pools: Pools = None, as_json: AsJson = False) -> None:
    """Add a workspace.

    A name can contain lowercase letters, digits, dots, dashes and underscores. Only the workspace's own keys have access to its e-mails, people and accounts. If there are several regions, the workspace is permanently assigned to FAIRPOST_REGION, and its name must be unique across all regions. A workspace sends through its own accounts and through pools that you lend it.

    \b
    Example: fairpost workspace add acme --pool relay=acme.com
    """
    from fairpost.actions import workspaces
    from fairpost.startup.parts import open_home

    settings, lent = read_settings(), None if pools is None else _lent(pools)
    wanted = workspaces.AddWorkspace(name=name, pools=lent, operator=_operator(settings), region=settings.region_name)

    async def work(store: "Store") -> "WorkspaceAdded":
        if settings.regions is None:
            return await act_on(store, workspaces.add, wanted, fields=_fields(pools))
        async with open_home(settings) as home:
            return await act_on(store, workspaces.add, replace(wanted, home=home), fields=_fields(pools))

    done = with_store(work, settings=settings)
    found, is_new = done.workspace, done.is_new
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{'added' if is_new else 'already exists:'} {name}")
        typer.echo(f"next: fairpost key add --workspace {name} --scope send --scope read")


@app.command("list")
def list_workspaces(
    after: Annotated[
        str, typer.Option(metavar="WORKSPACE", help="Only workspaces after this name in alphabetical order.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of workspaces.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List workspaces by name.

    \b
    Example: fairpost workspace list
    """
    from fairpost.store import workspaces

    found = with_store(lambda store: workspaces.workspaces(store, after=after, most=limit))
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("workspace", "pools", "since", "state"),
            ((w.name, ", ".join(w.pools), f"{w.created_at:%Y-%m-%d}", _state(w)) for w in found),
        )
    else:
        typer.echo("No workspaces. Add one: fairpost workspace add NAME")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a workspace, its keys and its domains.

    \b
    Example: fairpost workspace show acme
    """
    from fairpost.store import workspaces

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
            ("lent pools", "; ".join(map(str, found.loans)) or "none"),
            ("requests per minute", f"{found.per_minute:,}"),
            ("keys", str(sum(key.revoked_at is None for key in keys))),
            ("domains", ", ".join(d.domain if d.proven_at else f"{d.domain} (not proven)" for d in domains) or "none"),
        ]
    )


@app.command()
def pools(
    name: Name,
    pools: Pools = None,
    none: Annotated[bool, typer.Option("--none", help="Lend no pools to the workspace.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or change the pools that a workspace may use.

    The pools that you specify replace all earlier ones. A workspace can always use its own accounts. The pool for the
    service's own e-mails (FAIRPOST_SERVICE_POOL) can be lent only to the operator's own workspace.

    \b
    Example: fairpost workspace pools acme --pool relay=acme.com,news@acme.org
    """
    from fairpost.actions.workspaces import SetPools, set_pools
    from fairpost.store.workspaces import workspace_named

    if none and pools:
        raise FairpostError("Specify either --pool or --none. Nothing was changed.")
    if pools or none:
        request = SetPools(name=name, operator=_operator(read_settings()), pools=_lent(pools or []))
        found = act(set_pools, request, fields=_fields(pools))
    else:
        found = with_store(lambda store: workspace_named(store, name))
    if as_json:
        print_json(found)
    elif found.loans:
        typer.echo(f"{name} may send through {'; '.join(map(str, found.loans))}")
    else:
        typer.echo(f"{name} may use none of your pools. Lend one: fairpost workspace pools {name} --pool POOL")


@app.command()
def rate(
    name: Name,
    per_minute: Annotated[
        int,
        typer.Argument(
            metavar="N", min=1, max=1_000_000, help="Requests per minute for all of the workspace's keys together."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Set a workspace's request limit per minute.

    The limit applies to all of the workspace's keys together. Each key also has its own limit. The default is 6,000.

    \b
    Example: fairpost workspace rate acme 30000
    """
    from fairpost.actions.workspaces import SetRate, set_rate

    found = act(set_rate, SetRate(name=name, per_minute=per_minute))
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{name} may make {found.per_minute:,} requests per minute")


@app.command("set")
def set_(
    name: Name,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Name that recipients see. Use '' for the workspace's own name.")
    ] = None,
    accent: Annotated[str | None, typer.Option(metavar="COLOUR", help="Button colour, for example #1d5fd1.")] = None,
    logo_url: Annotated[str | None, typer.Option(metavar="URL", help="HTTPS URL of the logo.")] = None,
    refuse_bad_domains: Annotated[
        bool | None,
        typer.Option(
            "--refuse-bad-domains/--warn-of-bad-domains",
            help="Refuse to launch campaigns from domains that failed a check, or only warn.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set a workspace's appearance and its rules for launches.

    The title, colour and logo appear on the unsubscribe page. Omitted settings keep their current values. Use '' to remove a setting.

    \b
    Example: fairpost workspace set acme --title 'Acme Ltd' --accent '#1d5fd1' --refuse-bad-domains
    """
    from fairpost.actions.workspaces import ChangeSettings, change_settings

    given = {"title": title, "accent": accent and accent.lower(), "logo_url": logo_url}
    changes: dict[str, str | bool | None] = {
        field: value or None for field, value in given.items() if value is not None
    }
    if refuse_bad_domains is not None:
        changes |= {"refuses_bad_domains": refuse_bad_domains}
    options = {field: f"--{field.replace('_', '-')}" for field in given}
    found = act(change_settings, ChangeSettings(workspace=name, changes=changes), fields=options)
    if as_json:
        print_json(found)
        return
    print_pairs(
        [
            ("workspace", name),
            ("title", found.title),
            ("accent", found.accent),
            ("logo", found.logo_url),
            ("bad domains", "launches are refused" if found.refuses_bad_domains else "launches cause a warning"),
        ]
    )


@app.command()
def suspend(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Reason, shown with the workspace.")] = None,
    as_json: AsJson = False,
) -> None:
    """Suspend a workspace. The workspace's keys stop working.

    E-mails that are already queued will still be sent. To stop queued e-mails as well, use: fairpost hold.

    \b
    Example: fairpost workspace suspend acme --reason "unpaid since May"
    """
    from fairpost.actions import workspaces

    _show_moved(act(workspaces.suspend, workspaces.Suspend(name=name, reason=reason)), as_json=as_json)


@app.command()
def readmit(name: Name, as_json: AsJson = False) -> None:
    """Readmit a suspended workspace.

    \b
    Example: fairpost workspace readmit acme
    """
    from fairpost.actions import workspaces

    _show_moved(act(workspaces.readmit, workspaces.Readmit(name=name)), as_json=as_json)


def _show_moved(moved: "WorkspaceMoved", *, as_json: bool) -> None:
    found = moved.workspace
    if as_json:
        print_json(found)
    elif moved.changed:
        typer.echo(f"{found.name} is {_state(found)}")
    else:
        is_suspended = found.suspended_at is not None
        raise Refusal("workspace.already_suspended" if is_suspended else "workspace.not_suspended", name=found.name)


def _lent(written: "Sequence[str]") -> "list[Lent]":
    """Parse `fast` or `fast=acme.com,news@acme.org`. Without =, the From address must be at a verified domain."""
    from fairpost.actions.lending import Lent

    pairs = [each.partition("=") for each in written]
    return [
        Lent(pool.strip(), [each.strip() for each in senders.split(",")]) if equals else Lent(pool.strip())
        for pool, equals, senders in pairs
    ]


def _fields(pools: "Sequence[str] | None") -> dict[str, str]:
    return {**ARGUMENTS, **{f"pools[{number}]": "--pool" for number in range(len(pools or ()))}}


def _operator(settings: "Settings") -> "Operator":
    from fairpost.actions.lending import Operator

    return Operator(workspace=settings.workspace, service_pool=settings.service_pool)


def _state(workspace: "Workspace") -> str:
    if workspace.suspended_at is None:
        return "active"
    return f"suspended: {workspace.reason}" if workspace.reason else "suspended"
