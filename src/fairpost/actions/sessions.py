"""Actions on your own sign-in: use a link, choose or change a password, and end a session. Sessions of other people can
also be ended.

Signing in is handled in auth/, where a refusal is returned instead of raised, so that the attempt count is committed.
"""

from dataclasses import dataclass, field

from fairpost.actions.acting import Actor, action
from fairpost.actions.members import NamedPerson, person_of
from fairpost.auth import membership, sessions, signing_in
from fairpost.model.auth import Accepted, LocalCode, Person, Refused, SignedIn
from fairpost.model.errors import Refusal
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSession:
    """One of the caller's sessions. The session is either the current one, identified by its `token`, or another
    session of the same person, identified by its `id` from a list.
    """

    person: Person
    token: str = field(default="", repr=False)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePassword:
    """A request to change the password. The session with this `token` continues; all others end."""

    person: Person
    old: str = field(repr=False)
    new: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseLink:
    """A request to use a link. `agent` is the browser's User-Agent."""

    token: str = field(repr=False)
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLink(UseLink):
    password: str = field(repr=False)
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp(AcceptLink):
    address: str


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────


@action("session.end")
async def end(actor: Actor, request: OwnSession, store: Store) -> None:
    """Signs out. It is not an error if the session has already ended."""
    if await sessions.sign_out(store, request.token):
        await _record(actor, store, "session.end", request.person)


@action("session.revoke")
async def revoke(actor: Actor, request: OwnSession, store: Store) -> None:
    """Ends one of your own sessions, on any device."""
    if not await sessions.revoke_session(store, request.person.id, request.id):
        raise Refusal("session.unknown", session=request.id)
    await _record(actor, store, "session.revoke", request.person, session=request.id)


async def _sign_out(actor: Actor, request: NamedPerson, store: Store) -> int:
    """Ends all sessions and unfinished sign-ins of a person. Returns the number of sessions ended."""
    person = await person_of(store, request)
    ended = await sessions.revoke_sessions(store, person.id)
    await _record(actor, store, f"{request.kind}.sign_out", person, sessions=ended)
    return ended


sign_out_member = action("member.sign_out")(_sign_out)
sign_out_admin = action("admin.sign_out")(_sign_out)


# ── codes, links and passwords ────────────────────────────────────────────────────────────────────────────


async def _show_code(actor: Actor, request: NamedPerson, store: Store) -> LocalCode:
    """Creates a code for the newest unfinished sign-in, in case the e-mail does not arrive."""
    person = await person_of(store, request)
    made = await signing_in.make_local_code(store, person.id)
    if made is None:
        raise Refusal("sign_in.none_waits", address=request.address)
    await _record(actor, store, f"{request.kind}.code", person)
    return made


code_of_member = action("member.code")(_show_code)
code_of_admin = action("admin.code")(_show_code)


@action("person.enter")
async def enter(actor: Actor, request: UseLink, store: Store) -> SignedIn | Refused:
    entered = await signing_in.enter(store, request.token, agent=request.agent)
    if isinstance(entered, SignedIn):
        await _record_own(actor, store, "person.enter", entered.person)
    return entered


@action("person.password", in_one_commit=False)
async def change_password(actor: Actor, request: ChangePassword, store: Store) -> Person | Refused:
    async def record(one: Store, person: Person) -> None:
        await _record_own(actor, one, "person.password", person)

    return await membership.change_password(
        store, request.person, old=request.old, new=request.new, session_token=request.token, record=record
    )


@action("person.accept", in_one_commit=False)
async def accept(actor: Actor, request: AcceptLink, store: Store) -> Accepted | Refused:
    """Accepts an invitation or a password reset."""

    async def record(one: Store, person: Person) -> None:
        await _record_own(actor, one, "person.accept", person)

    return await membership.accept(
        store, request.token, request.password, name=request.name, agent=request.agent, record=record
    )


@action("admin.setup", in_one_commit=False)
async def set_up(actor: Actor, request: SetUp, store: Store) -> Person | Refused:
    """Sets up the first admin."""

    async def record(one: Store, person: Person) -> None:
        await _record_own(actor, one, "admin.setup", person)

    return await membership.set_up(
        store, request.token, address=request.address, password=request.password, name=request.name, record=record
    )


async def _record(actor: Actor, store: Store, action: str, person: Person, **detail: object) -> None:
    await actor.record(store, action, person.address, workspace=person.workspace, **detail)


async def _record_own(actor: Actor, store: Store, action: str, person: Person) -> None:
    """Writes an audit entry for the person identified by the link or password."""
    await _record(actor.named(f"{person.role} {person.address}"), store, action, person)
