"""Live topics as server-sent events.

The event `state` contains the complete state after each change. `trouble` means that the state cannot be read. `over`
means that the session or key is no longer valid.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Path, Query, Request
from fastapi.responses import StreamingResponse

from fairpost.api.access import SESSION_COOKIE, caller_of, signed_in_of
from fairpost.api.answers import Text, failures
from fairpost.api.errors import ApiError, not_found
from fairpost.api.live import OPERATORS, Credential
from fairpost.api.routing import Router
from fairpost.api.service import Service, TheService
from fairpost.api.topics import TOPICS, Asked, Watcher
from fairpost.extras import Extra, require
from fairpost.model.auth import Role
from fairpost.model.tokens import hash_of
from fairpost.model.workspace import Scope

TAG = {"name": "live", "description": "Live updates as server-sent events."}
router = Router(prefix="/v1/live", tags=["live"])

STREAM_S_MAX = 3_600.0  # after this time, the client must reconnect
INBOX = "inbox"  # the only topic that may be missing, because it is installed separately
AGAIN = b"retry: 2000\n\n"
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


@router.get(
    "/{topic}",
    summary="Watch a topic as server-sent events",
    response_class=StreamingResponse,
    responses={**EVENTS, **failures("not_found")},
)
async def watch_topic(
    topic: Annotated[Text, Path(max_length=40, description=f"One of {', '.join(TOPICS)}.")],
    request: Request,
    service: TheService,
    asked: Annotated[Asked, Query()],
) -> StreamingResponse:
    watched = TOPICS.get(topic)
    if topic == INBOX:
        require(Extra.LOCAL, "The development inbox")
    if watched is None:
        raise not_found("topic", topic, where="")
    watcher = await _watcher(request, service, asked, is_for_admins=watched.is_for_admins)
    watcher = replace(watcher, asked=asked.only(watched.takes))
    # Operators may use plain numbers as IDs.
    by_number = bool(watched.takes) and watcher.caller is not None and watcher.caller.is_operator
    key, of = (topic, watcher.region, watcher.workspace, watcher.asked, by_number), watcher.workspace or OPERATORS
    service.live.require_room(of)
    home, by = _credential_of(request, watcher)

    async def events() -> AsyncIterator[bytes]:
        yield AGAIN
        try:
            async with (
                asyncio.timeout(STREAM_S_MAX),
                service.live.watching(
                    key,
                    lambda: watched.look(watcher),
                    of=of,
                    screen=asked.screen,
                    every_s=watched.every_s,
                    lingers=not watched.takes,
                ) as found,
                service.stream_revoker.watching(home, by, found) as ended,
            ):
                async for event in found.events(ended, asked.screen):
                    yield event
        except TimeoutError:
            pass  # the client reconnects

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _credential_of(request: Request, watcher: Watcher) -> tuple[str, Credential]:
    """Returns the watcher's region and credential."""
    if watcher.caller is not None and watcher.caller.key_id is not None:
        return watcher.region, watcher.caller.key_id
    region, _, token = request.cookies[SESSION_COOKIE].partition(".")
    return region, hash_of(token)


async def _watcher(request: Request, service: Service, asked: Asked, *, is_for_admins: bool) -> Watcher:
    """Returns the watcher. Members and callers with a key watch their own workspace.

    Admins watch the workspace they chose, or everything.
    """
    if "authorization" not in request.headers and SESSION_COOKIE in request.cookies:
        signed_in = await signed_in_of(request, service, None)
        if signed_in.person.role is Role.ADMIN and (is_for_admins or asked.workspace is None):
            place = asked.region or service.regions[0]
            if place not in service.regions:
                raise not_found("region", place, where="")
            return Watcher(service=service, caller=None, region=place, store=await service.store_of(place), asked=asked)
    caller = await caller_of(request, service, None, None, chosen=asked.workspace)
    if is_for_admins:
        raise ApiError("forbidden", "Only admins can do this.")
    if Scope.READ not in caller.scopes:
        raise ApiError("forbidden", "This requires the read scope.")
    return Watcher(service=service, caller=caller, region=caller.region, store=caller.owner, asked=asked)
