"""For those who run the service: the whole installation at a glance. It only looks, and what costs is looked at once for all who ask."""

from collections import Counter
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from fairpost.api.access import Admin
from fairpost.api.admin import RegionQuery, region_meant, store_meant
from fairpost.api.answers import Answer, Moment, Page, ResponseModel, as_dict, failures
from fairpost.api.conditions import shown
from fairpost.api.errors import not_found
from fairpost.api.pages import Cursor, Limit, cursor_of, number_at, page_of, sealed
from fairpost.api.rendering import Subjects, filled_subjects
from fairpost.api.routes.campaigns import CampaignItem
from fairpost.api.routes.emails import EmailIdPath, EmailLine, Known
from fairpost.api.routes.metrics import Evenness, Waits
from fairpost.api.routes.stops import PauseOut
from fairpost.api.service import TheService
from fairpost.model.campaign import Campaign
from fairpost.model.ids import EmailId
from fairpost.model.public_ids import PublicIds
from fairpost.model.sender import Priority
from fairpost.model.states import FINAL, OUTBOX_WORDS, SequenceWord, State, sequence_word
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.observe import emails as looking
from fairpost.observe.emails import ListedEmail
from fairpost.observe.fairness import read_fairness
from fairpost.observe.search import Wanted, search_emails
from fairpost.observe.status import read_facts
from fairpost.policy.conditions import Tone, diagnose
from fairpost.policy.facts import Facts
from fairpost.settings import ShownSetting, shown_settings
from fairpost.store import campaigns
from fairpost.store.store import Store

router = APIRouter(prefix="/api/admin", tags=["operators"])


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────


class QueueNow(ResponseModel):
    waiting: Annotated[int, Field(description="Scheduled and ready together.")]
    claimed: int
    sending: int
    in_doubt: int
    next_due_at: Annotated[Moment | None, Field(description="Null: something is due now, or nothing waits.")]


class RouteNow(ResponseModel):
    route: Annotated[str, Field(description="A pool, or `@` and an account.")]
    waiting: int
    due: Annotated[bool, Field(description="Some of it may go out now.")]
    next_at: Moment | None


class HoldNow(ResponseModel):
    workspace: str
    level: str
    key: str
    until: Annotated[Moment | None, Field(description="Null: until released.")]
    reason: str | None
    waiting: int
    is_throttle: bool


class ConditionOut(ResponseModel):
    """`code` is stable, `text` may change: see docs/conditions.md."""

    code: str
    tone: Tone
    text: str
    then: Annotated[str, Field(description="What to type next.")]
    until: Moment | None
    waiting: Annotated[int, Field(description="How many e-mails it is about.")]


class StatusOut(ResponseModel):
    """What `fairpost status` shows; the accounts one by one are in /api/admin/accounts."""

    region: str
    now: Moment
    pause: PauseOut | None
    queue: QueueNow
    finished_24h: Annotated[dict[str, int], Field(description="By state.")]
    routes: list[RouteNow]
    accounts: Annotated[dict[str, int], Field(description="How many, by status.")]
    driven: Annotated[int, Field(description="Of the accounts, those for which an engine is at work.")]
    holds: list[HoldNow]
    reasons: Annotated[
        list[ConditionOut],
        Field(description="Why nothing, or not everything, is sending; none: nothing stands in the way."),
    ]
    redirect_all: Annotated[
        str | None, Field(description="Every e-mail goes to this address, and none to its recipients.")
    ]


@router.get("/status", summary="What waits, what stands in its way, and what to do", responses=failures("not_found"))
async def status(_: Admin, service: TheService, region: RegionQuery = None) -> Answer[StatusOut]:
    where = region_meant(service, region)

    async def read(store: Store) -> StatusOut:
        return _status(await read_facts(store), where, service.settings.redirect_all)

    return Answer(data=await service.recent_figure("status", where, read))


def _status(facts: Facts, region: str, redirect_all: str | None) -> StatusOut:
    total = facts.total()
    return StatusOut(
        region=region,
        now=facts.now,
        pause=PauseOut.model_validate(facts.pause) if facts.pause else None,
        queue=QueueNow(
            waiting=sum(route.waiting for route in facts.routes),
            claimed=total.claimed,
            sending=total.sending,
            in_doubt=total.in_doubt,
            next_due_at=min((route.next_at for route in facts.routes if route.next_at), default=None),
        ),
        finished_24h={state: facts.finished.get(state, 0) for state in State if state in FINAL},
        routes=[RouteNow.model_validate(route) for route in facts.routes],
        accounts=Counter(str(each.account.status) for each in facts.accounts),
        driven=sum(map(facts.is_driven, facts.accounts)),
        holds=[HoldNow.model_validate(hold) for hold in facts.holds],
        reasons=[ConditionOut.model_validate(shown(each)) for each in diagnose(facts)],
        redirect_all=redirect_all,
    )


