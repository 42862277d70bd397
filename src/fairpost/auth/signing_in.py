"""Signing in: the password, then a code by e-mail in the same browser. Both steps are required for a session.

Errors never say which part is wrong, and every attempt takes the same time. Each attempt is counted as a failure before
the password or code is checked. If the password or code was correct, the attempt is then removed from the count.
Parallel attempts therefore have no advantage.
"""

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fairpost.auth import codes, passwords
from fairpost.auth.codes import CODE_LIFE, CODE_TRIES_MAX, CODES_MAX
from fairpost.auth.mails import ServiceMail
from fairpost.auth.sessions import SESSION_LIFE, agent_of
from fairpost.model import networks
from fairpost.model.auth import LocalCode, Offered, Person, Refused, SignedIn, SignInBegun
from fairpost.model.ids import PersonId
from fairpost.model.tokens import hash_of
from fairpost.store import auth as rows
from fairpost.store.workspaces import write_audit
from fairpost.system import chance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.store.auth import Attempt, Locked, PendingSignIn
    from fairpost.store.store import Store

FAILURES = rows.Window(address_max=10, client_max=50, length=timedelta(minutes=15))
CODES_IN_WINDOW_MAX = 10  # maximum number of codes sent to a person within the window
BUSY_S = 5
ENTRY_LIFE = timedelta(minutes=10)
ADDRESS_CHARS_MAX = 320

WRONG = Refused(kind="wrong", message="Wrong address or password.")
SEVERAL = Refused(kind="several", message="You are a member of several workspaces. Choose one.")
EXPIRED = Refused(kind="expired", message="This sign-in has expired. Enter your password again.")
NO_ADMIN = Refused(kind="bad_role")
NO_ENTRY = Refused(
    kind="expired", message="This link is no longer valid. Create a new one on the server: fairpost admin link"
)
NO_MORE_CODES = Refused(kind="expired", message=f"{CODES_MAX} codes were sent. Enter your password again.")


async def begin_sign_in(
    store: "Store",
    *,
    workspace: str | None,
    address: str,
    password: str,
    client: str,
    mail: ServiceMail,
    now: datetime | None = None,
) -> SignInBegun | Refused:
    """Takes the first step of signing in: checks the password and sends a code. `workspace` is None for admins of the
    service. `client` is a network address.
    """
    if passwords.is_busy():
        return _too_many(BUSY_S)
    attempt = await take_attempt(store, workspace=workspace, address=address, client=client, now=now)
    if isinstance(attempt, Refused):
        return attempt
    known = attempt.password_hash if attempt.person and attempt.person.disabled_at is None else None
    if not await passwords.is_right(password, known) or attempt.person is None or known is None:
        return WRONG
    better = await _better(store, attempt.person, password, known)
    return await _begin(store, attempt, attempt.person.id, known, better=better, client=client, mail=mail, now=now)


async def _better(store: "Store", person: Person, password: str, known: str) -> str | None:
    """Returns a new hash of the password if the existing hash has outdated parameters or an outdated salt."""
    like = await salt_of(store, person.address)
    return await passwords.hashed(password, like=like) if passwords.is_outdated(known, like=like) else None


async def salt_of(store: "Store", address: str) -> str | None:
    """Returns a hash with the salt that all passwords of this address share."""
    found = await rows.hashes_of(store, address)
    return found[0][1] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A person with this address, and the region whose database contains the person's record."""

    region: str
    store: "Store"
    person: Person
    password_hash: str = field(repr=False)


async def candidates(store: "Store", address: str, *, region: str, of_members: bool) -> list[Candidate]:
    """Returns the people who can sign in with this address in this region: members, or admins of the service."""
    found = await rows.hashes_of(store, _storable(address.strip()), of_members=of_members)
    return [Candidate(region=region, store=store, person=person, password_hash=known) for person, known in found]


async def the_one_meant(
    found: "Sequence[Candidate]", *, password: str, client: str, now: datetime | None = None
) -> Candidate | Refused | None:
    """Chooses one of the people with the same address if no workspace was given. Returns None if `found` is empty.

    If there are several people, the password determines which one is chosen. If the password is valid for several of
    these people, the user must choose a workspace. All passwords for an address share a salt, so this check takes no
    longer than checking a single password."""
    if len(found) < 2:
        return found[0] if found else None  # there is no choice, and the password is checked in the next step
    if passwords.is_busy():
        return _too_many(BUSY_S)
    attempts: list[tuple[Store, Attempt]] = []
    for each in found:
        person, network = each.person, None if attempts else client
        attempt = await take_attempt(
            each.store, workspace=person.workspace, address=person.address, client=network, now=now
        )
        if isinstance(attempt, Refused):
            return attempt
        attempts.append((each.store, attempt))
    fits = await passwords.right_ones(password, [each.password_hash for each in found])
    right = [each for each, is_right in zip(found, fits, strict=True) if is_right]
    if not right:
        return WRONG
    for store, attempt in attempts:
        assert attempt.id is not None
        await rows.take_back(store, attempt.id)
    return right[0] if len(right) == 1 else replace(SEVERAL, workspaces=tuple(each.person.workspace for each in right))


