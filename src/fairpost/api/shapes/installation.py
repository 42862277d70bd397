"""The whole installation, for those who run it."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, ResponseModel
from fairpost.api.shapes.campaigns import CampaignItem
from fairpost.api.shapes.emails import EmailLine
from fairpost.api.shapes.metrics import Evenness, Waits
from fairpost.api.shapes.stops import PauseOut
from fairpost.model.sender import Priority
from fairpost.policy.conditions import Tone


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
    """What `fairpost status` shows; the accounts one by one are in /v1/admin/accounts."""

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


class AnyEmailItem(EmailLine):
    workspace: str


class AnyCampaignItem(CampaignItem):
    workspace: str