# ── fairness ──────────────────────────────────────────────────────────────────────────────────────────────


class ModeNow(ResponseModel):
    fair_percent: Annotated[
        int, Field(description="Of the workspaces, in the fair queue; the others are served by arrival.")
    ]
    priority: Priority
    weights: dict[str, float]
    lane_shares: dict[str, int]
    is_scoring: bool


class QueueHealth(ResponseModel):
    queued: int
    queue_max: int
    oldest_wait_s: Annotated[float | None, Field(description="Of what is due and not held.")]
    health: Annotated[float, Field(description="0.1 is bad, 2.0 is very good.")]
    limits: Annotated[
        dict[str, int],
        Field(description="Of a claim of 100, how many of a tier at the most while others have something."),
    ]


class AnyPortion(ResponseModel):
    """`name` is the domain or user, and empty of a workspace. `share` is of all that is counted here."""

    workspace: str
    name: str
    emails: int
    share: float


class TierWaits(ResponseModel):
    emails: int
    senders: int


class AllWaiting(ResponseModel):
    """Due or not, held or not. Domains are those of the workspaces listed."""

    emails: int
    tiers: dict[str, TierWaits]
    users: Evenness
    top_workspaces: list[AnyPortion]
    top_domains: list[AnyPortion]
    top_users: list[AnyPortion]


class AllServed(ResponseModel):
    """What was sent, bounced or rejected; `hours` from the oldest to the one that runs."""

    emails: int
    sent: int
    bounced: int
    rejected: int
    per_hour: float
    hours: list[int]
    workspaces: Evenness
    users: Evenness


class ThrottledNow(ResponseModel):
    workspace: str
    level: str
    name: str
    since: Moment
    until: Moment
    is_enforced: bool
    is_by_hand: bool
    score: int
    reasons: list[str]
    found_after_s: Annotated[
        float | None, Field(description="At most so long after it happened that began the throttle.")
    ]


class AllThrottled(ResponseModel):
    """`stopped`: of those throttled, nothing goes out now. `observed`: they would be, if it counted. `held`: by a person."""

    throttled: int
    stopped: int
    observed: int
    held: int
    latest: list[ThrottledNow]


class EngineNow(ResponseModel):
    id: str
    is_asleep: bool
    processes: int | None
    cpu_s: float | None
    rss_bytes: int | None


class FairnessOfAll(ResponseModel):
    """What `fairpost fairness` shows."""

    now: Moment
    window_s: float
    mode: ModeNow
    queue: QueueHealth
    waiting: AllWaiting
    served: AllServed
    served_by: Annotated[dict[str, AllServed], Field(description="The fair queue, and the other.")]
    top_workspaces: Annotated[list[AnyPortion], Field(description="Served.")]
    top_users: Annotated[list[AnyPortion], Field(description="Served.")]
    waits: Annotated[dict[str, dict[str, Waits]], Field(description="From due to begun, by queue and tier.")]
    durations: Annotated[dict[str, Waits], Field(description="Of a send, a claim and a commit.")]
    throttling: AllThrottled
    engines: list[EngineNow]


@router.get("/fairness", summary="Who waits, who was served, and how evenly", responses=failures("not_found"))
async def fairness(
    _: Admin,
    service: TheService,
    region: RegionQuery = None,
    hours: Annotated[int, Query(ge=1, le=24, description="How far back.")] = 24,
) -> Answer[FairnessOfAll]:
    async def read(store: Store) -> FairnessOfAll:
        return FairnessOfAll.model_validate(await read_fairness(store, window=timedelta(hours=hours)))

    return Answer(data=await service.recent_figure(("fairness", hours), region_meant(service, region), read))


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────


class SettingOut(ResponseModel):
    variable: str
    value: Annotated[
        str | None, Field(description="Of a secret, `set` or `not set`; URLs have no passwords. Null: nothing is set.")
    ]
    origin: Annotated[
        str, Field(description="environment, file and its path, default, or the older name that was set.")
    ]
    rule: Annotated[str, Field(description="What it must be.")]
    help: str


