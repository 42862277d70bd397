"""The e-mails of a campaign: schedule, forecast, preview, list, retry and stop them."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from fastapi import Query

from fairpost.actions import campaigns as actions
from fairpost.api.access import LONG, Caller, Reads, Sends
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, Text, failures
from fairpost.api.conditions import told_reason
from fairpost.api.errors import ApiError, not_found
from fairpost.api.names import own_account
from fairpost.api.pages import Cursor, Limit, number_at, page_of, sealed
from fairpost.api.routes.campaigns import PLANNING_S_MAX, named, scheduling
from fairpost.api.routes.prospects import prospect_at
from fairpost.api.routes.templates import unfilled
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.campaign_mail import (
    AccountForecast,
    CampaignForecast,
    CampaignPreview,
    CampaignPreviewIn,
    DayForecast,
    ForecastOut,
    Hour,
    KeptForecastOut,
    PlanningOut,
    ReceiptOut,
    Retried,
    Retry,
    StepForecast,
    StopIn,
    Stopped,
    SuggestionOut,
)
from fairpost.api.shapes.campaigns import CampaignName, Scheduling
from fairpost.api.shapes.emails import MailboxOut
from fairpost.api.shapes.findings import FindingOut
from fairpost.campaigns import forecasting
from fairpost.campaigns import preview as previewing
from fairpost.campaigns.forecasting import Question
from fairpost.model.errors import NotFound
from fairpost.model.states import ReceiptState
from fairpost.policy.forecast import Forecast, KeptForecast, Suggestion, forecast_by, suggestions
from fairpost.policy.forecast import forecast as compute_forecast
from fairpost.reasons.rendering import brief, sentence, suggested
from fairpost.store import campaigns
from fairpost.store.campaigns import Receipt
from fairpost.store.prospects import known_by
from fairpost.templates.rendering import Unrenderable

router = Router(prefix="/v1/campaigns", tags=["campaigns"])

RETRYING_S_MAX = 10.0
NUMBERED = "shared account"  # contains a space, so it cannot be an account's name


# ── schedule ──────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/{id}/schedule",
    dependencies=LONG,
    summary="Schedule prospects added to a campaign's lists since its launch",
    description="The campaign must be running, or launched with a start time in the future. Prospects who are already scheduled are skipped and counted.",
    responses=failures("not_found", "conflict"),
)
async def schedule_campaign(name: CampaignName, caller: Sends) -> Answer[Scheduling]:
    begun = await act(caller, actions.schedule, actions.Named(workspace=caller.workspace, name=name))
    result = await actions.plan(caller.store, begun, seconds_max=PLANNING_S_MAX)
    return Answer(data=await scheduling(caller, name, result))


@router.get("/{id}/schedule", summary="Get a campaign's scheduling progress", responses=failures("not_found"))
async def get_campaign_planning(name: CampaignName, caller: Reads) -> Answer[PlanningOut]:
    async with caller.store.together() as one:
        campaign = await named(one, caller, name)
        found = await campaigns.planning(one, campaign)
        next_due_at = await campaigns.next_due(one, campaign)
    return Answer(
        data=PlanningOut(
            id=name,
            state=campaign.state,
            prospects=found.prospects,
            scheduled=found.scheduled,
            skipped=max(0, (found.prospects - found.left_out) * found.steps - found.scheduled),
            left_out=found.left_out,
            is_done=found.is_done,
            planned_at=campaign.planned_at,
            next_due_at=next_due_at,
        )
    )


# ── forecast ──────────────────────────────────────────────────────────────────────────────────────────────


@router.get(
    "/{id}/forecast",
    summary="Forecast when a campaign will finish, and what would speed it up",
    description="The forecast uses the engine's own rules and the current state. It ignores bounces, retries, outages and other campaigns on the same accounts.",
    responses=failures("not_found", "conflict"),
)
async def get_campaign_forecast(name: CampaignName, caller: Reads) -> Answer[CampaignForecast]:
    async with caller.store.together() as one:
        campaign, now = await named(one, caller, name), await one.now()
        question = await forecasting.asked(one, campaign, now=now)
        hours = await campaigns.sent_by_hour(one, campaign)
        foretold = await forecasting.kept_forecast(one, campaign)
    found = None
    if question.plan.emails:
        found = await asyncio.to_thread(_forecast, _as_known(question, caller), now)
    return Answer(
        data=CampaignForecast(
            id=name,
            state=campaign.state,
            sent=sum(n for _, n in hours),
            sent_per_hour=[Hour(starts_at=hour, emails=n) for hour, n in hours],
            foreseen_at_launch=_foretold(foretold, forecast_by(foretold, now)) if foretold else None,
            not_counted=question.not_counted,
            gives_up_at=question.gives_up_at,
            forecast=found and _forecast_out(*found, question.plan.schedule.timezone, now),
        )
    )


def _forecast(question: Question, now: datetime) -> tuple[Forecast, list[Suggestion]]:
    """Computes the forecast. The computation takes several seconds for a million e-mails."""
    found = compute_forecast(question.plan, question.senders, now=now)
    return found, suggestions(question.plan, question.senders, now=now, found=found)


def _as_known(question: Question, caller: Caller) -> Question:
    """Renames the accounts in the forecast input. The workspace's accounts get the workspace's own names, and the
    operator's accounts get numbers.
    """
    shared = (sender.name for sender in question.senders if own_account(sender.name, caller) is None)
    names = {name: f"{NUMBERED} {number}" for number, name in enumerate(shared, 1)}

    def known(name: str) -> str:
        return own_account(name, caller) or names[name]

    return replace(
        question,
        senders=[replace(sender, name=known(sender.name)) for sender in question.senders],
        plan=replace(question.plan, pending=tuple(replace(p, account=known(p.account)) for p in question.plan.pending)),
    )


def _forecast_out(found: Forecast, helpful: list[Suggestion], timezone: str, now: datetime) -> ForecastOut:
    per_account: Counter[str | None] = Counter()
    for name, n in found.per_account.items():
        per_account[None if name.startswith(f"{NUMBERED} ") else name] += n
    return ForecastOut(
        emails=found.emails,
        starts_at=found.starts_at,
        ends_at=found.ends_at,
        finished_after_s=found.finished_after_s,
        bottleneck=found.bottleneck,
        why=sentence(found.why),
        why_code=found.why.code,
        per_account=[AccountForecast(account=name, emails=n) for name, n in per_account.items()],
        per_step=[
            StepForecast(step=number, emails=step.emails, first_at=step.first_at, last_at=step.last_at)
            for number, step in enumerate(found.per_step, 1)
        ],
        per_day=[DayForecast(day=day, emails=n) for day, n in found.per_day],
        per_hour=[Hour(starts_at=hour, emails=n) for hour, n in found.per_hour],
        waited_s=dict(found.waited_s),
        suggestions=[
            SuggestionOut(
                change=brief(each.change),
                change_code=each.change.code,
                ends_at=each.ends_at,
                saves_s=each.saves_s,
                words=suggested(each, timezone, now=now),
            )
            for each in helpful
        ],
    )


def _foretold(foretold: KeptForecast, by_now: int) -> KeptForecastOut:
    return KeptForecastOut(made_at=foretold.made_at, ends_at=foretold.ends_at, emails=foretold.emails, by_now=by_now)


# ── read ──────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/{id}/preview", summary="Render a campaign's e-mail for one prospect", responses=failures("not_found", "conflict")
)
async def preview_campaign(
    name: CampaignName, caller: Reads, service: TheService, given: CampaignPreviewIn | None = None
) -> Answer[CampaignPreview]:
    given = given or CampaignPreviewIn()
    url = service.settings.public_url
    async with caller.store.together() as one:
        campaign = await named(one, caller, name)
        if given.step > len(campaign.steps):
            raise not_found(f"step {given.step} of campaign", name)
        to = given.to or await campaigns.first_member(one, campaign)
        if to is None:
            raise ApiError(
                "conflict", f"There are no prospects on the campaign's lists ({', '.join(campaign.lists)}) yet."
            )
        prospect = await prospect_at(one, caller, to)
        try:
            shown = await previewing.preview(one, campaign, given.step, prospect, now=await one.now(), public_url=url)
        except Unrenderable as error:
            raise unfilled(error, "to") from None
    return Answer(
        data=CampaignPreview(
            step=shown.step,
            sender=None if shown.sender == previewing.NO_ACCOUNT else MailboxOut.model_validate(shown.sender),
            to=shown.to,
            subject=shown.said.subject,
            is_subject_inherited=shown.is_subject_inherited,
            leaves_thread=shown.leaves_thread,
            text=shown.said.text,
            html=shown.said.html,
            checks=[FindingOut.model_validate(each) for each in shown.findings],
        )
    )


@router.get("/{id}/recipients", summary="List a campaign's e-mails and their outcomes", responses=failures("not_found"))
async def list_campaign_recipients(
    name: CampaignName,
    caller: Reads,
    state: Annotated[list[ReceiptState] | None, Query(description="Only e-mails in this state. Repeatable.")] = None,
    address: Annotated[
        Text | None, Query(max_length=320, description="Only e-mails to the prospect with this address.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[ReceiptOut]]:
    states = [str(each) for each in state or ReceiptState]
    async with caller.store.together() as one:
        campaign = await named(one, caller, name)
        after = number_at(cursor, caller.ids) or 0
        try:
            prospect = await known_by(one, caller.workspace, address) if address is not None else None
        except NotFound:
            return Answer(data=Page(items=[], next=None))
        found = [
            r
            async for r in campaigns.receipts(
                one,
                campaign,
                states=states,
                prospect_id=prospect.id if prospect else None,
                after=after,
                most=limit + 1,
            )
        ]
    return page_of(
        found,
        limit,
        shown=lambda each: _receipt(each, caller),
        place=lambda each: sealed(each.email_id, caller.ids),
    )


# ── change ────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/{id}/retry",
    dependencies=LONG,
    summary="Retry a campaign's failed e-mails",
    description="E-mails that were sent are never sent again. Addresses that bounced are suppressed. To retry e-mails to them, first remove them from the suppression list.",
    responses=failures("not_found", "conflict"),
)
async def retry_campaign(name: CampaignName, caller: Sends, given: Retry | None = None) -> Answer[Retried]:
    states = list(dict.fromkeys((given or Retry()).states))
    request = actions.Retry(workspace=caller.workspace, name=name, states=states, seconds_max=RETRYING_S_MAX)
    done = await act(caller, actions.retry, request)
    return Answer(data=Retried(retried=done.retried, is_done=done.is_done))


@router.post("/{id}/stop", summary="Stop a campaign for one prospect permanently", responses=failures("not_found"))
async def stop_campaign(name: CampaignName, given: StopIn, caller: Sends) -> Answer[Stopped]:
    request = actions.StopRecipient(workspace=caller.workspace, name=name, address=given.address, reason=given.reason)
    done = await act(caller, actions.stop, request)
    return Answer(data=Stopped(address=done.prospect.address, cancelled=done.cancelled))


def _receipt(receipt: Receipt, caller: Caller) -> ReceiptOut:
    return ReceiptOut(
        email_id=caller.ids.email(receipt.email_id),
        step=receipt.step,
        address=receipt.address,
        state=ReceiptState(receipt.state),
        **told_reason(receipt.reason, caller),
        account=own_account(receipt.account, caller),
        at=receipt.at,
        attempts=receipt.attempts,
    )
