"""Store sender records, sender activity, and decisions about senders.

The decisions themselves are made elsewhere.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg

from fairpost.model.errors import FairpostError
from fairpost.model.sender import Counts, Fairness, Sender, SenderId, SenderLevel, Throttle, Tier
from fairpost.store.reasons import stored_reasons, write_reasons
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

DIRTY_AT_ONCE = 5_000
HOMES_AT_ONCE = 100
TRIES_MAX = 10  # an engine may be evaluating the same sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """A sender with its recent and planned hours, and its volume on each previous day."""

    sender: Sender
    hours: Mapping[datetime, Counts]
    days: Mapping[date, int]


class Decision(Protocol):
    @property
    def after(self) -> Sender: ...
    @property
    def is_new(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class DirtySenders:
    """Users whose counters have changed, each with the time of the first change, and the workspaces in which anything
    has changed.

    Pass this object to `settled` once all these users and workspaces have been checked.
    """

    users: Mapping[SenderId, datetime]
    workspaces: frozenset[str]
    marks: tuple[int, ...]


# ── records ───────────────────────────────────────────────────────────────────────────────────────────────


async def named(store: "Store", id_: SenderId) -> SenderId:
    """Return the sender with its name as stored. Use this function for the command line."""
    return replace(id_, name=await store.value("SELECT fairpost.user_named($1, $2)", id_.workspace, id_.name))


async def folded(store: "Store", id_: SenderId) -> SenderId:
    """Return the sender with its name as stored. Use this function for requests, which cannot see waiting mail."""
    return replace(id_, name=await store.value("SELECT fairpost.normalize_user($1)", id_.name))


async def set_sender(
    store: "Store", id_: SenderId, *, plan: str | None, since: datetime | None, home: str | None = None
) -> None:
    """Store a sender. An engine or the caller then decides the sender's tier. If `home` is None, the home does not
    change.
    """
    user = id_.name if id_.level is SenderLevel.USER else None
    await store.value("SELECT fairpost.set_sender($1, $2, $3, $4, $5)", id_.workspace, user, plan, since, home)


async def home_of(store: "Store", id_: SenderId) -> str | None:
    """Return the domain under which a user's mail is queued.

    None means that the user has never queued mail; '' is the account's own domain.
    """
    home: str | None = await store.value(
        "SELECT h.domain FROM fairpost.homes h WHERE h.workspace = $1 AND h.user_name = $2 ORDER BY h.is_given DESC LIMIT 1",
        *(id_.workspace, id_.name),
    )
    return home


async def settle_homes(store: "Store", *, now: datetime | None = None) -> int:
    """Move users' mail to their current homes, with one commit per user, so that no transaction holds many locks."""
    for settled in range(HOMES_AT_ONCE):
        if not await store.value("SELECT fairpost.settle_home($1)", now or clock.stated()):
            return settled
    return HOMES_AT_ONCE


async def set_limits(store: "Store", id_: SenderId, *, daily_max: int | None, waiting_max: int | None) -> None:
    """Limit the number of e-mails that a user, or all users of a workspace together, can submit by any means.

    None removes the limit.
    """
    async with store.together() as one:
        await one.value(
            """INSERT INTO fairpost.senders AS s (workspace, level, name, daily_max, waiting_max) VALUES ($1, $5, fairpost.normalize_user($2), $3, $4)
               ON CONFLICT (workspace, level, name) DO UPDATE SET daily_max = $3, waiting_max = $4""",
            *(id_.workspace, id_.name, daily_max, waiting_max, id_.level),
        )
        if id_.level is SenderLevel.WORKSPACE:  # e-mails that its users submitted earlier also count
            await one.value(
                """INSERT INTO fairpost.submissions (workspace, user_name, hour, n)
                   SELECT s.workspace, '', s.hour, sum(s.n) FROM fairpost.submissions s WHERE s.workspace = $1 AND s.user_name <> '' GROUP BY 1, 3
                   ON CONFLICT DO NOTHING""",
                id_.workspace,
            )


async def with_activity(store: "Store", ids: Sequence[SenderId]) -> list[Active]:
    """Return the senders in the requested order, including unregistered senders with the data known about them."""
    rows = await store.fetch(
        "SELECT * FROM fairpost.senders_with_activity($1, $2, $3, $4)", *_columns(ids), clock.stated()
    )
    found = {_id(row): _active(row) for row in rows}
    return [found[id_] for id_ in ids]


