"""Users of a workspace: settings, activity, and what holds back their e-mails. Only the operator can throttle users."""

from typing import Annotated

from fastapi import Query

from fairpost.actions.senders import SetUser, set_user
from fairpost.api.access import Caller, Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, failures
from fairpost.api.errors import invalid, not_found
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.users import Last24Hours, StopOut, ThrottleOut, UserIn, UserItem, UserName, UserOut
from fairpost.model.errors import NotFound
from fairpost.model.sender import Priority, Sender, SenderId
from fairpost.observe.senders import ShownSender, show_sender
from fairpost.policy.facts import Stop
from fairpost.policy.senders import SenderPolicy
from fairpost.providers.domain_proof import WrongDomain, provable_domain
from fairpost.reasons.rendering import brief
from fairpost.store import senders

TAG = {"name": "users", "description": "The users on whose behalf the workspace sends."}
router = Router(prefix="/v1/users", tags=["users"])


@router.get("", summary="List users that are registered or throttled, by name", responses=failures())
async def list_users(
    caller: Reads,
    throttled: Annotated[bool, Query(description="Only throttled users.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[UserItem]]:
    found = await senders.users(
        caller.store, caller.workspace, throttled=throttled, after=name_at(cursor) or "", most=limit + 1
    )
    return page_of(found, limit, shown=_item, place=lambda sender: sender.id.name)


@router.get(
    "/{name:path}",
    summary="Get a user: settings, recent activity, and what holds back the user's e-mails",
    responses=failures("not_found"),
)
async def get_user(name: UserName, caller: Reads) -> Answer[UserOut]:
    return Answer(data=await _look(caller, name))


@router.put("/{name:path}", summary="Register a user, or change its settings", responses=failures())
async def put_user(name: UserName, given: UserIn, caller: Manages, service: TheService) -> Answer[UserOut]:
    if given.plan and service.settings.priority is Priority.LANES:
        raise invalid("plan", "can be set only by the operator, because all workspaces share the lanes")
    for field, most in (
        ("daily_max", service.settings.user_daily_max),
        ("waiting_max", service.settings.user_waiting_max),
    ):
        if most and (getattr(given, field) or 0) > most:
            raise invalid(field, f"must be at most {most:,}, the operator's limit for users")
    id_ = await senders.folded(caller.store, SenderId(workspace=caller.workspace, name=name))
    if not id_.name:
        raise invalid("name", "must contain visible characters")
    request = SetUser(
        sender=id_,
        plan=given.plan or "",
        since=given.since,
        daily_max=given.daily_max or 0,
        waiting_max=given.waiting_max or 0,
        home=_domain(given.home) if given.home is not None else None,
        is_whole=True,
    )
    await act(caller, set_user, request)
    return Answer(data=await _look(caller, name))


def _domain(given: str) -> str:
    try:
        return provable_domain(given)
    except WrongDomain as error:
        raise invalid("home", str(error)) from None


async def _look(caller: Caller, name: str) -> UserOut:
    id_ = await senders.folded(caller.store, SenderId(workspace=caller.workspace, name=name))
    try:
        # The policy affects only the score, which only the operator sees.
        found = await show_sender(caller.store, id_, SenderPolicy())
    except NotFound:
        raise not_found("user", name) from None
    return _whole(found)


def _whole(found: ShownSender) -> UserOut:
    return UserOut(
        **_item(found.sender).__dict__,
        waiting=found.waiting,
        home=found.home,
        last_24h=Last24Hours.model_validate(found.day.counts),
        stops=[_stop(stop) for stop in found.stops],
    )


def _item(sender: Sender) -> UserItem:
    return UserItem(
        name=sender.id.name,
        plan=sender.plan,
        since=sender.since,
        tier=sender.tier.name.lower(),
        throttle=_throttle(sender),
        daily_max=sender.daily_max,
        waiting_max=sender.waiting_max,
    )


def _throttle(sender: Sender) -> ThrottleOut | None:
    """Returns the throttle, or None if it is only observed and therefore has no effect."""
    if sender.throttle is None or not sender.is_enforced:
        return None
    return ThrottleOut(
        since=sender.throttle.since,
        until=sender.throttle.until,
        is_by_hand=sender.is_by_hand,
        reasons=[brief(each) for each in sender.reasons],
        reason_codes=[each.code for each in sender.reasons],
    )


def _stop(stop: Stop) -> StopOut:
    return StopOut.model_validate(stop)
