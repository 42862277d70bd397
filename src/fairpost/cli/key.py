"""`fairpost key`: a workspace's keys for the HTTP API."""

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act
from fairpost.cli.arguments import span
from fairpost.cli.names import Workspace
from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.auth import Role
from fairpost.model.workspace import Scope
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.auth.key_makers import MadeKey
    from fairpost.model.workspace import ApiKey
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Add, list and revoke API keys.")


@app.command()
def add(
    name: Annotated[str, typer.Option(help="Name that describes the key's purpose.")] = "",
    scopes: Annotated[
        list[Scope] | None, typer.Option("--scope", help="Key scope. Repeatable. [default: read and send]")
    ] = None,
    per_minute: Annotated[int, typer.Option(min=1, max=1_000_000, help="Requests per minute.")] = 600,
    expires: Annotated[
        timedelta | None,
        typer.Option(parser=span, metavar="SPAN", help="Time until the key expires, for example 90d. [default: never]"),
    ] = None,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Add a key to a workspace and show the key once.

    Only the key's hash is stored. If you lose the key, add a new one.

    \b
    Example: fairpost key add --workspace acme --name shop --scope send
    """
    from fairpost.actions import keys

    request = keys.AddKey(
        workspace=workspace,
        region=read_settings().region_name,
        name=name,
        scopes=scopes or (Scope.READ, Scope.SEND),
        per_minute=per_minute,
        lasts=expires,
    )
    done = act(keys.add, request)
    key, text = done.key, done.text
    if as_json:
        print_json(
            {
                "key": text,
                **{f: getattr(key, f) for f in ("id", "workspace", "name", "scopes", "per_minute", "expires_at")},
            }
        )
    else:
        typer.echo(text)
        typer.echo("store it now: it will not be shown again")


@app.command("list")
def list_keys(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List a workspace's keys and who added each.

    \b
    Example: fairpost key list --workspace acme
    """
    from fairpost.auth.key_makers import made_keys
    from fairpost.store import workspaces

    async def work(store: "Store") -> "list[MadeKey]":
        await workspaces.workspace_named(store, workspace)
        return await made_keys(store, workspace)

    found = with_store(work)
    if as_json:
        print_json([_facts(each) for each in found])
    elif found:
        print_table(
            ("key", "name", "scopes", ">a minute", "made", "by", "last used", "ends"),
            (
                (
                    k.id,
                    k.name,
                    ", ".join(k.scopes),
                    k.per_minute,
                    f"{k.created_at:%Y-%m-%d}",
                    _maker(each),
                    f"{k.last_used_at:%Y-%m-%d %H:%M}" if k.last_used_at else "never",
                    _end(k),
                )
                for each in found
                for k in [each.key]
            ),
        )
    else:
        typer.echo(f"No keys. Add one: fairpost key add --workspace {workspace}")


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="Key ID (the third part of the key).")],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Revoke a key immediately.

    \b
    Example: fairpost key revoke --workspace acme q7x2m0c8f4ab
    """
    from fairpost.actions import keys

    key = act(keys.revoke, keys.RevokeKey(workspace=workspace, key=key_id))
    if as_json:
        print_json(key)
    else:
        typer.echo(f"revoked {key.id}")


def _facts(made: "MadeKey") -> dict[str, object]:
    is_member = made.is_maker_member if made.maker is not None else None
    key = {each.name: getattr(made.key, each.name) for each in fields(made.key)}
    return {**key, "maker": made.maker, "maker_role": made.maker_role, "is_maker_member": is_member}


def _maker(made: "MadeKey") -> str:
    if made.maker is None:
        return made.key.created_by
    with_key = f" with {made.key.created_by}" if made.key.created_by.startswith("key ") else ""
    if not made.is_maker_member:
        return f"{made.maker}{with_key} (no longer a member)"
    return f"{made.maker}{with_key}" + ("" if made.maker_role is Role.MANAGER else f" (now {made.maker_role})")


def _end(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    return f"{key.expires_at:%Y-%m-%d}" if key.expires_at is not None else ""
