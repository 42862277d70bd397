"""Campaigns: draft, launch, pause, resume, cancel and read them. The paths for the e-mails of campaigns are in
campaign_mail.py.
"""

from datetime import datetime
from typing import Any

from fastapi import Response, status

from fairpost.actions import campaigns as actions
from fairpost.api.access import LONG, WRITING, Caller, Manages, Reads, Sends
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, ReasonIn, Removed, failures
from fairpost.api.conditions import shown as condition
from fairpost.api.conditions import told_reason
from fairpost.api.drafts import check, draft_of, own_steps
from fairpost.api.errors import not_found
from fairpost.api.names import as_known, own_route
from fairpost.api.pages import Cursor, Limit, bad_cursor, name_at, page_of
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.campaigns import (
    CampaignIn,
    CampaignItem,
    CampaignMoved,
    CampaignName,
    CampaignOut,
    GapOut,
    Launch,
    Scheduling,
    StepProgress,
    WarningOut,
)
from fairpost.api.shapes.emails import MailboxOut
from fairpost.campaigns import values
from fairpost.campaigns.launching import SchedulingResult
from fairpost.model.campaign import CAMPAIGN_TIMES, Campaign
from fairpost.observe.campaigns import CampaignView, view_campaign
from fairpost.reasons.rendering import sentence
from fairpost.store import campaigns
from fairpost.store.store import Store

TAG = {"name": "campaigns", "description": "Sequences of e-mails sent to the prospects on your lists."}
router = Router(prefix="/v1/campaigns", tags=["campaigns"])

PLANNING_S_MAX = 10.0  # per request; an engine schedules the rest


# ── draft ─────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("", summary="List campaigns, newest first", responses=failures())
async def list_campaigns(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[CampaignItem]]:
    found = await campaigns.campaigns_before(caller.store, caller.workspace, _place(cursor), most=limit + 1)
    return page_of(
        found,
        limit,
        shown=lambda each: _item(each, caller),
        place=lambda each: f"{each.created_at.isoformat()} {each.name}",
    )


@router.put(
    "/{id}",
    summary="Create or change a draft",
    description="Nothing is sent before the launch. After the launch, the campaign cannot be changed.",
    responses={
        201: {"model": Answer[CampaignOut], "description": "The draft was created."},
        **failures("conflict"),
    },
    dependencies=WRITING,
)
async def put_campaign(
    name: CampaignName, given: CampaignIn, caller: Manages, response: Response
) -> Answer[CampaignOut]:
    check(given)
    steps = await own_steps(given)
    done = await act(caller, actions.put, actions.PutDraft(draft=draft_of(caller, name, given), steps=steps))
    response.status_code = status.HTTP_201_CREATED if done.is_new else status.HTTP_200_OK
    async with caller.store.together() as one:
        return Answer(data=await _out(one, done.campaign, caller))


@router.get(
    "/{id}", summary="Get a campaign: its state, its steps, and what it is waiting for", responses=failures("not_found")
)
async def get_campaign(name: CampaignName, caller: Reads) -> Answer[CampaignOut]:
    async with caller.store.together() as one:
        return Answer(data=await _out(one, await named(one, caller, name), caller))


@router.delete("/{id}", summary="Delete a draft", responses=failures("not_found", "conflict"))
async def delete_campaign(name: CampaignName, caller: Manages) -> Answer[Removed]:
    await act(caller, actions.remove, actions.Named(workspace=caller.workspace, name=name))
    return Answer(data=Removed())


# ── launch, pause, resume, cancel ─────────────────────────────────────────────────────────────────────────


@router.post(
    "/{id}/launch",
    dependencies=LONG,
    summary="Launch a draft for all prospects on its lists",
    description="The campaign then runs automatically. If you launch a running campaign again, its scheduling continues. No prospect gets an e-mail twice.",
    responses=failures("not_found", "conflict"),
)
async def launch_campaign(
    name: CampaignName, caller: Sends, service: TheService, how: Launch | None = None
) -> Answer[Scheduling]:
    skips, url = (how or Launch()).skip_incomplete, service.settings.public_url
    request = actions.Launch(workspace=caller.workspace, name=name, skip_incomplete=skips, public_url=url)
    launched = await act(caller, actions.launch, request)
    result = await actions.plan(caller.store, launched, seconds_max=PLANNING_S_MAX)
    return Answer(data=await scheduling(caller, name, result))


@router.post(
    "/{id}/pause",
    summary="Pause a campaign; any sends in progress will finish",
    responses=failures("not_found", "conflict"),
)
async def pause_campaign(name: CampaignName, caller: Sends, why: ReasonIn | None = None) -> Answer[CampaignMoved]:
    return _moved(await act(caller, actions.pause, _because(caller, name, why)))


