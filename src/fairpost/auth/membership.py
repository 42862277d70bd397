"""People who can sign in. Invites people, sets their passwords, changes their roles, and disables them.

The first admin needs no invitation.
"""

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fairpost.auth import passwords
from fairpost.auth.mails import NAME_CHARS_MAX, ServiceMail, link
from fairpost.auth.signing_in import ADDRESS_CHARS_MAX, begin_session, offer_entry, salt_of, take_attempt_of
from fairpost.model.auth import Accepted, Offered, Person, Refused, Role
from fairpost.model.errors import NotFound
from fairpost.model.ids import PersonId
from fairpost.model.names import WORKSPACE_NAME
from fairpost.model.tokens import hash_of
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.store import auth as rows
from fairpost.system import chance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fairpost.store.auth import Locked
    from fairpost.store.store import Store

    Record = Callable[[Store, Person], Awaitable[None]]  # runs in the same transaction as the change that it records

INVITATION_LIFE = timedelta(hours=48)
RESET_LIFE = timedelta(hours=1)
SETUP_LIFE = timedelta(hours=24)
LOCAL_OPERATOR = "operator@localhost"
# Names appear in e-mails to other people and must not be misused for advertising.
NO_NAME = re.compile(r"[/@:<>]|\.\S")

EXPIRED = Refused(kind="expired", message="This link is no longer valid. Ask for a new one.")
LAST_ADMIN = Refused(kind="last_admin")
WRONG_PASSWORD = Refused(kind="wrong", message="Wrong password.")


async def people(store: "Store", workspace: str | None) -> list[Person]:
    """Returns the members of a workspace, or the service's admins if `workspace` is None."""
    return await rows.listed(store, workspace)


async def person_named(store: "Store", workspace: str | None, address: str) -> Person | None:
    return await rows.find(store, workspace=workspace, address=address)


# ── invitations ───────────────────────────────────────────────────────────────────────────────────────────


async def invite(
    store: "Store",
    *,
    workspace: str | None,
    address: str,
    name: str = "",
    role: Role,
    inviter: str = "Fairpost",
    mail: ServiceMail | None = None,
    now: datetime | None = None,
) -> Offered | Refused:
    """Creates a link to choose a password, and sends the link if `mail` is given.

    The person's previous link becomes invalid.
    """
    if (refused := _refused_words(workspace, name, role)) is not None:
        return refused
    async with store.together() as tx:
        parsed = await _parsed(tx, address)
        if parsed is None:
            return Refused(kind="bad_address")
        person = await rows.add_invited(tx, workspace=workspace, address=parsed, name=name.strip(), role=role, now=now)
        if person is None:
            return await _refused_invitation(tx, workspace, parsed)
        offered = await _offer(tx, person, "invite", INVITATION_LIFE, now=now)
        if mail is not None:
            await mail.send_invitation(tx, offered, inviter=inviter, now=offered.expires_at - INVITATION_LIFE)
    return offered


async def offer_reset(
    store: "Store", person_id: PersonId, *, mail: ServiceMail | None = None, now: datetime | None = None
) -> Offered | Refused:
    """Creates a link to choose a new password, and sends the link if `mail` is given. Only a manager or an admin can
    request the link, because access to a mailbox must not be enough to take over an account.
    """
    async with store.together() as tx:
        person = (await _locked(tx, person_id, now=now)).person
        if person.disabled_at is not None:
            return Refused(kind="disabled")
        offered = await _offer(tx, person, "reset", RESET_LIFE, now=now)
        if mail is not None:
            await mail.send_reset(tx, offered, now=offered.expires_at - RESET_LIFE)
    return offered


async def accept_invitation(
    store: "Store", token: str, password: str, *, name: str = "", now: datetime | None = None
) -> Person | Refused:
    """Accepts an invitation like `accept`, but does not start a session."""
    accepted = await accept(store, token, password, name=name, agent=None, now=now)
    return accepted if isinstance(accepted, Refused) else accepted.person


