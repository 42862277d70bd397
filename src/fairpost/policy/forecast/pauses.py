"""Compute how long an account pauses between two e-mails, on average."""

from datetime import timedelta

from fairpost.model.account import Limits
from fairpost.model.campaign import Gap
from fairpost.policy.forecast.outcome import Bottleneck
from fairpost.policy.limits import widened


def mean_pause(limits: Limits, gap: Gap | None, *, seconds_per_send: float) -> tuple[timedelta, Bottleneck]:
    """Return the time from one start to the next, in whole milliseconds, together with what determines it.

    Each send must end before the next one begins.
    """
    own = _mean_at_least(0.0, limits)
    with_gap = _mean_at_least(0.0, widened(limits, gap))
    mean = _mean_at_least(seconds_per_send * 1000, widened(limits, gap))
    reason = Bottleneck.GAP if with_gap > own else Bottleneck.DELAY
    if seconds_per_send * 1000 > with_gap:
        reason = Bottleneck.SENDING
    return timedelta(milliseconds=max(1, round(mean))), reason


def _mean_at_least(least_ms: float, limits: Limits) -> float:
    """Return the mean pause if pauses are drawn uniformly between the shortest and the longest, then raised to at least
    `least_ms`.
    """
    low, high = float(limits.delay_ms), float(max(limits.delay_ms, limits.gap_max_ms or 0))
    if least_ms >= high:
        return least_ms
    if least_ms <= low:
        return (low + high) / 2
    return (least_ms * (least_ms - low) + (high + least_ms) / 2 * (high - least_ms)) / (high - low)