async def known(
    store: "Store", *, workspace: str | None = None, throttled: bool = False, most: int = 100
) -> list[Sender]:
    """Return senders that are registered or that have been the subject of a decision, throttled ones first."""
    rows = await store.fetch(
        """SELECT s.* FROM fairpost.senders s
           WHERE ($1::text IS NULL OR s.workspace = $1) AND (s.throttled_since IS NOT NULL OR NOT $2)
           ORDER BY s.throttled_since IS NULL, s.workspace, s.level, s.name LIMIT $3""",
        *(workspace, throttled, most),
    )
    return [_sender(row) for row in rows]


async def users(store: "Store", workspace: str, *, throttled: bool = False, after: str = "", most: int) -> list[Sender]:
    """Return a workspace's users sorted by name. `throttled` restricts the result to users with an enforced throttle."""
    rows = await store.fetch(
        """SELECT s.* FROM fairpost.senders s
           WHERE s.workspace = $1 AND s.level = 'user' AND s.name > $2 AND (s.throttled_since IS NOT NULL AND s.is_enforced OR NOT $3)
           ORDER BY s.name LIMIT $4""",
        *(workspace, after, throttled, most),
    )
    return [_sender(row) for row in rows]


# ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────


async def dirty_senders(store: "Store", *, after: int = 0) -> DirtySenders:
    """Return the senders that have changed, according to the marks with numbers higher than `after`."""
    sql = "SELECT s.id, s.workspace, s.user_name, s.at FROM fairpost.dirty_senders s WHERE s.id > $1 ORDER BY s.id LIMIT $2"
    rows = await store.fetch(sql, after, DIRTY_AT_ONCE)
    users: dict[SenderId, datetime] = {}
    for row in rows:
        if row["user_name"]:  # a change without a user concerns only the workspace
            id_ = SenderId(workspace=row["workspace"], name=row["user_name"])
            users[id_] = min(users.get(id_, row["at"]), row["at"])
    return DirtySenders(users, frozenset(row["workspace"] for row in rows), tuple(row["id"] for row in rows))


async def settled(store: "Store", dirty: DirtySenders) -> None:
    await store.value("DELETE FROM fairpost.dirty_senders s WHERE s.id = ANY ($1::bigint[])", list(dirty.marks))


async def to_look_at(store: "Store", *, now: datetime, most: int = 1_000) -> list[SenderId]:
    """Return senders that are due for a check. These are senders that are no longer new, senders whose throttle is
    about to end, and recently registered senders.
    """
    sql = "SELECT s.workspace, s.level::text, s.name FROM fairpost.senders_to_look_at($1, $2) s"
    rows = await store.fetch(sql, most, now)
    return [_id(row) for row in rows]


async def look_at_throttled(store: "Store") -> None:
    """Include all throttled senders in the next check."""
    await store.value("UPDATE fairpost.senders SET look_at = '-infinity' WHERE throttled_since IS NOT NULL")


async def last_look(store: "Store") -> datetime | None:
    """Return the time at which an engine last checked the state of the queue, or None if none ever has."""
    moment: datetime | None = await store.value("SELECT f.looked_at FROM fairpost.fairness f")
    return moment


async def mark_hour(store: "Store", hour: datetime) -> None:
    await store.value("SELECT fairpost.mark_hour($1)", hour)


async def fold(store: "Store", *, now: datetime | None = None) -> bool:
    """Combine hours into days, and delete old hours and days. Return False if another process is already doing so."""
    return bool(await store.value("SELECT fairpost.fold_activity($1)", now or clock.stated()))


async def decide(
    store: "Store", after: Sender, *, is_new: bool, offended_at: datetime | None = None, now: datetime | None = None
) -> bool | None:
    """Store and apply a decision about the sender as of `after.revision`.

    Return False if the sender has changed in the meantime, or None if it is locked and the caller should try again
    later. `is_new` means that a throttle is starting and operators must be notified; `offended_at` is the time of the
    event that caused it.
    """
    throttle = after.throttle
    with suppress(asyncpg.LockNotAvailableError):
        return bool(
            await store.value(
                "SELECT fairpost.decide($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
                after.id.workspace,
                after.id.level,
                after.id.name,
                after.revision,
                int(after.tier),
                after.look_at,
                throttle and throttle.since,
                throttle and throttle.until,
                after.is_enforced,
                after.is_by_hand,
                after.immune_until,
                after.score,
                after.confidence,
                write_reasons(after.reasons),
                after.scored_at,
                is_new,
                now or clock.stated(),
                offended_at,
            )
        )
    return None


async def decide_now(
    store: "Store",
    id_: SenderId,
    decision: Callable[[Active, datetime], Decision | None],
) -> Sender:
    """Decide based on current data. After a conflicting update, decide again."""
    for _ in range(TRIES_MAX):
        async with store.together() as one:
            now = await one.value("SELECT clock_timestamp()")
            (active,) = await with_activity(one, [id_])
            decided = decision(active, now)
            if decided is None:
                return active.sender
            if await decide(one, decided.after, is_new=decided.is_new):
                return decided.after
    raise FairpostError(f"Conflicting updates to {id_}. Try again.")


