"""Store and read users, their links, sign-ins and sessions. Permissions are checked elsewhere.

Each change to a user first locks the user's row, so the second of two concurrent changes sees the result of the first.
`now` is for tests and simulations; by default, the database clock is used.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from fairpost.model.auth import Person, Role, Session
from fairpost.model.ids import PersonId
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

SESSION_ID_CHARS = 16
OF_ADDRESS_MAX = 50  # maximum number of workspaces searched for an address if the sign-in does not name a workspace

Purpose = Literal["invite", "reset", "setup", "enter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A sign-in attempt. `id` is None if there were too many attempts. `person` is the owner of the address, if any."""

    id: int | None
    free_at: datetime | None
    now: datetime
    person: Person | None
    password_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A user whose row is locked until the transaction ends."""

    person: Person
    password_hash: str | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignIn:
    token_hash: bytes
    code_hash: bytes
    local_code_hash: bytes | None
    codes: int
    tries: int
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The maximum number of failures allowed within a period."""

    address_max: int
    client_max: int
    length: timedelta


# ── users ─────────────────────────────────────────────────────────────────────────────────────────────────

# Admins have no workspace. The index stores null as an empty name, so the query covers both null and empty.


async def find(store: "Store", *, workspace: str | None, address: str) -> Person | None:
    sql = """SELECT p.* FROM fairpost.people p
        WHERE coalesce(p.workspace, '') = coalesce($1::text, '') AND p.workspace IS NOT DISTINCT FROM $1 AND p.folded = fairpost.normalize_address($2)"""
    row = await store.row(sql, workspace, address)
    return row and _person(row)


async def hashes_of(store: "Store", address: str, *, of_members: bool | None = None) -> list[tuple[Person, str]]:
    """Return the users with this address who can sign in, with their password hashes.

    With `of_members`, only members (True) or only admins (False) are returned.
    """
    sql = """SELECT p.* FROM fairpost.people p WHERE p.folded = fairpost.normalize_address($1) AND p.password_hash IS NOT NULL AND p.disabled_at IS NULL
        AND ($2::boolean IS NULL OR $2 = (p.workspace IS NOT NULL)) ORDER BY p.id LIMIT $3"""
    return [(_person(row), row["password_hash"]) for row in await store.fetch(sql, address, of_members, OF_ADDRESS_MAX)]


async def can_be_sent(store: "Store", pool: str) -> bool:
    """Return whether this pool can send e-mail now. A pool can send if an engine is running, nothing is paused, and an
    account is ready.
    """
    sql = """SELECT EXISTS (SELECT FROM fairpost.accounts a JOIN fairpost.leases l ON l.account_id = a.id
                WHERE a.pool = $1 AND a.status = 'active' AND a.transport <> '{}'
                    AND (l.rest_until IS NULL OR l.rest_until <= clock_timestamp() + interval '1 minute'))
            AND EXISTS (SELECT FROM fairpost.engines e WHERE e.seen_at > clock_timestamp() - interval '1 minute')
            AND NOT EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > clock_timestamp())"""
    return bool(await store.value(sql, pool))


async def listed(store: "Store", workspace: str | None) -> list[Person]:
    sql = """SELECT p.* FROM fairpost.people p
        WHERE coalesce(p.workspace, '') = coalesce($1::text, '') AND p.workspace IS NOT DISTINCT FROM $1 ORDER BY p.folded"""
    return [_person(row) for row in await store.fetch(sql, workspace)]


async def add_invited(
    store: "Store", *, workspace: str | None, address: str, name: str, role: Role, now: datetime | None
) -> Person | None:
    """Add a user, or change the name and role of a user who has not yet accepted the invitation.

    Return None if the user has already accepted or is disabled.
    """
    sql = """
        INSERT INTO fairpost.people AS p (workspace, address, folded, name, role, created_at)
        VALUES ($1, $2, fairpost.normalize_address($2), $3, $4, coalesce($5, clock_timestamp()))
        ON CONFLICT (coalesce(workspace, ''), folded)
        DO UPDATE SET name = coalesce(nullif(excluded.name, ''), p.name), role = excluded.role, address = excluded.address
        WHERE p.password_hash IS NULL AND p.disabled_at IS NULL
        RETURNING p.*"""
    row = await store.row(sql, workspace, address, name, role, _at(now))
    return row and _person(row)


