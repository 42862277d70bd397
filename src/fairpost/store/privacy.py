"""Export or erase everything stored about one person, who is identified by an address. Other operations on prospects
are in prospects.py.

If a workspace is given, only its data is touched. None means all workspaces, plus data that belongs to no workspace.
History has no index on addresses, so it is scanned partition by partition and changed in small commits. After an
interruption, run the operation again, and it will continue with what remains.
"""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import asyncpg

from fairpost.model.errors import FairpostError
from fairpost.model.outside import event_outside
from fairpost.model.retention import Erasure
from fairpost.system import clock

if TYPE_CHECKING:
    from datetime import datetime

    from fairpost.store.store import Store

EMAILS_AT_ONCE = 200
Reach = Callable[[int], None]  # receives the number of history bytes read so far


async def parsed(store: "Store", address: str) -> str:
    found = await store.parse_address(address)
    if found is None:
        raise FairpostError(f"ADDRESS must be an e-mail address, got {address!r}")
    return found


# ── history ───────────────────────────────────────────────────────────────────────────────────────────────


async def history_bytes(store: "Store") -> int:
    """Return the size of the history to be read, in bytes."""
    return sum([size for _, size in await _partitions(store)])


async def _partitions(store: "Store") -> list[tuple[str, int]]:
    rows = await store.fetch(
        """SELECT format('fairpost.%I', c.relname) AS name, pg_table_size(c.oid) AS bytes
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'fairpost.emails'::regclass ORDER BY 1"""
    )
    return [(row["name"], row["bytes"]) for row in rows]


async def _finished(store: "Store", address: str, workspace: str | None, reach: Reach) -> AsyncIterator[list[int]]:
    """Yield the IDs of the e-mails to this person, in batches."""
    done = 0
    for name, size in await _partitions(store):
        try:
            rows = await store.fetch(
                f"""SELECT e.id FROM {name} e WHERE ($2::text IS NULL OR e.workspace = $2)
                    AND fairpost.is_for(e.recipients, fairpost.normalize_address($1)) ORDER BY e.id""",  # noqa: S608 - from the catalog
                *(address, workspace),
            )
        except asyncpg.UndefinedTableError:  # the partition was dropped in the meantime
            rows = []
        ids = [row["id"] for row in rows]
        for start in range(0, len(ids), EMAILS_AT_ONCE):
            yield ids[start : start + EMAILS_AT_ONCE]
        done += size
        reach(done)


# ── erasure ───────────────────────────────────────────────────────────────────────────────────────────────


async def erase(
    store: "Store",
    address: str,
    *,
    workspace: str | None,
    keep_sendable: bool = False,
    reach: Reach = lambda done: None,
    record: "Callable[[Store, str], Awaitable[None]] | None" = None,
) -> Erasure:
    """Erase a person's data. Raises FairpostError if this is not an address.

    If any e-mails are `in_hand` (being sent or in doubt), call this again later. `record` runs in the first transaction
    and receives the address hash.
    """
    store = store.in_bulk()
    address = await parsed(store, address)
    now = clock.stated()
    async with store.together() as one:
        sql = "SELECT * FROM fairpost.erase_entries($1, $2, $3, $4)"
        entries = await one.row(sql, workspace, address, keep_sendable, now)
        if record is not None:
            await record(one, entries["address_hash"])
    written = list(entries["written"])
    done = Erasure(
        address_hash=entries["address_hash"],
        prospects=entries["prospects"],
        suppressions=entries["suppressions"],
        inbox_mails=entries["inbox_mails"],
        cancelled=entries["cancelled"],
        taken_out=0,
        emails=0,
        events=0,
        in_hand=(),
    )
    done = await _erase_waiting(store, done, workspace, address, written, now)
    async for ids in _finished(store, address, workspace, reach):
        n = await store.value("SELECT fairpost.erase_emails($1, $2, $3)", ids, address, written)
        done = replace(done, emails=done.emails + n)
    after: int | None = 0
    while after is not None:
        after = await store.value("SELECT fairpost.erase_replies($1, $2, $3)", workspace, written, after)
    after = 0
    while after is not None:
        batch = await store.row("SELECT * FROM fairpost.erase_events($1, $2, $3)", workspace, written, after)
        done = replace(done, events=done.events + batch["erased"])
        after = batch["last"]
    if entries["is_new"] or _counts(done):
        sql = "SELECT fairpost.note_erasure($1, $2, $3, $4)"
        await store.value(sql, workspace, done.address_hash, json.dumps(_counts(done)), now)
    return done


