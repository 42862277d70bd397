"""Query, import and export the suppression list. sql/settle/suppress.sql defines the effect of a single address.

A list is imported in one transaction. Either the whole list is read, checked and written, or nothing changes. Lines are
first copied into a temporary table, so a long list needs no more memory than a short one, and reading a list does not
block other transactions.
"""

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from fairpost.model.errors import FairpostError
from fairpost.model.suppression import BadLine, Entry, Imported, SoftBounces, Stops, Suppression, SuppressionKind
from fairpost.store.connections import BULK_S_MAX, allow
from fairpost.system import clock

if TYPE_CHECKING:
    import asyncpg

    from fairpost.store.store import Store

BAD_LINES_KEPT = 100
ROWS_AT_ONCE = 5_000
ERASED = "erased on request"  # the reason shown for entries that contain only a hash
PLAIN_CHARS_MAX = 64  # in an address of at most this length, the part before the @ cannot be too long


class BadList(FairpostError):
    """Raised if a list contains bad lines. Nothing was imported."""

    def __init__(self, imported: Imported) -> None:
        self.imported = imported
        super().__init__(f"{imported.bad:,} invalid lines")


# ── queries ───────────────────────────────────────────────────────────────────────────────────────────────

_MATCHING = """
    FROM fairpost.suppressions s
    WHERE ($1::text IS NULL OR s.workspace IN ($1, '*')) AND ($2::text IS NULL OR s.kind = $2::text::fairpost.suppression_kind)"""

_COLUMNS = """s.address, s.workspace, s.kind::text, s.reason, s.created_at,
    CASE WHEN fairpost.stops_mail(s.kind, s.also_urgent, 'urgent') THEN 'all' ELSE 'bulk' END AS stops"""

_LISTED = f"""
    SELECT {_COLUMNS} {_MATCHING}
    AND ($3::text IS NULL OR strpos(s.address, fairpost.normalize_local_part($3)) > 0 OR strpos(s.address, fairpost.normalize_domain($3)) > 0
         OR strpos(fairpost.normalize_local_part(s.reason), fairpost.normalize_local_part($3)) > 0)
    AND s.address > fairpost.normalize_address($4) ORDER BY s.address, s.workspace LIMIT $5"""

_KNOWN = """
    FROM (SELECT s.address, s.workspace, s.kind, s.reason, s.created_at, s.also_urgent FROM fairpost.suppressions s
          WHERE s.address = fairpost.normalize_address($1)
          UNION ALL
          SELECT fairpost.normalize_address($1), h.workspace, h.kind, $2, h.created_at, h.also_urgent FROM fairpost.suppression_hashes h
          WHERE h.address_hash = fairpost.address_hash(fairpost.normalize_address($1))) s ORDER BY 2"""
_KNOWN_OF = f"SELECT {_COLUMNS} {_KNOWN}"


async def listed(
    store: "Store",
    *,
    workspace: str | None = None,
    kind: SuppressionKind | None = None,
    search: str | None = None,
    after: str = "",
    most: int,
) -> list[Suppression]:
    """Return all entries, or those that apply to a workspace, in alphabetical order.

    `search` matches part of the address or the reason.
    """
    rows = await store.fetch(_LISTED, workspace, kind, search, after, most)
    return [_suppression(row) for row in rows]


async def known_of(store: "Store", address: str) -> tuple[list[Suppression], list[SoftBounces]]:
    """Return everything stored about one address: where it is suppressed and where it has soft-bounced."""
    where = await store.fetch(
        _KNOWN_OF,
        *(address, ERASED),
    )
    soft = await store.fetch(
        """SELECT b.workspace, b.count, b.first_at, b.last_at FROM fairpost.soft_bounces b
           WHERE b.address = fairpost.normalize_address($1) ORDER BY b.workspace""",
        address,
    )
    return [_suppression(row) for row in where], [SoftBounces(**row) for row in soft]


async def erased(store: "Store", *, workspace: str | None = None, kind: SuppressionKind | None = None) -> int:
    """Return the number of entries that contain only a hash."""
    sql = f"SELECT count(*) {_MATCHING.replace('fairpost.suppressions', 'fairpost.suppression_hashes')}"
    return int(await store.value(sql, workspace, kind))


async def soft_bounces_max(store: "Store") -> int:
    """Return the number of soft bounces after which an address is suppressed; 0 means never."""
    return int(await store.value("SELECT soft_bounces_max FROM fairpost.suppression_rule"))