async def lock(store: "Store", person_id: PersonId, *, now: datetime | None) -> Locked | None:
    sql = "SELECT p.*, coalesce($2, clock_timestamp()) AS now FROM fairpost.people p WHERE p.id = $1 FOR UPDATE"
    return _locked(await store.row(sql, person_id, _at(now)))


async def lock_admins(store: "Store") -> list[Person]:
    sql = "SELECT p.* FROM fairpost.people p WHERE p.workspace IS NULL ORDER BY p.id FOR UPDATE"
    return [_person(row) for row in await store.fetch(sql)]


async def has_admin(store: "Store") -> bool:
    """Return whether there is an admin who can sign in."""
    sql = """SELECT EXISTS (SELECT FROM fairpost.people
        WHERE workspace IS NULL AND password_hash IS NOT NULL AND disabled_at IS NULL)"""
    return bool(await store.value(sql))


async def set_password(store: "Store", person_id: PersonId, password_hash: str, *, name: str = "") -> None:
    sql = "UPDATE fairpost.people SET password_hash = $2, name = coalesce(nullif($3, ''), name) WHERE id = $1"
    await store.value(sql, person_id, password_hash, name)


async def set_role(store: "Store", person_id: PersonId, role: Role) -> None:
    await store.value("UPDATE fairpost.people SET role = $2 WHERE id = $1", person_id, role)


async def set_disabled(store: "Store", person_id: PersonId, disabled_at: datetime | None) -> None:
    sql = "UPDATE fairpost.people SET disabled_at = $2 WHERE id = $1"
    await store.value(sql, person_id, disabled_at)


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────


async def take_attempt(
    store: "Store", *, workspace: str | None, address: str, client: str | None, window: Window, now: datetime | None
) -> Attempt:
    """Record an attempt. The attempt counts as a failure until `take_back` removes it."""
    sql = """SELECT a.attempt_id, a.free_at, coalesce($7, clock_timestamp()) AS now, p.*
        FROM fairpost.take_attempt(
            fairpost.address_key($1, fairpost.normalize_address($2)), sha256(convert_to($3, 'UTF8')), $4, $5, $6, $7) a
        LEFT JOIN fairpost.people p
            ON coalesce(p.workspace, '') = coalesce($1::text, '') AND p.workspace IS NOT DISTINCT FROM $1 AND p.folded = fairpost.normalize_address($2)"""
    limits = window.address_max, window.client_max, window.length
    row = await store.row(sql, workspace, address, client, *limits, _at(now))
    return Attempt(
        id=row["attempt_id"],
        free_at=row["free_at"],
        now=row["now"],
        person=_person(row) if row["id"] is not None else None,
        password_hash=row["password_hash"],
    )


async def take_back(store: "Store", attempt_id: int) -> None:
    await store.value("DELETE FROM fairpost.sign_in_attempts WHERE id = $1", attempt_id)


async def forget_attempts(store: "Store", person_id: PersonId) -> None:
    sql = """DELETE FROM fairpost.sign_in_attempts a USING fairpost.people p
        WHERE p.id = $1 AND a.address_key = fairpost.address_key(p.workspace, p.folded)"""
    await store.value(sql, person_id)


# ── sign-ins ──────────────────────────────────────────────────────────────────────────────────────────────


async def lock_signing_in(store: "Store", token_hash: bytes, *, now: datetime | None) -> Locked | None:
    """Lock the row of the user who started this sign-in and return the user."""
    sql = """SELECT p.*, coalesce($2, clock_timestamp()) AS now FROM fairpost.people p
        WHERE p.id = (SELECT s.person_id FROM fairpost.sign_ins s WHERE s.token_hash = $1) FOR UPDATE"""
    return _locked(await store.row(sql, token_hash, _at(now)))