@router.post(
    "/{id}/resume",
    summary="Resume a paused or failed campaign where it stopped",
    responses=failures("not_found", "conflict"),
)
async def resume_campaign(name: CampaignName, caller: Sends) -> Answer[CampaignMoved]:
    return _moved(await act(caller, actions.resume, actions.Named(workspace=caller.workspace, name=name)))


@router.post(
    "/{id}/cancel",
    summary="Cancel a campaign permanently; any sends in progress will finish",
    responses=failures("not_found", "conflict"),
)
async def cancel_campaign(name: CampaignName, caller: Sends, why: ReasonIn | None = None) -> Answer[CampaignMoved]:
    return _moved(await act(caller, actions.cancel, _because(caller, name, why)))


def _because(caller: Caller, name: str, why: ReasonIn | None) -> actions.Because:
    return actions.Because(workspace=caller.workspace, name=name, reason=why.reason if why else None)


def _moved(moved: actions.CampaignMoved) -> Answer[CampaignMoved]:
    campaign = moved.campaign
    return Answer(data=CampaignMoved(id=campaign.name, state=campaign.state, changed=moved.changed))


# ── shared with campaign_mail ─────────────────────────────────────────────────────────────────────────────


async def named(store: Store, caller: Caller, name: str) -> Campaign:
    found = await campaigns.find_campaign(store, caller.workspace, name)
    if found is None:
        raise not_found("campaign", name)
    return found


async def scheduling(caller: Caller, name: str, result: SchedulingResult) -> Scheduling:
    return Scheduling(
        id=name,
        state=(await named(caller.store, caller, name)).state,
        scheduled=result.scheduled,
        skipped=result.skipped,
        left_out=result.left_out,
        errors=result.errors,
        inherited_subjects=result.inherited_subjects,
        leaving_thread=result.leaving_thread,
        warnings=[WarningOut(code=each.code, message=sentence(each)) for each in result.warnings],
        is_done=result.is_done,
    )


# ── render ────────────────────────────────────────────────────────────────────────────────────────────────


def _place(cursor: str | None) -> tuple[datetime, str] | None:
    text = name_at(cursor)
    if text is None:
        return None
    made_at, _, name = text.partition(" ")
    try:
        when = datetime.fromisoformat(made_at)
    except ValueError:
        raise bad_cursor() from None
    if when.tzinfo is None or when.year not in values.YEARS:
        raise bad_cursor()
    return when, name


def _item(campaign: Campaign, caller: Caller) -> CampaignItem:
    return CampaignItem(**_facts(campaign, caller), steps=len(campaign.steps))


def _facts(campaign: Campaign, caller: Caller) -> dict[str, Any]:
    pool, account = own_route(campaign.route, caller)
    return {
        "id": campaign.name,
        "state": campaign.state,
        **told_reason(campaign.reason, caller),
        "sequence": campaign.sequence,
        "lists": list(campaign.lists),
        "pool": pool,
        "account": account,
        **{name: getattr(campaign, name) for name in CAMPAIGN_TIMES},
    }


async def _out(store: Store, campaign: Campaign, caller: Caller) -> CampaignOut:
    view = await view_campaign(store, campaign, now=await store.now(), called=lambda account: as_known(account, caller))
    reply_to = campaign.header_fields.reply_to
    return CampaignOut(
        **_facts(campaign, caller),
        waits_for=condition(view.waiting, caller, zone=view.timezone).text,
        condition=view.waiting.code,
        waits_until=view.waiting.until,
        steps=_steps(view),
        prospects=view.progress.members,
        scheduled=view.progress.scheduled,
        skipped=view.progress.skipped,
        left_out=view.progress.left_out,
        gap=GapOut.model_validate(campaign.gap) if campaign.gap else None,
        by_recipients_clock=campaign.by_recipients_clock,
        footer=campaign.has_footer,
        user=campaign.user,
        type=campaign.labels.get("type"),
        tags=campaign.labels.get("tags", {}),
        metadata=campaign.labels.get("metadata", {}),
        reply_to=MailboxOut.model_validate(reply_to) if reply_to else None,
        headers=dict(campaign.header_fields.headers),
    )


def _steps(view: CampaignView) -> list[StepProgress]:
    return [
        StepProgress(
            step=number,
            template=step.template,
            delay_s=step.delay_s,
            emails=dict(view.progress.by_step.get(number, {})),
        )
        for number, step in enumerate(view.campaign.steps, 1)
    ]
