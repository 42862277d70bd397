"""The progress of a campaign compared with its forecast."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, ResponseModel
from fairpost.model.campaign import CampaignState


class ExpectedPoint(ResponseModel):
    at: Moment
    sent: Annotated[int, Field(description="Number of e-mails expected to have been sent by this time.")]


class ExpectedProgress(ResponseModel):
    """At most 200 points, to be connected by straight lines."""

    made_at: Moment
    emails: Annotated[
        int | None,
        Field(description="Number of e-mails left at the time of the forecast. If null, `why_none` gives the reason."),
    ]
    points: list[ExpectedPoint]
    done_at: Moment | None
    why_none: Annotated[str | None, Field(description="Why there is no forecast.")]
    why_none_code: Annotated[str | None, Field(description="The reason code of `why_none`.")]


class RealPoint(ResponseModel):
    at: Moment
    sent: int
    missed: int


class StepProgress(ResponseModel):
    step: int
    template: str
    sent: int
    missed: int
    waiting: int
    emails: Annotated[dict[str, int], Field(description="Number of e-mails by state.")]


class AccountProgress(ResponseModel):
    account: Annotated[
        str | None,
        Field(
            description="The account's name. Null means all of the operator's accounts, or no account: see `is_shared`."
        ),
    ]
    is_shared: Annotated[
        bool,
        Field(
            description="Whether the account belongs to the operator. If this is false and `account` is null, no account has been chosen yet."
        ),
    ]
    sent: int
    missed: int
    waiting: int


class Waiting(ResponseModel):
    waits_for: Annotated[str, Field(description="What the campaign is doing or waiting for, in words.")]
    condition: Annotated[str, Field(description="The code of `waits_for`: see docs/conditions.md.")]
    waits_until: Annotated[
        Moment | None,
        Field(description="When the wait ends. Null if the campaign is not waiting, or if the time is unknown."),
    ]


class CampaignProgress(Waiting):
    """The progress of a campaign.

    `missed` counts e-mails that failed, bounced, or were suppressed or cancelled. `waiting` counts all others,
    including those claimed, being sent or in doubt.
    """

    id: str
    state: CampaignState
    counted_at: Annotated[
        Moment | None, Field(description="When the e-mails were counted. Null if they have not been counted yet.")
    ]
    sent: int
    missed: int
    waiting: int
    forecast: Annotated[
        ExpectedProgress | None, Field(description="The forecast made at launch. Null if there is none yet.")
    ]
    expected: Annotated[
        int | None,
        Field(
            description="Number of e-mails that should have been sent by `counted_at`, according to the forecast at launch."
        ),
    ]
    revised_forecast: Annotated[
        ExpectedProgress | None,
        Field(description="The revised forecast for the remaining e-mails. Null if the campaign is not running."),
    ]
    done_at: Annotated[Moment | None, Field(description="When the campaign finished, or is now expected to finish.")]
    drift_s: Annotated[
        float | None,
        Field(
            description="How many seconds later the campaign finishes than forecast at launch. A negative value means earlier."
        ),
    ]
    points: Annotated[list[RealPoint], Field(description="At most 602 points, starting at the launch.")]
    steps: list[StepProgress]
    accounts: list[AccountProgress]