async def accept(
    store: "Store",
    token: str,
    password: str,
    *,
    name: str = "",
    agent: str | None,
    record: "Record | None" = None,
    now: datetime | None = None,
) -> Accepted | Refused:
    """Accepts an invitation or a reset. After that, only the new password is valid: earlier sessions and links become
    invalid.

    Accepting an invitation signs the person in, because the link was sent to the mailbox that would receive the code.
    `agent` is the browser's user agent, or None if there is no browser.
    """
    found = await rows.offered(store, hash_of(token), now=now)
    person = found[1] if found and found[0] in ("invite", "reset") else None
    if found is None or person is None:
        return EXPIRED
    if (refused := _refused_name(name) or _refused_password(password, person.address)) is not None:
        return refused
    password_hash = await passwords.hashed(password, like=await salt_of(store, person.address))
    async with store.together() as tx:
        if person.workspace is None:
            await rows.end_setup(tx)
        locked = await _locked(tx, person.id, now=now)
        if locked.person.disabled_at is not None or not await rows.use_offer(tx, hash_of(token), now=locked.now):
            return EXPIRED
        await rows.set_password(tx, person.id, password_hash, name=name.strip())
        await rows.revoke_all(tx, person.id, now=locked.now)
        await rows.end_offers(tx, person.id)
        await rows.forget_attempts(tx, person.id)
        is_signed_in = found[0] == "invite" and agent is not None
        if is_signed_in:
            await rows.note_sign_in(tx, person.id, now=locked.now)
        person = (await _locked(tx, person.id, now=now)).person
        begun = await begin_session(tx, person, agent or "", now=locked.now) if is_signed_in else None
        if record is not None:
            await record(tx, person)
        return Accepted(person=person, signed_in=begun)


# ── first admin ───────────────────────────────────────────────────────────────────────────────────────────


async def first_admin_link(store: "Store", public_url: str, *, now: datetime | None = None) -> str | None:
    """Returns a link for creating the first admin, or None if an admin can already sign in. The link replaces earlier
    ones.
    """
    async with store.together() as tx:
        if await rows.has_admin(tx):
            return None
        token = chance.secret_token()
        await rows.offer_setup(tx, token_hash=hash_of(token), life=SETUP_LIFE, now=now)
    return link(public_url, "setup", token)


async def local_operator_link(
    store: "Store", public_url: str, *, by: str = "fairpost up", now: datetime | None = None
) -> str | None:
    """Returns a link that signs in the user of this machine as an admin, without a password. The admin created for this
    purpose does not count as the first admin. Returns None if this admin was disabled.
    """
    async with store.together() as tx:
        person = await rows.find(tx, workspace=None, address=LOCAL_OPERATOR)
        if person is None:
            person = await rows.add_invited(
                tx, workspace=None, address=LOCAL_OPERATOR, name="This machine", role=Role.ADMIN, now=now
            )
        offered = await offer_entry(tx, person.id, by=by, now=now) if person is not None else None
    return link(public_url, "enter", offered.token) if isinstance(offered, Offered) else None


async def is_setup_token(store: "Store", token: str, *, now: datetime | None = None) -> bool:
    found = await rows.offered(store, hash_of(token), now=now)
    return found is not None and found[0] == "setup"


async def set_up(
    store: "Store",
    token: str,
    *,
    address: str,
    password: str,
    name: str = "",
    record: "Record | None" = None,
    now: datetime | None = None,
) -> Person | Refused:
    """Creates the first admin."""
    if not await is_setup_token(store, token, now=now):
        return EXPIRED
    parsed = await _parsed(store, address)
    if parsed is None:
        return Refused(kind="bad_address", message="This is not an e-mail address.")
    if (refused := _refused_name(name) or _refused_password(password, parsed)) is not None:
        return refused
    password_hash = await passwords.hashed(password, like=await salt_of(store, parsed))
    async with store.together() as tx:
        if not await rows.use_offer(tx, hash_of(token), now=now) or await rows.has_admin(tx):
            return EXPIRED
        person = await rows.add_invited(tx, workspace=None, address=parsed, name=name.strip(), role=Role.ADMIN, now=now)
        if person is None:
            return Refused(kind="disabled", message="This person is disabled. Use a different address.")
        await rows.set_password(tx, person.id, password_hash)
        await rows.end_offers(tx, person.id)
        await rows.end_setup(tx)
        made = (await _locked(tx, person.id, now=now)).person
        if record is not None:
            await record(tx, made)
        return made


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────


