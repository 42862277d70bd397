"""Import prospect lists of any length, and query, pause and remove prospects.

A list is imported in one transaction. Either the whole list is read and written, or nothing changes. Lines are first
copied into a temporary table, so a long list needs no more memory than a short one, and reading a list does not block
other transactions.
"""

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairpost.model.errors import FairpostError, Unknown
from fairpost.model.prospect import BadProspectLine, ImportedProspects, Prospect, ProspectLine
from fairpost.store.connections import BULK_S_MAX, allow
from fairpost.system import clock

if TYPE_CHECKING:
    import asyncpg

    from fairpost.store.store import Store

BAD_LINES_KEPT = 100
FIELDS_BYTES_MAX = 65_536  # same as the limit for an e-mail, because larger fields could never be sent


class BadProspects(FairpostError):
    """Raised if a list contains bad lines. Nothing was imported."""

    def __init__(self, imported: ImportedProspects) -> None:
        self.imported = imported
        super().__init__(f"{imported.bad:,} invalid lines")


class ListInUse(FairpostError):
    """Raised if campaigns still need a list."""

    def __init__(self, campaigns: tuple[str, ...]) -> None:
        self.campaigns = campaigns
        super().__init__(f"needed by {', '.join(campaigns)}")


class TooManyFields(FairpostError):
    """Raised if there are more fields than an e-mail can contain. The caller must end the transaction."""


# ── import ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _BadLines:
    count: int = 0
    first: list[BadProspectLine] = field(default_factory=list)

    def note(self, bad: BadProspectLine) -> None:
        self.count += 1
        if len(self.first) < BAD_LINES_KEPT:
            self.first.append(bad)


async def import_prospects(
    conn: "asyncpg.Connection",
    lines: Iterable[ProspectLine | BadProspectLine] | AsyncIterable[ProspectLine | BadProspectLine],
    *,
    workspace: str,
    list_name: str,
    skip_bad: bool,
    now: datetime | None = None,
) -> ImportedProspects:
    """Import prospects into a list, creating it if necessary. Existing prospects keep any fields that are not in the
    list.

    Raises BadProspects if there are bad lines, unless `skip_bad` is set.
    """
    allow(conn, BULK_S_MAX)
    async with conn.transaction():
        await conn.execute(_INCOMING)
        bad = _BadLines()
        records = _records_coming(lines, bad) if isinstance(lines, AsyncIterable) else _records(lines, bad)
        await conn.copy_records_to_table("incoming", records=records)
        await conn.execute(_FOLD)
        for row in await conn.fetch(_TAKEN_IDS, workspace):
            bad.note(BadProspectLine(line=row["line"], text=row["address"], why=_taken(row)))
        told = tuple(sorted(bad.first, key=lambda each: each.line))
        if bad.count and not skip_bad:
            raise BadProspects(_imported(bad=bad.count, bad_lines=told))
        list_id = await conn.fetchval(_LIST, workspace, list_name, now)
        row = await conn.fetchrow(_UPSERT, workspace, now)
        await conn.execute(_MEMBERS, workspace, list_id)
    return _imported(**row, bad=bad.count, bad_lines=told)


def _imported(
    *,
    bad: int,
    bad_lines: tuple[BadProspectLine, ...],
    lines: int = 0,
    chosen: int = 0,
    added: int = 0,
    changed: int = 0,
) -> ImportedProspects:
    return ImportedProspects(
        added=added,
        changed=changed,
        same=chosen - added - changed,
        duplicates=lines - chosen,
        bad=bad,
        bad_lines=bad_lines,
    )


def _records(lines: Iterable[ProspectLine | BadProspectLine], bad: _BadLines) -> Iterator[tuple[object, ...]]:
    for each in lines:
        if (record := _record(each, bad)) is not None:
            yield record


async def _records_coming(
    lines: AsyncIterable[ProspectLine | BadProspectLine], bad: _BadLines
) -> AsyncIterator[tuple[object, ...]]:
    async for each in lines:
        if (record := _record(each, bad)) is not None:
            yield record


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _record(each: ProspectLine | BadProspectLine, bad: _BadLines) -> tuple[object, ...] | None:
    if isinstance(each, BadProspectLine):
        bad.note(each)
        return None
    fields = _encode(each.fields)
    if len(fields) * 4 > FIELDS_BYTES_MAX and len(fields.encode()) > FIELDS_BYTES_MAX:
        why = f"has more than {FIELDS_BYTES_MAX:,} bytes of fields in total"
        bad.note(BadProspectLine(line=each.line, text=each.address, why=why))
        return None
    folded = each.address.lower() if each.address.isascii() else None
    return each.line, each.address, folded, each.external_id, fields, each.timezone


def _taken(row: Any) -> str:
    return f"the ID {row['external_id']!r} belongs to {row['other']}"


_INCOMING = """
    SET LOCAL work_mem = '64MB';
    SET LOCAL jit = off;
    CREATE TEMP TABLE incoming (
        line integer, address text, folded text, external_id text, fields jsonb, timezone text
    ) ON COMMIT DROP"""

