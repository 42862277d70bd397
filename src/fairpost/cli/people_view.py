"""How people who sign in are shown, and what `fairpost admin` and `fairpost member` do alike."""

from typing import TYPE_CHECKING, TypeVar

import typer

from fairpost.cli.output import iso, plain, print_json, print_table
from fairpost.cli.session import with_home_store, with_store
from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.person import Offered, Person, Refused, Role
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from fairpost.people.mails import Page
    from fairpost.postgres.store import Store

T = TypeVar("T")


def accepted(outcome: "T | Refused") -> T:
    """What is refused here is an error of whoever typed it."""
    if isinstance(outcome, Refused):
        raise FairpostError(outcome.message)
    return outcome


def with_person(workspace: str | None, address: str, work: "Callable[[Store, Person], Awaitable[T]]") -> T:
    """Where this person is known: an admin at home, a member in the region. Raises NotFound."""
    from fairpost.people.membership import person_named

    async def run(store: "Store") -> T:
        person = await person_named(store, workspace, address)
        if person is None:
            raise NotFound(_nobody(workspace, address))
        return await work(store, person)

    return _where_known(workspace, run)


def _where_known(workspace: str | None, work: "Callable[[Store], Awaitable[T]]") -> T:
    return with_home_store(work) if workspace is None else with_store(work)


def _region(workspace: str | None) -> str:
    """What links have to say of the region."""
    settings = read_settings()
    return settings.region_name if workspace is not None and settings.regions is not None else ""


def show_code(workspace: str | None, address: str, *, as_json: bool) -> None:
    """For the newest sign-in that waits for its code."""
    from fairpost.people.signing_in import make_local_code

    made = with_person(workspace, address, lambda store, person: make_local_code(store, person.id))
    if made is None:
        raise FairpostError(
            f"No sign-in of {address} waits for a code. Enter the password in the browser, then try again."
        )
    if as_json:
        print_json({"code": made.code, "begun_at": made.begun_at, "expires_at": made.expires_at})
        return
    typer.echo(made.code)
    typer.echo(f"for the sign-in begun at {iso(made.begun_at)}, in that browser, until {iso(made.expires_at)}")


def invite(*, workspace: str | None, address: str, name: str, role: Role, send: bool, as_json: bool) -> None:
    from dataclasses import replace

    from fairpost.app import service_mail
    from fairpost.people import membership
    from fairpost.postgres.workspaces import workspace_named

    region = _region(workspace)
    mail = replace(service_mail(read_settings()), region=region) if send else None

    async def work(store: "Store") -> "Offered | Refused":
        if workspace is not None and region:
            await workspace_named(store, workspace)  # elsewhere, nobody would find this member
        return await membership.invite(store, workspace=workspace, address=address, name=name, role=role, mail=mail)

    invited = _where_known(workspace, work)
    if isinstance(invited, Refused) and invited.kind == "known":
        command = _command("reset", workspace, address)
        raise FairpostError(f"{invited.message} For another password: {command}")
    show_offered(accepted(invited), "invitation", as_json=as_json)


def reset(*, workspace: str | None, address: str, as_json: bool) -> None:
    from fairpost.people import membership

    offered = with_person(workspace, address, lambda store, person: membership.offer_reset(store, person.id))
    show_offered(accepted(offered), "reset", as_json=as_json)


def disable_admin(address: str) -> None:
    from fairpost.people import membership

    outcome = with_person(None, address, lambda store, person: membership.disable_person(store, person.id))
    typer.echo(plain(f"disabled: {_whole(accepted(outcome))}; all sessions are ended"))


def enable(*, workspace: str | None, address: str) -> None:
    from fairpost.people import membership

    person = with_person(workspace, address, lambda store, person: membership.enable_person(store, person.id))
    typer.echo(plain(f"enabled: {_whole(person)}"))


def show_offered(offered: Offered, page: "Page", *, as_json: bool) -> None:
    _show_link(offered, page, "chooses a password here", as_json=as_json)


def show_entry(offered: Offered, *, as_json: bool) -> None:
    _show_link(offered, "enter", "is signed in here", as_json=as_json)


def _show_link(offered: Offered, page: "Page", does: str, *, as_json: bool) -> None:
    from fairpost.people.mails import link

    url = link(read_settings().public_url, page, offered.token, region=_region(offered.person.workspace))
    if as_json:
        print_json({"person": facts(offered.person), "link": url, "expires_at": offered.expires_at})
        return
    typer.echo(plain(f"{_whole(offered.person)} {does}, once, until {iso(offered.expires_at)}:"))
    typer.echo(url)


def show_people(found: "Sequence[Person]", *, nobody: str, as_json: bool) -> None:
    if as_json:
        print_json([facts(person) for person in found])
    elif found:
        columns = ("address", "name", "role", "state", "last sign-in")
        print_table(columns, ((p.address, p.name, p.role, state_of(p), _seen(p)) for p in found))
    else:
        typer.echo(nobody)


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
    where = "" if person.workspace is None else f" of workspace {person.workspace}"
    return f"{person.role} {person.address}{where}"


def _nobody(workspace: str | None, address: str) -> str:
    if workspace is None:
        return f"There is no admin {address}. See: fairpost admin list"
    return f"Workspace {workspace} has no member {address}. See: {_command('list', workspace)}"


def _command(verb: str, workspace: str | None, address: str = "") -> str:
    import shlex

    words = ["fairpost", "admin" if workspace is None else "member", verb, workspace or "", address]
    return shlex.join(word for word in words if word)