async def pending_sign_in(store: "Store", token_hash: bytes, *, tries_max: int, now: datetime) -> PendingSignIn | None:
    """Return the pending sign-in, or None if it was used, has expired, or has had too many attempts.

    The caller must have locked the user.
    """
    sql = """SELECT s.* FROM fairpost.sign_ins s
        WHERE s.token_hash = $1 AND s.used_at IS NULL AND s.expires_at > $2 AND s.tries < $3"""
    row = await store.row(sql, token_hash, now, tries_max)
    return row and _pending(row)


async def newest_pending(store: "Store", person_id: PersonId, *, tries_max: int, now: datetime) -> PendingSignIn | None:
    sql = """SELECT s.* FROM fairpost.sign_ins s
        WHERE s.person_id = $1 AND s.used_at IS NULL AND s.expires_at > $2 AND s.tries < $3 ORDER BY s.created_at DESC LIMIT 1"""
    row = await store.row(sql, person_id, now, tries_max)
    return row and _pending(row)


async def codes_sent(store: "Store", person_id: PersonId, *, since: datetime) -> tuple[int, datetime | None]:
    """Return how many codes were sent for sign-ins that started after the given time, and when the oldest of those
    sign-ins started.
    """
    sql = """SELECT coalesce(sum(s.codes), 0) AS codes, min(s.created_at) AS oldest FROM fairpost.sign_ins s
        WHERE s.person_id = $1 AND s.created_at > $2"""
    row = await store.row(sql, person_id, since)
    return int(row["codes"]), row["oldest"]


async def add_sign_in(
    store: "Store",
    person_id: PersonId,
    *,
    token_hash: bytes,
    code_hash: bytes,
    created_at: datetime,
    expires_at: datetime,
) -> None:
    sql = """INSERT INTO fairpost.sign_ins (token_hash, person_id, code_hash, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5)"""
    await store.value(sql, token_hash, person_id, code_hash, created_at, expires_at)


async def replace_code(store: "Store", token_hash: bytes, *, code_hash: bytes, expires_at: datetime) -> None:
    """Replace the code. Earlier codes stop working."""
    sql = """UPDATE fairpost.sign_ins SET code_hash = $2, expires_at = $3, codes = codes + 1, local_code_hash = NULL
        WHERE token_hash = $1"""
    await store.value(sql, token_hash, code_hash, expires_at)


async def set_local_code(store: "Store", token_hash: bytes, local_code_hash: bytes) -> None:
    sql = "UPDATE fairpost.sign_ins SET local_code_hash = $2 WHERE token_hash = $1"
    await store.value(sql, token_hash, local_code_hash)


async def count_try(store: "Store", token_hash: bytes) -> None:
    await store.value("UPDATE fairpost.sign_ins SET tries = tries + 1 WHERE token_hash = $1", token_hash)


async def use_sign_in(store: "Store", person_id: PersonId, token_hash: bytes, *, now: datetime) -> None:
    await store.value("UPDATE fairpost.sign_ins SET used_at = $2 WHERE token_hash = $1", token_hash, now)
    await note_sign_in(store, person_id, now=now)


async def note_sign_in(store: "Store", person_id: PersonId, *, now: datetime) -> None:
    await store.value("UPDATE fairpost.people SET last_sign_in_at = $2 WHERE id = $1", person_id, now)
    await store.value("SELECT fairpost.forget_sign_ins($1)", now)


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────


async def add_session(
    store: "Store",
    person_id: PersonId,
    *,
    token_hash: bytes,
    created_at: datetime,
    expires_at: datetime,
    agent: str,
) -> None:
    sql = """INSERT INTO fairpost.sessions (token_hash, person_id, created_at, seen_at, expires_at, agent)
        VALUES ($1, $2, $3, $3, $4, $5)"""
    await store.value(sql, token_hash, person_id, created_at, expires_at, agent)


