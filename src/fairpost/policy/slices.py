"""Compute one region's share of an account's limits.

Together, the shares never allow more than the whole. Numbers are rounded down, and pauses are rounded up. The only
exception is a limit that is too small to share, because each share is at least 1.
"""

from dataclasses import replace
from typing import Any

from fairpost.model.account import LIMITS, Limits, WarmUp
from fairpost.model.limit import Limit, Share

PAUSE_MS_MAX = 2**31 - 1  # the column's maximum: 24 days


def sliced(whole: Limits, percent: int) -> Limits:
    """Return the share of the limits. Raise ValueError if the share is too small for a single send."""
    parts = replace(whole, **{each.name: _share(each, getattr(whole, each.name), percent) for each in LIMITS})
    if parts.units_per_minute is not None and parts.units_per_minute < whole.units_per_send:
        raise ValueError(
            f"{percent}% of {whole.units_per_minute} units per minute is not enough for one send, "
            f"which uses {whole.units_per_send} units"
        )
    return parts


def _share(limit: Limit, value: Any, percent: int) -> Any:
    if value is None:
        return None
    match limit.share:
        case Share.WHOLE:
            return value
        case Share.LONGER:
            return _longer(value, percent)
        case Share.PART:
            return _warmed(value, percent) if isinstance(value, WarmUp) else max(1, value * percent // 100)


def _longer(pause_ms: int, percent: int) -> int:
    longer_ms = -(-pause_ms * 100 // percent)  # rounded up
    if longer_ms > PAUSE_MS_MAX:
        raise ValueError(f"at {percent}% of the pace, the pause of {pause_ms} ms would exceed {PAUSE_MS_MAX} ms")
    return longer_ms


def _warmed(plan: WarmUp, percent: int) -> WarmUp:
    """Return the share of a warm-up. A plan given in days ends at the daily limit, which is already divided."""
    if plan.days:
        return plan
    return replace(
        plan, start=max(1, plan.start * percent // 100), step=max(min(1, plan.step), plan.step * percent // 100)
    )
