"""Output about people who sign in, shared by `fairpost admin` and `fairpost member`."""

from typing import TYPE_CHECKING, TypeVar

import typer

from fairpost.cli.acting import act, act_at_home
from fairpost.cli.output import iso, plain, print_json, print_table
from fairpost.cli.session import with_home_store, with_store
from fairpost.model.auth import Offered, Person, Role
from fairpost.model.errors import Refusal
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from fairpost.actions.acting import Action
    from fairpost.auth.mails import Page
    from fairpost.model.auth import Session
    from fairpost.store.store import Store

R = TypeVar("R")
T = TypeVar("T")

ARGUMENTS = {"address": "ADDRESS", "workspace": "WORKSPACE"}


def act_where_known(workspace: str | None, action: "Action[R, T]", request: "R") -> T:
    return (
        act_at_home(action, request, fields=ARGUMENTS) if workspace is None else act(action, request, fields=ARGUMENTS)
    )


def with_person(workspace: str | None, address: str, work: "Callable[[Store, Person], Awaitable[T]]") -> T:
    """Run `work` on the database that contains this person's record: the home database for an admin, or the region's
    database for a member.
    """
    from fairpost.auth.membership import person_named

    async def run(store: "Store") -> T:
        person = await person_named(store, workspace, address)
        if person is None:
            kind = "admin" if workspace is None else "member"
            raise Refusal(f"{kind}.unknown", address=address, workspace=workspace)
        return await work(store, person)

    return with_home_store(run) if workspace is None else with_store(run)


def _region(workspace: str | None) -> str:
    """Return the region's name for use in links."""
    settings = read_settings()
    return settings.region_name if workspace is not None and settings.regions is not None else ""


def show_code(workspace: str | None, address: str, *, as_json: bool) -> None:
    """Print a code for the latest sign-in that is waiting for one."""
    from fairpost.actions import sessions
    from fairpost.actions.members import NamedPerson

    action = sessions.code_of_admin if workspace is None else sessions.code_of_member
    made = act_where_known(workspace, action, NamedPerson(workspace=workspace, address=address))
    if as_json:
        print_json({"code": made.code, "begun_at": made.begun_at, "expires_at": made.expires_at})
        return
    typer.echo(made.code)
    typer.echo(f"for the sign-in started at {iso(made.begun_at)}, in the same browser, until {iso(made.expires_at)}")


def show_sessions(workspace: str | None, address: str, *, revoke: bool, as_json: bool) -> None:
    """List valid sessions or end them."""
    from fairpost.actions.members import NamedPerson
    from fairpost.actions.sessions import sign_out_admin, sign_out_member
    from fairpost.auth.sessions import sessions_of

    found = with_person(workspace, address, lambda store, person: sessions_of(store, person.id))
    ended = 0
    if revoke:
        action = sign_out_admin if workspace is None else sign_out_member
        ended = act_where_known(workspace, action, NamedPerson(workspace=workspace, address=address))
    if as_json:
        print_json([_session_facts(session) for session in found])
    elif revoke:
        typer.echo(plain(f"ended {ended} session{'' if ended == 1 else 's'} of {address}"))
    elif found:
        rows = ((s.id, iso(s.created_at), iso(s.seen_at), iso(s.expires_at), s.agent) for s in found)
        print_table(("session", "since", "last seen", "until", "browser"), rows)
    else:
        typer.echo(plain(f"{address} is not signed in"))


def _session_facts(session: "Session") -> dict[str, object]:
    return {
        "session": session.id,
        "created_at": session.created_at,
        "seen_at": session.seen_at,
        "expires_at": session.expires_at,
        "agent": session.agent,
    }


def invite(*, workspace: str | None, address: str, name: str, role: Role, send: bool, as_json: bool) -> None:
    from dataclasses import replace

    from fairpost.actions import members
    from fairpost.startup.parts import service_mail

    region = _region(workspace)
    request = members.Invite(
        workspace=workspace,
        address=address,
        name=name,
        role=role,
        inviter=workspace or read_settings().name,
        mail=replace(service_mail(read_settings()), region=region) if send else None,
        must_be_registered=bool(region),
    )
    action = members.invite_admin if workspace is None else members.invite_member
    show_offered(act_where_known(workspace, action, request), "invitation", as_json=as_json)


def reset(*, workspace: str | None, address: str, as_json: bool) -> None:
    from fairpost.actions import members

    action = members.reset_admin if workspace is None else members.reset_member
    offered = act_where_known(workspace, action, members.Reset(workspace=workspace, address=address))
    show_offered(offered, "reset", as_json=as_json)


def disable_admin(address: str) -> None:
    from fairpost.actions import members

    done = act_where_known(None, members.disable_admin, members.Disable(workspace=None, address=address))
    typer.echo(plain(f"disabled: {_whole(done.person)}; all sessions ended"))


def enable(*, workspace: str | None, address: str) -> None:
    from fairpost.actions import members

    action = members.enable_admin if workspace is None else members.enable_member
    person = act_where_known(workspace, action, members.NamedPerson(workspace=workspace, address=address))
    typer.echo(plain(f"enabled: {_whole(person)}"))


def show_offered(offered: Offered, page: "Page", *, as_json: bool) -> None:
    _show_link(offered, page, "can choose a password here", as_json=as_json)


def show_entry(offered: Offered, *, as_json: bool) -> None:
    _show_link(offered, "enter", "can sign in here", as_json=as_json)


def _show_link(offered: Offered, page: "Page", does: str, *, as_json: bool) -> None:
    from fairpost.auth.mails import link
    from fairpost.startup.address import reachable_url

    url = link(reachable_url(read_settings()), page, offered.token, region=_region(offered.person.workspace))
    if as_json:
        print_json({"person": facts(offered.person), "link": url, "expires_at": offered.expires_at})
        return
    typer.echo(plain(f"{_whole(offered.person)} {does}, once, until {iso(offered.expires_at)}:"))
    typer.echo(url)


def show_people(found: "Sequence[Person]", *, none: str, as_json: bool) -> None:
    if as_json:
        print_json([facts(person) for person in found])
    elif found:
        columns = ("address", "name", "role", "state", "last sign-in")
        print_table(columns, ((p.address, p.name, p.role, state_of(p), _seen(p)) for p in found))
    else:
        typer.echo(none)


def facts(person: Person) -> dict[str, object]:
    return {
        "id": person.id,
        "workspace": person.workspace,
        "address": person.address,
        "name": person.name,
        "role": person.role,
        "state": state_of(person),
        "created_at": person.created_at,
        "disabled_at": person.disabled_at,
        "last_sign_in_at": person.last_sign_in_at,
    }


def state_of(person: Person) -> str:
    if person.disabled_at is not None:
        return "disabled"
    return "active" if person.has_password else "invited"


def _seen(person: Person) -> str | None:
    return iso(person.last_sign_in_at) if person.last_sign_in_at else None


def _whole(person: Person) -> str:
    where = "" if person.workspace is None else f" in workspace {person.workspace}"
    return f"{person.role} {person.address}{where}"
