"""Determine a campaign's condition: its own state, or the reason why its mail is waiting.

The package `observe` provides the facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fairpost.model.campaign import Campaign, CampaignState
from fairpost.model.reason import Reason, Value
from fairpost.policy.conditions import PAUSED, Condition, Tone, is_broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A gate that holds these e-mails back until `until`, because the window is closed or the quota is used up."""

    until: datetime
    why: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFacts:
    """The facts about a campaign.

    `held` is an external obstacle that stops the campaign: a global pause, a hold, a throttle, or a block. `routes` are
    the conditions of the routes that its mail uses.
    """

    campaign: Campaign
    members: int | None = None  # None: not counted
    planned: int = 0  # prospects whose e-mails have already been created
    ready: int = 0
    claimed: int = 0
    in_doubt: int = 0
    parked: int = 0
    next_due_at: datetime | None = None  # when the first e-mail scheduled for later is due
    gates: tuple[Gate, ...] = ()
    is_open_somewhere: bool = True  # whether at least one of its streams may send
    held: Condition | None = None
    routes: Sequence[Condition] = ()


def of_campaign(at: CampaignFacts) -> Condition:
    campaign = at.campaign
    match campaign.state:
        case CampaignState.DRAFT:
            return _own(at, "campaign.draft", Tone.IDLE)
        case CampaignState.SCHEDULED:
            return _own(at, "campaign.starts", Tone.WAITING, campaign.starts_at)
        case CampaignState.PAUSED:
            return _unless_broken(at, _own(at, "campaign.paused", Tone.STOPPED, why=campaign.reason))
        case CampaignState.FAILED:
            return _unless_broken(at, _own(at, "campaign.failed", Tone.FAULT, why=campaign.reason))
        case CampaignState.COMPLETED:
            return _own(at, "campaign.completed", Tone.IDLE, why=campaign.reason)
        case CampaignState.CANCELLED:
            return _own(at, "campaign.cancelled", Tone.IDLE, why=campaign.reason)
        case CampaignState.RUNNING:
            return _running(at)


def _unless_broken(at: CampaignFacts, held: Condition) -> Condition:
    """Return what is holding the mail back, or the route's condition if the route could not send the mail anyway."""
    has_mail = at.ready or at.claimed or at.next_due_at is not None
    return at.routes[0] if has_mail and is_broken(at.routes) else held


def _running(at: CampaignFacts) -> Condition:
    if at.held is not None:
        return at.held if at.held.code in PAUSED else _unless_broken(at, at.held)
    no_engine = next((route for route in at.routes if route.code == "engine.none"), None)
    if no_engine is not None:
        return no_engine
    if at.campaign.planned_at is None:
        return _own(at, "campaign.planning", Tone.WORKING, planned=at.planned, members=at.members)
    if not at.ready and not at.claimed:
        return _nothing_due(at)
    gate = min(at.gates, key=lambda gate: gate.until, default=None)
    if gate is not None and not at.is_open_somewhere:
        return _own(at, "campaign.window_closed", Tone.WAITING, gate.until, why=gate.why)
    working = [route for route in at.routes if route.tone is Tone.WORKING]
    return next(iter(working or at.routes), _own(at, "account.none", Tone.FAULT))


def _nothing_due(at: CampaignFacts) -> Condition:
    if at.next_due_at is not None:
        return _own(at, "campaign.next_due", Tone.WAITING, at.next_due_at)
    if at.in_doubt or at.parked:
        return _own(at, "campaign.held_back", Tone.STOPPED, in_doubt=at.in_doubt, parked=at.parked)
    return _own(at, "campaign.ending", Tone.WORKING)


def _own(at: CampaignFacts, code: str, tone: Tone, until: datetime | None = None, **more: Value) -> Condition:
    campaign = at.campaign
    about = {"name": campaign.name, "workspace": campaign.workspace, "until": until, **more}
    return Condition(reason=Reason(code, **about), tone=tone, until=until)
