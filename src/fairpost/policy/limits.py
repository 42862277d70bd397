"""Decide when an account may send next, why it has to wait until then, and how a send is charged.

An hour begins with its first send and ends 60 minutes later. A day is a calendar day, a period that begins with its
first send, or a sliding period. A send is charged when it begins, so it counts even after a crash.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from enum import StrEnum
from itertools import accumulate, repeat
from operator import add

from fairpost.model.account import Account, Charge, DailyMode, Limits, RestReason, Usage
from fairpost.model.campaign import Gap
from fairpost.model.quick import changed, quick
from fairpost.model.reason import Reason

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WARM_UP_BOUNCE_PERCENT_MAX = 2.0  # a day with more bounces does not count as a step of the warm-up
CLAIMED_AHEAD_S = 0.25  # mail is claimed at most this far ahead, so it never delays urgent mail for longer
ROOM_MAX = 1_000_000_000  # effectively no limit


class Barrier(StrEnum):
    """Codes for the reasons why an account is waiting."""

    DELAY = "account.delay"
    HOURLY = "account.hourly_limit"
    DAILY = RestReason.DAILY.value
    WARM_UP = "account.warm_up_limit"
    UNITS = "account.api_quota"
    BACK_OFF = RestReason.BACK_OFF.value
    UNREACHABLE = RestReason.UNREACHABLE.value
    STATUS = "account.not_active"


@quick(frozen=True, slots=True)
class Go:
    usage: Usage  # after the send has begun


@dataclass(frozen=True, slots=True)
class NotBefore:
    """The account may not send before `moment`. If `moment` is None, manual action is needed."""

    moment: datetime | None
    reason: Barrier
    detail: str | None = None


def availability(account: Account, *, now: datetime) -> Go | NotBefore:
    """Return whether the account may send, considering its status, limits and current pause."""
    if not account.is_active(now):
        return NotBefore(account.status_until, Barrier.STATUS)
    return admit(account.limits, account.usage, now=now)


def used(account: Account, now: datetime) -> tuple[int, int]:
    """Return how many sends have been used this hour and today."""
    usage = roll_windows(account.limits, account.usage, now=now)
    return usage.hour_used, usage.day_used


def day_errors(account: Account, now: datetime) -> int:
    return roll_windows(account.limits, account.usage, now=now).day_errors


def day_max(account: Account, now: datetime) -> int | None:
    """Return today's limit, with the warm-up applied."""
    return daily_limit(account.limits, roll_windows(account.limits, account.usage, now=now))[0]


def may_send(account: Account, now: datetime) -> tuple[datetime | None, Reason | None]:
    """Return when the account may send next (None if now or unknown) and what it is waiting for."""
    admitted = availability(account, now=now)
    if not isinstance(admitted, NotBefore):
        return None, None
    if admitted.reason is Barrier.STATUS:
        status = account.status.replace("_", " ")
        return admitted.moment, Reason(admitted.reason, status=status, why=account.status_reason)
    return admitted.moment, Reason(admitted.reason, why=admitted.detail)


def admit(limits: Limits, usage: Usage, *, now: datetime, roll: float = 0.0) -> Go | NotBefore:
    """Decide whether the account may begin a send now. Return either its usage after the send, or when its wait ends
    and why it has to wait. `roll`, from 0 to 1, places the next pause between the shortest and the longest.
    """
    usage = roll_windows(limits, usage, now=now)
    return _last_barrier(limits, usage, now) or Go(charge(limits, usage, now=now, roll=roll))


def charge(limits: Limits, usage: Usage, *, now: datetime, roll: float = 0.0) -> Usage:
    return changed(
        usage,
        hour_started_at=usage.hour_started_at or now,
        hour_used=usage.hour_used + 1,
        day_started_at=usage.day_started_at or _day_start(limits, now),
        day_used=usage.day_used + 1,
        last_begun_at=now,
        gap_roll=roll,
        charges=(*_recent(limits, usage, now), Charge(now, limits.units_per_send)) if limits.needs_charges else (),
    )