async def _begin(
    store: "Store",
    attempt: "Attempt",
    person_id: PersonId,
    known: str,
    *,
    better: str | None,
    client: str,
    mail: ServiceMail,
    now: datetime | None,
) -> SignInBegun | Refused:
    async with store.together() as tx:
        locked = await rows.lock(tx, person_id, now=now)
        if locked is None or locked.password_hash != known or locked.person.disabled_at is not None:
            return WRONG  # changed concurrently
        assert attempt.id is not None
        await rows.take_back(tx, attempt.id)
        if better is not None:
            await rows.set_password(tx, person_id, better)
        if (refused := await _refused_code(tx, person_id, locked.now)) is not None:
            return refused
        secret, code = chance.secret_token(), codes.new_code()
        expires_at = locked.now + CODE_LIFE
        await rows.add_sign_in(
            tx,
            person_id,
            token_hash=hash_of(secret),
            code_hash=codes.code_hash(secret, code),
            created_at=locked.now,
            expires_at=expires_at,
        )
        await mail.send_code(tx, locked.person, code, client=client[:100], now=locked.now, expires_at=expires_at)
        is_on_its_way = await rows.can_be_sent(tx, mail.pool)
    return SignInBegun(browser_secret=secret, person=locked.person, expires_at=expires_at, is_on_its_way=is_on_its_way)


async def resend_code(
    store: "Store", *, browser_secret: str, client: str, mail: ServiceMail, now: datetime | None = None
) -> SignInBegun | Refused:
    """Sends another code for the same browser and invalidates earlier codes. Earlier failed attempts still count."""
    token_hash = hash_of(browser_secret)
    async with store.together() as tx:
        begun = await _begun(tx, token_hash, now=now)
        if begun is None:
            return EXPIRED
        locked, pending = begun
        if pending.codes >= CODES_MAX:
            return NO_MORE_CODES
        if (refused := await _refused_code(tx, locked.person.id, locked.now)) is not None:
            return refused
        code, expires_at = codes.new_code(), locked.now + CODE_LIFE
        await rows.replace_code(tx, token_hash, code_hash=codes.code_hash(browser_secret, code), expires_at=expires_at)
        await mail.send_code(tx, locked.person, code, client=client[:100], now=locked.now, expires_at=expires_at)
        is_on_its_way = await rows.can_be_sent(tx, mail.pool)
    return SignInBegun(
        browser_secret=browser_secret, person=locked.person, expires_at=expires_at, is_on_its_way=is_on_its_way
    )


async def _begun(store: "Store", token_hash: bytes, *, now: datetime | None) -> "tuple[Locked, PendingSignIn] | None":
    """Returns the unfinished sign-in, or None if it has been used, has expired or has had too many attempts, or if the
    person has been disabled.
    """
    locked = await rows.lock_signing_in(store, token_hash, now=now)
    if locked is None or locked.person.disabled_at is not None:
        return None
    pending = await rows.pending_sign_in(store, token_hash, tries_max=CODE_TRIES_MAX, now=locked.now)
    return None if pending is None else (locked, pending)


async def finish_sign_in(
    store: "Store", *, browser_secret: str, code: str, agent: str, now: datetime | None = None
) -> SignedIn | Refused:
    """Takes the second step of signing in: checks the code and starts a session. `agent` is the browser's user agent."""
    token_hash = hash_of(browser_secret)
    async with store.together() as tx:
        begun = await _begun(tx, token_hash, now=now)
        if begun is None:
            return EXPIRED
        locked, pending = begun
        attempt = await take_attempt_of(tx, locked.person, now=locked.now)
        if isinstance(attempt, Refused):
            return attempt
        if not codes.is_code(browser_secret, code, emailed=pending.code_hash, local=pending.local_code_hash):
            await rows.count_try(tx, token_hash)
            return _wrong_code(CODE_TRIES_MAX - pending.tries - 1)
        assert attempt.id is not None
        await rows.take_back(tx, attempt.id)
        await rows.use_sign_in(tx, locked.person.id, token_hash, now=locked.now)
        return await begin_session(tx, locked.person, agent, now=locked.now)


async def begin_session(store: "Store", person: Person, agent: str, *, now: datetime) -> SignedIn:
    token = chance.secret_token()
    expires_at = now + SESSION_LIFE
    await rows.add_session(
        store,
        person.id,
        token_hash=hash_of(token),
        created_at=now,
        expires_at=expires_at,
        agent=agent_of(agent),
    )
    return SignedIn(session_token=token, csrf_token=codes.csrf_token_of(token), person=person, expires_at=expires_at)


