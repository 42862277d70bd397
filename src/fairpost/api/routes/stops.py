"""For those who run the service: everything paused; a workspace, a domain, a user or a stream held, throttled, and let go again."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from fairpost.api.access import Admin, SignedIn
from fairpost.api.answers import Answer, Given, Model, Moment, Text, When, failures
from fairpost.api.errors import ApiError, invalid
from fairpost.api.operating import RegionQuery, region_meant, store_meant, write_down
from fairpost.api.routes.users import StopOut
from fairpost.api.service import Service, TheService
from fairpost.model.sender import SenderId, SenderLevel
from fairpost.observe.emails import stops_on
from fairpost.observe.senders import waiting_behind
from fairpost.policy.senders import IMMUNE_FOR, Decided, impose
from fairpost.policy.senders import lift as lifted
from fairpost.postgres import pauses
from fairpost.postgres.senders import Active, decide_now, named
from fairpost.postgres.store import Level, Store

router = APIRouter(prefix="/api/admin", tags=["operators"])

THROTTLED_FOR = timedelta(days=1)
MINUTES_MAX = 525_600  # a year

Reason = Annotated[Text, Field(min_length=1, max_length=500)]
Minutes = Annotated[int | None, Field(ge=1, le=MINUTES_MAX, description="How long; or say `until`.")]


class PauseIn(Given):
    reason: Reason
    until: Annotated[When | None, Field(description="It ends by itself then; null: when somebody resumes.")] = None


class PauseOut(Model):
    """`restored`: this database is not the one it was, and waits for somebody who says that it is to be gone on with."""

    since: Moment
    until: Moment | None
    reason: str
    paused_by: str
    restored: bool


class Paused(Model):
    """`pause` is what is so now; `changed`: whether this request did it."""

    region: str
    pause: PauseOut | None
    changed: bool


class Named(Given):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "domain", "user", "stream"] = "workspace"
    name: Annotated[
        Text, Field(max_length=200, description="Of the domain, user or stream; a workspace has none here.")
    ] = ""


class Hold(Named):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[When | None, Field(description="Without it and `minutes`: until released.")] = None


class SenderNamed(Given):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "user"] = "user"
    name: Annotated[Text, Field(max_length=200, description="Of the user; a workspace has none here.")] = ""


class ThrottleIn(SenderNamed):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[When | None, Field(description="Without it and `minutes`: for a day.")] = None


class Lift(SenderNamed):
    immune_minutes: Annotated[
        int | None,
        Field(ge=1, le=MINUTES_MAX, description="So long no score throttles it again. [default: a day]"),
    ] = None


class StopsNow(Model):
    """What is so now: `stops` of this name and of its workspace; none: nothing holds its mail back here."""

    workspace: str
    level: str
    name: str
    region: str
    stops: list[StopOut]
    waiting: Annotated[int | None, Field(description="E-mails behind it; null: not counted for a domain or a stream.")]


# ── everything ────────────────────────────────────────────────────────────────────────────────────────────


@router.post("/pause", summary="Begin no e-mail any more, of anybody", responses=failures("not_found"))
async def pause(
    given: PauseIn, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[Paused]:
    store = await store_meant(service, region)
    _require_future(given.until, await store.now())
    async with store.together() as one:
        was_paused = await pauses.pause_everything(one, reason=given.reason, by=admin.who, until=given.until)
        await write_down(one, admin, request, "pause", "everything", reason=given.reason, until=given.until)
    return Answer(data=await _pause_now(store, region_meant(service, region), changed=not was_paused))


@router.post(
    "/resume",
    summary="Let what waited go out",
    description="After a restore it also says that the database, as it is now, is the one to go on with.",
    responses=failures("not_found"),
)
async def resume(admin: Admin, service: TheService, request: Request, region: RegionQuery = None) -> Answer[Paused]:
    store = await store_meant(service, region)
    async with store.together() as one:
        ended = await pauses.resume_everything(one, by=admin.who)
        if ended is not None:
            await write_down(one, admin, request, "resume", "everything")
    return Answer(data=await _pause_now(store, region_meant(service, region), changed=ended is not None))


async def _pause_now(store: Store, region: str, *, changed: bool) -> Paused:
    found = await pauses.pause_now(store)
    return Paused(region=region, pause=PauseOut.model_validate(found) if found else None, changed=changed)


# ── one name ──────────────────────────────────────────────────────────────────────────────────────────────


@router.post("/senders/hold", summary="Let nothing of a name go out", responses=failures("not_found"))
async def hold(
    given: Hold, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    key = _key(given)
    where, store = await _place(service, given.workspace, region)
    until = _end(given.minutes, given.until, await store.now())
    async with store.together() as one:
        await one.hold(given.workspace, given.level, key, until=until, reason=given.reason)
        await _note(admin, request, "sender.hold", given, reason=given.reason, until=until)(one)
    return Answer(data=await _now(store, where, given.workspace, given.level, key))


@router.post("/senders/release", summary="End a hold", responses=failures("not_found"))
async def release(
    given: Named, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    key = _key(given)
    where, store = await _place(service, given.workspace, region)
    async with store.together() as one:
        if not await one.release(given.workspace, given.level, key):
            raise ApiError("not_found", f"There is no hold on {_subject(given)} of workspace {given.workspace}.")
        await _note(admin, request, "sender.release", given)(one)
    return Answer(data=await _now(store, where, given.workspace, given.level, key))


@router.post(
    "/senders/throttle",
    summary="Throttle a user or workspace by hand: no score shortens it, and it ends by itself",
    responses=failures("not_found", "conflict"),
)
async def throttle(
    given: ThrottleIn, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    _key(given)
    where, store = await _place(service, given.workspace, region)
    id_ = await named(store, _id(given))
    until = _end(given.minutes, given.until, now := await store.now()) or now + THROTTLED_FOR

    def decide(active: Active, now: datetime) -> Decided:
        return impose(active.sender, until=until, reason=given.reason, policy=service.policy, now=now)

    note = _note(admin, request, "sender.throttle", given, reason=given.reason, until=until)
    await decide_now(store, id_, decide, also=note)
    return Answer(data=await _now(store, where, given.workspace, given.level, id_.name))


@router.post(
    "/senders/lift",
    summary="Lift a throttle, whoever imposed it: a score or a person",
    responses=failures("not_found", "conflict"),
)
async def lift(
    given: Lift, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    _key(given)
    where, store = await _place(service, given.workspace, region)
    id_ = await named(store, _id(given))
    immune_for = timedelta(minutes=given.immune_minutes) if given.immune_minutes else IMMUNE_FOR

    def decide(active: Active, now: datetime) -> Decided:
        if active.sender.throttle is None:
            raise ApiError("not_found", f"There is no throttle on {id_}.")
        return lifted(active.sender, policy=service.policy, now=now, immune_for=immune_for)

    await decide_now(store, id_, decide, also=_note(admin, request, "sender.lift", given))
    return Answer(data=await _now(store, where, given.workspace, given.level, id_.name))


async def _place(service: Service, workspace: str, region: str | None) -> tuple[str, Store]:
    where = region_meant(service, region) if region is not None else await service.region_of(workspace)
    return where, await service.store_of(where)


def _key(given: Named | SenderNamed) -> str:
    if (given.level == "workspace") != (given.name == ""):
        raise invalid("name", "is of a domain, a user or a stream, and a workspace has none here")
    return given.name.lower() if given.level == "domain" else given.name


def _id(given: SenderNamed) -> SenderId:
    return SenderId(workspace=given.workspace, name=_key(given), level=SenderLevel(given.level))


def _end(minutes: int | None, until: datetime | None, now: datetime) -> datetime | None:
    if minutes is not None and until is not None:
        raise invalid("until", "is given with minutes: say one of them")
    _require_future(until, now)
    return now + timedelta(minutes=minutes) if minutes is not None else until


def _require_future(until: datetime | None, now: datetime) -> None:
    if until is not None and until <= now:
        raise invalid("until", "must lie in the future")


def _note(
    admin: SignedIn, request: Request, action: str, given: Named | SenderNamed, **detail: object
) -> Callable[[Store], Awaitable[None]]:
    def write(store: Store) -> Awaitable[None]:
        return write_down(store, admin, request, action, _subject(given), workspace=given.workspace, **detail)

    return write


def _subject(given: Named | SenderNamed) -> str:
    return f"{given.level} {given.name or given.workspace}"


async def _now(store: Store, region: str, workspace: str, level: Level, key: str) -> StopsNow:
    if level == "user":
        key = (await named(store, SenderId(workspace=workspace, name=key))).name
    stops = await stops_on(
        store,
        workspace,
        domain=key if level == "domain" else None,
        user=key if level == "user" else None,
        stream=key if level == "stream" else None,
    )
    id_ = SenderId(workspace=workspace, name=key, level=SenderLevel(level)) if level in ("workspace", "user") else None
    return StopsNow(
        workspace=workspace,
        level=level,
        name=key,
        region=region,
        stops=[StopOut.model_validate(stop) for stop in stops],
        waiting=await waiting_behind(store, id_) if id_ else None,
    )
