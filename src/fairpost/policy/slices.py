"""What part of an account's limits one region has. All parts together never allow more than the whole did.

Numbers are rounded down and pauses up. The only exception is a limit too small to be shared: each part is 1 at least.
"""

from dataclasses import replace

from fairpost.model.account import Limits, WarmUp

PAUSE_MS_MAX = 2**31 - 1  # what its column holds: 24 days


def sliced(whole: Limits, percent: int) -> Limits:
    """ValueError: this part is too small for a single send."""
    units = _part(whole.units_per_minute, percent)
    if units is not None and units < whole.units_per_send:
        raise ValueError(
            f"{percent} % of {whole.units_per_minute} units a minute is not enough for one send, "
            f"which takes {whole.units_per_send}"
        )
    return replace(
        whole,
        daily_max=_part(whole.daily_max, percent),
        hourly_max=_part(whole.hourly_max, percent),
        units_per_minute=units,
        delay_ms=_longer(whole.delay_ms, percent),
        gap_max_ms=None if whole.gap_max_ms is None else _longer(whole.gap_max_ms, percent),
        warm_up=whole.warm_up and _warmed(whole.warm_up, percent),
    )


def _part(number: int | None, percent: int) -> int | None:
    return None if number is None else max(1, number * percent // 100)


def _longer(pause_ms: int, percent: int) -> int:
    longer_ms = -(-pause_ms * 100 // percent)  # rounded up
    if longer_ms > PAUSE_MS_MAX:
        raise ValueError(
            f"with {percent} % of its pace, its pause of {pause_ms} ms would last more than {PAUSE_MS_MAX} ms"
        )
    return longer_ms


def _warmed(plan: WarmUp, percent: int) -> WarmUp:
    """A plan by days ends at the daily limit, which is a part already."""
    if plan.days:
        return plan
    return replace(
        plan, start=max(1, plan.start * percent // 100), step=max(min(1, plan.step), plan.step * percent // 100)
    )
