"""`fairpost member`: the people who sign in to a workspace."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli import people_view
from fairpost.cli.admin import Address, Name, Send
from fairpost.cli.output import AsJson, plain
from fairpost.cli.session import with_store
from fairpost.model.person import Role

if TYPE_CHECKING:
    from fairpost.model.person import Person, Refused
    from fairpost.postgres.store import Store

app = typer.Typer(no_args_is_help=True, help="Invite the people who sign in to a workspace, and say what they may do.")

MEMBER_ROLES = ", ".join(role for role in Role if role is not Role.ADMIN)

Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]


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
    from fairpost.people.membership import people

    found = with_store(lambda store: people(store, workspace))
    people_view.show_people(found, nobody=plain(f"workspace {workspace} has no members"), as_json=as_json)


@app.command()
def role(
    workspace: Workspace,
    address: Address,
    new_role: Annotated[Role, typer.Argument(parser=_role, metavar="ROLE", help="manager, sender or viewer.")],
) -> None:
    """Change what a member may do.

    The member's sessions end: who was signed in does it again.

    \b
    Example: fairpost member role acme bob@example.com manager
    """
    from fairpost.people import membership

    async def work(store: "Store", person: "Person") -> "Person | Refused":
        return await membership.change_role(store, person.id, new_role)

    changed = people_view.accepted(people_view.with_person(workspace, address, work))
    typer.echo(plain(f"{changed.address} is {changed.role} of workspace {workspace}"))


@app.command()
def reset(workspace: Workspace, address: Address, as_json: AsJson = False) -> None:
    """Print a link for choosing another password.

    It works once, for an hour. When it is used, all sessions end.

    \b
    Example: fairpost member reset acme bob@example.com
    """
    people_view.reset(workspace=workspace, address=address, as_json=as_json)


@app.command()
def disable(workspace: Workspace, address: Address) -> None:
    """Keep a member out, at once.

    All sessions, begun sign-ins and links end.

    \b
    Example: fairpost member disable acme bob@example.com
    """
    people_view.disable(workspace=workspace, address=address)


@app.command()
def enable(workspace: Workspace, address: Address) -> None:
    """Let a member in again: after `disable`, or after too many wrong tries.

    \b
    Example: fairpost member enable acme bob@example.com
    """
    people_view.enable(workspace=workspace, address=address)