@router.get("/settings", summary="Every setting, what it is, and where that comes from", responses=failures("conflict"))
async def settings(_: Admin) -> Answer[list[SettingOut]]:
    return Answer(data=[_setting(each) for each in shown_settings()])


def _setting(shown: ShownSetting) -> SettingOut:
    value = ("not set" if shown.value is None else "set") if shown.is_secret else shown.value
    return SettingOut(variable=shown.variable, value=value, origin=shown.origin, rule=shown.rule, help=shown.help)


# ── the newest ────────────────────────────────────────────────────────────────────────────────────────────


class AnyEmailItem(EmailLine):
    workspace: str


class AnyCampaignItem(CampaignItem):
    workspace: str


@router.get(
    "/emails", summary="Of all workspaces, the newest first, without their words", responses=failures("not_found")
)
async def emails(
    _: Admin,
    service: TheService,
    region: RegionQuery = None,
    state: Annotated[
        list[State | SequenceWord] | None,
        Query(description="Only these, also by the words of `sequence_status`; may be given again."),
    ] = None,
    to: Annotated[Known, Query(description="For this address, among others or alone; case does not matter.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[AnyEmailItem]]:
    """With `to`, a page may have fewer than `limit`, or none, and still a `next`: it looks at a few thousand e-mails at most."""
    store = await store_meant(service, region)
    ids = await store.public_ids()
    before = number_at(cursor, ids)
    found = await search_emails(
        store,
        Wanted(to=to),
        states=state,
        before=None if before is None else EmailId(before),
        most=limit + 1,
    )
    subjects = await filled_subjects(store, [each for each in found.emails[:limit] if not _is_of_service(each)])
    page = page_of(
        found.emails, limit, shown=lambda each: _email(each, subjects, ids), place=lambda each: sealed(each.id, ids)
    )
    if page.data.next is None and found.looked_to is not None:
        page.data.next = cursor_of(sealed(found.looked_to, ids))
    return page


@router.get(
    "/emails/{email_id}",
    summary="One of any workspace, to know of which; without its words",
    responses=failures("not_found"),
)
async def one_email(email_id: EmailIdPath, _: Admin, service: TheService) -> Answer[AnyEmailItem]:
    """In whichever region it is."""
    for region in service.regions:
        store = await service.store_of(region)
        ids = await store.public_ids()
        id_ = ids.email_id(email_id, or_number=True)
        for found in await looking.listed_by_ids(store, [] if id_ is None else [id_]):
            subjects = {} if _is_of_service(found) else await filled_subjects(store, [found])
            return Answer(data=_email(found, subjects, ids))
    raise not_found("e-mail", email_id, where="")


@router.get("/campaigns", summary="Of all workspaces, the newest first", responses=failures("not_found"))
async def newest_campaigns(
    _: Admin, service: TheService, region: RegionQuery = None, limit: Limit = 50, cursor: Cursor = None
) -> Answer[Page[AnyCampaignItem]]:
    store = await store_meant(service, region)
    ids = await store.public_ids()
    found = await campaigns.campaigns(store, before=number_at(cursor, ids), most=limit + 1)
    return page_of(found, limit, shown=_campaign, place=lambda each: sealed(each.id, ids))


def _is_of_service(email: ListedEmail) -> bool:
    """Those say codes with which others sign in, some of them in the subject."""
    return email.workspace == SERVICE_WORKSPACE


def _email(email: ListedEmail, subjects: Subjects, ids: PublicIds) -> AnyEmailItem:
    told = {
        "id": ids.email(email.id),
        "subject": None if _is_of_service(email) else email.subject,
        "filled_subject": subjects.get(email.id),
        "status": OUTBOX_WORDS[email.state],
        "sequence_status": sequence_word(email.state, email.attempts),
    }
    return AnyEmailItem.model_validate(as_dict(email) | told)


def _campaign(campaign: Campaign) -> AnyCampaignItem:
    is_pinned = campaign.route.startswith("@")
    told = {
        "id": campaign.name,
        "steps": len(campaign.steps),
        "pool": None if is_pinned else campaign.route,
        "account": campaign.route[1:] if is_pinned else None,
    }
    return AnyCampaignItem.model_validate(as_dict(campaign) | told)
