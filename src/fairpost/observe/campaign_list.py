"""Watches the newest campaigns: how far each has come, and what it waits for. A look costs the number of campaigns, never that of their e-mails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from fairpost.model.account import Account
from fairpost.model.campaign import Campaign, CampaignState
from fairpost.observe.campaign_progress import AT_ONCE_MAX, UNDER_WAY, waiting_of
from fairpost.policy.campaign_condition import CampaignFacts, of_campaign
from fairpost.policy.conditions import Condition
from fairpost.store import campaign_progress, campaigns
from fairpost.store.store import Store

SHOWN_MAX = 100
ASKED_MAX = 5  # of those that run: why each waits is asked in turn, as it takes some milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`emails`: all that it has had; 0: none are planned yet. `ends_at`: when it ended, or is expected to."""

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


class CampaignsWatch:
    """`workspace` None: of all. `called`: the accounts as whoever looks may know them."""

    def __init__(
        self,
        store: Store,
        workspace: str | None = None,
        *,
        called: Callable[[Account], Account] = lambda account: account,
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._called = called
        self._waiting: dict[int, Condition] = {}  # of those that run; whom we asked about last comes last

    async def look(self) -> tuple[list[Line], bool]:
        """And whether there are more, older ones."""
        found = await campaigns.campaigns(self._store, self._workspace, most=SHOWN_MAX + 1)
        shown, now = found[:SHOWN_MAX], await self._store.now()
        await self._ask_why([each for each in shown if each.state is CampaignState.RUNNING], now)
        counted = await self._counted(shown)
        lines = [await self._line(each, counted[each.id], now) for each in shown if each.id in counted]
        return lines, len(found) > SHOWN_MAX

    async def _ask_why(self, running: Sequence[Campaign], now: datetime) -> None:
        by_id = {each.id: each for each in running}
        self._waiting = {id_: known for id_, known in self._waiting.items() if id_ in by_id}
        unknown = [id_ for id_ in by_id if id_ not in self._waiting]
        for id_ in [*unknown, *list(self._waiting)[: max(0, ASKED_MAX - len(unknown))]]:
            self._waiting.pop(id_, None)
            self._waiting[id_] = await self._why(by_id[id_], now)

    async def _why(self, campaign: Campaign, now: datetime) -> Condition:
        snapshot = await campaign_progress.snapshot(self._store, campaign)
        return await waiting_of(self._store, campaign, snapshot, now=now, called=self._called)

    async def _counted(self, shown: Sequence[Campaign]) -> dict[int, _Counted]:
        """As an engine did it last; small ones that run at this moment, as many as can be in some milliseconds."""
        rows = await self._store.fetch(
            """SELECT c.id, c.scheduled, coalesce(s.sent, 0) AS sent, coalesce(s.missed, 0) AS missed, (s.revised_forecast ->> 'ends_at')::timestamptz AS expected_at
               FROM fairpost.campaigns c LEFT JOIN fairpost.campaign_snapshots s ON s.campaign_id = c.id WHERE c.id = ANY ($1)""",
            [each.id for each in shown],
        )
        counted = {
            row["id"]: _Counted(row["scheduled"], row["sent"], row["missed"], row["expected_at"]) for row in rows
        }
        running = [each.id for each in shown if each.state is CampaignState.RUNNING and each.id in counted]
        for row in await self._store.fetch(
            "SELECT w.id, n.sent, n.missed FROM unnest($1::bigint[]) w(id) CROSS JOIN LATERAL fairpost.standing_of(w.id, clock_timestamp()) n",
            _small({id_: counted[id_].emails for id_ in running}),
        ):
            known = counted[row["id"]]
            counted[row["id"]] = known._replace(sent=max(row["sent"], known.sent), missed=row["missed"])
        return counted

    async def _line(self, campaign: Campaign, counted: _Counted, now: datetime) -> Line:
        return Line(
            campaign=campaign,
            emails=counted.emails,
            sent=counted.sent,
            missed=counted.missed,
            waiting=self._waiting.get(campaign.id) or self._at_rest(campaign),
            ends_at=campaign.finished_at or (counted.expected_at if campaign.state in UNDER_WAY else None),
        )

    def _at_rest(self, campaign: Campaign) -> Condition:
        """Nothing of its e-mails needs to be known."""
        return of_campaign(CampaignFacts(campaign=campaign))


def _small(emails: Mapping[int, int]) -> list[int]:
    """The smallest, up to so many e-mails together."""
    ids = sorted(emails, key=emails.__getitem__)
    return [
        id_ for id_, so_far in zip(ids, accumulate(emails[id_] for id_ in ids), strict=True) if so_far <= AT_ONCE_MAX
    ]