async def _erase_waiting(
    store: "Store", done: Erasure, workspace: str | None, address: str, written: list[str], now: "datetime | None"
) -> Erasure:
    after: int | None = 0
    while after is not None:
        sql = "SELECT * FROM fairpost.erase_waiting($1, $2, $3, $4, p_now => $5)"
        batch = await store.row(sql, workspace, address, written, after, now)
        done = replace(
            done,
            cancelled=done.cancelled + batch["cancelled"],
            taken_out=done.taken_out + batch["taken_out"],
            in_hand=(*done.in_hand, *batch["in_hand"]),
        )
        after = batch["last"]
    return done


def _counts(done: Erasure) -> dict[str, int]:
    names = ("prospects", "suppressions", "cancelled", "taken_out", "emails", "events", "inbox_mails")
    return {name: n for name in names if (n := getattr(done, name))}


async def preview(store: "Store", address: str, *, workspace: str | None, reach: Reach = lambda done: None) -> Erasure:
    """Return what `erase` would return now, without changing anything."""
    store = store.in_bulk()
    address = await parsed(store, address)
    row = await store.row(_PREVIEW, workspace, address)
    emails = 0
    async for ids in _finished(store, address, workspace, reach):
        emails += len(ids)
    return Erasure(**{**row, "in_hand": tuple(row["in_hand"]), "emails": emails})


_PREVIEW = """
    WITH mine AS MATERIALIZED (
        SELECT q.id, q.state IN ('waiting', 'claimed') AS is_free, fairpost.addresses_but(q.addresses, fairpost.normalize_address($2)) = '{}' AS is_alone
        FROM fairpost.queue q WHERE ($1::text IS NULL OR q.workspace = $1) AND fairpost.is_for(q.recipients, fairpost.normalize_address($2))
    ), words AS MATERIALIZED (
        SELECT fairpost.address_pattern(ARRAY[$2::text, fairpost.normalize_address($2)]) AS pattern
    )
    SELECT encode(fairpost.address_hash(fairpost.normalize_address($2)), 'hex') AS address_hash,
        (SELECT count(*) FROM fairpost.prospects p WHERE p.folded = fairpost.normalize_address($2) AND ($1 IS NULL OR p.workspace = $1)) AS prospects,
        (SELECT count(*) FROM fairpost.suppressions s WHERE s.address = fairpost.normalize_address($2) AND ($1 IS NULL OR s.workspace = $1)) AS suppressions,
        (SELECT count(*) FROM fairpost.inbox i WHERE $1 IS NULL AND EXISTS (SELECT FROM unnest(i.recipients) r WHERE fairpost.normalize_address(r) = fairpost.normalize_address($2))) AS inbox_mails,
        (SELECT count(*) FROM mine m WHERE m.is_free AND m.is_alone) AS cancelled,
        (SELECT count(*) FROM mine m WHERE m.is_free AND NOT m.is_alone) AS taken_out,
        ARRAY(SELECT m.id FROM mine m WHERE NOT m.is_free ORDER BY m.id) AS in_hand,
        (SELECT count(*) FROM fairpost.events e, words w WHERE ($1 IS NULL OR e.workspace = $1) AND (e.subject ~* w.pattern OR e.detail::text ~* w.pattern)) AS events"""


# ── export ────────────────────────────────────────────────────────────────────────────────────────────────