async def open_session(
    store: "Store", token_hash: bytes, *, idle: timedelta, noted_every: timedelta, now: datetime | None
) -> Session | None:
    """Return the session. At most once per `noted_every`, also record that the session was used."""
    sql = """
        WITH clock AS MATERIALIZED (SELECT coalesce($4, clock_timestamp()) AS now), found AS MATERIALIZED (
            SELECT s.token_hash, s.created_at AS began_at, s.seen_at, s.expires_at, s.agent, p.*
            FROM clock c, fairpost.sessions s JOIN fairpost.people p ON p.id = s.person_id
            WHERE s.token_hash = $1 AND s.revoked_at IS NULL AND s.expires_at > c.now AND s.seen_at > c.now - $2::interval
                AND p.disabled_at IS NULL
        ), noted AS (
            UPDATE fairpost.sessions s SET seen_at = c.now FROM clock c, found f
            WHERE s.token_hash = f.token_hash AND s.seen_at <= c.now - $3::interval
        )
        SELECT * FROM found"""
    row = await store.row(sql, token_hash, idle, noted_every, _at(now))
    return row and _session(row)


async def still_open(
    store: "Store", token_hashes: Collection[bytes], *, idle: timedelta, now: datetime | None
) -> set[bytes]:
    """Of the given sessions, return those that are valid and whose workspace is not suspended.

    The sessions are not marked as used.
    """
    sql = """
        SELECT s.token_hash FROM (SELECT coalesce($3, clock_timestamp()) AS now) c, fairpost.sessions s JOIN fairpost.people p ON p.id = s.person_id
        WHERE s.token_hash = ANY ($1) AND s.revoked_at IS NULL AND s.expires_at > c.now AND s.seen_at > c.now - $2::interval AND p.disabled_at IS NULL
            AND NOT EXISTS (SELECT FROM fairpost.workspaces w WHERE w.name = p.workspace AND w.suspended_at IS NOT NULL)"""
    return {row["token_hash"] for row in await store.fetch(sql, list(token_hashes), idle, _at(now))}


async def open_sessions(store: "Store", person_id: PersonId, *, idle: timedelta, now: datetime | None) -> list[Session]:
    sql = """
        SELECT s.token_hash, s.created_at AS began_at, s.seen_at, s.expires_at, s.agent, p.*
        FROM (SELECT coalesce($3, clock_timestamp()) AS now) c, fairpost.sessions s JOIN fairpost.people p ON p.id = s.person_id
        WHERE s.person_id = $1 AND s.revoked_at IS NULL AND s.expires_at > c.now AND s.seen_at > c.now - $2::interval
            AND p.disabled_at IS NULL
        ORDER BY s.seen_at DESC, s.token_hash"""
    return [_session(row) for row in await store.fetch(sql, person_id, idle, _at(now))]


async def revoke(store: "Store", token_hash: bytes, *, now: datetime | None) -> bool:
    sql = """UPDATE fairpost.sessions SET revoked_at = coalesce($2, clock_timestamp())
        WHERE token_hash = $1 AND revoked_at IS NULL RETURNING true"""
    return bool(await store.value(sql, token_hash, _at(now)))


async def revoke_named(store: "Store", person_id: PersonId, session_id: str, *, now: datetime | None) -> bool:
    sql = """UPDATE fairpost.sessions SET revoked_at = coalesce($3, clock_timestamp())
        WHERE person_id = $1 AND left(encode(token_hash, 'hex'), $4) = $2 AND revoked_at IS NULL RETURNING true"""
    return bool(await store.value(sql, person_id, session_id, _at(now), SESSION_ID_CHARS))


async def revoke_all(store: "Store", person_id: PersonId, *, but: bytes | None = None, now: datetime | None) -> int:
    """End all sessions except `but`, and all unfinished sign-ins. Return how many sessions were ended."""
    await store.value("DELETE FROM fairpost.sign_ins WHERE person_id = $1 AND used_at IS NULL", person_id)
    sql = """WITH ended AS (
            UPDATE fairpost.sessions SET revoked_at = coalesce($3, clock_timestamp())
            WHERE person_id = $1 AND token_hash IS DISTINCT FROM $2 AND revoked_at IS NULL RETURNING 1
        ) SELECT count(*) FROM ended"""
    return int(await store.value(sql, person_id, but, _at(now)))


