"""Why a campaign sends nothing right now, in one sentence, and until when. Reading the facts is the business of observe."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from fairpost.model.account import Account
from fairpost.model.campaign import Campaign, CampaignState
from fairpost.policy.limits import Go, NotBefore, standing

ACCOUNTS_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Nothing of these e-mails goes out before `until`: their hours are over, or the quota is used up."""

    until: datetime
    why: str
    timezone: str | None = None  # of the recipients; None: the workspace's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a campaign stands. `held`: what a person has stopped above it, in words."""

    campaign: Campaign
    timezone: str
    members: int | None  # None: nobody has counted them
    planned: int  # prospects that have their e-mails
    ready: int
    in_hand: int
    in_doubt: int
    parked: int
    to_follow: int
    next_due_at: datetime | None  # of what is scheduled for later
    gates: tuple[Gate, ...] = ()
    is_open_somewhere: bool = True  # some of its streams may send
    held: str | None = None
    accounts: Sequence[Account] = ()
    engines: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """`until` None: nobody can say, or it is not waiting."""

    words: str
    until: datetime | None = None
    then: str | None = None  # what a person can type, where one must do something


def why_waiting(at: Standing, *, now: datetime) -> Waiting:
    campaign = at.campaign
    name = campaign.name if campaign.workspace == "default" else f"{campaign.name} --workspace {campaign.workspace}"
    match campaign.state:
        case CampaignState.DRAFT:
            return Waiting(words="not launched yet", then=f"fairpost campaign launch {name}")
        case CampaignState.SCHEDULED:
            assert campaign.starts_at is not None
            return Waiting(words=f"starts {local(campaign.starts_at, at.timezone)}", until=campaign.starts_at)
        case CampaignState.PAUSED:
            reason = f": {campaign.reason}" if campaign.reason else ""
            return Waiting(words=f"paused{reason}", then=f"fairpost campaign resume {name}")
        case CampaignState.FAILED:
            return Waiting(words=campaign.reason or "failed", then=f"fairpost campaign resume {name}")
        case CampaignState.COMPLETED | CampaignState.CANCELLED:
            return Waiting(words=campaign.reason or str(campaign.state))
        case CampaignState.RUNNING:
            return _why_running_waits(at, now)


def _why_running_waits(at: Standing, now: datetime) -> Waiting:
    if at.held:
        return Waiting(words=at.held)
    if not at.engines:
        return Waiting(words="no engine is running", then="fairpost work")
    if at.campaign.planned_at is None:
        of_all = "" if at.members is None else f" of {at.members:,}"
        return Waiting(words=f"being planned: {at.planned:,}{of_all} prospects have their e-mails")
    if not at.ready and not at.in_hand:
        return _why_nothing_is_due(at)
    gate = min(at.gates, key=lambda gate: gate.until, default=None)
    if gate is not None and not at.is_open_somewhere:
        zone = gate.timezone or at.timezone
        return Waiting(words=f"{gate.why}; goes on {local(gate.until, zone)}", until=gate.until)
    return _why_no_account(at, now)


def _why_nothing_is_due(at: Standing) -> Waiting:
    if at.next_due_at is not None:
        return Waiting(words=f"the next e-mail is due {local(at.next_due_at, at.timezone)}", until=at.next_due_at)
    held = [f"{at.in_doubt:,} in doubt"] * bool(at.in_doubt) + [f"{at.parked:,} of paused prospects"] * bool(at.parked)
    return Waiting(words=f"nothing is left to send but what is held: {' and '.join(held)}" if held else "about to end")


def _why_no_account(at: Standing, now: datetime) -> Waiting:
    stands = [(account.name, standing(account, now=now)) for account in at.accounts]
    if not stands:
        return Waiting(words=f"no account in {at.campaign.route}", then="fairpost account add --help")
    if any(isinstance(stand, Go) for _, stand in stands) or at.in_hand:
        return Waiting(words="sending")
    barred = [(name, stand) for name, stand in stands if isinstance(stand, NotBefore)]
    moments = [stand.moment for _, stand in barred if stand.moment is not None]
    named = [f"{name} ({_in_words(stand)})" for name, stand in barred[:ACCOUNTS_NAMED_MAX]]
    more = f" and {len(barred) - len(named)} more" if len(barred) > len(named) else ""
    if not moments:
        return Waiting(words=f"no account is able to send: {', '.join(named)}{more}", then="fairpost account list")
    until = min(moments)
    short = (until - now).total_seconds() < 120
    if short:
        return Waiting(words="sending", until=until)
    return Waiting(words=f"{', '.join(named)}{more}; goes on {local(until, at.timezone)}", until=until)


def _in_words(stand: NotBefore) -> str:
    return stand.detail or str(stand.reason)


def local(moment: datetime, timezone: str) -> str:
    """As people say it: Monday 2030-01-07 09:00 (Europe/Berlin)."""
    return f"{moment.astimezone(ZoneInfo(timezone)):%A %Y-%m-%d %H:%M} ({timezone})"
