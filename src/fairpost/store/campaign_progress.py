"""Store campaign progress: the latest snapshot of each campaign, and the number of e-mails sent over time."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from fairpost.model.campaign import Campaign
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

Kind = Literal["sent", "missed", "waiting"]

# How long a launch has to make its own forecast before an engine makes one instead.
_LAUNCHED_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPoint:
    at: datetime
    sent: int
    missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The counts of a campaign at a point in time.

    `waiting` counts all e-mails that are neither `sent` nor `missed`, including those claimed, in doubt or parked.
    """

    at: datetime
    sent: int
    missed: int
    waiting: int
    by_step: Mapping[int, Mapping[str, int]]  # step -> state -> number of e-mails
    by_account: Mapping[int | None, Mapping[Kind, int]]  # None: e-mails that have no account yet or never had one
    revised_forecast: str | None  # serialized

    def count(self, *states: str) -> int:
        return sum(counts.get(state, 0) for counts in self.by_step.values() for state in states)


async def count(store: "Store", *, seconds_max: float) -> int:
    """Count the e-mails of each campaign that is due for a count.

    Return the number of campaigns counted, which is 0 if another engine is already counting.
    """
    return int(await store.value("SELECT fairpost.count_campaigns($1, $2)", seconds_max, clock.stated()))


async def snapshot(store: "Store", campaign: Campaign) -> Snapshot | None:
    """Return the latest snapshot, or None if the campaign has not been counted yet."""
    row = await store.row(
        "SELECT at, sent, missed, waiting, steps, accounts, revised_forecast FROM fairpost.campaign_snapshots WHERE campaign_id = $1",
        campaign.id,
    )
    return _snapshot(row) if row else None


async def snapshot_now(store: "Store", campaign: Campaign, *, emails_max: int) -> Snapshot | None:
    """Count the campaign now. Return None if it has more than `emails_max` e-mails or has not been launched."""
    row = await store.row(
        """SELECT t.at, greatest(n.sent, s.sent) AS sent, n.missed, n.waiting, n.steps, n.accounts, s.revised_forecast
           FROM fairpost.campaigns c LEFT JOIN fairpost.campaign_snapshots s ON s.campaign_id = c.id
           CROSS JOIN (SELECT coalesce($3::timestamptz, clock_timestamp()) AS at) t CROSS JOIN LATERAL fairpost.snapshot_of(c.id, t.at) n
           WHERE c.id = $1 AND c.launched_at IS NOT NULL AND c.scheduled <= $2""",
        *(campaign.id, emails_max, clock.stated()),
    )
    return _snapshot(row) if row else None


def _snapshot(row: Any) -> Snapshot:
    by_step: dict[int, dict[str, int]] = {}
    for step, state, n in json.loads(row["steps"]):
        by_step.setdefault(step, {})[state.replace(" ", "_")] = n  # earlier versions stored "to follow"
    by_account: dict[int | None, dict[Kind, int]] = {}
    for account, kind, n in json.loads(row["accounts"]):
        by_account.setdefault(account, {})[kind] = n
    return Snapshot(
        at=row["at"],
        sent=row["sent"],
        missed=row["missed"],
        waiting=row["waiting"],
        by_step=by_step,
        by_account=by_account,
        revised_forecast=row["revised_forecast"],
    )


async def points(store: "Store", campaign: Campaign) -> list[ProgressPoint]:
    rows = await store.fetch(
        "SELECT at, sent, missed FROM fairpost.campaign_progress WHERE campaign_id = $1 ORDER BY at", campaign.id
    )
    return [ProgressPoint(**row) for row in rows]


async def launched_without_forecast(store: "Store", *, now: datetime) -> list[int]:
    """Return the campaigns whose launch was interrupted before a forecast was made."""
    rows = await store.fetch(
        """SELECT c.id FROM fairpost.campaigns c WHERE c.state IN ('scheduled', 'running') AND c.forecast IS NULL
           AND c.launched_at <= $1::timestamptz - make_interval(secs => $2) ORDER BY c.id""",
        *(now, _LAUNCHED_S),
    )
    return [row["id"] for row in rows]


async def take_turn(store: "Store", *, now: datetime, turn_s: float) -> int | None:
    """Find a running campaign whose forecast is due for revision, and reserve it for `turn_s`.

    Return None if none is due.
    """
    found: int | None = await store.value(
        """UPDATE fairpost.campaign_snapshots s SET revised_next_at = $1::timestamptz + make_interval(secs => $2) WHERE s.campaign_id = (
               SELECT o.campaign_id FROM fairpost.campaign_snapshots o
               WHERE o.state IN ('scheduled', 'running') AND o.revised_next_at <= $1 ORDER BY o.revised_next_at LIMIT 1 FOR UPDATE SKIP LOCKED)
           RETURNING s.campaign_id""",
        *(now, turn_s),
    )
    return found


