"""The progress of a campaign, beside what was expected."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, ResponseModel
from fairpost.model.campaign import CampaignState


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
