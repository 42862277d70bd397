"""`fairpost admin`: invite, list, disable and enable the people who run the service."""

from typing import Annotated

import typer

from fairpost.cli import auth_view
from fairpost.cli.output import AsJson
from fairpost.cli.session import with_home_store
from fairpost.model.auth import Role

app = typer.Typer(no_args_is_help=True, help="Invite and manage the people who run the service.")

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="E-mail address.")]
Name = Annotated[str, typer.Option(help="Name used in e-mails to this person.")]
Revoke = Annotated[bool, typer.Option("--revoke", help="End all sessions.")]
Send = Annotated[bool, typer.Option("--send", help="Also send the link by e-mail.")]


@app.command()
def invite(address: Address, name: Name = "", send: Send = False, as_json: AsJson = False) -> None:
    """Invite an admin and print a one-time link.

    The link is valid for 48 hours and replaces any earlier one. The person who opens the link chooses a password.

    \b
    Example: fairpost admin invite ann@example.com --name "Ann Lee"
    """
    auth_view.invite(workspace=None, address=address, name=name, role=Role.ADMIN, send=send, as_json=as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List admins.

    \b
    Example: fairpost admin list
    """
    from fairpost.auth.membership import people

    found = with_home_store(lambda home: people(home, None))
    auth_view.show_people(found, none="No admins yet. See: fairpost admin invite --help", as_json=as_json)


@app.command()
def code(address: Address, as_json: AsJson = False) -> None:
    """Print a sign-in code that did not arrive by e-mail.

    First, enter the password in the browser. The code is valid for this admin's latest sign-in attempt.

    \b
    Example: fairpost admin code ann@example.com
    """
    auth_view.show_code(None, address, as_json=as_json)


@app.command()
def link(address: Address, as_json: AsJson = False) -> None:
    """Print a one-time link that signs in an admin.

    The link is valid for ten minutes and requires neither a password nor a code.

    \b
    Example: fairpost admin link ann@example.com
    """
    from fairpost.actions import members

    offered = auth_view.act_where_known(None, members.link, members.NamedPerson(workspace=None, address=address))
    auth_view.show_entry(offered, as_json=as_json)


@app.command()
def reset(address: Address, as_json: AsJson = False) -> None:
    """Print a one-time link for choosing a new password.

    The link is valid for an hour. Choosing a new password ends all sessions.

    \b
    Example: fairpost admin reset ann@example.com
    """
    auth_view.reset(workspace=None, address=address, as_json=as_json)


@app.command()
def disable(address: Address) -> None:
    """Disable an admin immediately.

    Ends all sessions and unfinished sign-ins, and invalidates all links. The last admin who can sign in cannot be
    disabled.

    \b
    Example: fairpost admin disable ann@example.com
    """
    auth_view.disable_admin(address)


@app.command()
def enable(address: Address) -> None:
    """Enable a disabled or locked-out admin.

    \b
    Example: fairpost admin enable ann@example.com
    """
    auth_view.enable(workspace=None, address=address)


@app.command()
def sessions(
    address: Address,
    revoke: Revoke = False,
    as_json: AsJson = False,
) -> None:
    """List an admin's sessions or end them all.

    \b
    Example: fairpost admin sessions ann@example.com --revoke
    """
    auth_view.show_sessions(None, address, revoke=revoke, as_json=as_json)
