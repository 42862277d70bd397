"""Reads a campaign's progress: forecast, counts, and what it is waiting for.

Reading takes the same time for ten e-mails as for a million.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from fairpost.model.account import Account
from fairpost.model.campaign import Campaign, CampaignState
from fairpost.observe.campaigns import Counts, why_it_waits
from fairpost.observe.watch import Called, as_stored
from fairpost.policy.conditions import Condition
from fairpost.policy.forecast import KeptForecast, NoKeptForecast, forecast_by, read_kept
from fairpost.store import campaign_progress, campaigns, schedules
from fairpost.store.campaign_progress import ProgressPoint, Snapshot
from fairpost.store.store import Store

UNDER_WAY = (CampaignState.SCHEDULED, CampaignState.RUNNING)
CUT_SHORT = (CampaignState.FAILED, CampaignState.CANCELLED)
AT_ONCE_MAX = 20_000  # e-mails that can be counted in a few milliseconds
ROUTES_FROM = 1000  # how many of the oldest due e-mails are read to find the accounts that the campaign is waiting for


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountShare:
    """One account's share of a campaign. `account` is None for e-mails that were never assigned to an account."""

    account: str | None
    sent: int
    missed: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    campaign: Campaign
    now: datetime
    timezone: str
    snapshot: Snapshot | None  # None: not counted yet
    points: list[ProgressPoint]  # the last point is the snapshot
    by_account: list[AccountShare]
    foretold: KeptForecast | NoKeptForecast | None  # the forecast at launch
    revised_forecast: KeptForecast | NoKeptForecast | None  # for the remaining e-mails; None: not running or not known
    waiting: Condition

    @property
    def expected(self) -> int | None:
        """The number of e-mails that, according to the forecast at launch, should have been sent by the time of the
        count.
        """
        if not isinstance(self.foretold, KeptForecast) or self.snapshot is None:
            return None
        return forecast_by(self.foretold, self.snapshot.at)

    @property
    def ends_at(self) -> datetime | None:
        """The actual end or, if the campaign is still running, the expected end."""
        if self.campaign.finished_at is not None:
            return self.campaign.finished_at
        return self.revised_forecast.ends_at if isinstance(self.revised_forecast, KeptForecast) else None

    @property
    def drift_s(self) -> float | None:
        """How many seconds later than the forecast at launch the campaign ended or is expected to end.

        Negative if earlier.
        """
        if self.ends_at is None or self.campaign.state in CUT_SHORT or not isinstance(self.foretold, KeptForecast):
            return None
        return (self.ends_at - self.foretold.ends_at).total_seconds()


async def view_progress(
    store: Store,
    campaign: Campaign,
    *,
    now: datetime | None = None,
    called: Called = as_stored,
    at_once: bool = False,
) -> ProgressView:
    """Reads the progress. `called` maps accounts to the names that the viewer knows.

    With `at_once`, a small campaign is counted now instead of being read from the last snapshot.
    """
    now = now or await store.now()
    snapshot = await campaign_progress.snapshot_now(store, campaign, emails_max=AT_ONCE_MAX) if at_once else None
    snapshot = snapshot or await campaign_progress.snapshot(store, campaign)
    points = await campaign_progress.points(store, campaign)
    if at_once and not points and campaign.launched_at is not None:
        points.append(ProgressPoint(at=campaign.launched_at, sent=0, missed=0))
    if snapshot is not None and points and campaign.finished_at is None and points[-1].at < snapshot.at:
        points.append(ProgressPoint(at=snapshot.at, sent=snapshot.sent, missed=snapshot.missed))
    kept = await campaigns.kept_forecast(store, campaign)
    is_under_way = campaign.state in UNDER_WAY
    schedule = await schedules.schedule_of(store, campaign.workspace)
    return ProgressView(
        campaign=campaign,
        now=now,
        timezone=schedule.schedule.timezone,
        snapshot=snapshot,
        points=points,
        by_account=await _shares(store, snapshot) if snapshot else [],
        foretold=read_kept(kept) if kept is not None else None,
        revised_forecast=read_kept(snapshot.revised_forecast)
        if snapshot and snapshot.revised_forecast and is_under_way
        else None,
        waiting=await waiting_of(store, campaign, now=now, called=called),
    )


async def waiting_of(
    store: Store,
    campaign: Campaign,
    *,
    now: datetime,
    called: Callable[[Account], Account],
) -> Condition:
    counts = await _counts(store, campaign, now)
    return await why_it_waits(store, campaign, counts, now=now, called=called)


async def _shares(store: Store, snapshot: Snapshot) -> list[AccountShare]:
    """Returns each account's share. E-mails from removed accounts are combined with those that have no account."""
    rows = await campaign_progress.account_names(store, [a for a in snapshot.by_account if a is not None])
    names: dict[int | None, str] = {row["id"]: row["name"] for row in rows}
    shares: dict[str | None, AccountShare] = {}
    for account, counts in snapshot.by_account.items():
        name = names.get(account)
        before = shares.get(name) or AccountShare(account=name, sent=0, missed=0, waiting=0)
        shares[name] = AccountShare(
            account=name,
            sent=before.sent + counts.get("sent", 0),
            missed=before.missed + counts.get("missed", 0),
            waiting=before.waiting + counts.get("waiting", 0),
        )
    return sorted(shares.values(), key=lambda each: (each.account is None, each.account or ""))


async def _counts(store: Store, campaign: Campaign, now: datetime) -> Counts:
    """Checks whether e-mails are due, without counting them, because the displayed reason contains no number."""
    row = await campaign_progress.glance(store, campaign, now=now, most=ROUTES_FROM)
    return Counts(
        members=None,
        planned=row["planned"],
        ready=len(row["routes"]),
        claimed=int(row["claimed"]),
        routes=tuple(row["routes"]),
    )
