"""For admins: pause everything; hold, release, throttle and unthrottle senders."""

from datetime import datetime, timedelta

from fastapi import Request

from fairpost.actions import senders
from fairpost.api.access import Admin
from fairpost.api.acting import act_as_admin
from fairpost.api.admin import RegionQuery, region_meant, store_meant
from fairpost.api.answers import Answer, failures
from fairpost.api.errors import invalid
from fairpost.api.routing import Router
from fairpost.api.service import Service, TheService
from fairpost.api.shapes.stops import Hold, Lift, Named, Paused, PauseIn, PauseOut, SenderNamed, StopsNow, ThrottleIn
from fairpost.api.shapes.users import StopOut
from fairpost.model.sender import SenderId, SenderLevel
from fairpost.observe.emails import stops_on
from fairpost.observe.senders import waiting_behind
from fairpost.policy.senders import IMMUNE_FOR
from fairpost.store.senders import named
from fairpost.store.store import Store

router = Router(prefix="/v1/admin", tags=["operators"])


# ── everything ────────────────────────────────────────────────────────────────────────────────────────────


@router.post("/pause", summary="Pause all sending", responses=failures("not_found"))
async def pause_sending(
    given: PauseIn, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[Paused]:
    store = await store_meant(service, region)
    asked = senders.Pause(reason=given.reason, until=given.until)
    done = await act_as_admin(admin, request, store, senders.pause, asked)
    return _paused(done, region_meant(service, region))


@router.post(
    "/resume",
    summary="Resume sending",
    description="After a restore, this also confirms that sending should continue from this database.",
    responses=failures("not_found"),
)
async def resume_sending(
    admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[Paused]:
    store = await store_meant(service, region)
    done = await act_as_admin(admin, request, store, senders.resume, senders.Resume())
    return _paused(done, region_meant(service, region))


def _paused(done: senders.Paused, region: str) -> Answer[Paused]:
    pause = PauseOut.model_validate(done.pause) if done.pause else None
    return Answer(data=Paused(region=region, pause=pause, changed=done.changed))


# ── one workspace, domain, user or stream ─────────────────────────────────────────────────────────────────


@router.post("/senders/hold", summary="Hold mail from a user, domain or workspace", responses=failures("not_found"))
async def hold_sender(
    given: Hold, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    name = _name(given)
    length = _length(given.minutes, given.until)
    where, store = await _place(service, given.workspace, region)
    asked = senders.Hold(name=name, reason=given.reason, length=length, until=given.until)
    await act_as_admin(admin, request, store, senders.hold, asked)
    return Answer(data=await _now(store, where, name))


@router.post("/senders/release", summary="Release a hold", responses=failures("not_found"))
async def release_sender(
    given: Named, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    name = _name(given)
    where, store = await _place(service, given.workspace, region)
    await act_as_admin(admin, request, store, senders.release, senders.Release(name=name))
    return Answer(data=await _now(store, where, name))


@router.post(
    "/senders/throttle",
    summary="Throttle a user or workspace manually",
    responses=failures("not_found", "conflict"),
)
async def throttle_sender(
    given: ThrottleIn, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    name, length = _name(given), _length(given.minutes, given.until)
    where, store = await _place(service, given.workspace, region)
    asked = senders.Throttle(
        sender=_id(given), reason=given.reason, policy=service.policy, length=length, until=given.until
    )
    await act_as_admin(admin, request, store, senders.throttle, asked)
    return Answer(data=await _now(store, where, name))


@router.post(
    "/senders/unthrottle",
    summary="Lift a manual or automatic throttle",
    responses=failures("not_found", "conflict"),
)
async def unthrottle_sender(
    given: Lift, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[StopsNow]:
    name = _name(given)
    where, store = await _place(service, given.workspace, region)
    immune_for = timedelta(minutes=given.immune_minutes) if given.immune_minutes else IMMUNE_FOR
    asked = senders.Unthrottle(sender=_id(given), policy=service.policy, immune_for=immune_for)
    await act_as_admin(admin, request, store, senders.unthrottle, asked)
    return Answer(data=await _now(store, where, name))


async def _place(service: Service, workspace: str, region: str | None) -> tuple[str, Store]:
    where = region_meant(service, region) if region is not None else await service.region_of(workspace)
    return where, await service.store_of(where)


def _name(given: Named | SenderNamed) -> senders.Name:
    if (given.level == "workspace") != (given.name == ""):
        raise invalid("name", "must be empty for a workspace")
    key = given.name.lower() if given.level == "domain" else given.name
    return senders.Name(workspace=given.workspace, level=given.level, key=key)


def _id(given: SenderNamed) -> SenderId:
    return SenderId(workspace=given.workspace, name=given.name, level=SenderLevel(given.level))


def _length(minutes: int | None, until: datetime | None) -> timedelta | None:
    if minutes is not None and until is not None:
        raise invalid("until", "cannot be combined with `minutes`")
    return timedelta(minutes=minutes) if minutes is not None else None


async def _now(store: Store, region: str, name: senders.Name) -> StopsNow:
    workspace, level, key = name.workspace, name.level, name.key
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
