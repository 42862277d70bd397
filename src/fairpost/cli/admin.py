"""`fairpost admin`: the people who run the service: invite them, let them in, keep them out."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli import people_view
from fairpost.cli.output import AsJson, iso, plain, print_json, print_table
from fairpost.cli.session import with_home_store
from fairpost.model.person import Role

if TYPE_CHECKING:
    from fairpost.model.person import Person, Session
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Invite and remove the people who run the service.")

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="The e-mail address.")]
Name = Annotated[str, typer.Option(help="How e-mails address this person.")]
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
    revoke: Annotated[bool, typer.Option("--revoke", help="End all of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List where an admin is signed in, or end all of it.

    \b
    Example: fairpost admin sessions ann@example.com --revoke
    """
    from fairpost.auth.sessions import revoke_sessions, sessions_of

    async def work(store: "Store", person: "Person") -> "tuple[list[Session], int]":
        found = await sessions_of(store, person.id)
        return found, await revoke_sessions(store, person.id) if revoke else 0

    found, ended = people_view.with_person(None, address, work)
    if as_json:
        print_json([_facts(session) for session in found])
    elif revoke:
        typer.echo(plain(f"ended {ended} session{'' if ended == 1 else 's'} of {address}"))
    elif found:
        rows = ((s.id, iso(s.created_at), iso(s.seen_at), iso(s.expires_at), s.agent) for s in found)
        print_table(("session", "since", "last seen", "until", "browser"), rows)
    else:
        typer.echo(plain(f"{address} is not signed in"))


def _facts(session: "Session") -> dict[str, object]:
    return {
        "session": session.id,
        "created_at": session.created_at,
        "seen_at": session.seen_at,
        "expires_at": session.expires_at,
        "agent": session.agent,
    }