async def export(
    store: "Store", address: str, *, workspace: str | None, reach: Reach = lambda done: None
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield everything stored about a person, item by item. Each item comes with its section, and the sections are in
    the order of SECTIONS.

    Because the result goes to that person, other recipients are omitted and IDs are public.
    """
    store = store.in_bulk()
    address = await parsed(store, address)
    public_ids = await store.public_ids()
    for section, sql in _SMALL.items():
        for row in await store.fetch(sql, workspace, address):
            piece = json.loads(row["piece"])
            yield section, event_outside(piece, public_ids) if section == "events" else piece
    waiting = [row["id"] for row in await store.fetch(_WAITING, workspace, address)]
    for id_ in waiting:
        async for email in _exported(store, [id_], address):
            yield "emails", email
    async for ids in _finished(store, address, workspace, reach):
        async for email in _exported(store, ids, address):
            yield "emails", email


async def _exported(store: "Store", ids: list[int], address: str) -> AsyncIterator[dict[str, Any]]:
    for id_ in ids:
        row = await store.row(_EMAIL, id_, address)
        if row is None:
            continue
        email: dict[str, Any] = json.loads(row["piece"])
        files = await store.fetch(
            """SELECT a.filename, a.content_type, a.data FROM fairpost.attachments a WHERE a.content_id = $1
               ORDER BY a.position""",
            row["content_id"],
        )
        email["attachments"] = [{**file, "data": b64encode(file["data"]).decode("ascii")} for file in files]
        yield email


async def as_json(pieces: AsyncIterator[tuple[str, dict[str, Any]]]) -> AsyncIterator[str]:
    """Yield the output of `export` as members of a JSON object. Every section is present, even if it is empty."""
    left = list(SECTIONS)
    opened: str | None = None
    async for section, piece in pieces:
        before = ",\n"
        while opened != section:
            before = "" if opened is None else "\n],\n"
            opened = left.pop(0)
            yield f'{before}"{opened}": ['
            before = "\n"
        yield before + json.dumps(piece, ensure_ascii=False)
    yield "" if opened is None else "\n]"
    for section in left:
        yield f'{"" if opened is None and section == SECTIONS[0] else ","}\n"{section}": []'


SECTIONS = ("prospects", "suppressions", "soft_bounces", "returned", "replies", "inbox_mails", "events", "emails")

_SMALL = {
    "prospects": """
        SELECT jsonb_build_object('workspace', p.workspace, 'address', p.address, 'external_id', p.external_id, 'fields', p.fields, 'timezone', p.timezone,
                   'is_paused', p.is_paused, 'created_at', p.created_at, 'changed_at', p.changed_at,
                   'lists', ARRAY(SELECT l.name FROM fairpost.list_members m JOIN fairpost.lists l ON l.id = m.list_id WHERE m.prospect_id = p.id ORDER BY 1),
                   'stops', (SELECT jsonb_agg(jsonb_build_object('campaign', c.name, 'reason', s.reason, 'reason_params', s.params, 'at', s.at) ORDER BY s.at)
                             FROM fairpost.opt_outs s LEFT JOIN fairpost.campaigns c ON c.id = s.campaign_id WHERE s.prospect_id = p.id)) AS piece
        FROM fairpost.prospects p WHERE p.folded = fairpost.normalize_address($2) AND ($1::text IS NULL OR p.workspace = $1) ORDER BY p.id""",
    "suppressions": """
        SELECT jsonb_build_object('workspace', s.workspace, 'kind', s.kind, 'reason', s.reason, 'since', s.created_at,
            'stops', CASE WHEN fairpost.stops_mail(s.kind, s.also_urgent, 'urgent') THEN 'all' ELSE 'bulk' END) AS piece
        FROM (SELECT s.workspace, s.kind, s.reason, s.created_at, s.also_urgent FROM fairpost.suppressions s WHERE s.address = fairpost.normalize_address($2)
              UNION ALL
              SELECT h.workspace, h.kind, 'erased on request', h.created_at, h.also_urgent FROM fairpost.suppression_hashes h
              WHERE h.address_hash = fairpost.address_hash(fairpost.normalize_address($2))) s
        WHERE $1::text IS NULL OR s.workspace IN ($1, '*') ORDER BY s.workspace""",
    "soft_bounces": """
        SELECT to_jsonb(b) - 'address' AS piece FROM fairpost.soft_bounces b
        WHERE b.address = fairpost.normalize_address($2) AND ($1::text IS NULL OR b.workspace = $1) ORDER BY b.workspace""",
    "returned": """
        SELECT jsonb_build_object('workspace', r.workspace, 'email', fairpost.public_id(r.email_id), 'effect', r.effect, 'reason', r.reason, 'reason_params', r.params, 'back_on', r.back_on, 'at', r.at) AS piece
        FROM fairpost.returned r WHERE r.address = fairpost.normalize_address($2) AND ($1::text IS NULL OR r.workspace = $1) ORDER BY r.id""",
    "replies": """
        SELECT jsonb_build_object('workspace', r.workspace, 'email', fairpost.public_id(r.email_id), 'kind', r.kind, 'at', r.at, 'sent_at', r.sent_at, 'from_name', r.from_name, 'from_address', r.from_address,
            'subject', r.subject, 'message_id', r.message_id, 'text', r.text_body, 'html', r.html_body, 'labels', c.labels) AS piece
        FROM fairpost.replies r JOIN fairpost.conversations c ON c.id = r.conversation_id
        WHERE fairpost.normalize_address($2) IN (c.address, r.author) AND ($1::text IS NULL OR r.workspace = $1) ORDER BY r.id""",
    "inbox_mails": """
        SELECT jsonb_build_object('received_at', i.received_at, 'sender', i.sender, 'subject', i.subject, 'raw', encode(i.raw, 'base64')) AS piece
        FROM fairpost.inbox i WHERE $1::text IS NULL AND EXISTS (SELECT FROM unnest(i.recipients) r WHERE fairpost.normalize_address(r) = fairpost.normalize_address($2)) ORDER BY i.id""",
    "events": """
        SELECT jsonb_build_object('at', e.at, 'kind', e.kind, 'workspace', e.workspace, 'subject', e.subject, 'detail', e.detail) AS piece
        FROM fairpost.events e, fairpost.address_pattern(ARRAY[$2::text, fairpost.normalize_address($2)]) pattern
        WHERE ($1::text IS NULL OR e.workspace = $1) AND (e.subject ~* pattern OR e.detail::text ~* pattern)
        UNION ALL
        SELECT jsonb_build_object('at', o.at, 'kind', o.kind, 'workspace', o.workspace, 'subject', o.address, 'detail', jsonb_build_object('reason', o.reason, 'params', o.params))
        FROM fairpost.outbox o WHERE o.address = fairpost.normalize_address($2) AND o.email_id IS NULL AND ($1::text IS NULL OR o.workspace = $1) ORDER BY 1""",
}

_WAITING = """
    SELECT q.id FROM fairpost.queue q WHERE ($1::text IS NULL OR q.workspace = $1) AND fairpost.is_for(q.recipients, fairpost.normalize_address($2)) ORDER BY q.id"""

_EMAIL = """
    SELECT x.content_id, jsonb_build_object('id', fairpost.public_id(x.id), 'workspace', x.workspace, 'state', x.state, 'reason', x.reason, 'reason_params', x.reason_params, 'created_at', x.created_at,
        'finished_at', x.finished_at, 'user', x.user_name, 'stream', x.stream, 'sender', x.sender, 'fields', x.fields, 'message_id', x.message_id, 'type', l.type, 'tags', l.tags, 'metadata', l.metadata,
        'recipients', (SELECT jsonb_agg(r) FROM jsonb_array_elements(x.recipients) r WHERE fairpost.normalize_address(r ->> 'address') = fairpost.normalize_address($2)),
        'subject', c.subject, 'text', c.text_body, 'html', c.html_body, 'reply_to', c.reply_to, 'headers', c.headers,
        'attempts', (SELECT jsonb_agg(jsonb_build_object('n', t.n, 'begun_at', t.begun_at, 'ended_at', t.ended_at, 'outcome', t.outcome, 'code', t.code, 'reply', t.reply,
                         'reply_to_recipient', (SELECT r.value FROM jsonb_each(nullif(t.recipients, 'null')) r WHERE fairpost.normalize_address(r.key) = fairpost.normalize_address($2) LIMIT 1)) ORDER BY t.n)
                     FROM fairpost.attempts t WHERE t.email_id = x.id),
        'events', (SELECT jsonb_agg(jsonb_build_object('type', o.kind, 'at', o.at, 'reason', o.reason, 'reason_params', o.params) ORDER BY o.id) FROM fairpost.outbox o
                   WHERE o.email_id = x.id AND (o.address IS NULL OR o.address = fairpost.normalize_address($2)))) AS piece
    FROM (SELECT q.id, q.workspace, q.state, fairpost.code_in(q.last_error) AS reason, fairpost.params_in(q.last_error) AS reason_params, q.created_at, NULL::timestamptz AS finished_at, q.user_name, q.stream, q.sender, q.fields,
                 NULL::text AS message_id, q.recipients, q.content_id FROM fairpost.queue q WHERE q.id = $1
          UNION ALL
          SELECT e.id, e.workspace, e.state, e.reason, e.reason_params, e.created_at, e.finished_at, e.user_name, e.stream, e.sender, e.fields, e.message_id, e.recipients, e.content_id
          FROM fairpost.emails e WHERE e.id = $1) x
    LEFT JOIN fairpost.contents c ON c.id = x.content_id
    LEFT JOIN fairpost.labels l ON l.email_id = x.id"""
