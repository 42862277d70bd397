"""The progress of a campaign as lines for a chart: the forecast at launch, the e-mails sent, and the revised forecast."""

from collections import Counter

from fairpost.api.access import Caller, Reads
from fairpost.api.answers import Answer, failures
from fairpost.api.conditions import shown
from fairpost.api.names import SHARED, as_known, own_account
from fairpost.api.routes.campaigns import named
from fairpost.api.routing import Router
from fairpost.api.shapes.campaign_progress import (
    AccountProgress,
    CampaignProgress,
    ExpectedPoint,
    ExpectedProgress,
    RealPoint,
    StepProgress,
)
from fairpost.api.shapes.campaigns import CampaignName
from fairpost.model.reason import Reason
from fairpost.model.states import MISSED
from fairpost.observe.campaign_progress import ProgressView, view_progress
from fairpost.policy.forecast import KeptForecast, NoKeptForecast
from fairpost.reasons.rendering import sentence

router = Router(prefix="/v1/campaigns", tags=["campaigns"])


@router.get(
    "/{id}/progress",
    summary="Get the forecast and the actual progress as points over time",
    description="An engine counts the e-mails every minute, or less often for very large campaigns.",
    responses=failures("not_found"),
)
async def get_campaign_progress(name: CampaignName, caller: Reads) -> Answer[CampaignProgress]:
    async with caller.store.together() as one:
        campaign = await named(one, caller, name)
        view = await view_progress(one, campaign, now=await one.now(), called=lambda account: as_known(account, caller))
    return Answer(data=progress_of(view, caller))


def progress_of(view: ProgressView, caller: Caller) -> CampaignProgress:
    snapshot = view.snapshot
    return CampaignProgress(
        id=view.campaign.name,
        state=view.campaign.state,
        waits_for=shown(view.waiting, caller, zone=view.timezone).text,
        condition=view.waiting.code,
        waits_until=view.waiting.until,
        counted_at=snapshot.at if snapshot else None,
        sent=snapshot.sent if snapshot else 0,
        missed=snapshot.missed if snapshot else 0,
        waiting=snapshot.waiting if snapshot else 0,
        forecast=_expected(view.foretold, caller),
        expected=view.expected,
        revised_forecast=_expected(view.revised_forecast, caller),
        done_at=view.ends_at,
        drift_s=view.drift_s,
        points=[RealPoint(at=point.at, sent=point.sent, missed=point.missed) for point in view.points],
        steps=_steps(view),
        accounts=_accounts(view, caller),
    )


def _expected(kept: KeptForecast | NoKeptForecast | None, caller: Caller) -> ExpectedProgress | None:
    match kept:
        case None:
            return None
        case NoKeptForecast():
            return ExpectedProgress(
                made_at=kept.made_at,
                emails=None,
                points=[],
                done_at=None,
                why_none=_why(kept.why, caller),
                why_none_code=kept.why.code,
            )
        case KeptForecast():
            return ExpectedProgress(
                made_at=kept.made_at,
                emails=kept.emails,
                points=[ExpectedPoint(at=at, sent=n) for at, n in kept.points],
                done_at=kept.ends_at,
                why_none=None,
                why_none_code=None,
            )


def _why(why: Reason, caller: Caller) -> str:
    """Returns the reason why there is no forecast. The reason does not contain names of the operator's accounts."""
    named = why.params.get("account")
    account = (own_account(str(named), caller) or SHARED) if named else None
    text = sentence(Reason(why.code, **{**why.params, "account": account}))
    return f"{text[0].upper()}{text[1:]}"


def _steps(view: ProgressView) -> list[StepProgress]:
    counted = view.snapshot.by_step if view.snapshot else {}
    shown = []
    for number, step in enumerate(view.campaign.steps, 1):
        counts = counted.get(number, {})
        sent, missed = counts.get("sent", 0), sum(counts.get(state, 0) for state in MISSED)
        shown.append(
            StepProgress(
                step=number,
                template=step.template,
                sent=sent,
                missed=missed,
                waiting=sum(counts.values()) - sent - missed,
                emails=dict(counts),
            )
        )
    return shown


def _accounts(view: ProgressView, caller: Caller) -> list[AccountProgress]:
    """Returns the workspace's own accounts by name; the operator's accounts are combined into one."""
    figures: dict[tuple[str | None, bool], Counter[str]] = {}
    for share in view.by_account:
        own = own_account(share.account, caller)
        counts = figures.setdefault((own, share.account is not None and own is None), Counter())
        counts.update(sent=share.sent, missed=share.missed, waiting=share.waiting)
    return [
        AccountProgress(account=own, is_shared=shared, sent=n["sent"], missed=n["missed"], waiting=n["waiting"])
        for (own, shared), n in figures.items()
    ]
