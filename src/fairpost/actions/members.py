"""Actions on people who sign in, both members and admins: invite them, change their roles, disable or enable them, and
send them links.

Admins belong to no workspace; their records are stored in the home database. Signing in is handled in auth/.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from fairpost.actions.acting import Actor, action
from fairpost.auth import key_makers, membership, signing_in
from fairpost.auth.mails import NAME_CHARS_MAX, ServiceMail
from fairpost.model import auth as people
from fairpost.model.auth import Offered, Person, Role
from fairpost.model.errors import Refusal
from fairpost.model.workspace import ApiKey
from fairpost.store import workspaces
from fairpost.store.store import Store

T = TypeVar("T")

INVITATIONS_A_DAY_MAX = 100  # maximum per workspace
INVITATIONS_AN_HOUR_MAX = 3  # maximum number of invitations to one address
WAIT_S = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPerson:
    """A person, by address. `workspace` is None for an admin."""

    workspace: str | None
    address: str

    @property
    def kind(self) -> str:
        return "admin" if self.workspace is None else "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invite(NamedPerson):
    """A request to invite a person.

    `mail` sends the link; if it is None, the caller delivers the link. With `must_be_registered`, an unregistered
    workspace is refused.
    """

    role: Role
    name: str = ""
    inviter: str = "Fairpost"
    mail: ServiceMail | None = None
    must_be_registered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disable(NamedPerson):
    """A request to disable a person. `revoke_keys` also revokes the keys that a member created."""

    revoke_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRole(Disable):
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(NamedPerson):
    mail: ServiceMail | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A person whose permissions were reduced. `keys` are the keys that were valid until now. Whether these keys are
    revoked depends on the request.
    """

    person: Person
    keys: list[ApiKey]


# ── links ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _invite(actor: Actor, request: Invite, store: Store) -> Offered:
    """Creates a link for choosing a password. The link replaces the previous one."""
    if request.must_be_registered and request.workspace is not None:
        await _require_registered(store, request.workspace)
    await _require_room(actor, store, request.workspace, request.address, request.mail)
    offered = _accepted(
        await membership.invite(
            store,
            workspace=request.workspace,
            address=request.address,
            name=request.name,
            role=request.role,
            inviter=request.inviter,
            mail=request.mail,
        ),
        request,
    )
    role = None if request.workspace is None else request.role
    await _record(actor, store, "invite", offered.person, role=role, sent=request.mail is not None)
    return offered


async def _reset(actor: Actor, request: Reset, store: Store) -> Offered:
    """Creates a link for choosing a new password."""
    person = await person_of(store, request)
    await _require_room(actor, store, request.workspace, person.address, request.mail)
    offered = _accepted(await membership.offer_reset(store, person.id, mail=request.mail), request)
    await _record(actor, store, "reset", person, sent=request.mail is not None)
    return offered


@action("admin.link")
async def link(actor: Actor, request: NamedPerson, store: Store) -> Offered:
    """Creates a link that signs an admin in once. Only callers with access to the database can create such a link."""
    person = await person_of(store, request)
    return _accepted(await signing_in.offer_entry(store, person.id, by=actor.who), request)


invite_member = action("member.invite")(_invite)
invite_admin = action("admin.invite")(_invite)
reset_member = action("member.reset")(_reset)
reset_admin = action("admin.reset")(_reset)


# ── roles and access ──────────────────────────────────────────────────────────────────────────────────────


@action("member.role")
async def change_role(actor: Actor, request: ChangeRole, store: Store) -> Lowered:
    """Changes a role. All sessions end, so the old permissions no longer apply."""

    async def change(person: Person) -> Person | people.Refused:
        return await membership.change_role(store, person.id, request.role)

    return await _lowered(actor, request, store, change, "role", role=request.role)


async def _disable(actor: Actor, request: Disable, store: Store) -> Lowered:
    """Disables a person. All sessions, unfinished sign-ins and links stop working."""

    async def change(person: Person) -> Person | people.Refused:
        return await membership.disable_person(store, person.id)

    return await _lowered(actor, request, store, change, "disable")


async def _enable(actor: Actor, request: NamedPerson, store: Store) -> Person:
    """Enables a person who was disabled, or locked out after too many failed attempts."""
    person = await membership.enable_person(store, (await person_of(store, request)).id)
    await _record(actor, store, "enable", person)
    return person


disable_member = action("member.disable")(_disable)
disable_admin = action("admin.disable")(_disable)
enable_member = action("member.enable")(_enable)
enable_admin = action("admin.enable")(_enable)


async def _lowered(
    actor: Actor,
    request: Disable,
    store: Store,
    change: Callable[[Person], Awaitable[Person | people.Refused]],
    verb: str,
    **detail: object,
) -> Lowered:
    person = _accepted(await change(await person_of(store, request)), request)
    await _record(actor, store, verb, person, **detail)
    if person.workspace is None or (person.role is Role.MANAGER and person.disabled_at is None):
        return Lowered(person=person, keys=[])
    left = await key_makers.open_keys_of(store, person, now=await store.now())
    for key in left if request.revoke_keys else ():
        await workspaces.revoke_key(store, key.workspace, key.id)
        await actor.record(store, "key.revoke", key.id, workspace=key.workspace, made_by=key.created_by)
    return Lowered(person=person, keys=left)


# ── checks ────────────────────────────────────────────────────────────────────────────────────────────────


async def _require_registered(store: Store, workspace: str) -> None:
    if await workspaces.find_workspace(store, workspace) is None:
        raise Refusal("workspace.unknown", name=workspace)


async def _require_room(
    actor: Actor, store: Store, workspace: str | None, address: str, mail: ServiceMail | None
) -> None:
    """Limits invitations, because they are sent through the service's own accounts to people who may not expect
    them.
    """
    if mail is None or actor.workspace is None or workspace is None:
        return
    sent, to_the_same = await workspaces.invitations_sent(store, workspace, address)
    if sent >= INVITATIONS_A_DAY_MAX or to_the_same >= INVITATIONS_AN_HOUR_MAX:
        raise Refusal(
            "member.too_many_invitations",
            a_day=INVITATIONS_A_DAY_MAX,
            an_hour=INVITATIONS_AN_HOUR_MAX,
            retry_after_s=WAIT_S,
        )


async def person_of(store: Store, request: NamedPerson) -> Person:
    person = await membership.person_named(store, request.workspace, request.address)
    if person is None:
        raise Refusal(f"{request.kind}.unknown", address=request.address, workspace=request.workspace)
    return person


def _accepted(outcome: T | people.Refused, request: NamedPerson) -> T:
    if isinstance(outcome, people.Refused):
        _refuse(outcome, request)
    return outcome


def _refuse(refused: people.Refused, request: NamedPerson) -> NoReturn:
    match refused.kind:
        case "bad_address":
            raise Refusal("address.invalid", address=request.address)
        case "bad_name" | "bad_role" | "bad_workspace":
            raise Refusal(f"person.{refused.kind}", most=NAME_CHARS_MAX, workspace=request.workspace)
        case _:
            about = {"address": request.address, "workspace": request.workspace}
            raise Refusal(f"{request.kind}.{refused.kind}", **about)


async def _record(actor: Actor, store: Store, verb: str, person: Person, **detail: object) -> None:
    kind = "admin" if person.workspace is None else "member"
    await actor.record(store, f"{kind}.{verb}", person.address, workspace=person.workspace, **detail)