async def make_local_code(store: "Store", person_id: PersonId, *, now: datetime | None = None) -> LocalCode | None:
    """Creates a code for the newest sign-in that is waiting for a code, in case no e-mail arrives.

    Returns None if no sign-in is waiting.
    """
    async with store.together() as tx:
        locked = await rows.lock(tx, person_id, now=now)
        if locked is None or locked.person.disabled_at is not None:
            return None
        pending = await rows.newest_pending(tx, person_id, tries_max=CODE_TRIES_MAX, now=locked.now)
        if pending is None:
            return None
        code = codes.new_code()
        await rows.set_local_code(tx, pending.token_hash, codes.local_code_hash(pending.token_hash, code))
    return LocalCode(code=code, begun_at=pending.created_at, expires_at=pending.expires_at)


# ── links made on the server ──────────────────────────────────────────────────────────────────────────────


async def offer_entry(
    store: "Store", person_id: PersonId, *, by: str, now: datetime | None = None
) -> Offered | Refused:
    """Creates a one-time link that signs in an admin without a password or a code. Creating the link requires database
    access.
    """
    async with store.together() as tx:
        locked = await rows.lock(tx, person_id, now=now)
        if locked is None or locked.person.workspace is not None:
            return NO_ADMIN
        if locked.person.disabled_at is not None:
            return Refused(kind="disabled")
        token = chance.secret_token()
        expires_at = await rows.offer(
            tx, person_id, "enter", token_hash=hash_of(token), life=ENTRY_LIFE, now=locked.now
        )
        await write_audit(tx, workspace=None, who=by, action="admin.link", subject=locked.person.address)
    return Offered(person=locked.person, token=token, expires_at=expires_at)


async def enter(store: "Store", token: str, *, agent: str, now: datetime | None = None) -> SignedIn | Refused:
    """Starts a session with a one-time link."""
    token_hash = hash_of(token)
    async with store.together() as tx:
        found = await rows.offered(tx, token_hash, now=now)
        if found is None or found[0] != "enter" or found[1] is None:
            return NO_ENTRY
        locked = await rows.lock(tx, found[1].id, now=now)
        if locked is None or locked.person.disabled_at is not None:
            return NO_ENTRY
        if not await rows.use_offer(tx, token_hash, now=locked.now):
            return NO_ENTRY  # another request used the link first
        await rows.note_sign_in(tx, locked.person.id, now=locked.now)
        return await begin_session(tx, locked.person, agent, now=locked.now)


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────


async def take_attempt(
    store: "Store", *, workspace: str | None, address: str, client: str | None, now: datetime | None
) -> "Attempt | Refused":
    """Records a sign-in attempt, which counts as a failure until it succeeds."""
    attempt = await rows.take_attempt(
        store,
        workspace=_storable(workspace) if workspace is not None else None,
        address=_storable(address.strip()),
        client=None if client is None else network_of(client),
        window=FAILURES,
        now=now,
    )
    if attempt.free_at is not None:
        return _too_many(math.ceil((attempt.free_at - attempt.now).total_seconds()))
    return attempt


async def take_attempt_of(store: "Store", person: Person, *, now: datetime | None) -> "Attempt | Refused":
    return await take_attempt(store, workspace=person.workspace, address=person.address, client=None, now=now)


def network_of(client: str) -> str:
    return networks.network_of(client) or _storable(client)


def _storable(text: str) -> str:
    """Returns the address if the database can store it.

    Addresses that cannot be stored cannot belong to a person, so they share one attempt count.
    """
    is_fine = len(text) <= ADDRESS_CHARS_MAX and "\0" not in text and text.isprintable()
    return text if is_fine else ""


async def _refused_code(store: "Store", person_id: PersonId, now: datetime) -> Refused | None:
    sent, oldest = await rows.codes_sent(store, person_id, since=now - FAILURES.length)
    if sent < CODES_IN_WINDOW_MAX or oldest is None:
        return None
    return _too_many(math.ceil((oldest + FAILURES.length - now).total_seconds()))


def _too_many(retry_after_s: int) -> Refused:
    wait = f"{math.ceil(retry_after_s / 60)} minutes" if retry_after_s > 90 else f"{retry_after_s} seconds"
    return Refused(kind="too_many", message=f"Too many attempts. Try again in {wait}.", retry_after_s=retry_after_s)


def _wrong_code(tries_left: int) -> Refused:
    left = {0: "Enter your password again.", 1: "One attempt left."}.get(tries_left, f"{tries_left} attempts left.")
    return Refused(kind="wrong", message=f"Wrong code. {left}", tries_left=tries_left)
