"""A workspace's events for programs, read by cursor in commit order."""

from typing import Annotated

from fastapi import Query

from fairpost.api.access import Caller, Reads
from fairpost.api.acting import refused
from fairpost.api.answers import Answer, Text, failures
from fairpost.api.pages import bad_cursor, sealed
from fairpost.api.routing import Router
from fairpost.api.shapes.events import Event, EventsRead
from fairpost.model.errors import Refusal
from fairpost.model.event import EventKind
from fairpost.model.outside import as_told
from fairpost.model.public_ids import Kind, PublicIds
from fairpost.store.events import PAGE_MAX, events_after, events_end

TAG = {"name": "events", "description": "What happened to e-mails, accounts, campaigns, senders and domains."}
LATEST = "latest"
router = Router(prefix="/v1/events", tags=["events"])


@router.get("", summary="Read events by cursor, oldest first", responses=failures("gone"))
async def read_events(
    caller: Reads,
    after: Annotated[
        Text | None,
        Query(
            max_length=100,
            description="The `cursor` of the previous response, or `latest` for events from now on. If omitted, the list starts with the oldest event.",
        ),
    ] = None,
    types: Annotated[
        list[EventKind] | None, Query(alias="type", description="Only events of this type. Repeatable.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Maximum number of results.")] = 100,
) -> Answer[EventsRead]:
    if after == LATEST:
        end = await events_end(caller.store)
        return Answer(data=EventsRead(items=[], cursor=cursor_outside(end, caller.ids), is_end=True))
    try:
        page = await events_after(
            caller.store, _inside(after, caller), most=limit, workspace=caller.workspace, kinds=types
        )
    except Refusal as refusal:
        raise refused(refusal.reason) from None
    items = [Event.model_validate(as_told(event, caller.ids)) for event in page]
    return Answer(data=EventsRead(items=items, cursor=cursor_outside(page.cursor, caller.ids), is_end=page.is_end))


def cursor_outside(cursor: str | None, ids: PublicIds) -> str | None:
    """Returns a sealed cursor, because its numbers would otherwise reveal counts for the whole installation."""
    return None if cursor is None else ".".join(sealed(int(number), ids) for number in cursor.split("."))


def _inside(cursor: str | None, caller: Caller) -> str | None:
    if cursor is None:
        return None
    numbers = [caller.ids.private(Kind.CURSOR, part) for part in cursor.split(".")]
    if len(numbers) != 2 or None in numbers:
        raise bad_cursor()
    return ".".join(map(str, numbers))
