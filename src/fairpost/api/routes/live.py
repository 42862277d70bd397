"""What is live, as a stream of server-sent events: `state` with the whole of it each time it has changed, `trouble` while it cannot be seen, `over` when
the session has ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse

from fairpost.api.access import SESSION_COOKIE, caller_of, signed_in_of
from fairpost.api.answers import Text, failures
from fairpost.api.errors import ApiError, not_found
from fairpost.api.live import EVERY_S, Topic
from fairpost.api.service import Service, TheService
from fairpost.api.topics import FOR_ADMINS, SEARCHED, SLOW_S, TOPICS, Watcher
from fairpost.model.person import Role
from fairpost.model.tokens import hash_of
from fairpost.model.workspace import Scope
from fairpost.observe.accounts import Situation

TAG = {"name": "live", "description": "Streams of what is happening."}
router = APIRouter(prefix="/api/live", tags=["live"])

STREAM_S_MAX = 3_600.0  # of a session, and
KEY_STREAM_S_MAX = 300.0  # of a key: then whoever watches comes again, and is asked again who it is
AGAIN = b"retry: 2000\n\n"
OPERATORS = "*"  # no workspace has this name
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


@router.get(
    "/{topic}",
    summary="Watch a topic",
    response_class=StreamingResponse,
    responses={**EVENTS, **failures("not_found")},
)
async def watch(
    topic: Annotated[Text, Path(max_length=40, description=f"One of {', '.join(TOPICS)}.")],
    request: Request,
    service: TheService,
    workspace: Annotated[
        Text | None, Query(max_length=100, description="For admins: which; left out, the whole installation.")
    ] = None,
    name: Annotated[Text | None, Query(max_length=200, description="Which one, of a topic that has many.")] = None,
    having: Annotated[
        Text | None, Query(max_length=100, description="Of accounts: those with this in name, address or pool.")
    ] = None,
    situation: Annotated[Situation | None, Query(description="Of accounts: those in this situation.")] = None,
    region: Annotated[Text | None, Query(max_length=100, description="For admins: which region; the first.")] = None,
) -> StreamingResponse:
    if topic not in TOPICS:
        raise not_found("topic", topic, where="")
    watcher = await _watcher(request, service, None if topic in FOR_ADMINS else workspace, name, region)
    if topic in FOR_ADMINS and watcher.caller is not None:
        raise ApiError("forbidden", "This is for those who run the service.")
    if topic in SEARCHED:
        watcher = replace(watcher, having=having, situation=situation)
    key = (topic, watcher.region, watcher.workspace, name, watcher.having, watcher.situation)
    of, every_s = watcher.workspace or OPERATORS, SLOW_S.get(topic, EVERY_S)
    service.live.require_room(of)
    token = None if "authorization" in request.headers else request.cookies[SESSION_COOKIE]

    async def events() -> AsyncIterator[bytes]:
        yield AGAIN
        try:
            async with (
                asyncio.timeout(KEY_STREAM_S_MAX if token is None else STREAM_S_MAX),
                service.live.watching(key, lambda: TOPICS[topic](watcher), of=of, every_s=every_s) as found,
                _kept_by(service, token, found) as ended,
            ):
                async for event in found.events(ended):
                    yield event
        except TimeoutError:
            pass  # it comes again

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@asynccontextmanager
async def _kept_by(service: Service, token: str | None, topic: Topic) -> AsyncIterator[asyncio.Event]:
    """Gives what is set when the session has ended; a key's stream is short instead."""
    if token is None:
        yield asyncio.Event()
        return
    region, _, secret = token.partition(".")
    async with service.doorkeeper.watching(region, hash_of(secret), topic) as ended:
        yield ended


async def _watcher(
    request: Request, service: Service, workspace: str | None, name: str | None, region: str | None
) -> Watcher:
    """Who asks with a key, or as a member, watches a workspace; an admin that one, or everything."""
    if "authorization" not in request.headers and SESSION_COOKIE in request.cookies:
        signed_in = await signed_in_of(request, service, None)
        if signed_in.person.role is Role.ADMIN and workspace is None:
            place = region or service.regions[0]
            if place not in service.regions:
                raise not_found("region", place, where="")
            return Watcher(service=service, caller=None, region=place, store=await service.store_of(place), name=name)
    caller = await caller_of(request, service, None, None, chosen=workspace)
    if Scope.READ not in caller.scopes:
        raise ApiError("forbidden", "This needs the scope read.")
    return Watcher(service=service, caller=caller, region=caller.region, store=caller.owner, name=name)
