"""Create and suspend workspaces, manage their keys and domains, and keep the audit log."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from fairpost.model.errors import NotFound, Refusal, Unknown
from fairpost.model.names import WORKSPACE_NAME
from fairpost.model.tokens import hash_of
from fairpost.model.workspace import (
    SERVICE_WORKSPACE,
    ApiKey,
    AuditEntry,
    Domain,
    Loan,
    Scope,
    Workspace,
)
from fairpost.system import chance, clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

RATE_DEFAULT = 600  # requests per minute
KEY_ID_CHARS = 12
DOMAIN_TOKEN_CHARS = 32

Shut = Literal["unknown", "revoked", "expired", "suspended", "too_often"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What remains of a caller's rate limit.

    If the limit is exceeded, `wait_s` is how long to wait until requests are accepted again.
    """

    per_minute: int
    remaining: int
    reset_s: float
    wait_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Turn):
    """What a key gives access to, or why it is rejected."""

    refused: Shut | None
    workspace: str
    name: str
    scopes: frozenset[str]


# ── workspaces ────────────────────────────────────────────────────────────────────────────────────────────


def require_name(name: str) -> None:
    """Raise Refusal if the name is invalid."""
    if not WORKSPACE_NAME.fullmatch(name):
        raise Refusal("workspace.bad_name", name=name)
    if name == SERVICE_WORKSPACE:
        raise Refusal("workspace.reserved_name", name=name)


async def add_workspace(store: "Store", name: str, *, loans: Sequence[Loan] = ()) -> bool:
    """Add a workspace. If the name exists, change nothing and return False. Raises Refusal for an invalid name."""
    require_name(name)
    async with store.together() as one:
        is_new = await one.value(
            "INSERT INTO fairpost.workspaces (name, created_at) VALUES ($1, coalesce($2, clock_timestamp())) ON CONFLICT DO NOTHING RETURNING true",
            *(name, clock.stated()),
        )
        if is_new:
            await set_loans(one, name, loans)
    return bool(is_new)


async def workspace_named(store: "Store", name: str) -> Workspace:
    found = await find_workspace(store, name)
    if found is None:
        raise Unknown("workspace.unknown", name=name)
    return found


async def find_workspace(store: "Store", name: str) -> Workspace | None:
    row = await store.row(f"{_WORKSPACES} WHERE w.name = $1", name)
    return _workspace(row) if row else None


async def workspaces(store: "Store", *, after: str = "", most: int = 1000) -> list[Workspace]:
    """Return workspaces sorted by name, starting after `after`."""
    rows = await store.fetch(f"{_WORKSPACES} WHERE w.name > $1 ORDER BY w.name LIMIT $2", after, most)
    return [_workspace(row) for row in rows]


_WORKSPACES = """
    SELECT w.*, l.loans FROM fairpost.workspaces w
    LEFT JOIN LATERAL (SELECT jsonb_object_agg(l.pool, l.senders)::text AS loans FROM fairpost.loans l WHERE l.workspace = w.name) l ON true"""


async def has_left_traces(store: "Store", name: str) -> bool:
    """Return whether a workspace has any data.

    Applications and commands may use workspaces without registering them.
    """
    return bool(
        await store.value(
            """SELECT EXISTS (SELECT FROM fairpost.queue q WHERE q.workspace = $1)
                   OR EXISTS (SELECT FROM fairpost.emails m WHERE m.workspace = $1)
                   OR EXISTS (SELECT FROM fairpost.accounts a WHERE a.workspace = $1)
                   OR EXISTS (SELECT FROM fairpost.campaigns c WHERE c.workspace = $1)
                   OR EXISTS (SELECT FROM fairpost.templates t WHERE t.workspace = $1)
                   OR EXISTS (SELECT FROM fairpost.prospects p WHERE p.workspace = $1)""",
            name,
        )
    )


async def names_seen(store: "Store", *, prefix: str = "", most: int = 200) -> list[tuple[str, bool]]:
    """Return workspaces that are registered, have accounts, or have waiting or recently sent e-mails, sorted by name.

    The result states whether each workspace is registered. The query skips from one name to the next in the index, so
    the number of users does not matter.
    """
    rows = await store.fetch(
        _NAMES_SEEN, prefix, NEW_ARRIVALS_MAX, most, f"^{WORKSPACE_NAME.pattern}$", SERVICE_WORKSPACE
    )
    return [(row["name"], row["is_registered"]) for row in rows]