# ASCII addresses are already normalized. The database contains the rules for all others.
_FOLD = """
    UPDATE incoming SET folded = fairpost.normalize_address(address) WHERE folded IS NULL;
    CREATE TEMP TABLE chosen ON COMMIT DROP AS
    SELECT DISTINCT ON (i.folded) i.* FROM incoming i ORDER BY i.folded, i.line;
    ANALYZE chosen"""

# An ID identifies one person, so two prospects cannot share an ID, even if only one of them is on the list.
_TAKEN_IDS = """
    WITH known AS (
        SELECT c.line, o.address AS other FROM chosen c
        JOIN fairpost.prospects o ON o.workspace = $1 AND o.external_id = c.external_id AND o.folded <> c.folded
    ), taken AS (
        SELECT k.line, k.other FROM known k
        UNION ALL
        SELECT t.line, t.first FROM (
            SELECT c.line, first_value(c.address) OVER w AS first, row_number() OVER w AS nth
            FROM chosen c WHERE c.external_id IS NOT NULL AND NOT EXISTS (SELECT FROM known k WHERE k.line = c.line)
            WINDOW w AS (PARTITION BY c.external_id ORDER BY c.line)) t
        WHERE t.nth > 1
    ), gone AS (
        DELETE FROM chosen c USING taken t WHERE t.line = c.line RETURNING c.line, c.address, c.external_id, t.other
    ), counted AS (
        DELETE FROM incoming i USING gone g WHERE i.line = g.line
    )
    SELECT g.* FROM gone g ORDER BY g.line"""

_LIST = """
    INSERT INTO fairpost.lists (workspace, name, created_at) VALUES ($1, $2, coalesce($3::timestamptz, statement_timestamp()))
    ON CONFLICT (workspace, name) DO UPDATE SET name = excluded.name RETURNING id"""

# Write in alphabetical order, so that two concurrent imports may wait for each other but cannot deadlock.
_UPSERT = """
    WITH written AS (
        INSERT INTO fairpost.prospects AS p (workspace, address, folded, external_id, fields, timezone, created_at, changed_at)
        SELECT $1::text, c.address, c.folded, c.external_id, c.fields, c.timezone, coalesce($2::timestamptz, statement_timestamp()), coalesce($2::timestamptz, statement_timestamp())
        FROM chosen c ORDER BY c.folded
        ON CONFLICT (workspace, folded) DO UPDATE SET
            fields = p.fields || excluded.fields, external_id = coalesce(excluded.external_id, p.external_id),
            timezone = coalesce(excluded.timezone, p.timezone), changed_at = excluded.changed_at
        WHERE (p.fields || excluded.fields, coalesce(excluded.external_id, p.external_id), coalesce(excluded.timezone, p.timezone))
            IS DISTINCT FROM (p.fields, p.external_id, p.timezone)
        RETURNING p.id, p.folded, p.xmax = 0 AS is_new
    )
    SELECT (SELECT count(*) FROM incoming)::integer AS lines, (SELECT count(*) FROM chosen)::integer AS chosen,
           count(*) FILTER (WHERE w.is_new)::integer AS added, count(*) FILTER (WHERE NOT w.is_new)::integer AS changed
    FROM written w"""

# A separate statement sees the prospects that a concurrent import added while this import was waiting.
_MEMBERS = """
    INSERT INTO fairpost.list_members (list_id, prospect_id)
    SELECT $2, p.id FROM chosen c JOIN fairpost.prospects p ON p.workspace = $1 AND p.folded = c.folded
    ON CONFLICT DO NOTHING"""


# ── queries and changes ───────────────────────────────────────────────────────────────────────────────────

_SHOWN = """
    SELECT p.id, p.workspace, p.address, p.external_id, p.fields, p.timezone, p.is_paused, p.created_at,
           ARRAY(SELECT l.name FROM fairpost.list_members m JOIN fairpost.lists l ON l.id = m.list_id WHERE m.prospect_id = p.id ORDER BY 1) AS lists
    FROM fairpost.prospects p"""


async def listed(
    store: "Store",
    *,
    workspace: str,
    list_name: str | None = None,
    search: str | None = None,
    after: int = 0,
    most: int,
) -> list[Prospect]:
    """Return prospects in the order in which they were added. `search` matches part of the address or of a field."""
    rows = await store.fetch(
        f"""{_SHOWN} WHERE p.workspace = $1 AND p.id > $4
            AND ($2::text IS NULL OR EXISTS (SELECT FROM fairpost.list_members m JOIN fairpost.lists l ON l.id = m.list_id
                                             WHERE m.prospect_id = p.id AND l.workspace = $1 AND l.name = $2))
            AND ($3::text IS NULL OR strpos(p.folded, lower($3)) > 0 OR strpos(lower(p.fields::text), lower($3)) > 0)
            ORDER BY p.id LIMIT $5""",
        *(workspace, list_name, search, after, most),
    )
    return [_prospect(row) for row in rows]


