"""The course of a campaign: what was foreseen, what came, and what is to be expected, as lines to draw."""

from collections import Counter
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from fairpost.api.access import Caller, Reads
from fairpost.api.answers import Answer, Moment, ResponseModel, failures
from fairpost.api.conditions import shown
from fairpost.api.errors import without_commands
from fairpost.api.names import SHARED, as_known, own_account, own_words
from fairpost.api.routes.campaigns import CampaignName, named, state_word
from fairpost.model.campaign import CampaignState
from fairpost.observe.courses import CourseView, view_course
from fairpost.policy.forecast import Foreseen, Unforeseen

router = APIRouter(prefix="/api/campaigns", tags=["campaigns"])

MISSED = ("failed", "bounced", "suppressed", "cancelled")


class ExpectedPoint(ResponseModel):
    at: Moment
    sent: Annotated[int, Field(description="So many by then.")]


class ExpectedCourse(ResponseModel):
    """At most 200 points. Between two of them, evenly."""

    made_at: Moment
    emails: Annotated[int | None, Field(description="That were to be sent from then on. Null: see `why_none`.")]
    points: list[ExpectedPoint]
    done_at: Moment | None
    why_none: Annotated[str | None, Field(description="Why nothing could be foreseen.")]


class RealPoint(ResponseModel):
    at: Moment
    sent: int
    missed: int


class StepCourse(ResponseModel):
    step: int
    template: str
    sent: int
    missed: int
    waiting: int
    emails: Annotated[dict[str, int], Field(description="How many are in each state.")]


class AccountCourse(ResponseModel):
    account: Annotated[str | None, Field(description="Null: the operator's together, or nobody's: see `is_shared`.")]
    is_shared: Annotated[
        bool, Field(description="The operator's. False with no account: no account has these yet, or ever had.")
    ]
    sent: int
    missed: int
    waiting: int


class CampaignCourse(ResponseModel):
    """`missed`: failed, bounced, suppressed or cancelled. `waiting`: all the rest, also what is in hand or in doubt."""

    id: str
    state: CampaignState
    waits_for: Annotated[str, Field(description="What it does or waits for, in words.")]
    condition: Annotated[str, Field(description="The same as a code: see docs/conditions.md.")]
    waits_until: Annotated[Moment | None, Field(description="Null: nobody can say, or it does not wait.")]
    counted_at: Annotated[Moment | None, Field(description="When the e-mails were counted. Null: not yet.")]
    sent: int
    missed: int
    waiting: int
    forecast: Annotated[ExpectedCourse | None, Field(description="As made at the launch. Null: none was made yet.")]
    expected: Annotated[int | None, Field(description="Sent by `counted_at`, if all had gone as foreseen then.")]
    outlook: Annotated[ExpectedCourse | None, Field(description="Of what is left, from then on. Null: not under way.")]
    done_at: Annotated[Moment | None, Field(description="When it ended, or is expected to by now.")]
    drift_s: Annotated[float | None, Field(description="So much later than foreseen at the launch; below 0: sooner.")]
    course: Annotated[list[RealPoint], Field(description="At most 602, from the launch on.")]
    steps: list[StepCourse]
    accounts: list[AccountCourse]


@router.get(
    "/{id}/course",
    summary="Forecast and reality, as lines to draw",
    description="Counted every minute by an engine, more rarely where there are very many; it costs the same for ten e-mails and for a million.",
    responses=failures("not_found"),
)
async def course(name: CampaignName, caller: Reads) -> Answer[CampaignCourse]:
    async with caller.store.together() as one:
        campaign = await named(one, caller, name)
        view = await view_course(one, campaign, now=await one.now(), called=lambda account: as_known(account, caller))
    return Answer(data=course_of(view, caller))


def course_of(view: CourseView, caller: Caller) -> CampaignCourse:
    standing = view.standing
    return CampaignCourse(
        id=view.campaign.name,
        state=view.campaign.state,
        waits_for=shown(view.waiting, caller, zone=view.timezone).text,
        condition=view.waiting.code,
        waits_until=view.waiting.until,
        counted_at=standing.at if standing else None,
        sent=standing.sent if standing else 0,
        missed=standing.missed if standing else 0,
        waiting=standing.waiting if standing else 0,
        forecast=_expected(view.foretold, caller),
        expected=view.expected,
        outlook=_expected(view.outlook, caller),
        done_at=view.ends_at,
        drift_s=view.drift_s,
        course=[RealPoint(at=point.at, sent=point.sent, missed=point.missed) for point in view.points],
        steps=_steps(view),
        accounts=_accounts(view, caller),
    )


def _expected(kept: Foreseen | Unforeseen | None, caller: Caller) -> ExpectedCourse | None:
    match kept:
        case None:
            return None
        case Unforeseen():
            return ExpectedCourse(
                made_at=kept.made_at, emails=None, points=[], done_at=None, why_none=_why(kept, caller)
            )
        case Foreseen():
            return ExpectedCourse(
                made_at=kept.made_at,
                emails=kept.emails,
                points=[ExpectedPoint(at=at, sent=n) for at, n in kept.points],
                done_at=kept.ends_at,
                why_none=None,
            )


def _why(none: Unforeseen, caller: Caller) -> str:
    """Without what an operator's account is called."""
    words = without_commands(none.why)
    if none.account is not None and own_account(none.account, caller) is None:
        words = words.replace(f'the account "{none.account}"', SHARED).replace(
            f'The account "{none.account}"', SHARED.capitalize()
        )
    return own_words(words.replace('"', ""), caller)


def _steps(view: CourseView) -> list[StepCourse]:
    counted = view.standing.by_step if view.standing else {}
    shown = []
    for number, step in enumerate(view.campaign.steps, 1):
        counts = counted.get(number, {})
        sent, missed = counts.get("sent", 0), sum(counts.get(state, 0) for state in MISSED)
        shown.append(
            StepCourse(
                step=number,
                template=step.template,
                sent=sent,
                missed=missed,
                waiting=sum(counts.values()) - sent - missed,
                emails={state_word(state): n for state, n in counts.items()},
            )
        )
    return shown


def _accounts(view: CourseView, caller: Caller) -> list[AccountCourse]:
    """Its own by their names; those of the operator are one."""
    figures: dict[tuple[str | None, bool], Counter[str]] = {}
    for share in view.by_account:
        own = own_account(share.account, caller)
        counts = figures.setdefault((own, share.account is not None and own is None), Counter())
        counts.update(sent=share.sent, missed=share.missed, waiting=share.waiting)
    return [
        AccountCourse(account=own, is_shared=shared, sent=n["sent"], missed=n["missed"], waiting=n["waiting"])
        for (own, shared), n in figures.items()
    ]
