"""The log of a workspace, written for human readers: holds, throttles, paused accounts and more. Programs use events
instead.
"""

import json
from typing import Annotated, Any

from fastapi import Query

from fairpost.api.access import Caller, Reads
from fairpost.api.answers import Answer, Page, Text, failures
from fairpost.api.names import own_name
from fairpost.api.pages import BIGGEST, Cursor, Limit, number_at, page_of, sealed
from fairpost.api.routing import Router
from fairpost.api.shapes.log import LogEntry
from fairpost.model.outside import detail_outside, subject_outside
from fairpost.model.public_ids import Kind
from fairpost.store.events import log_entries

TAG = {"name": "log", "description": "What happened, and why, for people."}
router = Router(prefix="/v1/log", tags=["log"])


@router.get("", summary="List log entries, newest first", responses=failures())
async def list_entries(
    caller: Reads,
    kind: Annotated[Text | None, Query(max_length=100, description="Only entries of this kind.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[LogEntry]]:
    before = number_at(cursor, caller.ids)
    found = await log_entries(
        caller.store, caller.workspace, before=BIGGEST if before is None else before, kind=kind, most=limit + 1
    )
    return page_of(found, limit, shown=lambda row: _entry(row, caller), place=lambda row: sealed(row["id"], caller.ids))


def _entry(row: Any, caller: Caller) -> LogEntry:
    return LogEntry(
        id=caller.ids.public(Kind.LOG, row["id"]),
        at=row["at"],
        kind=row["kind"],
        subject=subject_outside(own_name(row["subject"], caller), caller.ids),
        detail=detail_outside(json.loads(row["detail"] or "null"), caller.ids),
    )
