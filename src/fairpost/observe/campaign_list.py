"""Watches the progress of the newest campaigns and what they are waiting for.

The cost depends on the number of campaigns, not on the number of e-mails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

from fairpost.model.campaign import Campaign, CampaignState
from fairpost.observe.campaign_progress import AT_ONCE_MAX, UNDER_WAY, waiting_of
from fairpost.observe.campaigns import read_routes
from fairpost.observe.watch import Called, Watch, as_stored
from fairpost.policy.campaign_condition import CampaignFacts, of_campaign
from fairpost.policy.conditions import Condition
from fairpost.store import campaign_progress, campaigns
from fairpost.store.store import Store

SHOWN_MAX = 100
ASKED_MAX = 5  # running campaigns examined at once; finding out why a campaign is waiting takes a few milliseconds
WHY_AGE_MAX = timedelta(seconds=3)  # reasons that are older than this are read again
STOPPED = (CampaignState.PAUSED, CampaignState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A campaign in the list. `emails` counts all of its e-mails and is 0 if none are planned yet.

    `ends_at` is the actual or expected end.
    """

    campaign: Campaign
    emails: int
    sent: int
    missed: int
    waiting: Condition
    ends_at: datetime | None


class _Counted(NamedTuple):
    emails: int
    sent: int
    missed: int
    expected_at: datetime | None


class _Asked(NamedTuple):
    at: datetime
    why: Condition


class CampaignsWatch(Watch):
    """Watches one workspace's campaigns, or all campaigns."""

    def __init__(self, store: Store, workspace: str | None = None, *, called: Called = as_stored) -> None:
        super().__init__(store, workspace, called=called)
        self._waiting: dict[int, _Asked] = {}  # why running campaigns are waiting, least recently read first

    async def look(self) -> tuple[list[Line], bool]:
        """Returns the newest campaigns, and whether there are older ones."""
        found = await campaigns.campaigns(self._store, self._workspace, most=SHOWN_MAX + 1)
        shown, now = found[:SHOWN_MAX], await self._store.now()
        await self._ask_why([each for each in shown if each.state is CampaignState.RUNNING], now)
        counted = await self._counted(shown)
        stopped = {each.route for each in shown if each.state in STOPPED}
        routes = await read_routes(self._store, stopped, now=now, called=self._called)
        lines = [self._line(each, counted[each.id], routes) for each in shown if each.id in counted]
        return lines, len(found) > SHOWN_MAX

    async def _ask_why(self, running: Sequence[Campaign], now: datetime) -> None:
        by_id = {each.id: each for each in running}
        self._waiting = {id_: known for id_, known in self._waiting.items() if id_ in by_id}
        fresh = [id_ for id_, known in self._waiting.items() if known.at > now - WHY_AGE_MAX]
        old = [id_ for id_ in by_id if id_ not in fresh]
        for id_ in [*old, *fresh[: max(0, ASKED_MAX - len(old))]]:
            self._waiting.pop(id_, None)
            why = await waiting_of(self._store, by_id[id_], now=now, called=self._called)
            self._waiting[id_] = _Asked(now, why)

    async def _counted(self, shown: Sequence[Campaign]) -> dict[int, _Counted]:
        """Returns the counts from each campaign's last snapshot.

        Small running campaigns are counted immediately instead, as many of them as a few milliseconds allow.
        """
        rows = await campaign_progress.counts_of(self._store, [each.id for each in shown])
        counted = {
            row["id"]: _Counted(row["scheduled"], row["sent"], row["missed"], row["expected_at"]) for row in rows
        }
        running = [each.id for each in shown if each.state is CampaignState.RUNNING and each.id in counted]
        small = _small({id_: counted[id_].emails for id_ in running})
        for row in await campaign_progress.count_now(self._store, small):
            known = counted[row["id"]]
            counted[row["id"]] = known._replace(sent=max(row["sent"], known.sent), missed=row["missed"])
        return counted

    def _line(self, campaign: Campaign, counted: _Counted, routes: Mapping[str, Condition]) -> Line:
        asked = self._waiting.get(campaign.id)
        return Line(
            campaign=campaign,
            emails=counted.emails,
            sent=counted.sent,
            missed=counted.missed,
            waiting=asked.why if asked is not None else _at_rest(campaign, counted, routes),
            ends_at=campaign.finished_at or (counted.expected_at if campaign.state in UNDER_WAY else None),
        )


def _at_rest(campaign: Campaign, counted: _Counted, routes: Mapping[str, Condition]) -> Condition:
    """Returns what a campaign that is not running is waiting for.

    The result depends only on whether any e-mails are left.
    """
    left = counted.emails - counted.sent - counted.missed
    own = [routes[campaign.route]] if campaign.route in routes else []
    return of_campaign(CampaignFacts(campaign=campaign, ready=left, routes=own))


def _small(emails: Mapping[int, int]) -> list[int]:
    """Returns the smallest campaigns, with at most AT_ONCE_MAX e-mails in total."""
    ids = sorted(emails, key=emails.__getitem__)
    return [
        id_ for id_, so_far in zip(ids, accumulate(emails[id_] for id_ in ids), strict=True) if so_far <= AT_ONCE_MAX
    ]