async def keep_revised_forecast(store: "Store", campaign: Campaign, written: str, *, next_at: datetime) -> None:
    sql = "UPDATE fairpost.campaign_snapshots SET revised_forecast = $2, revised_next_at = $3 WHERE campaign_id = $1"
    await store.value(sql, campaign.id, written, next_at)


async def due_now(store: "Store", campaign: Campaign, *, now: datetime) -> Any:
    """Return the routes of due e-mails, and the number of prospects whose e-mails have been planned."""
    return await store.row(
        """SELECT ARRAY(SELECT DISTINCT q.route FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.waiting AND q.due_at <= $2) AS routes,
                  (SELECT count(DISTINCT m.prospect_id) FROM fairpost.campaigns c JOIN fairpost.list_members m ON m.list_id = ANY (c.lists)
                   WHERE c.id = $1 AND m.prospect_id <= c.planned_through) AS planned""",
        *(campaign.id, now),
    )


async def glance(store: "Store", campaign: Campaign, *, now: datetime, most: int) -> Any:
    """Return whether e-mails are claimed, and the routes of the first due e-mails, without counting any."""
    return await store.row(
        """SELECT EXISTS (SELECT FROM (SELECT q.campaign_id, q.state FROM fairpost.queue q WHERE NOT q.waiting OFFSET 0) h
                          WHERE h.campaign_id = $1 AND h.state IN ('claimed', 'sending')) AS claimed,
                  ARRAY(SELECT DISTINCT r.route FROM (SELECT q.route FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.waiting AND q.due_at <= $2
                        ORDER BY q.due_at LIMIT $3) r) AS routes,
                  (SELECT c.prospects FROM fairpost.campaigns c WHERE c.id = $1) AS planned""",
        *(campaign.id, now, most),
    )


async def gates_of(store: "Store", campaign: Campaign, *, now: datetime) -> list[Any]:
    """Return what holds back each of the campaign's streams."""
    return await store.fetch(
        """SELECT s.stream, g.until, g.why, g.params FROM fairpost.campaign_streams s, fairpost.gate_of(s.workspace, s.stream, $2) g
           WHERE s.campaign_id = $1""",
        *(campaign.id, now),
    )


async def next_due_at(store: "Store", campaign: Campaign, *, now: datetime) -> datetime | None:
    found: datetime | None = await store.value(
        "SELECT min(q.due_at) FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.due_at > $2 AND q.due_at < 'infinity' AND q.waiting",
        *(campaign.id, now),
    )
    return found


async def left_over(store: "Store", campaign: Campaign, *, most: int) -> Any:
    """Return how many e-mails are in doubt or parked.

    If no others are left, these are those in doubt, those for paused recipients, and their follow-ups: only a few.
    """
    return await store.row(
        """SELECT count(*) FILTER (WHERE q.state = 'in_doubt') AS in_doubt, count(*) FILTER (WHERE q.waiting AND q.parked_due IS NOT NULL) AS parked
           FROM (SELECT q.state, q.waiting, q.parked_due FROM fairpost.queue q WHERE q.campaign_id = $1 LIMIT $2) q""",
        *(campaign.id, most),
    )


async def counts_of(store: "Store", ids: Collection[int]) -> list[Any]:
    """Return the counts in the latest snapshots."""
    return await store.fetch(
        """SELECT c.id, c.scheduled, coalesce(s.sent, 0) AS sent, coalesce(s.missed, 0) AS missed, (s.revised_forecast ->> 'ends_at')::timestamptz AS expected_at
           FROM fairpost.campaigns c LEFT JOIN fairpost.campaign_snapshots s ON s.campaign_id = c.id WHERE c.id = ANY ($1)""",
        list(ids),
    )


async def count_now(store: "Store", ids: Collection[int]) -> list[Any]:
    return await store.fetch(
        "SELECT w.id, n.sent, n.missed FROM unnest($1::bigint[]) w(id) CROSS JOIN LATERAL fairpost.snapshot_of(w.id, clock_timestamp()) n",
        list(ids),
    )


async def account_names(store: "Store", ids: Collection[int]) -> list[Any]:
    return await store.fetch("SELECT id, name FROM fairpost.accounts WHERE id = ANY ($1)", list(ids))
