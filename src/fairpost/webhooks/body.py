"""A webhook's body: the event as JSON, in the same form as in the API."""

import json
from datetime import datetime

from fairpost.model.event import Event
from fairpost.model.outside import as_told
from fairpost.model.public_ids import PublicIds
from fairpost.model.webhook import TEST


def message_of(event: Event, ids: PublicIds, *, to_operator: bool) -> tuple[str, bytes]:
    """Return the message's ID and body. The ID is the same for every attempt and every endpoint.

    The ID of a test event is derived from its time.
    """
    told = as_told(event, ids, to_operator=to_operator)
    return told["id"], json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=str).encode()


def test_event(workspace: str | None, *, now: datetime) -> Event:
    return Event(cursor="0.0", id=int(now.timestamp() * 1e6), at=now, kind=TEST, workspace=workspace)
