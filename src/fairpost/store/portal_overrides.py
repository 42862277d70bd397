"""Store a workspace's overrides for the product's system e-mails. fairpost.portals validates overrides before they are
stored.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWords:
    """The content of an override. If `preheader` is None, the built-in preheader is used."""

    subject: str
    preheader: str | None
    text: str
    html: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOverride(StoredWords):
    workspace: str
    portal: str
    type: str
    revision: int
    changed_at: datetime
    changed_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest revision of an override. `words` is None if the caller already has this revision."""

    revision: int
    words: StoredWords | None


# One lookup by primary key. The content is returned only to processes that do not have it yet.
_NEWEST = """
    SELECT o.revision, w.* FROM fairpost.portal_overrides o
    LEFT JOIN LATERAL (SELECT o.subject, o.preheader, o.text_body AS text, o.html_body AS html
                       WHERE o.revision IS DISTINCT FROM $4::bigint) w ON true
    WHERE o.workspace = $1 AND o.portal = $2 AND o.type = $3"""

_LISTED = """
    SELECT o.workspace, o.portal, o.type, o.subject, o.preheader, o.text_body AS text, o.html_body AS html,
           o.revision, o.changed_at, o.changed_by
    FROM fairpost.portal_overrides o WHERE o.workspace = $1 ORDER BY o.portal, o.type"""


async def put_row(
    store: "Store",
    workspace: str,
    portal: str,
    mail_type: str,
    *,
    subject: str,
    preheader: str | None,
    text: str,
    html: str,
    by: str | None,
) -> bool:
    """Store an override. Return True if there was no override before."""
    return bool(
        await store.value(
            """INSERT INTO fairpost.portal_overrides AS o
                   (workspace, portal, type, subject, preheader, text_body, html_body, changed_at, changed_by)
               VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce($8::timestamptz, clock_timestamp()), $9)
               ON CONFLICT (workspace, portal, type) DO UPDATE SET subject = excluded.subject, preheader = excluded.preheader,
                   text_body = excluded.text_body, html_body = excluded.html_body, revision = DEFAULT,
                   changed_at = excluded.changed_at, changed_by = excluded.changed_by
               RETURNING xmax = 0""",
            *(workspace, portal, mail_type, subject, preheader, text, html, clock.stated(), by),
        )
    )


async def newest(
    store: "Store", workspace: str, portal: str, mail_type: str, *, known: int | None = None
) -> Newest | None:
    """Return the newest override, or None if the workspace has none. `known` is the revision that the caller already
    has.
    """
    row = await store.row(_NEWEST, workspace, portal, mail_type, known)
    if row is None:
        return None
    words = dict(row)
    revision = words.pop("revision")
    return Newest(revision=revision, words=StoredWords(**words) if words["subject"] is not None else None)


async def rows(store: "Store", workspace: str) -> list[StoredOverride]:
    return [StoredOverride(**row) for row in await store.fetch(_LISTED, workspace)]


async def remove_row(store: "Store", workspace: str, portal: str, mail_type: str) -> bool:
    """Remove an override. Return False if there was no override."""
    sql = "DELETE FROM fairpost.portal_overrides WHERE workspace = $1 AND portal = $2 AND type = $3 RETURNING true"
    return bool(await store.value(sql, workspace, portal, mail_type))
