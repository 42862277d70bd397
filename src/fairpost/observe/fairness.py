"""Reads which senders have mail waiting, whose mail was sent, and how evenly capacity was shared.

The cost depends on the number of senders, not on the number of e-mails. Hourly counters are never split, so a window of
a day includes all 25 hours that it overlaps.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fairpost.model.errors import FairpostError
from fairpost.model.reason import Reason
from fairpost.model.sender import Priority, Tier
from fairpost.policy.health import adaptive_limits, health
from fairpost.policy.inequality import Waits, gini, jain, largest_share
from fairpost.policy.ledger import Measure
from fairpost.store import outcomes, senders
from fairpost.store.reasons import stored_reasons
from fairpost.store.store import Store
from fairpost.store.waiting import engines_seen, waiting_by_sender

HOUR = timedelta(hours=1)
WINDOW_MIN, WINDOW_MAX = HOUR, timedelta(hours=24)  # hourly counters are kept for a day
LISTED_MAX = 20
URGENT_SUSPECT_MIN = 1_000  # this many urgent e-mails from one user in the window are suspicious
HEALTH_AGE_MAX = timedelta(minutes=1)  # values older than this are outdated, because engines update them far more often
ENGINE_AGE_MAX = timedelta(minutes=1)
LIMITS_OF = 100  # limits are given for a claim of this size

FAIR, FIFO = "fair", "fifo"
QUEUES = (FAIR, FIFO)
TIERS = {tier: tier.name.lower() for tier in Tier}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How capacity is shared.

    `fair_percent` of the workspaces use the fair queue; the others are served in order of arrival.
    """

    fair_percent: int
    priority: Priority
    weights: Mapping[str, float]
    lane_shares: Mapping[str, int]
    is_scoring: bool

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that serve at least one workspace."""
        used = {FAIR: self.fair_percent > 0, FIFO: self.fair_percent < 100}
        return tuple(name for name in QUEUES if used[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The queue. `limits` holds the maximum for each tier in a claim of 100 e-mails while other tiers have mail
    waiting.

    The limits apply only if lanes are on.
    """

    queued: int
    queue_max: int
    oldest_wait_s: float | None  # age of the oldest e-mail that is due and not held
    health: float  # from 0.1 (falling behind) to 2.0 (spare capacity)
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evenness:
    senders: int
    emails: int
    gini: float
    jain: float
    largest_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvenHour:
    """How evenly users were served in one hour."""

    hour: datetime
    users: Evenness


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """One sender's share of a list's total. `name` is the domain or user; for a workspace, it is empty."""

    workspace: str
    name: str
    emails: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TierWaiting:
    emails: int
    senders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Waiting e-mails, including those that are held or not due yet. `top_domains` covers only the listed
    workspaces.
    """

    emails: int
    tiers: Mapping[str, TierWaiting]
    users: Evenness
    top_workspaces: Sequence[Portion]
    top_domains: Sequence[Portion]
    top_users: Sequence[Portion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """E-mails sent, bounced or rejected in the window. `hours` is sorted from the oldest to the current hour."""

    emails: int
    sent: int
    bounced: int
    rejected: int
    per_hour: float  # current rate of e-mails per hour
    hours: Sequence[int]
    workspaces: Evenness
    users: Evenness


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    count: int
    mean_s: float
    p50_s: float
    p99_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """A sender's throttle.

    `found_after_s` is the longest time it can have taken to notice the violation, or None if unknown.
    """

    workspace: str
    level: str
    name: str
    since: datetime
    until: datetime
    is_enforced: bool
    is_by_hand: bool
    score: int
    found_after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledSender(Throttle):
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleCounts:
    """How many senders are throttled, and how many are held.

    `stopped` senders are throttled to the point that none of their e-mails are being sent. `observed` senders would be
    throttled if throttling were on. `held` senders are held manually.
    """

    throttled: int
    stopped: int
    observed: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling(ThrottleCounts):
    """Throttled and held senders."""

    latest: Sequence[ThrottledSender]


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentUse:
    """How much of a workspace's mail was urgent, and which user sent the most of it. Urgent mail is sent before
    all bulk mail.

    `is_suspect` means that there is so much urgent mail that it may be bulk mail.
    """

    workspace: str
    emails: int
    urgent: int
    share: float
    user: str
    user_urgent: int
    is_suspect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    id: str
    is_asleep: bool
    processes: int | None
    cpu_s: float | None
    rss_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessReport:
    """Mode, queue, durations, engines and accounts always describe the whole installation. The other values describe
    one workspace if `workspace` is set.
    """

    now: datetime
    window_s: float
    workspace: str | None
    mode: Mode
    queue: Queue
    waiting: Waiting
    served: Served
    served_by: Mapping[str, Served]  # by queue, fair or not
    top_workspaces: Sequence[Portion]  # the workspaces with the most e-mails served
    top_users: Sequence[Portion]
    waits: Mapping[str, Mapping[str, Took]]  # time from becoming due to the start of sending, by queue and tier
    durations: Mapping[str, Took]  # durations of sends, claims and commits
    throttling: Throttling
    urgent: Sequence[UrgentUse]  # workspaces in which the largest numbers of urgent e-mails became due in the window
    engines: Sequence[Engine]
    sent_total: Mapping[str, int]  # e-mails sent by each account since it was added
    histograms: Mapping[tuple[Measure, Tier], Waits]  # the histograms from which waits and durations are derived

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that serve senders now, or that served senders in the window."""
        return tuple(q for q in QUEUES if q in self.mode.queues or self.served_by[q].emails or self.waits[q])


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One workspace's share.

    `waits` measures how long due e-mails wait until the workspace's own accounts start sending them. `waits` is None if
    these accounts sent nothing.
    """

    now: datetime
    since: datetime
    waiting: Waiting
    served: Served
    served_users: Sequence[Portion]
    waits: Took | None
    throttling: Throttling


def require_window(window: timedelta) -> None:
    if not WINDOW_MIN <= window <= WINDOW_MAX:
        raise FairpostError(f"A window must be 1 to 24 hours, got {window}: hourly counters are kept for a day.")


async def read_fairness(
    store: Store, *, now: datetime | None = None, window: timedelta = WINDOW_MAX, workspace: str | None = None
) -> FairnessReport:
    """Reads the report with several queries, in parallel if connections are available.

    The report is not a consistent snapshot. Show the report to people, but do not base decisions on it.
    """
    require_window(window)
    row = await senders.fairness_row(store, now=now)
    now = row["now"]
    since = now - window
    waiting_rows, served, took = await asyncio.gather(
        waiting_by_sender(store, workspace, most=LISTED_MAX),
        outcomes.served_by_sender(store, workspace, since, most=LISTED_MAX),
        read_histograms(store, since),
    )
    waiting = _waiting(waiting_rows)
    return FairnessReport(
        now=now,
        window_s=window.total_seconds(),
        workspace=workspace,
        mode=_mode(row),
        queue=await _queue(store, row, queued=waiting.emails if workspace is None else None, now=now),
        waiting=waiting,
        served=_served(served, None, since=since, now=now),
        served_by={queue: _served(served, queue, since=since, now=now) for queue in QUEUES},
        top_workspaces=_portions(served, "workspace", total=_total(served)),
        top_users=_portions(served, "user", total=_total(served)),
        waits={FAIR: _by_tier(took, Measure.WAIT), FIFO: _by_tier(took, Measure.WAIT_FIFO)},
        durations=_durations(took),
        throttling=await _throttling(store, workspace, now),
        urgent=[_urgent(each) for each in await outcomes.urgent_use(store, workspace, since, now=now, most=LISTED_MAX)],
        engines=[_engine(each) for each in await engines_seen(store, within=ENGINE_AGE_MAX, now=now)],
        sent_total={each["name"]: each["sent_total"] for each in await outcomes.sent_by_account(store)},
        histograms=took,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """The state of the queue. `health` is None for a workspace, because it describes the installation."""

    oldest_wait_s: float | None
    health: float | None


async def read_health(store: Store, *, now: datetime) -> QueueHealth:
    queue = await _queue(store, await senders.fairness_row(store, now=now), queued=0, now=now)
    return QueueHealth(oldest_wait_s=queue.oldest_wait_s, health=queue.health)


async def read_share(store: Store, workspace: str, *, window: timedelta = WINDOW_MAX) -> Share:
    """Returns the part of the report that a workspace may see. That part reveals nothing about other workspaces."""
    require_window(window)
    now = await store.now()
    since = now - window
    waiting = _waiting(await waiting_by_sender(store, workspace, most=LISTED_MAX))
    served = await outcomes.served_by_sender(store, workspace, since, most=LISTED_MAX)
    waits = Waits()
    for (kind, _), took in (await read_histograms(store, since, workspace)).items():
        if kind in (Measure.WAIT, Measure.WAIT_FIFO):
            waits.merge(took)
    return Share(
        now=now,
        since=_hour_of(since),
        waiting=waiting,
        served=_served(served, None, since=since, now=now),
        served_users=_portions(served, "user", total=_total(served)),
        waits=_took(waits) if waits.count else None,
        throttling=await _throttling(store, workspace, now),
    )


async def read_hours(
    store: Store, *, now: datetime, window: timedelta = WINDOW_MAX, workspace: str | None = None
) -> list[EvenHour]:
    """Returns the hours in which mail was served, oldest first."""
    require_window(window)
    by_hour: dict[datetime, list[Any]] = {}
    for row in await outcomes.served_by_hour(store, workspace, now - window):
        by_hour.setdefault(row["hour"], []).append(row)
    return [EvenHour(hour=hour, users=_evenness(by_hour[hour])) for hour in sorted(by_hour)]


def _urgent(row: Any) -> UrgentUse:
    return UrgentUse(
        workspace=row["workspace"],
        emails=row["emails"],
        urgent=row["urgent"],
        share=row["urgent"] / row["emails"],
        user=row["user"],
        user_urgent=row["user_urgent"],
        is_suspect=row["user_urgent"] >= URGENT_SUSPECT_MIN,
    )


def _mode(row: Any) -> Mode:
    """Parses the mode. Arrays begin with the lowest tier, whose number is -1."""
    return Mode(
        fair_percent=row["share"],
        priority=Priority.LANES if row["lanes"] else Priority.WEIGHTS,
        weights={name: row["weights"][tier + 1] for tier, name in TIERS.items()},
        lane_shares={name: row["shares"][tier + 1] for tier, name in TIERS.items()},
        is_scoring=row["is_scoring"],
    )


async def _queue(store: Store, row: Any, *, queued: int | None, now: datetime) -> Queue:
    """Returns the queue as last measured by engines, or reads it now if the last measurement is too old."""
    looked_at, known, oldest_at, multiplier = row["looked_at"], row["queued"], row["oldest_at"], row["multiplier"]
    is_fresh = looked_at is not None and abs(now - looked_at) < HEALTH_AGE_MAX
    if not is_fresh:
        known, oldest_at = await senders.queue_now(store, now=now)
    wait = max(timedelta(), now - oldest_at) if oldest_at else None
    if not is_fresh:
        multiplier = health(queued=known, queue_max=row["queue_max"], oldest_wait=wait).multiplier
    return Queue(
        queued=known if queued is None else queued,
        queue_max=row["queue_max"],
        oldest_wait_s=wait.total_seconds() if wait is not None else None,
        health=multiplier,
        limits={TIERS[tier]: limit for tier, limit in adaptive_limits(LIMITS_OF, multiplier).items()},
    )


def _waiting(rows: Sequence[Any]) -> Waiting:
    spread = [row for row in rows if row["of"] == "spread"]
    users = _evenness(spread)
    return Waiting(
        emails=users.emails,
        tiers={name: _tier_waiting(row for row in spread if row["tier"] == tier) for tier, name in TIERS.items()},
        users=users,
        top_workspaces=_portions(rows, "workspace", total=users.emails),
        top_domains=_portions(rows, "domain", total=users.emails),
        top_users=_portions(rows, "user", total=users.emails),
    )


def _tier_waiting(rows: Iterable[Any]) -> TierWaiting:
    pairs = [(row["n"], row["times"]) for row in rows]
    return TierWaiting(emails=sum(n * times for n, times in pairs), senders=sum(times for _, times in pairs))


def _served(rows: Sequence[Any], queue: str | None, *, since: datetime, now: datetime) -> Served:
    """Returns the e-mails served from this queue, or from both queues if `queue` is None.

    E-mails are counted for the queue from which they were sent.
    """
    ours = [row for row in rows if queue is None or _queue_of(row) == queue]
    by_hour = Counter[datetime]()
    counted = [row for row in ours if row["of"] == "hour"]
    for row in counted:
        by_hour[row["hour"]] += row["n"]
    are_both = any(row["of"] == "users" and row["is_fair"] is None for row in rows)
    spread = [row for row in ours if queue is not None or not are_both or row["is_fair"] is None]
    first, last = _hour_of(since), _hour_of(now)
    # The fraction of this hour that is left. The same fraction of the first hour still counts.
    left = 1 - (now - last) / HOUR
    return Served(
        emails=by_hour.total(),
        sent=sum(row["sent"] for row in counted),
        bounced=sum(row["bounced"] for row in counted),
        rejected=sum(row["rejected"] for row in counted),
        per_hour=by_hour[last] + left * by_hour[last - HOUR],
        hours=[by_hour[first + n * HOUR] for n in range((last - first) // HOUR + 1)],
        workspaces=_evenness(row for row in spread if row["of"] == "workspaces"),
        users=_evenness(row for row in spread if row["of"] == "users"),
    )


def _queue_of(row: Any) -> str | None:
    return {True: FAIR, False: FIFO, None: None}[row["is_fair"]]


def _hour_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _total(rows: Iterable[Any]) -> int:
    return sum(row["n"] for row in rows if row["of"] == "hour")


def _evenness(rows: Iterable[Any]) -> Evenness:
    """Computes the evenness from the number of senders for each number of e-mails."""
    spread = Counter[float]()
    for row in rows:
        spread[row["n"]] += row["times"]
    return Evenness(
        senders=spread.total(),
        emails=int(sum(n * times for n, times in spread.items())),
        gini=gini(spread),
        jain=jain(spread),
        largest_share=largest_share(spread),
    )


def _portions(rows: Iterable[Any], of: str, *, total: int) -> list[Portion]:
    found = [
        Portion(workspace=row["workspace"], name=row["name"], emails=row["n"], share=row["n"] / total)
        for row in rows
        if row["of"] == of
    ]
    return sorted(found, key=lambda each: (-each.emails, each.workspace, each.name))


async def read_histograms(
    store: Store, since: datetime, workspace: str | None = None
) -> dict[tuple[Measure, Tier], Waits]:
    """Returns the histograms of all accounts, or of a workspace's own accounts."""
    rows = await outcomes.measured_since(store, since, workspace)
    return {
        (Measure(row["kind"]), Tier(row["tier"])): Waits.from_json(
            {"total_us": row["total_us"], "buckets": json.loads(row["buckets"])}
        )
        for row in rows
    }