async def untold(store: "Store", *, most: int = 50) -> list[Sender]:
    """Return throttled senders that the operators have not been notified about."""
    rows = await store.fetch("SELECT * FROM fairpost.untold($1)", most)
    return [_sender(row) for row in rows]


async def tell(
    store: "Store", about: Sequence[SenderId], emails: Sequence[Mapping[str, Any]], *, now: datetime | None = None
) -> bool:
    """Enqueue the notices and record them in one transaction. Return False if another engine has already recorded
    them.
    """
    written = json.dumps(list(emails))
    return bool(
        await store.value("SELECT fairpost.tell($1, $2, $3, $4, $5)", *_columns(about), written, now or clock.stated())
    )


# ── the installation ──────────────────────────────────────────────────────────────────────────────────────


async def lay_fairness(store: "Store", fairness: Fairness) -> bool:
    """Store the fairness settings. Return True if they changed, in which case all senders were moved and reweighted."""
    return bool(
        await store.value(
            "SELECT fairpost.lay_fairness($1, $2, $3, $4, $5, $6, $7, $8)",
            fairness.share,
            fairness.has_lanes,
            list(fairness.weights),
            list(fairness.shares),
            fairness.is_scoring,
            fairness.queue_max,
            fairness.plans,
            clock.stated(),
        )
    )


async def fairness_now(store: "Store") -> Fairness:
    row = await store.row("SELECT * FROM fairpost.fairness")
    return Fairness(
        share=row["share"],
        has_lanes=row["lanes"],
        weights=tuple(row["weights"]),
        shares=tuple(row["shares"]),
        is_scoring=row["is_scoring"],
        queue_max=row["queue_max"],
        plans=row["plans"],
    )


async def fairness_row(store: "Store", *, now: datetime | None) -> Any:
    """Return the stored settings with the last measurement of the queue, and the current time."""
    sql = "SELECT f.*, coalesce($1, clock_timestamp()) AS now FROM fairpost.fairness f"
    return await store.row(sql, now or clock.stated())


async def count_throttled(store: "Store", workspace: str | None, *, now: datetime) -> Any:
    return await store.row("SELECT * FROM fairpost.count_throttled($1, $2)", workspace, now)


async def throttled(store: "Store", workspace: str | None, *, most: int) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.throttled($1, $2)", workspace, most)


async def queue_now(store: "Store", *, now: datetime | None = None) -> tuple[int, datetime | None]:
    """Return the number of queued e-mails and the due time of the oldest e-mail that is due and not held."""
    row = await store.row("SELECT * FROM fairpost.queue_now($1)", now or clock.stated())
    return row["queued"], row["oldest_at"]


async def set_health(
    store: "Store", *, queued: int, oldest_at: datetime | None, multiplier: float, now: datetime
) -> None:
    await store.value(
        "UPDATE fairpost.fairness SET queued = $1, oldest_at = $2, multiplier = $3, looked_at = $4",
        *(queued, oldest_at, multiplier, now),
    )


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────


def _columns(ids: Sequence[SenderId]) -> tuple[list[str], list[str], list[str]]:
    return [i.workspace for i in ids], [str(i.level) for i in ids], [i.name for i in ids]


def _id(row: Any) -> SenderId:
    return SenderId(workspace=row["workspace"], level=SenderLevel(row["level"]), name=row["name"])


def _active(row: Any) -> Active:
    hours = json.loads(row["hours"] or "{}")
    days = json.loads(row["days"] or "{}")
    return Active(
        sender=_sender(row["known"]) if row["known"] is not None else Sender(id=_id(row)),
        hours={
            datetime.fromisoformat(hour).astimezone(UTC): Counts(volume=v, sent=s, bounced=b, rejected=r)
            for hour, (v, s, b, r) in hours.items()
        },
        days={date.fromisoformat(day): volume for day, volume in days.items()},
    )


def _sender(row: Any) -> Sender:
    since, until = row["throttled_since"], row["throttled_until"]
    return Sender(
        id=_id(row),
        plan=row["plan"],
        since=row["since"],
        tier=Tier(row["tier"]),
        look_at=row["look_at"],
        throttle=Throttle(since, until) if since else None,
        is_enforced=row["is_enforced"],
        is_by_hand=row["is_by_hand"],
        immune_until=row["immune_until"],
        score=row["score"],
        confidence=row["confidence"],
        reasons=stored_reasons(row["reasons"]),
        scored_at=row["scored_at"],
        daily_max=row["daily_max"],
        waiting_max=row["waiting_max"],
        revision=row["revision"],
    )
