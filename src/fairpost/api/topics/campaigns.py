"""Live topics about campaigns: the newest campaigns, and one campaign. All watchers who may see a workspace share one
look."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from fairpost.api.access import Caller
from fairpost.api.answers import ResponseModel
from fairpost.api.conditions import shown
from fairpost.api.live import Look, Screen
from fairpost.api.names import as_known, own_route
from fairpost.api.pages import cursor_of
from fairpost.api.routes.campaign_progress import progress_of
from fairpost.api.shapes.campaign_progress import CampaignProgress
from fairpost.api.shapes.campaigns import GapOut
from fairpost.api.topics.progress_chart import progress_chart
from fairpost.api.topics.watching import Watcher, drawn, told
from fairpost.model.account import Account
from fairpost.model.campaign import Campaign, CampaignState
from fairpost.observe.campaign_list import CampaignsWatch, Line
from fairpost.observe.campaign_progress import AT_ONCE_MAX, ProgressView, view_progress
from fairpost.reasons.rendering import Shown
from fairpost.store import campaigns
from fairpost.store.campaigns import Planning
from fairpost.store.store import Store
from fairpost.system import clock

MEMBERS_EVERY_S = 10.0  # how often the recipients on a draft's lists are counted


class CampaignLine(ResponseModel):
    """A campaign in a list.

    `left` is the number of `emails` that were neither sent nor missed. `ends_at` is the time at which the campaign
    ended or is expected to end."""

    workspace: str
    id: str
    state: CampaignState
    waits_for: str
    waits_until: datetime | None
    emails: int
    sent: int
    missed: int
    left: int
    created_at: datetime
    launched_at: datetime | None
    ends_at: datetime | None
    is_over: bool


class CampaignLines(ResponseModel):
    """The newest campaigns.

    `next` is the cursor for older campaigns, for use with `GET /v1/campaigns`. `next` is null if there are no older
    campaigns, or if the topic covers all workspaces.
    """

    workspace: str | None
    campaigns: list[CampaignLine]
    next: str | None


class CampaignShown(CampaignProgress):
    """The progress with a chart (SVG) instead of its points. `counted_at` is null if the figures are current."""

    headline: Shown
    timezone: str
    recipients: int
    left_out: int
    states: dict[str, int]
    chart: str
    sequence: str
    delays_s: list[int]
    lists: list[str]
    pool: str | None
    account: str | None
    gap: GapOut | None
    by_recipients_clock: bool
    user: str
    created_at: datetime
    starts_at: datetime | None
    launched_at: datetime | None
    finished_at: datetime | None


class CampaignSeen(ResponseModel):
    """One campaign, or null if it does not exist or was removed."""

    campaign: CampaignShown | None


def campaigns_look(watcher: Watcher) -> Look:
    return told(CampaignLines, CampaignsLook(watcher.store, watcher.caller))


def campaign_look(watcher: Watcher) -> Look:
    """A look at one campaign of a workspace. If the watcher has not chosen a workspace, the campaign is not found."""
    if watcher.caller is None or watcher.asked.name is None:
        return told(CampaignSeen, _no_campaign)
    return drawn(CampaignSeen, CampaignLook(watcher.store, watcher.caller, watcher.asked.name))


async def _no_campaign() -> CampaignSeen:
    return CampaignSeen(campaign=None)


class CampaignsLook:
    """A look at the newest campaigns. `caller` is None for admins, who see all workspaces."""

    def __init__(self, store: Store, caller: Caller | None) -> None:
        self._caller = caller
        self._watch = CampaignsWatch(store, caller.workspace if caller else None, called=self._called)

    async def __call__(self) -> CampaignLines:
        lines, is_more = await self._watch.look()
        last = lines[-1].campaign if lines and is_more and self._caller is not None else None
        return CampaignLines(
            workspace=self._caller.workspace if self._caller else None,
            campaigns=[self._shown(line) for line in lines],
            next=cursor_of(f"{last.created_at.isoformat()} {last.name}") if last else None,
        )

    def _called(self, account: Account) -> Account:
        return as_known(account, self._caller) if self._caller else account

    def _shown(self, line: Line) -> CampaignLine:
        campaign, waits = line.campaign, shown(line.waiting, self._caller)
        return CampaignLine(
            workspace=campaign.workspace,
            id=campaign.name,
            state=campaign.state,
            waits_for=waits.text,
            waits_until=waits.until,
            emails=line.emails,
            sent=line.sent,
            missed=line.missed,
            left=max(0, line.emails - line.sent - line.missed),
            created_at=campaign.created_at,
            launched_at=campaign.launched_at,
            ends_at=line.ends_at,
            is_over=campaign.finished_at is not None,
        )


class CampaignLook:
    def __init__(self, store: Store, caller: Caller, name: str) -> None:
        self._store = store
        self._caller = caller
        self._name = name
        self._members = (float("-inf"), 0)

    async def __call__(self) -> Callable[[Screen], CampaignSeen]:
        campaign = await campaigns.find_campaign(self._store, self._caller.workspace, self._name)
        if campaign is None:
            return lambda screen: CampaignSeen(campaign=None)
        shown = await self._shown(campaign)
        return lambda screen: CampaignSeen(campaign=shown(screen))

    async def _shown(self, campaign: Campaign) -> Callable[[Screen], CampaignShown]:
        view = await view_progress(
            self._store, campaign, called=lambda account: as_known(account, self._caller), at_once=True
        )
        planning = await campaigns.planning(self._store, campaign)
        people = await self._on_its_lists(campaign) if campaign.launched_at is None else planning.prospects
        told = {**_progress(view, self._caller), **_facts(view, self._caller, planning, people)}
        return lambda screen: CampaignShown(**told, chart=progress_chart(view, screen))

    async def _on_its_lists(self, campaign: Campaign) -> int:
        counted_s, known = self._members
        if clock.monotonic() < counted_s + MEMBERS_EVERY_S:
            return known
        found = await campaigns.members(self._store, campaign)
        self._members = (clock.monotonic(), found)
        return found


def _progress(view: ProgressView, caller: Caller) -> dict[str, Any]:
    """Returns the progress without its points, which are in the chart."""
    progress = progress_of(view, caller)
    without: dict[str, Any] = {"points": []}
    return {
        **dict(progress),
        "points": [],
        "forecast": progress.forecast and progress.forecast.model_copy(update=without),
        "revised_forecast": progress.revised_forecast and progress.revised_forecast.model_copy(update=without),
    }


def _facts(view: ProgressView, caller: Caller, planning: Planning, people: int) -> dict[str, Any]:
    campaign = view.campaign
    pool, account = own_route(campaign.route, caller)
    states: Counter[str] = Counter()
    for counts in view.snapshot.by_step.values() if view.snapshot else ():
        states.update(counts)
    return {
        "counted_at": view.snapshot.at if view.snapshot and planning.scheduled > AT_ONCE_MAX else None,
        "headline": shown(view.waiting, caller, zone=view.timezone),
        "timezone": view.timezone,
        "recipients": people - planning.left_out,
        "left_out": planning.left_out,
        "states": dict(states),
        "sequence": campaign.sequence,
        "delays_s": [step.delay_s for step in campaign.steps],
        "lists": list(campaign.lists),
        "pool": pool,
        "account": account,
        "gap": campaign.gap and GapOut.model_validate(campaign.gap),
        "by_recipients_clock": campaign.by_recipients_clock,
        "user": campaign.user,
        "created_at": campaign.created_at,
        "starts_at": campaign.starts_at,
        "launched_at": campaign.launched_at,
        "finished_at": campaign.finished_at,
    }
