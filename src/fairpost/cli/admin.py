"""`fairpost admin`: the people who run the service: invite them, let them in, keep them out."""

from typing import Annotated

import typer

from fairpost.cli import people_view
from fairpost.cli.output import AsJson
from fairpost.cli.session import with_home_store
from fairpost.model.person import Role

app = typer.Typer(no_args_is_help=True, help="Invite and remove the people who run the service.")

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="The e-mail address.")]
Name = Annotated[str, typer.Option(help="How e-mails address this person.")]
Revoke = Annotated[bool, typer.Option("--revoke", help="End all of them.")]
Send = Annotated[bool, typer.Option("--send", help="Send the link by e-mail, too.")]


@app.command()
def invite(address: Address, name: Name = "", send: Send = False, as_json: AsJson = False) -> None:
    """Invite an admin, and print the link that works once.

    It works for 48 hours, and ends the link before. Whoever opens it chooses a password.

    \b
    Example: fairpost admin invite ann@example.com --name "Ann Lee"
    """
    people_view.invite(workspace=None, address=address, name=name, role=Role.ADMIN, send=send, as_json=as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the admins.

    \b
    Example: fairpost admin list
    """
    from fairpost.auth.membership import people

    found = with_home_store(lambda home: people(home, None))
    people_view.show_people(found, nobody="there is no admin; see: fairpost admin invite --help", as_json=as_json)


@app.command()
def code(address: Address, as_json: AsJson = False) -> None:
    """Make a sign-in code here, for when no e-mail comes.

    For the newest sign-in of this admin that waits for its code, in the browser where the password was entered.

    \b
    Example: fairpost admin code ann@example.com
    """
    people_view.show_code(None, address, as_json=as_json)


@app.command()
def link(address: Address, as_json: AsJson = False) -> None:
    """Print a link that signs an admin in, once.

    It works for ten minutes, without password and code: whoever can run this has the database anyhow.

    \b
    Example: fairpost admin link ann@example.com
    """
    from fairpost.actions import members

    offered = people_view.act_where_known(None, members.link, members.NamedPerson(workspace=None, address=address))
    people_view.show_entry(offered, as_json=as_json)


@app.command()
def reset(address: Address, as_json: AsJson = False) -> None:
    """Print a link for choosing another password.

    It works once, for an hour. When it is used, all sessions end.

    \b
    Example: fairpost admin reset ann@example.com
    """
    people_view.reset(workspace=None, address=address, as_json=as_json)


@app.command()
def disable(address: Address) -> None:
    """Keep an admin out, at once.

    All sessions, begun sign-ins and links end. The last admin who can sign in cannot be disabled.

    \b
    Example: fairpost admin disable ann@example.com
    """
    people_view.disable_admin(address)


@app.command()
def enable(address: Address) -> None:
    """Let an admin in again: after `disable`, or after too many wrong tries.

    \b
    Example: fairpost admin enable ann@example.com
    """
    people_view.enable(workspace=None, address=address)


@app.command()
def sessions(
    address: Address,
    revoke: Revoke = False,
    as_json: AsJson = False,
) -> None:
    """List where an admin is signed in, or end all of it.

    \b
    Example: fairpost admin sessions ann@example.com --revoke
    """
    people_view.show_sessions(None, address, revoke=revoke, as_json=as_json)