def _suppression(row: "asyncpg.Record") -> Suppression:
    return Suppression(**{**row, "kind": SuppressionKind(row["kind"]), "stops": Stops(row["stops"])})


# ── one address ───────────────────────────────────────────────────────────────────────────────────────────


async def suppress(
    store: "Store", workspace: str, address: str, *, reason: str, kind: SuppressionKind, now: datetime | None = None
) -> bool:
    """Suppress an address. Return True if the address was not on the list. If it was, the more serious kind is kept."""
    sql = "SELECT fairpost.suppress($1, $2, $3, $4, $5)"
    return bool(await store.value(sql, workspace, address, reason, now, kind))


async def take_turn(store: "Store", prospect_id: int) -> None:
    """Wait until no other transaction is changing this prospect's subscription. Mail clients may repeat an unsubscribe
    request immediately.
    """
    await store.value(
        "SELECT pg_advisory_xact_lock(hashtextextended('fairpost unsubscribe ' || $1::bigint, 0))", prospect_id
    )


async def tell_of_unsubscribe(store: "Store", workspace: str, prospect_id: int, address: str) -> None:
    """Write the event in the same transaction as the suppression."""
    sql = "SELECT fairpost.tell_of_unsubscribe($1, $2, $3, $4)"
    await store.value(sql, workspace, prospect_id, address, clock.stated())


async def unsuppress(store: "Store", workspace: str, address: str) -> bool:
    """Remove an address. Return True if the address was on the list."""
    return bool(await store.value("SELECT fairpost.unsuppress($1, $2)", workspace, address))


async def set_soft_bounces_max(store: "Store", most: int) -> bool:
    """Set the number of soft bounces after which an address is suppressed. Return False if the number is unchanged."""
    sql = "UPDATE fairpost.suppression_rule SET soft_bounces_max = $1 WHERE soft_bounces_max <> $1 RETURNING true"
    return bool(await store.value(sql, most))


# ── export ────────────────────────────────────────────────────────────────────────────────────────────────


async def count(conn: "asyncpg.Connection", *, workspace: str | None, kind: SuppressionKind | None) -> int:
    return int(await conn.fetchval(f"SELECT count(*) {_MATCHING}", workspace, kind))


async def export(
    conn: "asyncpg.Connection", *, workspace: str | None, kind: SuppressionKind | None
) -> AsyncIterator[Suppression]:
    """Yield a consistent snapshot of the whole list in bounded memory."""
    # The driver's own cursor would leave a prepared statement in a session that a pooler passes on to other clients.
    sql = f"DECLARE exported NO SCROLL CURSOR FOR SELECT {_COLUMNS} {_MATCHING} ORDER BY s.address, s.workspace"
    async with conn.transaction(readonly=True):
        await conn.execute(sql, workspace, kind)
        while rows := await conn.fetch(f"FETCH {ROWS_AT_ONCE} FROM exported"):
            for row in rows:
                yield _suppression(row)


# ── import ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _BadLines:
    count: int = 0
    first: list[BadLine] = field(default_factory=list)

    def note(self, bad: BadLine) -> None:
        self.count += 1
        if len(self.first) < BAD_LINES_KEPT:
            self.first.append(bad)


async def import_list(
    conn: "asyncpg.Connection", lines: Iterable[Entry | BadLine], *, skip_bad: bool, now: datetime | None = None
) -> Imported:
    """Import a list. Raises BadList if there are bad lines, unless `skip_bad` is set."""
    allow(conn, BULK_S_MAX)
    async with conn.transaction():
        await conn.execute(_INCOMING)
        bad = _BadLines()
        await conn.copy_records_to_table("incoming_addresses", records=_records(lines, bad))
        await conn.execute(_PARSE)
        total, wrong = await conn.fetchrow("SELECT count(*), count(*) - count(address) FROM incoming_addresses")
        for line, written in await conn.fetch(_WRONG, BAD_LINES_KEPT):
            bad.note(BadLine(line, f"{written!r} is not an e-mail address"))
        bad.count += max(0, wrong - BAD_LINES_KEPT)
        told = tuple(sorted(bad.first, key=lambda each: each.line))
        if bad.count and not skip_bad:
            raise BadList(Imported(added=0, known=0, duplicates=0, bad=bad.count, bad_lines=told))
        distinct = _rows(await conn.execute(_CHOOSE))
        await conn.execute(_OUTWEIGH)
        added = _rows(await conn.execute(_ADD, now))
    return Imported(
        added=added, known=distinct - added, duplicates=total - wrong - distinct, bad=bad.count, bad_lines=told
    )