NEW_ARRIVALS_MAX = 10_000  # arrivals that no engine has absorbed yet
_NAMES_SEEN = """
    WITH RECURSIVE waiting AS (
        (SELECT n.workspace FROM fairpost.nodes n ORDER BY 1 LIMIT 1)
        UNION ALL
        SELECT (SELECT n.workspace FROM fairpost.nodes n WHERE n.workspace > w.workspace ORDER BY 1 LIMIT 1)
        FROM waiting w WHERE w.workspace IS NOT NULL
    ), served AS (
        (SELECT a.workspace FROM fairpost.activity a ORDER BY 1 LIMIT 1)
        UNION ALL
        SELECT (SELECT a.workspace FROM fairpost.activity a WHERE a.workspace > s.workspace ORDER BY 1 LIMIT 1)
        FROM served s WHERE s.workspace IS NOT NULL
    ), seen AS (
        SELECT w.name, true AS is_registered FROM fairpost.workspaces w
        UNION ALL SELECT w.workspace, false FROM waiting w
        UNION ALL SELECT s.workspace, false FROM served s
        UNION ALL SELECT a.workspace, false FROM fairpost.accounts a
        UNION ALL (SELECT v.workspace, false FROM fairpost.arrivals v LIMIT $2)
    )
    SELECT s.name, bool_or(s.is_registered) AS is_registered FROM seen s
    WHERE starts_with(s.name, $1) AND s.name ~ $4 AND s.name <> $5 GROUP BY s.name ORDER BY s.name LIMIT $3"""


async def set_loans(store: "Store", name: str, loans: Sequence[Loan]) -> None:
    """Replace the workspace's loans."""
    async with store.together() as one:
        await one.value("DELETE FROM fairpost.loans l WHERE l.workspace = $1", name)
        for loan in loans:
            await one.value(
                "INSERT INTO fairpost.loans (workspace, pool, senders) SELECT $1, $2, array_agg(fairpost.normalize_address(s)) FROM unnest($3::text[]) s",
                *(name, loan.pool, list(loan.senders)),
            )


async def borrowers(store: "Store", pool: str) -> list[str]:
    """Return the workspaces that may send through this operator pool, sorted by name."""
    rows = await store.fetch("SELECT l.workspace FROM fairpost.loans l WHERE l.pool = $1 ORDER BY 1", pool)
    return [row["workspace"] for row in rows]


async def set_rate(store: "Store", name: str, per_minute: int) -> None:
    await store.value("UPDATE fairpost.workspaces SET per_minute = $2 WHERE name = $1", name, per_minute)


async def suspend_workspace(store: "Store", name: str, *, reason: str | None) -> bool:
    """Suspend a workspace. Return False if it was already suspended.

    The workspace's keys stop working and its users cannot sign in. Its queue is untouched (see hold).
    """
    sql = """UPDATE fairpost.workspaces SET suspended_at = coalesce($3, clock_timestamp()), reason = $2
             WHERE name = $1 AND suspended_at IS NULL RETURNING true"""
    return bool(await store.value(sql, name, reason, clock.stated()))


async def readmit_workspace(store: "Store", name: str) -> bool:
    sql = "UPDATE fairpost.workspaces SET suspended_at = NULL, reason = NULL WHERE name = $1 AND suspended_at IS NOT NULL RETURNING true"
    return bool(await store.value(sql, name))


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────


