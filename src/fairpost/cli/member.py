"""`fairpost member`: the people who sign in to a workspace."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli import people_view
from fairpost.cli.admin import Address, Name, Revoke, Send
from fairpost.cli.output import AsJson, plain, print_json
from fairpost.cli.session import with_store
from fairpost.model.person import Role

if TYPE_CHECKING:
    from fairpost.actions.members import Lowered

app = typer.Typer(no_args_is_help=True, help="Invite people to a workspace, and set what they may do.")

MEMBER_ROLES = ", ".join(role for role in Role if role is not Role.ADMIN)

Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]
RevokeKeys = Annotated[
    bool, typer.Option("--revoke-keys", help="Revoke the keys that the member made, too, unless still a manager.")
]


def _role(text: str) -> Role:
    if text not in set(Role) - {Role.ADMIN}:
        raise typer.BadParameter(f"a role is one of {MEMBER_ROLES}")
    return Role(text)


@app.command()
def add(
    workspace: Workspace,
    address: Address,
    role: Annotated[Role, typer.Option(parser=_role, metavar="ROLE", help="manager, sender or viewer.")] = Role.VIEWER,
    name: Name = "",
    send: Send = False,
    as_json: AsJson = False,
) -> None:
    """Invite a member, and print the link that works once.

    It works for 48 hours, and ends the link before. Whoever opens it chooses a password.

    \b
    Example: fairpost member add acme bob@example.com --role sender
    """
    people_view.invite(workspace=workspace, address=address, name=name, role=role, send=send, as_json=as_json)


@app.command("list")
def list_(workspace: Workspace, as_json: AsJson = False) -> None:
    """List the members of a workspace.

    \b
    Example: fairpost member list acme
    """
    from fairpost.auth.membership import people

    found = with_store(lambda store: people(store, workspace))
    people_view.show_people(found, nobody=plain(f"workspace {workspace} has no members"), as_json=as_json)


@app.command()
def role(
    workspace: Workspace,
    address: Address,
    new_role: Annotated[Role, typer.Argument(parser=_role, metavar="ROLE", help="manager, sender or viewer.")],
    revoke_keys: RevokeKeys = False,
    as_json: AsJson = False,
) -> None:
    """Change what a member may do.

    The member's sessions end: who was signed in does it again. Keys that a manager made stay, and are named.

    \b
    Example: fairpost member role acme bob@example.com manager
    """
    from fairpost.actions import members

    request = members.ChangeRole(workspace=workspace, address=address, role=new_role, revoke_keys=revoke_keys)
    changed = people_view.act_where_known(workspace, members.change_role, request)
    said = f"{changed.person.address} is {changed.person.role} of workspace {workspace}"
    _show_lowered(changed, said, revoke_keys=revoke_keys, as_json=as_json)


@app.command()
def reset(workspace: Workspace, address: Address, as_json: AsJson = False) -> None:
    """Print a link for choosing another password.

    It works once, for an hour. When it is used, all sessions end.

    \b
    Example: fairpost member reset acme bob@example.com
    """
    people_view.reset(workspace=workspace, address=address, as_json=as_json)


@app.command()
def code(workspace: Workspace, address: Address, as_json: AsJson = False) -> None:
    """Make a sign-in code here, for when no e-mail comes.

    For the newest sign-in of this member that waits for its code, in the browser where the password was entered.

    \b
    Example: fairpost member code acme bob@example.com
    """
    people_view.show_code(workspace, address, as_json=as_json)


@app.command()
def disable(workspace: Workspace, address: Address, revoke_keys: RevokeKeys = False, as_json: AsJson = False) -> None:
    """Keep a member out, at once.

    All sessions, begun sign-ins and links end. Keys that the member made are the workspace's: they stay, and are named.

    \b
    Example: fairpost member disable acme bob@example.com --revoke-keys
    """
    from fairpost.actions import members

    request = members.Disable(workspace=workspace, address=address, revoke_keys=revoke_keys)
    changed = people_view.act_where_known(workspace, members.disable_member, request)
    said = f"disabled: {changed.person.role} {changed.person.address} of workspace {workspace}; all sessions are ended"
    _show_lowered(changed, said, revoke_keys=revoke_keys, as_json=as_json)


@app.command()
def enable(workspace: Workspace, address: Address) -> None:
    """Let a member in again: after `disable`, or after too many wrong tries.

    \b
    Example: fairpost member enable acme bob@example.com
    """
    people_view.enable(workspace=workspace, address=address)


@app.command()
def sessions(workspace: Workspace, address: Address, revoke: Revoke = False, as_json: AsJson = False) -> None:
    """List where a member is signed in, or end all of it.

    \b
    Example: fairpost member sessions acme bob@example.com --revoke
    """
    people_view.show_sessions(workspace, address, revoke=revoke, as_json=as_json)


def _show_lowered(changed: "Lowered", said: str, *, revoke_keys: bool, as_json: bool) -> None:
    if as_json:
        ids = [key.id for key in changed.keys]
        kept, revoked = ([], ids) if revoke_keys else (ids, [])
        print_json({"person": people_view.facts(changed.person), "keys": kept, "keys_revoked": revoked})
        return
    typer.echo(plain(said))
    for key in changed.keys:
        named = f"{key.id} {key.name}".rstrip()
        end = f"fairpost key revoke {key.workspace} {key.id}"
        typer.echo(plain(f"revoked key {named}" if revoke_keys else f"key {named} still opens; to end it: {end}"))
