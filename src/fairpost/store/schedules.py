"""Store when a workspace's campaigns may send, and how many e-mails they may send per day. This includes the settings
and the calendar, which is computed weeks in advance.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from fairpost.model.campaign import Schedule
from fairpost.model.window import Quota, SendingWindow
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchedule:
    workspace: str
    schedule: Schedule
    first_day: date | None = None
    known_until: datetime | None = None
    revision: int = 0
    is_stored: bool = False  # if False, the workspace has no schedule and its mail may be sent at any time
    zones: tuple[str, ...] = ()  # time zones of recipients, for campaigns that follow the recipients' local time
    is_sending: bool = False  # whether campaigns are in progress


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUsed:
    day: date
    starts_at: datetime
    ends_at: datetime
    allowed: int
    used: int


async def schedule_of(store: "Store", workspace: str) -> StoredSchedule:
    row = await store.row(
        """SELECT w.*, nullif(w.known_until, '-infinity') AS known,
                  EXISTS (SELECT FROM fairpost.campaigns c WHERE c.workspace = $1 AND c.state IN ('scheduled', 'running', 'paused')) AS is_sending,
                  ARRAY(SELECT DISTINCT s.timezone FROM fairpost.campaign_streams s WHERE s.workspace = $1 AND s.timezone IS NOT NULL) AS zones
           FROM (VALUES (1)) one LEFT JOIN fairpost.schedules w ON w.workspace = $1""",
        workspace,
    )
    if row["workspace"] is None:
        return StoredSchedule(
            workspace=workspace, schedule=Schedule(), zones=tuple(row["zones"]), is_sending=row["is_sending"]
        )
    return StoredSchedule(
        workspace=workspace,
        schedule=_schedule(row),
        first_day=row["first_day"],
        known_until=row["known"],
        revision=row["revision"],
        is_stored=True,
        zones=tuple(row["zones"]),
        is_sending=row["is_sending"],
    )


async def write_schedule(store: "Store", workspace: str, schedule: Schedule) -> None:
    """Store a schedule. The caller then materializes the calendar. If the ramp-up changes, it starts over from its
    first day.
    """
    window, quota = schedule.window, schedule.quota
    await store.value(
        """INSERT INTO fairpost.schedules AS w (workspace, timezone, days, opens, closes, holidays, daily_max, ramp_up_days, ramp_up_percents)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
           ON CONFLICT (workspace) DO UPDATE SET
               timezone = excluded.timezone, days = excluded.days, opens = excluded.opens, closes = excluded.closes, holidays = excluded.holidays,
               daily_max = excluded.daily_max, ramp_up_days = excluded.ramp_up_days, ramp_up_percents = excluded.ramp_up_percents,
               first_day = CASE WHEN (w.ramp_up_days, w.ramp_up_percents) = (excluded.ramp_up_days, excluded.ramp_up_percents) THEN w.first_day END,
               known_until = '-infinity', revision = w.revision + 1""",
        *(workspace, schedule.timezone),
        *((sorted(window.days), window.start, window.end) if window else (None, None, None)),
        sorted(window.holidays) if window else [],
        *(quota.daily_max, quota.ramp_up_days, list(quota.ramp_up_percents)),
    )


async def begin_ramp_up(store: "Store", workspace: str, day: date) -> None:
    """Start the ramp-up on this local day, unless it has already started."""
    await store.value(
        """INSERT INTO fairpost.schedules AS w (workspace, first_day) VALUES ($1, $2)
           ON CONFLICT (workspace) DO UPDATE SET first_day = excluded.first_day, revision = w.revision + 1 WHERE w.first_day IS NULL""",
        workspace,
        day,
    )


async def materialize_calendar(
    store: "Store",
    workspace: str,
    revision: int,
    *,
    open_spans: Mapping[str, Sequence[tuple[datetime, datetime]] | None],
    days: Sequence[Any] | None,
    known_until: datetime,
) -> bool:
    """Store the calendar. Return False if the schedule or the time zones in use have changed since they were read."""
    spans = {zone: None if each is None else _multirange(each) for zone, each in open_spans.items()}
    written = None if days is None else json.dumps([asdict(day) for day in days], default=str)
    return bool(
        await store.value(
            "SELECT fairpost.materialize_calendar($1, $2, $3, $4, $5, $6)",
            *(workspace, revision, json.dumps(spans), written, known_until, clock.stated()),
        )
    )


async def to_lay(store: "Store", *, before: datetime) -> list[str]:
    """Return the workspaces that have campaigns in progress and a calendar that ends before the given time."""
    rows = await store.fetch(
        """SELECT DISTINCT w.workspace FROM fairpost.schedules w JOIN fairpost.campaigns c ON c.workspace = w.workspace
           WHERE c.state IN ('scheduled', 'running', 'paused') AND w.known_until < $1""",
        before,
    )
    return [row["workspace"] for row in rows]


async def quota_days(store: "Store", workspace: str, *, since: datetime, until: datetime) -> list[QuotaUsed]:
    rows = await store.fetch(
        """SELECT q.day, q.starts_at, q.ends_at, q.allowed, q.used FROM fairpost.quotas q
           WHERE q.workspace = $1 AND q.ends_at > $2 AND q.starts_at <= $3 ORDER BY q.starts_at""",
        *(workspace, since, until),
    )
    return [QuotaUsed(**row) for row in rows]


def _schedule(row: Any) -> Schedule:
    window = None
    if row["days"] is not None:
        window = SendingWindow(
            timezone=row["timezone"],
            days=frozenset(row["days"]),
            start=row["opens"],
            end=row["closes"],
            holidays=frozenset(row["holidays"]),
        )
    quota = Quota(
        daily_max=row["daily_max"],
        ramp_up_days=row["ramp_up_days"],
        ramp_up_percents=tuple(row["ramp_up_percents"]),
    )
    return Schedule(timezone=row["timezone"], window=window, quota=quota)


def _multirange(spans: Sequence[tuple[datetime, datetime]]) -> str:
    return "{" + ",".join(f"[{begin.isoformat()},{end.isoformat()})" for begin, end in spans) + "}"