async def change_password(
    store: "Store",
    person: Person,
    *,
    old: str,
    new: str,
    session_token: str | None = None,
    record: "Record | None" = None,
    now: datetime | None = None,
) -> Person | Refused:
    """Changes a person's own password. Ends all the person's sessions except the current one."""
    if (refused := _refused_password(new, person.address)) is not None:
        return refused
    attempt = await take_attempt_of(store, person, now=now)
    if isinstance(attempt, Refused):
        return attempt
    if not await passwords.is_right(old, attempt.password_hash):
        return WRONG_PASSWORD
    password_hash = await passwords.hashed(new, like=await salt_of(store, person.address))
    async with store.together() as tx:
        locked = await _locked(tx, person.id, now=now)
        if locked.password_hash != attempt.password_hash or locked.person.disabled_at is not None:
            return WRONG_PASSWORD  # changed concurrently
        assert attempt.id is not None
        await rows.take_back(tx, attempt.id)
        await rows.set_password(tx, person.id, password_hash)
        kept = hash_of(session_token) if session_token is not None else None
        await rows.revoke_all(tx, person.id, but=kept, now=locked.now)
        await rows.end_offers(tx, person.id)
        if record is not None:
            await record(tx, locked.person)
    return locked.person


async def change_role(
    store: "Store", person_id: PersonId, role: Role, *, now: datetime | None = None
) -> Person | Refused:
    """Changes a person's role. Ends the person's sessions, so the old permissions no longer apply."""
    async with store.together() as tx:
        person = (await _locked(tx, person_id, now=now)).person
        if (refused := _refused_role(person.workspace, role)) is not None:
            return refused
        if role != person.role:
            await rows.set_role(tx, person_id, role)
            await rows.revoke_all(tx, person_id, now=now)
        return (await _locked(tx, person_id, now=now)).person


async def disable_person(store: "Store", person_id: PersonId, *, now: datetime | None = None) -> Person | Refused:
    """Disables a person and ends all their access at once. The last admin who can sign in cannot be disabled."""
    async with store.together() as tx:
        admins = await rows.lock_admins(tx)  # prevents two admins from disabling each other at the same time
        locked = await _locked(tx, person_id, now=now)
        others = [each for each in admins if each.id != person_id and each.has_password and each.disabled_at is None]
        if locked.person.workspace is None and locked.person.has_password and not others:
            return LAST_ADMIN
        if locked.person.disabled_at is None:
            await rows.set_disabled(tx, person_id, locked.now)
        await rows.revoke_all(tx, person_id, now=locked.now)
        await rows.end_offers(tx, person_id)
        return (await _locked(tx, person_id, now=now)).person


async def enable_person(store: "Store", person_id: PersonId, *, now: datetime | None = None) -> Person:
    """Enables a person who was disabled, or locked out after too many attempts."""
    async with store.together() as tx:
        await _locked(tx, person_id, now=now)
        await rows.set_disabled(tx, person_id, None)
        await rows.forget_attempts(tx, person_id)
        return (await _locked(tx, person_id, now=now)).person


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────


def _refused_words(workspace: str | None, name: str, role: Role) -> Refused | None:
    if workspace is not None and (not WORKSPACE_NAME.fullmatch(workspace) or workspace == SERVICE_WORKSPACE):
        return Refused(kind="bad_workspace")
    return _refused_name(name) or _refused_role(workspace, role)


def _refused_name(name: str) -> Refused | None:
    if len(name) <= NAME_CHARS_MAX and name.isprintable() and not NO_NAME.search(name):
        return None
    message = f"A name must be at most {NAME_CHARS_MAX} characters on one line and must not contain an e-mail address."
    return Refused(kind="bad_name", message=message)


def _refused_role(workspace: str | None, role: Role) -> Refused | None:
    return None if (role is Role.ADMIN) == (workspace is None) else Refused(kind="bad_role")


def _refused_password(password: str, address: str) -> Refused | None:
    complaint = passwords.complaint_about(password, address=address)
    return Refused(kind="bad_password", message=complaint) if complaint is not None else None


async def _refused_invitation(store: "Store", workspace: str | None, address: str) -> Refused:
    person = await rows.find(store, workspace=workspace, address=address)
    return Refused(kind="disabled" if person is not None and person.disabled_at is not None else "known")


async def _parsed(store: "Store", address: str) -> str | None:
    text = address.strip()
    is_sane = len(text) <= ADDRESS_CHARS_MAX and text.isprintable()
    return await store.parse_address(text) if is_sane else None


async def _offer(
    store: "Store", person: Person, purpose: rows.Purpose, life: timedelta, *, now: datetime | None
) -> Offered:
    token = chance.secret_token()
    expires_at = await rows.offer(store, person.id, purpose, token_hash=hash_of(token), life=life, now=now)
    return Offered(person=person, token=token, expires_at=expires_at)


async def _locked(store: "Store", person_id: PersonId, *, now: datetime | None) -> "Locked":
    locked = await rows.lock(store, person_id, now=now)
    if locked is None:
        raise NotFound("This person no longer exists.")
    return locked