async def add_key(
    store: "Store",
    workspace: str,
    *,
    region: str,
    name: str,
    scopes: Sequence[Scope],
    by: str,
    per_minute: int = RATE_DEFAULT,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Create a key. Return the key and its text, which is not stored anywhere."""
    secret = chance.secret_token()
    row = await store.row(
        """INSERT INTO fairpost.api_keys (id, workspace, name, secret_hash, scopes, per_minute, created_at, created_by, expires_at)
           VALUES ($1, $2, $3, $4, $5, $6, coalesce($9, clock_timestamp()), $7, $8) RETURNING *""",
        *(
            chance.random_name(KEY_ID_CHARS),
            workspace,
            name,
            hash_of(secret),
            list(scopes),
            per_minute,
            by,
            expires_at,
            clock.stated(),
        ),
    )
    return _key(row), f"fp_{region}_{row['id']}_{secret}"


async def keys(store: "Store", workspace: str) -> list[ApiKey]:
    """Return a workspace's keys, newest first."""
    sql = "SELECT * FROM fairpost.api_keys k WHERE k.workspace = $1 ORDER BY k.created_at DESC"
    return [_key(row) for row in await store.fetch(sql, workspace)]


async def revoke_key(store: "Store", workspace: str, key_id: str) -> ApiKey | None:
    """Revoke a key. Return None if there is no key with this ID."""
    row = await store.row(
        """UPDATE fairpost.api_keys k SET revoked_at = coalesce(k.revoked_at, $3, clock_timestamp())
           WHERE k.workspace = $1 AND k.id = $2 RETURNING *""",
        *(workspace, key_id, clock.stated()),
    )
    return _key(row) if row else None


async def enter(store: "Store", key_id: str, secret: str) -> Entry:
    """Authenticate with a key and count one request against its rate limit."""
    row = await store.row("SELECT * FROM fairpost.enter($1, $2, $3)", key_id, hash_of(secret), clock.stated())
    return Entry(**{**row, "scopes": frozenset(row["scopes"] or ())})


async def keys_that_open(store: "Store", key_ids: Collection[str]) -> set[str]:
    """Return the given keys that `enter` would accept. This does not count as a request."""
    sql = """SELECT k.id FROM fairpost.api_keys k JOIN fairpost.workspaces w ON w.name = k.workspace
             WHERE k.id = ANY ($1) AND k.revoked_at IS NULL AND w.suspended_at IS NULL
                 AND (k.expires_at IS NULL OR k.expires_at > coalesce($2, clock_timestamp()))"""
    return {row["id"] for row in await store.fetch(sql, list(key_ids), clock.stated())}


async def take_turn(store: "Store", caller: str, per_minute: int) -> Turn:
    """Count a request made without a key against its caller's rate limit."""
    row = await store.row("SELECT * FROM fairpost.take_turn($1, $2, $3)", caller, per_minute, clock.stated())
    return Turn(**row, per_minute=per_minute)


# ── domains ───────────────────────────────────────────────────────────────────────────────────────────────


async def add_domain(store: "Store", workspace: str, domain: str) -> Domain:
    """Add an unverified domain. An existing domain is not changed."""
    await store.value(
        """INSERT INTO fairpost.domains (workspace, domain, token, created_at) VALUES ($1, $2, $3, coalesce($4, clock_timestamp()))
           ON CONFLICT DO NOTHING""",
        *(workspace, domain, chance.random_name(DOMAIN_TOKEN_CHARS), clock.stated()),
    )
    return await domain_named(store, workspace, domain)


async def domain_named(store: "Store", workspace: str, domain: str) -> Domain:
    row = await store.row(
        "SELECT * FROM fairpost.domains d WHERE d.workspace = $1 AND d.domain = $2", workspace, domain
    )
    if row is None:
        raise NotFound(f"There is no domain {domain} in workspace {workspace}.")
    return _domain(row)


async def domains(store: "Store", workspace: str) -> list[Domain]:
    rows = await store.fetch("SELECT * FROM fairpost.domains d WHERE d.workspace = $1 ORDER BY d.domain", workspace)
    return [_domain(row) for row in rows]


async def domain_checked(store: "Store", workspace: str, domain: str, *, proven_by: str | None) -> Domain:
    """Record the result of a domain check. `proven_by` is None if no proof was found, in which case any earlier proof
    is kept.
    """
    await store.value(
        """UPDATE fairpost.domains SET checked_at = coalesce($4, clock_timestamp()),
               proven_at = CASE WHEN $3::text IS NULL THEN proven_at ELSE coalesce(proven_at, $4, clock_timestamp()) END, proven_by = coalesce(proven_by, $3)
           WHERE workspace = $1 AND domain = $2""",
        *(workspace, domain, proven_by, clock.stated()),
    )
    return await domain_named(store, workspace, domain)


async def put_health(store: "Store", workspace: str, domain: str, findings: Sequence[Mapping[str, Any]]) -> None:
    """Store the findings from a DNS check of the domain."""
    await store.value(
        """INSERT INTO fairpost.domain_health (workspace, domain, findings, at) VALUES ($1, $2, $3, coalesce($4, clock_timestamp()))
           ON CONFLICT (workspace, domain) DO UPDATE SET findings = excluded.findings, at = excluded.at""",
        *(workspace, domain, json.dumps(findings), clock.stated()),
    )


async def health(
    store: "Store", *, workspace: str | None = None
) -> list[tuple[str, str, list[Mapping[str, Any]], datetime]]:
    """Return each workspace and domain, with the findings and the time of the most recent check."""
    rows = await store.fetch(
        """SELECT h.workspace, h.domain, h.findings, h.at FROM fairpost.domain_health h
           WHERE $1::text IS NULL OR h.workspace = $1 ORDER BY h.workspace, h.domain""",
        workspace,
    )
    return [(row["workspace"], row["domain"], json.loads(row["findings"]), row["at"]) for row in rows]


async def bad_health(store: "Store", workspace: str, domains: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return the bad findings from the last check of each domain. If a domain was not checked, return the findings for
    the nearest parent domain that was.
    """
    rows = await store.fetch(
        """SELECT DISTINCT ON (w.domain) d.domain, d.findings FROM unnest($2::text[]) w(domain)
           JOIN fairpost.domain_health d ON d.workspace = $1 AND (w.domain = d.domain OR w.domain LIKE '%.' || d.domain)
           ORDER BY w.domain, length(d.domain) DESC""",
        *(workspace, list(domains)),
    )
    found = {
        row["domain"]: [each["what"] for each in json.loads(row["findings"]) if each["grade"] == "bad"] for row in rows
    }
    return [(domain, what) for domain, what in sorted(found.items()) if what]


async def unchecked(store: "Store", workspace: str, domains: Collection[str]) -> list[str]:
    """Of the given domains, return those that have never been checked and whose parent domains have never been checked
    either.
    """
    rows = await store.fetch(
        """SELECT w.domain FROM unnest($2::text[]) w(domain) WHERE NOT EXISTS (
               SELECT FROM fairpost.domain_health d WHERE d.workspace = $1 AND (w.domain = d.domain OR w.domain LIKE '%.' || d.domain))
           ORDER BY w.domain""",
        *(workspace, list(domains)),
    )
    return [row["domain"] for row in rows]


async def take_unchecked(store: "Store", *, before: datetime, most: int) -> list[tuple[str, str]]:
    """Return domains that were last checked before the given time, with their workspaces.

    Mark these domains as checked.
    """
    rows = await store.fetch(
        """UPDATE fairpost.domain_health h SET at = coalesce($3, clock_timestamp())
           FROM (SELECT x.workspace, x.domain FROM fairpost.domain_health x WHERE x.at < $1 ORDER BY x.at LIMIT $2 FOR UPDATE SKIP LOCKED) due
           WHERE h.workspace = due.workspace AND h.domain = due.domain RETURNING h.workspace, h.domain""",
        *(before, most, clock.stated()),
    )
    return [(row["workspace"], row["domain"]) for row in rows]


async def remove_domain(store: "Store", workspace: str, domain: str) -> bool:
    sql = "DELETE FROM fairpost.domains d WHERE d.workspace = $1 AND d.domain = $2 RETURNING true"
    return bool(await store.value(sql, workspace, domain))


async def owns_domain_of(store: "Store", workspace: str, address: str) -> bool:
    """Return whether the workspace has proven that it owns the domain of the address, or a parent domain."""
    return bool(
        await store.value("SELECT fairpost.proven_domain($1, split_part($2, '@', 2)) IS NOT NULL", workspace, address)
    )


async def put_mailbox(store: "Store", workspace: str, account: int, *, mailbox: str | None, address: str) -> None:
    """Record that a login to this mailbox proves the account's address.

    If `mailbox` is None, the domain proves the address, and no mailbox is needed. Raises UniqueViolationError if
    another account, in any workspace, already has this mailbox.
    """
    await store.value("DELETE FROM fairpost.mailboxes m WHERE m.account_id = $1", account)
    if mailbox is not None:
        await store.value(
            """INSERT INTO fairpost.mailboxes (mailbox, workspace, address, account_id, proven_at)
               VALUES ($1, $2, fairpost.normalize_address($3), $4, coalesce($5, clock_timestamp()))""",
            *(mailbox, workspace, address, account, clock.stated()),
        )


async def mailbox_tried(store: "Store", account: int, *, is_open: bool) -> None:
    """Record whether a login to the account's mailbox succeeded."""
    await store.value(
        """UPDATE fairpost.mailboxes SET failed_since = CASE WHEN $2 THEN NULL ELSE coalesce(failed_since, $3, clock_timestamp()) END
           WHERE account_id = $1""",
        *(account, is_open, clock.stated()),
    )


async def route_for(
    store: "Store", workspace: str, *, pool: str | None = None, account: str | None = None
) -> str | None:
    """Return the stored route for a pool or account named by a workspace, or None if the workspace may not use any such
    route.
    """
    route: str | None = await store.value("SELECT fairpost.route_for($1, $2, $3)", workspace, pool, account)
    return route


async def may_be_from(store: "Store", workspace: str, route: str, address: str | None) -> bool:
    """Return whether mail from this address may be sent through a stored route.

    An address of None means that the mail specifies no sender and uses the account's own address.
    """
    return bool(await store.value("SELECT fairpost.may_be_from($1, $2, $3)", workspace, route, address))


# ── who changed what ──────────────────────────────────────────────────────────────────────────────────────


async def accounts_of(store: "Store", workspace: str) -> int:
    """Return the number of accounts that belong to the workspace."""
    return int(await store.value("SELECT count(*) FROM fairpost.accounts a WHERE a.workspace = $1", workspace))


async def write_audit(
    store: "Store",
    *,
    workspace: str | None,
    who: str,
    action: str,
    subject: str,
    detail: Mapping[str, object] | None = None,
    request_id: str | None = None,
) -> None:
    """Write an audit entry. If the store comes from `together`, the entry is committed together with the change."""
    await store.value(
        """INSERT INTO fairpost.audit (at, workspace, who, action, subject, detail, request_id)
           VALUES (coalesce($7, clock_timestamp()), $1, $2, $3, $4, $5, $6)""",
        *(workspace, who, action, subject[:500], json.dumps(detail, default=str) if detail else None, request_id),
        clock.stated(),
    )


async def invitations_sent(store: "Store", workspace: str, address: str) -> tuple[int, int]:
    """Return how many invitations were e-mailed to all addresses in the past day, and how many to this address in the
    past hour.
    """
    row = await store.row(
        """SELECT count(*) AS n, count(*) FILTER (WHERE a.subject = $2 AND a.at > coalesce($3, clock_timestamp()) - interval '1 hour') AS same FROM fairpost.audit a
           WHERE a.workspace = $1 AND a.action IN ('member.invite', 'member.reset') AND a.detail ->> 'sent' IS DISTINCT FROM 'false' AND a.at > coalesce($3, clock_timestamp()) - interval '1 day'""",
        *(workspace, address, clock.stated()),
    )
    return row["n"], row["same"]


async def audit(
    store: "Store", workspace: str | None, *, before: int | None = None, most: int = 50
) -> list[AuditEntry]:
    """Return audit entries, newest first. If no workspace is given, return the entries for the installation itself."""
    rows = await store.fetch(
        """SELECT * FROM fairpost.audit a WHERE a.workspace IS NOT DISTINCT FROM $1 AND a.id < coalesce($2, 9223372036854775807)
           ORDER BY a.id DESC LIMIT $3""",
        *(workspace, before, most),
    )
    return [AuditEntry(**{**row, "detail": json.loads(row["detail"]) if row["detail"] else None}) for row in rows]


def _workspace(row: Any) -> Workspace:
    loans = {pool: Loan(pool, tuple(senders)) for pool, senders in json.loads(row["loans"] or "{}").items()}
    return Workspace(**{**row, "pools": tuple(sorted(loans)), "loans": tuple(loans[pool] for pool in sorted(loans))})


def _key(row: Any) -> ApiKey:
    known = {name: value for name, value in row.items() if name != "secret_hash"}
    return ApiKey(**{**known, "scopes": tuple(Scope(scope) for scope in row["scopes"])})


def _domain(row: Any) -> Domain:
    return Domain(**{name: value for name, value in row.items() if name != "workspace"})