def _records(lines: Iterable[Entry | BadLine], bad: _BadLines) -> Iterator[tuple[object, ...]]:
    for each in lines:
        if isinstance(each, BadLine):
            bad.note(each)
            continue
        is_plain = len(each.address) <= PLAIN_CHARS_MAX and _PLAIN.fullmatch(each.address)
        folded = each.address.lower() if is_plain else None
        yield each.line, folded, each.address, each.kind, each.reason, each.created_at, each.workspace, each.also_urgent


def _rows(tag: str) -> int:
    """Return the row count from a command tag such as INSERT 0 5 or SELECT 5."""
    return int(tag.rpartition(" ")[2])


# Matches text that is certainly an address and needs only lowercasing to be normalized. The database normalizes all
# other addresses.
_PLAIN = re.compile(
    r"[a-z0-9_+-]+(?:\.[a-z0-9_+-]+)*@(?:[a-z0-9]+(?:-+[a-z0-9]+)*\.)+[a-z0-9]+", re.ASCII | re.IGNORECASE
)

_INCOMING = """
    SET LOCAL work_mem = '64MB';
    SET LOCAL jit = off;
    CREATE TEMP TABLE incoming_addresses (
        line integer, address text, written text, kind text, reason text, created_at timestamptz, workspace text, also_urgent boolean
    ) ON COMMIT DROP"""

# Normalizes each domain only once, because a million addresses may share a few domains.
_PARSE = """
    WITH parsed AS MATERIALIZED (
        SELECT i.line, fairpost.parse_address(to_jsonb(i.written)) ->> 'address' AS address
        FROM incoming_addresses i WHERE i.address IS NULL
    ), domains AS MATERIALIZED (
        SELECT d.domain, fairpost.normalize_domain(d.domain) AS folded
        FROM (SELECT DISTINCT split_part(p.address, '@', 2) AS domain FROM parsed p WHERE p.address IS NOT NULL) d
    )
    UPDATE incoming_addresses i SET address = fairpost.normalize_local_part(split_part(p.address, '@', 1)) || '@' || d.folded
    FROM parsed p JOIN domains d ON d.domain = split_part(p.address, '@', 2) WHERE i.line = p.line"""

_WRONG = "SELECT line, left(written, 100) FROM incoming_addresses WHERE address IS NULL ORDER BY line LIMIT $1"

_CHOOSE = """
    CREATE TEMP TABLE chosen_addresses ON COMMIT DROP AS
    SELECT DISTINCT ON (i.address, i.workspace) i.address, i.workspace, i.kind::fairpost.suppression_kind AS kind, i.reason, i.created_at,
        bool_or(fairpost.stops_mail(i.kind::fairpost.suppression_kind, i.also_urgent, 'urgent')) OVER (PARTITION BY i.address, i.workspace) AS also_urgent
    FROM incoming_addresses i WHERE i.address IS NOT NULL
    ORDER BY i.address, i.workspace, i.kind::fairpost.suppression_kind DESC, i.line"""

# Locks rows in alphabetical order, like all other writers.
_OUTWEIGH = """
    UPDATE fairpost.suppressions s SET kind = greatest(s.kind, c.kind), reason = CASE WHEN s.kind < c.kind THEN left(c.reason, 500) ELSE s.reason END,
        also_urgent = c.also_urgent OR fairpost.stops_mail(s.kind, s.also_urgent, 'urgent')
    FROM (SELECT c.* FROM chosen_addresses c JOIN fairpost.suppressions o ON o.address = c.address AND o.workspace = c.workspace
          WHERE o.kind < c.kind OR c.also_urgent AND NOT fairpost.stops_mail(o.kind, o.also_urgent, 'urgent') ORDER BY o.address, o.workspace FOR UPDATE OF o) c
    WHERE s.address = c.address AND s.workspace = c.workspace"""

_ADD = """
    INSERT INTO fairpost.suppressions (workspace, address, kind, reason, created_at, also_urgent)
    SELECT c.workspace, c.address, c.kind, left(c.reason, 500), coalesce(c.created_at, $1, statement_timestamp()), c.also_urgent AND c.kind = 'unsubscribe'
    FROM chosen_addresses c WHERE NOT (EXISTS (SELECT FROM fairpost.suppression_hashes) AND EXISTS (
        SELECT FROM fairpost.suppression_hashes h WHERE h.workspace IN (c.workspace, '*') AND h.address_hash = fairpost.address_hash(c.address)))
    ORDER BY c.address, c.workspace ON CONFLICT DO NOTHING"""
