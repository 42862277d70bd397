"""`fairpost member`: the people who sign in to a workspace."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli import auth_view
from fairpost.cli.admin import Address, Name, Revoke, Send
from fairpost.cli.names import Workspace
from fairpost.cli.output import AsJson, plain, print_json
from fairpost.cli.session import with_store
from fairpost.model.auth import Role

if TYPE_CHECKING:
    from fairpost.actions.members import Lowered

app = typer.Typer(no_args_is_help=True, help="Invite people to a workspace and set their roles.")

MEMBER_ROLES = ", ".join(role for role in Role if role is not Role.ADMIN)

RevokeKeys = Annotated[
    bool,
    typer.Option("--revoke-keys", help="Also revoke keys that the member added, unless the member is still a manager."),
]


def _role(text: str) -> Role:
    if text not in set(Role) - {Role.ADMIN}:
        raise typer.BadParameter(f"role must be one of {MEMBER_ROLES}")
    return Role(text)


@app.command()
def add(
    address: Address,
    role: Annotated[
        Role, typer.Option(parser=_role, metavar="ROLE", help="Role: manager, sender or viewer.")
    ] = Role.VIEWER,
    name: Name = "",
    send: Send = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Invite a member and print a one-time link.

    The link is valid for 48 hours and replaces any earlier one. The person who opens the link chooses a password.

    \b
    Example: fairpost member add --workspace acme bob@example.com --role sender
    """
    auth_view.invite(workspace=workspace, address=address, name=name, role=role, send=send, as_json=as_json)


@app.command("list")
def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the members of a workspace.

    \b
    Example: fairpost member list --workspace acme
    """
    from fairpost.auth.membership import people

    found = with_store(lambda store: people(store, workspace))
    auth_view.show_people(found, none=plain(f"workspace {workspace} has no members"), as_json=as_json)


@app.command()
def role(
    address: Address,
    new_role: Annotated[Role, typer.Argument(parser=_role, metavar="ROLE", help="Role: manager, sender or viewer.")],
    revoke_keys: RevokeKeys = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Change a member's role.

    Ends the member's sessions. Keys that the member added as a manager remain valid and are listed.

    \b
    Example: fairpost member role --workspace acme bob@example.com manager
    """
    from fairpost.actions import members

    request = members.ChangeRole(workspace=workspace, address=address, role=new_role, revoke_keys=revoke_keys)
    changed = auth_view.act_where_known(workspace, members.change_role, request)
    said = f"{changed.person.address} is now {changed.person.role} in workspace {workspace}"
    _show_lowered(changed, said, revoke_keys=revoke_keys, as_json=as_json)


@app.command()
def reset(address: Address, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Print a one-time link for choosing a new password.

    The link is valid for an hour. Choosing a new password ends all sessions.

    \b
    Example: fairpost member reset --workspace acme bob@example.com
    """
    auth_view.reset(workspace=workspace, address=address, as_json=as_json)


@app.command()
def code(address: Address, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Print a sign-in code that did not arrive by e-mail.

    First, enter the password in the browser. The code is valid for this member's latest sign-in attempt.

    \b
    Example: fairpost member code --workspace acme bob@example.com
    """
    auth_view.show_code(workspace, address, as_json=as_json)


@app.command()
def disable(
    address: Address, revoke_keys: RevokeKeys = False, as_json: AsJson = False, workspace: Workspace = ""
) -> None:
    """Disable a member immediately.

    Ends all sessions and unfinished sign-ins, and invalidates all links. Keys that the member added belong to the
    workspace, remain valid and are listed.

    \b
    Example: fairpost member disable --workspace acme bob@example.com --revoke-keys
    """
    from fairpost.actions import members

    request = members.Disable(workspace=workspace, address=address, revoke_keys=revoke_keys)
    changed = auth_view.act_where_known(workspace, members.disable_member, request)
    said = f"disabled: {changed.person.role} {changed.person.address} in workspace {workspace}; all sessions ended"
    _show_lowered(changed, said, revoke_keys=revoke_keys, as_json=as_json)


@app.command()
def enable(address: Address, workspace: Workspace = "") -> None:
    """Enable a disabled or locked-out member.

    \b
    Example: fairpost member enable --workspace acme bob@example.com
    """
    auth_view.enable(workspace=workspace, address=address)


@app.command()
def sessions(address: Address, revoke: Revoke = False, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List a member's sessions or end them all.

    \b
    Example: fairpost member sessions --workspace acme bob@example.com --revoke
    """
    auth_view.show_sessions(workspace, address, revoke=revoke, as_json=as_json)


def _show_lowered(changed: "Lowered", said: str, *, revoke_keys: bool, as_json: bool) -> None:
    if as_json:
        ids = [key.id for key in changed.keys]
        kept, revoked = ([], ids) if revoke_keys else (ids, [])
        print_json({"person": auth_view.facts(changed.person), "keys": kept, "keys_revoked": revoked})
        return
    typer.echo(plain(said))
    for key in changed.keys:
        named = f"{key.id} {key.name}".rstrip()
        end = f"fairpost key revoke --workspace {key.workspace} {key.id}"
        typer.echo(plain(f"revoked key {named}" if revoke_keys else f"key {named} still works. To revoke it: {end}"))