def _by_tier(took: Mapping[tuple[Measure, Tier], Waits], kind: Measure) -> dict[str, Took]:
    return {TIERS[tier]: _took(took[kind, tier]) for tier in Tier if (kind, tier) in took}


def _durations(took: Mapping[tuple[Measure, Tier], Waits]) -> dict[str, Took]:
    kinds = (Measure.SEND, Measure.CLAIM, Measure.COMMIT)
    return {str(kind): _took(took[kind, Tier.NORMAL]) for kind in kinds if (kind, Tier.NORMAL) in took}


def _took(waits: Waits) -> Took:
    mean, p50, p99 = waits.mean, waits.quantile(0.5), waits.quantile(0.99)
    assert mean is not None, "there are no empty histograms"
    assert p50 is not None
    assert p99 is not None
    return Took(count=waits.count, mean_s=mean.total_seconds(), p50_s=p50.total_seconds(), p99_s=p99.total_seconds())


async def _throttling(store: Store, workspace: str | None, now: datetime) -> Throttling:
    counts = await senders.count_throttled(store, workspace, now=now)
    rows = await senders.throttled(store, workspace, most=LISTED_MAX)
    return Throttling(**counts, latest=[_throttled(row) for row in rows])


def _throttled(row: Any) -> ThrottledSender:
    found_after = row["found_after"]
    return ThrottledSender(
        workspace=row["workspace"],
        level=row["level"],
        name=row["name"],
        since=row["since"],
        until=row["until"],
        is_enforced=row["is_enforced"],
        is_by_hand=row["is_by_hand"],
        score=row["score"],
        reasons=stored_reasons(row["reasons"]),
        found_after_s=found_after.total_seconds() if found_after is not None else None,
    )


def _engine(row: Any) -> Engine:
    vitals = json.loads(row["vitals"]) if row["vitals"] else {}
    return Engine(
        id=row["id"],
        is_asleep=row["asleep"],
        processes=vitals.get("processes"),
        cpu_s=vitals.get("cpu_s"),
        rss_bytes=vitals.get("rss_bytes"),
    )