async def known_by(store: "Store", workspace: str, address: str) -> Prospect:
    row = await store.row(
        f"{_SHOWN} WHERE p.workspace = $1 AND p.folded = fairpost.normalize_address($2)", workspace, address
    )
    if row is None:
        raise Unknown("prospect.unknown", address=address, workspace=workspace)
    return _prospect(row)


async def lists(
    store: "Store", workspace: str, *, after: str = "", most: int | None = None
) -> list[tuple[str, int, datetime]]:
    """Return the name, number of members and creation time of each list."""
    rows = await store.fetch(
        """SELECT l.name, l.created_at, (SELECT count(*) FROM fairpost.list_members m WHERE m.list_id = l.id) AS n
           FROM (SELECT * FROM fairpost.lists l WHERE l.workspace = $1 AND l.name > $2 ORDER BY l.name LIMIT $3) l ORDER BY l.name""",
        *(workspace, after, most),
    )
    return [(row["name"], row["n"], row["created_at"]) for row in rows]


async def members(
    store: "Store", *, workspace: str, list_name: str, after: int = 0, most: int
) -> list[Prospect] | None:
    """Return the members of a list in the order in which they were added, or None if there is no such list.

    Reads the list index in order.
    """
    list_id = await store.value(
        "SELECT l.id FROM fairpost.lists l WHERE l.workspace = $1 AND l.name = $2", workspace, list_name
    )
    if list_id is None:
        return None
    rows = await store.fetch(
        f"""{_SHOWN} JOIN (SELECT m.prospect_id FROM fairpost.list_members m WHERE m.list_id = $1 AND m.prospect_id > $2
                           ORDER BY m.prospect_id LIMIT $3) m ON m.prospect_id = p.id
            WHERE p.workspace = $4 ORDER BY p.id""",  # noqa: S608 - all of it is written here
        *(list_id, after, most, workspace),
    )
    return [_prospect(row) for row in rows]


async def remove_list(store: "Store", workspace: str, list_name: str) -> bool:
    """Remove a list, but keep its members as prospects. Return False if there is no such list.

    Raises ListInUse if an unfinished campaign needs it.
    """
    row = await store.row(
        """SELECT l.id, ARRAY(SELECT c.name FROM fairpost.campaigns c WHERE c.workspace = $1 AND l.id = ANY (c.lists)
                              AND c.state NOT IN ('completed', 'failed', 'cancelled') ORDER BY 1 LIMIT 10) AS campaigns
           FROM fairpost.lists l WHERE l.workspace = $1 AND l.name = $2 FOR UPDATE""",
        *(workspace, list_name),
    )
    if row is None:
        return False
    if row["campaigns"]:
        raise ListInUse(tuple(row["campaigns"]))
    await store.value("DELETE FROM fairpost.list_members m WHERE m.list_id = $1", row["id"])
    await store.value("DELETE FROM fairpost.lists l WHERE l.id = $1", row["id"])
    return True


async def change(
    store: "Store", prospect: Prospect, *, fields: Mapping[str, str | None], **columns: str | None
) -> None:
    """Change a prospect.

    `fields` are merged into the existing ones; null removes a field. `columns` contains timezone and external_id, if
    given.

    Raises TooManyFields, and asyncpg's UniqueViolationError if the ID belongs to another prospect.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    gone = [name for name, value in fields.items() if value is None]
    size = await store.value(
        """UPDATE fairpost.prospects p SET fields = (p.fields - $3::text[]) || $2::jsonb, changed_at = coalesce($8, clock_timestamp()),
               timezone = CASE WHEN $4 THEN $5 ELSE p.timezone END, external_id = CASE WHEN $6 THEN $7 ELSE p.external_id END
           WHERE p.id = $1 RETURNING octet_length(p.fields::text)""",
        *(prospect.id, json.dumps(given), gone, "timezone" in columns, columns.get("timezone")),
        *("external_id" in columns, columns.get("external_id"), clock.stated()),
    )
    if (size or 0) > FIELDS_BYTES_MAX:
        raise TooManyFields(f"{size:,} bytes")


async def pause(store: "Store", prospect: Prospect, *, is_paused: bool) -> None:
    """Pause or resume a prospect. The prospect's e-mails wait until the pause ends; none are cancelled or sent
    twice.
    """
    await store.value("SELECT fairpost.pause_prospect($1, $2, $3)", prospect.id, is_paused, clock.stated())


async def remove(store: "Store", prospects: Sequence[Prospect]) -> None:
    """Remove prospects from all lists permanently. The prospects' waiting e-mails are cancelled; sent e-mails remain in
    history.
    """
    await store.value("SELECT fairpost.remove_prospects($1, $2)", [each.id for each in prospects], clock.stated())


def _prospect(row: Any) -> Prospect:
    return Prospect(**{**row, "fields": json.loads(row["fields"]), "lists": tuple(row["lists"])})


async def address_of(store: "Store", workspace: str, prospect_id: int) -> str | None:
    """Return a prospect's address, or None if this workspace does not have the prospect."""
    sql = "SELECT p.address FROM fairpost.prospects p WHERE p.id = $1 AND p.workspace = $2"
    address: str | None = await store.value(sql, prospect_id, workspace)
    return address
