"""Users of a workspace: what is known of them, what they did, and what holds their mail back. To throttle somebody is the operator's."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from fairpost.actions.senders import SetUser, set_user
from fairpost.api.access import Caller, Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Count, Moment, Page, RequestModel, ResponseModel, Text, When, failures
from fairpost.api.errors import invalid, not_found
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.api.service import TheService
from fairpost.model.errors import NotFound
from fairpost.model.sender import Priority, Sender, SenderId
from fairpost.observe.emails import Stop
from fairpost.observe.senders import ShownSender, show_sender
from fairpost.policy.senders import SenderPolicy
from fairpost.providers.domain_proof import WrongDomain, provable_domain
from fairpost.store import senders

TAG = {"name": "users", "description": "Those for whom the workspace sends."}
router = APIRouter(prefix="/api/users", tags=["users"])

UserName = Annotated[Text, Path(min_length=1, max_length=200, description="As e-mails name it in `user`.")]


class UserIn(RequestModel):
    """All that is known of a user: what is left out is not known any more."""

    plan: Annotated[
        Text | None,
        Field(
            max_length=100, description="What it pays for. Where tiers are lanes that all share, the operator says so."
        ),
    ] = None
    since: Annotated[When | None, Field(description="Since when it exists.")] = None
    daily_max: Annotated[Count | None, Field(description="Most it may submit in 24 hours, on any way.")] = None
    waiting_max: Annotated[Count | None, Field(description="Most of it that may wait.")] = None
    home: Annotated[
        Text | None,
        Field(
            max_length=253,
            description="The domain among whose users it is served, whatever its From. Left out, it stays.",
        ),
    ] = None


class ThrottleOut(ResponseModel):
    """Nothing of the user goes out before `until`."""

    since: Moment
    until: Moment
    is_by_hand: Annotated[bool, Field(description="The operator's decision; else it follows from what was sent.")]
    reasons: list[str]


class UserItem(ResponseModel):
    name: str
    plan: str | None
    since: Moment | None
    tier: Annotated[str, Field(description="high, normal, low or throttled; an engine decides it.")]
    throttle: ThrottleOut | None
    daily_max: int | None
    waiting_max: int | None


class Last24Hours(ResponseModel):
    volume: Annotated[int, Field(description="E-mails that became due.")]
    sent: int
    bounced: int
    rejected: int


class StopOut(ResponseModel):
    """Nothing of this name goes out before `until`; null: until released."""

    level: Annotated[str, Field(description="workspace or user")]
    until: Moment | None
    reason: str | None
    is_throttle: bool


class UserOut(UserItem):
    waiting: int
    home: Annotated[
        str | None,
        Field(
            description="The domain among whose users it is served. Empty: the account's own. Null: nothing was sent yet."
        ),
    ]
    last_24h: Last24Hours
    stops: list[StopOut]


@router.get("", summary="Those that were registered or decided on, by name", responses=failures())
async def listed(
    caller: Reads,
    throttled: Annotated[bool, Query(description="Only those with a throttle.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[UserItem]]:
    found = await senders.users(
        caller.store, caller.workspace, throttled=throttled, after=name_at(cursor) or "", most=limit + 1
    )
    return page_of(found, limit, shown=_item, place=lambda sender: sender.id.name)


@router.get(
    "/{name:path}",
    summary="What is known of one, what it did, and what holds its mail back",
    responses=failures("not_found"),
)
async def shown(name: UserName, caller: Reads) -> Answer[UserOut]:
    return Answer(data=await _look(caller, name))


@router.put("/{name:path}", summary="Register one, or change what is known of it", responses=failures())
async def put(name: UserName, given: UserIn, caller: Manages, service: TheService) -> Answer[UserOut]:
    if given.plan and service.settings.priority is Priority.LANES:
        raise invalid("plan", "is for the operator to say: here the lanes of the tiers are shared by all workspaces")
    for field, most in (
        ("daily_max", service.settings.user_daily_max),
        ("waiting_max", service.settings.user_waiting_max),
    ):
        if most and (getattr(given, field) or 0) > most:
            raise invalid(field, f"must be at most {most:,}, which the operator allows every user")
    id_ = await senders.folded(caller.store, SenderId(workspace=caller.workspace, name=name))
    if not id_.name:
        raise invalid("name", "must have something to be seen")
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
        found = await show_sender(caller.store, id_, SenderPolicy())  # for a score, which is the operator's to know
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
    """One that is only observed slows nobody down."""
    if sender.throttle is None or not sender.is_enforced:
        return None
    return ThrottleOut(
        since=sender.throttle.since,
        until=sender.throttle.until,
        is_by_hand=sender.is_by_hand,
        reasons=list(sender.reasons),
    )


def _stop(stop: Stop) -> StopOut:
    return StopOut.model_validate(stop)