# ── one-time links ────────────────────────────────────────────────────────────────────────────────────────


async def offer(
    store: "Store", person_id: PersonId, purpose: Purpose, *, token_hash: bytes, life: timedelta, now: datetime | None
) -> datetime:
    """Create a link that replaces the user's earlier links. Return the time when the link expires.

    Sign-in links and password links do not replace each other.
    """
    await store.value(
        """DELETE FROM fairpost.invitations
           WHERE person_id = $1 AND used_at IS NULL AND (purpose = 'enter') = ($2::text = 'enter')""",
        person_id,
        purpose,
    )
    sql = """INSERT INTO fairpost.invitations (token_hash, person_id, purpose, expires_at)
        VALUES ($1, $2, $3, coalesce($5, clock_timestamp()) + $4::interval) RETURNING expires_at"""
    expires_at: datetime = await store.value(sql, token_hash, person_id, purpose, life, _at(now))
    return expires_at


async def offer_setup(store: "Store", *, token_hash: bytes, life: timedelta, now: datetime | None) -> None:
    """Create the setup link, replacing any earlier one."""
    sql = """INSERT INTO fairpost.invitations (token_hash, purpose, expires_at)
        VALUES ($1, 'setup', coalesce($3, clock_timestamp()) + $2::interval)
        ON CONFLICT (purpose) WHERE purpose = 'setup'
        DO UPDATE SET token_hash = excluded.token_hash, expires_at = excluded.expires_at, used_at = NULL"""
    await store.value(sql, token_hash, life, _at(now))


async def end_offers(store: "Store", person_id: PersonId) -> None:
    await store.value("DELETE FROM fairpost.invitations WHERE person_id = $1 AND used_at IS NULL", person_id)


async def offered(store: "Store", token_hash: bytes, *, now: datetime | None) -> tuple[Purpose, Person | None] | None:
    """Return the purpose of a link and its user, or None if the link no longer works."""
    sql = """SELECT i.purpose, p.* FROM fairpost.invitations i LEFT JOIN fairpost.people p ON p.id = i.person_id
        WHERE i.token_hash = $1 AND i.used_at IS NULL AND i.expires_at > coalesce($2, clock_timestamp()) AND p.disabled_at IS NULL"""
    row = await store.row(sql, token_hash, _at(now))
    return row and (row["purpose"], _person(row) if row["id"] is not None else None)


async def use_offer(store: "Store", token_hash: bytes, *, now: datetime | None) -> bool:
    sql = """UPDATE fairpost.invitations SET used_at = coalesce($2, clock_timestamp())
        WHERE token_hash = $1 AND used_at IS NULL AND expires_at > coalesce($2, clock_timestamp()) RETURNING true"""
    return bool(await store.value(sql, token_hash, _at(now)))


async def end_setup(store: "Store") -> None:
    await store.value("DELETE FROM fairpost.invitations WHERE purpose = 'setup'")


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────


def _at(now: datetime | None) -> datetime | None:
    return now or clock.stated()


def _locked(row: Any) -> Locked | None:
    return row and Locked(person=_person(row), password_hash=row["password_hash"], now=row["now"])


def _person(row: Any) -> Person:
    return Person(
        id=PersonId(row["id"]),
        workspace=row["workspace"],
        address=row["address"],
        name=row["name"],
        role=Role(row["role"]),
        has_password=row["password_hash"] is not None,
        created_at=row["created_at"],
        disabled_at=row["disabled_at"],
        last_sign_in_at=row["last_sign_in_at"],
    )


def _pending(row: Any) -> PendingSignIn:
    return PendingSignIn(
        token_hash=row["token_hash"],
        code_hash=row["code_hash"],
        local_code_hash=row["local_code_hash"],
        codes=row["codes"],
        tries=row["tries"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )


def _session(row: Any) -> Session:
    return Session(
        id=row["token_hash"].hex()[:SESSION_ID_CHARS],
        person=_person(row),
        created_at=row["began_at"],
        seen_at=row["seen_at"],
        expires_at=row["expires_at"],
        agent=row["agent"],
    )
