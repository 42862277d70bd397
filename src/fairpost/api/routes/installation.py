"""For admins: the state of the whole installation.

These paths are read-only, and callers share the results of costly queries.
"""

from collections import Counter
from datetime import timedelta
from typing import Annotated

from fastapi import Query

from fairpost.api.access import Admin
from fairpost.api.admin import RegionQuery, region_meant, store_meant
from fairpost.api.answers import Answer, Page, as_dict, failures
from fairpost.api.conditions import shown
from fairpost.api.errors import not_found
from fairpost.api.pages import Cursor, Limit, cursor_of, number_at, page_of, sealed
from fairpost.api.rendering import Subjects, filled_subjects
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.emails import EmailIdPath, InStates, ToAddress
from fairpost.api.shapes.installation import (
    AnyCampaignItem,
    AnyEmailItem,
    ConditionOut,
    FairnessOfAll,
    HoldNow,
    QueueNow,
    RouteNow,
    SettingOut,
    StatusOut,
)
from fairpost.api.shapes.stops import PauseOut
from fairpost.model.campaign import Campaign
from fairpost.model.ids import EmailId
from fairpost.model.public_ids import PublicIds
from fairpost.model.states import FINAL, OUTBOX_WORDS, State, sequence_word
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.observe import emails as looking
from fairpost.observe.emails import ListedEmail
from fairpost.observe.fairness import read_fairness
from fairpost.observe.search import Wanted, search_emails
from fairpost.observe.status import read_facts
from fairpost.policy.conditions import diagnose
from fairpost.policy.facts import Facts
from fairpost.settings import ShownSetting, shown_settings
from fairpost.store import campaigns
from fairpost.store.store import Store

router = Router(prefix="/v1/admin", tags=["operators"])


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────


@router.get(
    "/status",
    summary="Get the queue status, including what is blocking the queue and how to fix it",
    responses=failures("not_found"),
)
async def get_status(_: Admin, service: TheService, region: RegionQuery = None) -> Answer[StatusOut]:
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


@router.get(
    "/fairness",
    summary="Get each sender's share of the queued and sent e-mails",
    responses=failures("not_found"),
)
async def get_fairness(
    _: Admin,
    service: TheService,
    region: RegionQuery = None,
    hours: Annotated[int, Query(ge=1, le=24, description="Number of hours to include, up to now.")] = 24,
) -> Answer[FairnessOfAll]:
    async def read(store: Store) -> FairnessOfAll:
        return FairnessOfAll.model_validate(await read_fairness(store, window=timedelta(hours=hours)))

    return Answer(data=await service.recent_figure(("fairness", hours), region_meant(service, region), read))


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/settings", summary="List every setting with its value and origin", responses=failures("conflict"))
async def list_settings(_: Admin) -> Answer[list[SettingOut]]:
    return Answer(data=[_setting(each) for each in shown_settings()])


def _setting(shown: ShownSetting) -> SettingOut:
    value = ("not set" if shown.value is None else "set") if shown.is_secret else shown.value
    return SettingOut(variable=shown.variable, value=value, origin=shown.origin, rule=shown.rule, help=shown.help)


# ── newest e-mails and campaigns ──────────────────────────────────────────────────────────────────────────


@router.get(
    "/emails",
    summary="List e-mails in all workspaces, newest first, without their content",
    responses=failures("not_found"),
)
async def list_all_emails(
    _: Admin,
    service: TheService,
    region: RegionQuery = None,
    state: InStates = None,
    to: ToAddress = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[AnyEmailItem]]:
    """With `to`, each request reads at most a few thousand e-mails, so a page can have fewer than `limit` results even
    if `next` is set.
    """
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
    summary="Get an e-mail from any workspace, without its content",
    responses=failures("not_found"),
)
async def get_any_email(email_id: EmailIdPath, _: Admin, service: TheService) -> Answer[AnyEmailItem]:
    """Searches all regions."""
    for region in service.regions:
        store = await service.store_of(region)
        ids = await store.public_ids()
        id_ = ids.email_id(email_id, or_number=True)
        for found in await looking.listed_by_ids(store, [] if id_ is None else [id_]):
            subjects = {} if _is_of_service(found) else await filled_subjects(store, [found])
            return Answer(data=_email(found, subjects, ids))
    raise not_found("e-mail", email_id, where="")


@router.get("/campaigns", summary="List campaigns in all workspaces, newest first", responses=failures("not_found"))
async def list_all_campaigns(
    _: Admin, service: TheService, region: RegionQuery = None, limit: Limit = 50, cursor: Cursor = None
) -> Answer[Page[AnyCampaignItem]]:
    store = await store_meant(service, region)
    ids = await store.public_ids()
    found = await campaigns.campaigns(store, before=number_at(cursor, ids), most=limit + 1)
    return page_of(found, limit, shown=_campaign, place=lambda each: sealed(each.id, ids))


def _is_of_service(email: ListedEmail) -> bool:
    """Returns whether this is one of Fairpost's own e-mails, whose subjects can contain sign-in codes."""
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
