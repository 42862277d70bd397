"""Models of the whole installation, for admins."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, Reasoned, ReasonsInWords, ResponseModel, StopKind
from fairpost.api.shapes.campaigns import CampaignItem
from fairpost.api.shapes.emails import EmailLine
from fairpost.api.shapes.metrics import Evenness, ServedCounts, Waits
from fairpost.api.shapes.stops import PauseOut
from fairpost.model.sender import Priority
from fairpost.policy.conditions import Tone


class QueueNow(ResponseModel):
    waiting: Annotated[int, Field(description="The sum of `scheduled` and `ready`.")]
    claimed: int
    sending: int
    in_doubt: int
    next_due_at: Annotated[Moment | None, Field(description="Null if an e-mail is due now or none is queued.")]


class RouteNow(ResponseModel):
    route: Annotated[str, Field(description="The name of a pool, or `@` followed by the name of an account.")]
    waiting: int
    due: Annotated[bool, Field(description="Whether any of these e-mails are due.")]
    next_at: Moment | None


class HoldNow(Reasoned):
    workspace: str
    level: str
    key: str
    until: Annotated[Moment | None, Field(description="Null means that the sender is held until it is released.")]
    waiting: int
    kind: StopKind
    is_throttle: bool


class ConditionOut(ResponseModel):
    """A condition. `code` is stable, while `text` may change: see docs/conditions.md."""

    code: str
    tone: Tone
    text: str
    then: Annotated[str, Field(description="The command to run next.")]
    until: Moment | None
    waiting: Annotated[int, Field(description="How many e-mails the condition affects.")]


class StatusOut(ResponseModel):
    """What `fairpost status` shows. For individual accounts, see `/v1/admin/accounts`."""

    region: str
    now: Moment
    pause: PauseOut | None
    queue: QueueNow
    finished_24h: Annotated[dict[str, int], Field(description="Number of e-mails by state.")]
    routes: list[RouteNow]
    accounts: Annotated[dict[str, int], Field(description="Number of accounts by status.")]
    driven: Annotated[int, Field(description="Number of accounts that an engine is working on.")]
    holds: list[HoldNow]
    reasons: Annotated[
        list[ConditionOut],
        Field(description="Why e-mails are not being sent. Empty if nothing blocks sending."),
    ]
    redirect_all: Annotated[
        str | None, Field(description="If set, all e-mails are sent to this address instead of their recipients.")
    ]


class ModeNow(ResponseModel):
    fair_percent: Annotated[
        int,
        Field(
            description="Percentage of workspaces in the fair queue. E-mails from all other workspaces are sent in order of arrival."
        ),
    ]
    priority: Priority
    weights: dict[str, float]
    lane_shares: dict[str, int]
    is_scoring: bool


class QueueHealth(ResponseModel):
    queued: int
    queue_max: int
    oldest_wait_s: Annotated[
        float | None, Field(description="How long the oldest due e-mail has been waiting, not counting held e-mails.")
    ]
    health: Annotated[float, Field(description="From 0.1 (bad) to 2.0 (very good).")]
    limits: Annotated[
        dict[str, int],
        Field(
            description="Maximum number of e-mails per tier in a claim of 100, while e-mails in other tiers are waiting."
        ),
    ]


class AnyPortion(ResponseModel):
    """One sender's share of the total. `name` is the domain or user, and is empty for a workspace."""

    workspace: str
    name: str
    emails: int
    share: float


class TierWaits(ResponseModel):
    emails: int
    senders: int


class AllWaiting(ResponseModel):
    """Waiting e-mails, including those that are held or not due yet. Only the listed workspaces' domains are included."""

    emails: int
    tiers: dict[str, TierWaits]
    users: Evenness
    top_workspaces: list[AnyPortion]
    top_domains: list[AnyPortion]
    top_users: list[AnyPortion]


class AllServed(ServedCounts):
    workspaces: Evenness


class ThrottledNow(ResponseModel):
    workspace: str
    level: str
    name: str
    since: Moment
    until: Moment
    is_enforced: bool
    is_by_hand: bool
    score: int
    reasons: ReasonsInWords
    found_after_s: Annotated[
        float | None, Field(description="Maximum time in seconds between the cause and the start of the throttle.")
    ]


class AllThrottled(ResponseModel):
    """Throttled and held senders.

    `stopped` counts throttled senders, whose e-mails are currently not sent. `observed` counts senders that would be
    throttled if throttling were on. `held` counts senders that were held manually.
    """

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
    served_by: Annotated[dict[str, AllServed], Field(description="Figures for each queue: `fair` and `arrival`.")]
    top_workspaces: Annotated[list[AnyPortion], Field(description="Served.")]
    top_users: Annotated[list[AnyPortion], Field(description="Served.")]
    waits: Annotated[
        dict[str, dict[str, Waits]],
        Field(description="Time from when an e-mail is due until sending starts, by queue and tier."),
    ]
    durations: Annotated[dict[str, Waits], Field(description="Durations of sends, claims and commits.")]
    throttling: AllThrottled
    engines: list[EngineNow]


class SettingOut(ResponseModel):
    variable: str
    value: Annotated[
        str | None,
        Field(
            description="For a secret, `set` or `not set`. URLs are shown without passwords. Null if there is no value."
        ),
    ]
    origin: Annotated[
        str,
        Field(
            description="The source of the value: the environment, a file with its path, the default, or an older name of the setting."
        ),
    ]
    rule: Annotated[str, Field(description="The rule that the value must satisfy.")]
    help: str


class AnyEmailItem(EmailLine):
    workspace: str


class AnyCampaignItem(CampaignItem):
    workspace: str
