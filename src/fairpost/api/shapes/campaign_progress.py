"""The progress of a campaign, beside what was expected."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, ResponseModel
from fairpost.model.campaign import CampaignState


class ExpectedPoint(ResponseModel):
    at: Moment
    sent: Annotated[int, Field(description="How many by then.")]


class ExpectedProgress(ResponseModel):
    """At most 200 points, to be joined by straight lines."""

    made_at: Moment
    emails: Annotated[int | None, Field(description="E-mails left at that moment. Null: see `why_none`.")]
    points: list[ExpectedPoint]
    done_at: Moment | None
    why_none: Annotated[str | None, Field(description="Why there is no forecast.")]


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
    emails: Annotated[dict[str, int], Field(description="Number of e-mails by state.")]


class AccountCourse(ResponseModel):
    account: Annotated[
        str | None, Field(description="Null: the operator's accounts together, or no account: see `is_shared`.")
    ]
    is_shared: Annotated[
        bool, Field(description="An account of the operator's. False without an account: none was chosen yet.")
    ]
    sent: int
    missed: int
    waiting: int


class CampaignProgress(ResponseModel):
    """`missed`: failed, bounced, suppressed or cancelled. `waiting`: all others, including those claimed, being sent or in doubt."""

    id: str
    state: CampaignState
    waits_for: Annotated[str, Field(description="What it does or waits for, in words.")]
    condition: Annotated[str, Field(description="The same as a code: see docs/conditions.md.")]
    waits_until: Annotated[Moment | None, Field(description="Null: unknown, or it is not waiting.")]
    counted_at: Annotated[Moment | None, Field(description="When the e-mails were counted. Null: not yet.")]
    sent: int
    missed: int
    waiting: int
    forecast: Annotated[ExpectedProgress | None, Field(description="The forecast made at the launch. Null: none yet.")]
    expected: Annotated[
        int | None, Field(description="How many the launch forecast expected to be sent by `counted_at`.")
    ]
    revised_forecast: Annotated[
        ExpectedProgress | None, Field(description="The revised forecast for the rest. Null: it is not running.")
    ]
    done_at: Annotated[Moment | None, Field(description="When it ended, or is expected to by now.")]
    drift_s: Annotated[float | None, Field(description="How much later than forecast at the launch. Negative: sooner.")]
    points: Annotated[list[RealPoint], Field(description="At most 602, from the launch on.")]
    steps: list[StepCourse]
    accounts: list[AccountCourse]