def refund(usage: Usage) -> Usage:
    """Refund the charge for a send that never used the transport."""
    return changed(
        usage, hour_used=max(0, usage.hour_used - 1), day_used=max(0, usage.day_used - 1), charges=usage.charges[:-1]
    )


def roll_windows(limits: Limits, usage: Usage, *, now: datetime) -> Usage:
    """Drop windows that have ended. The next send begins new windows."""
    if usage.hour_started_at is not None and now >= usage.hour_started_at + HOUR:
        usage = changed(usage, hour_started_at=None, hour_used=0)
    if usage.day_started_at is not None and now >= usage.day_started_at + DAY:
        warm_day = usage.warm_day + _was_a_good_day(usage)
        usage = changed(usage, day_started_at=None, day_used=0, day_bounces=0, day_errors=0, warm_day=warm_day)
    return usage


def daily_limit(limits: Limits, usage: Usage) -> tuple[int | None, Barrier]:
    """Return today's limit and whether the warm-up determines it."""
    if limits.warm_up is None:
        return limits.daily_max, Barrier.DAILY
    plan, most = limits.warm_up, limits.daily_max
    if plan.days and most is not None:
        warm = -(-most * usage.warm_day // plan.days)
    else:
        warm = plan.start + plan.step * (usage.warm_day - 1)
    return (max(1, warm), Barrier.WARM_UP) if most is None or warm < most else (most, Barrier.DAILY)


def free_at(limits: Limits, usage: Usage) -> datetime | None:
    """Return when the pause after the last send is over."""
    return usage.last_begun_at + _pause(limits, usage.gap_roll) if usage.last_begun_at is not None else None


def widened(limits: Limits, gap: Gap | None) -> Limits:
    """Return the limits, with the pause that an e-mail requests if that pause is longer than the account's own."""
    if gap is None:
        return limits
    shortest = max(limits.delay_ms, round(gap.min_s * 1000))
    return replace(limits, delay_ms=shortest, gap_max_ms=max(shortest, limits.gap_max_ms or 0, round(gap.max_s * 1000)))


def batch_size(limits: Limits, usage: Usage, *, now: datetime, each_s: float | None) -> int:
    """Return how many e-mails an account that may begin now should claim.

    The number is one, plus what the account can send in the next quarter of a second within all limits. `each_s` is the
    duration of one send. If `each_s` is None, the number is one.
    """
    usage = roll_windows(limits, usage, now=now)
    longest_s = max(limits.delay_ms, limits.gap_max_ms or 0) / 1000
    interval_s = max(each_s, longest_s, CLAIMED_AHEAD_S / limits.batch_max) if each_s is not None else math.inf
    room = min(limits.batch_max, 1 + int(CLAIMED_AHEAD_S / interval_s))
    most, _ = daily_limit(limits, usage)
    for used, allowed in ((usage.hour_used, limits.hourly_max), (_day_used(limits, usage, now), most)):
        if allowed is not None:
            room = min(room, allowed - used)
    if limits.units_per_minute is not None:
        left = limits.units_per_minute - sum(c.units for c in _since(usage, now - MINUTE))
        room = min(room, max(0, left) // limits.units_per_send)
    return max(0, room)


def room(limits: Limits, usage: Usage, *, now: datetime, interval: timedelta, roll: float = 0.0) -> int | NotBefore:
    """Return how many sends may begin without a wait: the first now, then one per interval. If none may begin now,
    return when the first may begin and why it has to wait. The result is never too high. If a window may fill up in its
    next round, the result covers only the time until the current round ends. Call again then.
    """
    usage = roll_windows(limits, usage, now=now)
    barrier = _last_barrier(limits, usage, now)
    if barrier is not None:
        return barrier
    return 1 if _pause(limits, roll) > interval else max(1, min(_rooms(limits, usage, now, interval)))


def charge_many(
    limits: Limits, usage: Usage, *, now: datetime, interval: timedelta, count: int, roll: float = 0.0
) -> Usage:
    """Return the state after this many sends, one per interval starting now, as if they were charged one by one. There
    must be `room` for these sends.
    """
    assert count >= 1
    assert interval > timedelta()
    charges = _charges_after(limits, usage, now, interval, count) if limits.needs_charges else ()
    while count:
        usage = roll_windows(limits, usage, now=now)
        hour, day = usage.hour_started_at or now, usage.day_started_at or _day_start(limits, now)
        n = min(count, begins_within(min(hour + HOUR, day + DAY) - now, interval))
        usage = changed(
            usage,
            hour_started_at=hour,
            hour_used=usage.hour_used + n,
            day_started_at=day,
            day_used=usage.day_used + n,
            last_begun_at=now + (n - 1) * interval,
            gap_roll=roll,
            charges=charges,
        )
        now, count = now + n * interval, count - n
    return usage


def begins_within(length: timedelta, interval: timedelta) -> int:
    """Return how many sends begin within this time: the first at once, then one per interval."""
    return -(-length // interval)


def _rooms(limits: Limits, usage: Usage, now: datetime, interval: timedelta) -> Iterator[int]:
    """Yield how many sends at this pace each limit allows."""
    yield ROOM_MAX
    if limits.hourly_max is not None:
        hour = usage.hour_started_at or now
        yield _round_room(hour + HOUR - now, HOUR, limits.hourly_max, usage.hour_used, interval)
    most, _ = daily_limit(limits, usage)
    day = usage.day_started_at or _day_start(limits, now)
    if most is not None and limits.daily_mode is DailyMode.SLIDING:
        yield _sliding_room(_since(usage, now - DAY), DAY, most, now, interval)
    elif most is not None:
        yield _round_room(day + DAY - now, DAY, most, usage.day_used, interval)
    if limits.warm_up is not None:
        yield begins_within(day + DAY - now, interval)  # the next day has its own limit
    if limits.units_per_minute is not None:
        yield _units_room(limits.units_per_minute, limits.units_per_send, _since(usage, now - MINUTE), now, interval)


def _round_room(left: timedelta, length: timedelta, most: int, used: int, interval: timedelta) -> int:
    """Return the room left in the current round of a limit that is reset every round. The room is unlimited if no round
    can fill up.
    """
    in_round = begins_within(left, interval)
    is_never_full = used + in_round <= most and begins_within(length, interval) <= most
    return ROOM_MAX if is_never_full else min(most - used, in_round)


def _units_room(most: int, each: int, charges: tuple[Charge, ...], now: datetime, interval: timedelta) -> int:
    if any(c.units != each for c in charges):  # a recent send used a different number of units: count only free units
        return (most - sum(c.units for c in charges)) // each
    return _sliding_room(charges, MINUTE, most // each, now, interval)


def _sliding_room(charges: tuple[Charge, ...], span: timedelta, most: int, now: datetime, interval: timedelta) -> int:
    """Return the room under a sliding limit: the current room, plus one for each old charge that expires in time."""
    n = most - len(charges)
    past: Iterator[datetime] = accumulate(repeat(interval), add, initial=now + n * interval - span)
    for old, moment in zip(charges, past, strict=False):
        if old.at > moment:
            return n
        n += 1
    return ROOM_MAX if most * interval >= span else most


def _charges_after(limits: Limits, usage: Usage, now: datetime, interval: timedelta, count: int) -> tuple[Charge, ...]:
    """Return the earlier charges and the run's charges, as far back as any limit counts."""
    last = now + (count - 1) * interval
    kept = min(count, begins_within(DAY if limits.daily_mode is DailyMode.SLIDING else MINUTE, interval))
    moments: Iterator[datetime] = accumulate(repeat(interval, kept - 1), add, initial=last - (kept - 1) * interval)
    return (*_recent(limits, usage, last), *map(Charge, moments, repeat(limits.units_per_send)))


def _pause(limits: Limits, roll: float) -> timedelta:
    more = (limits.gap_max_ms - limits.delay_ms) * roll if limits.gap_max_ms is not None else 0.0
    return timedelta(milliseconds=limits.delay_ms + max(0.0, more))


def _last_barrier(limits: Limits, usage: Usage, now: datetime) -> NotBefore | None:
    last: NotBefore | None = None
    for barrier in _barriers(limits, usage, now):
        if last is None or _later(barrier, last):
            last = barrier
    return last


def _barriers(limits: Limits, usage: Usage, now: datetime) -> Iterator[NotBefore]:
    free = free_at(limits, usage)
    if free is not None and free > now:
        yield NotBefore(free, Barrier.DELAY)
    if usage.rest is not None and usage.rest.until > now:
        yield NotBefore(usage.rest.until, Barrier(usage.rest.reason.value), usage.rest.detail)
    if limits.hourly_max is not None and usage.hour_started_at is not None and usage.hour_used >= limits.hourly_max:
        yield NotBefore(usage.hour_started_at + HOUR, Barrier.HOURLY)
    if limits.daily_max is not None or limits.warm_up is not None:
        yield from _daily_barrier(limits, usage, now)
    if limits.units_per_minute is not None:
        yield from _units_barrier(limits.units_per_minute - limits.units_per_send, _since(usage, now - MINUTE))


def _daily_barrier(limits: Limits, usage: Usage, now: datetime) -> Iterator[NotBefore]:
    most, reason = daily_limit(limits, usage)
    if most is None or _day_used(limits, usage, now) < most:
        return
    day_ends_at = usage.day_started_at + DAY if usage.day_started_at is not None else None
    if limits.daily_mode is not DailyMode.SLIDING:
        if day_ends_at is not None:
            yield NotBefore(day_ends_at, reason)
        return
    moment = _since(usage, now - DAY)[-most].at + DAY
    if day_ends_at is not None and day_ends_at < moment:  # the warm-up may reach its next step first
        stepped = roll_windows(limits, usage, now=day_ends_at)
        yield from list(_daily_barrier(limits, stepped, day_ends_at)) or [NotBefore(day_ends_at, reason)]
    else:
        yield NotBefore(moment, reason)


def _units_barrier(room: int, charges: tuple[Charge, ...]) -> Iterator[NotBefore]:
    """Wait until enough of the oldest charges are more than a minute old to leave room for another."""
    used = sum(c.units for c in charges)
    if used <= room:
        return
    for each in charges:
        used -= each.units
        if used <= room:
            yield NotBefore(each.at + MINUTE, Barrier.UNITS)
            return


def _day_used(limits: Limits, usage: Usage, now: datetime) -> int:
    return len(_since(usage, now - DAY)) if limits.daily_mode is DailyMode.SLIDING else usage.day_used


def _since(usage: Usage, moment: datetime) -> tuple[Charge, ...]:
    """Return the charges made after the given moment."""
    return usage.charges[bisect_right(usage.charges, moment, key=lambda c: c.at) :]


def _recent(limits: Limits, usage: Usage, now: datetime) -> tuple[Charge, ...]:
    return _since(usage, now - (DAY if limits.daily_mode is DailyMode.SLIDING else MINUTE))


def _day_start(limits: Limits, now: datetime) -> datetime:
    is_anchored = limits.daily_mode is DailyMode.ANCHORED
    return now if is_anchored else datetime.combine(now.date(), time(), tzinfo=now.tzinfo)


def _was_a_good_day(usage: Usage) -> bool:
    return usage.day_used > 0 and usage.day_bounces * 100 <= WARM_UP_BOUNCE_PERCENT_MAX * usage.day_used


def _later(one: NotBefore, other: NotBefore) -> bool:
    return one.moment is None or (other.moment is not None and one.moment > other.moment)
