"""A workspace's daily quota in its time zone, and its ramp-up.

Counts of sent e-mails are passed in. `windows` determines when the next day begins.
"""

from datetime import date

from fairpost.model.window import Quota, SendingWindow

RAMP_UP_DAYS_MAX = 365


def problem_of_quota(quota: Quota) -> str | None:
    """Return what is wrong with a quota (field, rule and value), or None if it is valid."""
    if quota.daily_max is not None and quota.daily_max < 1:
        return (
            f"daily_max must be at least 1, or `none` for no quota, got {quota.daily_max}: nothing would ever be sent"
        )
    if not 0 <= quota.ramp_up_days <= RAMP_UP_DAYS_MAX:
        return f"ramp_up_days must be 0..{RAMP_UP_DAYS_MAX}, got {quota.ramp_up_days}"
    if len(quota.ramp_up_percents) > RAMP_UP_DAYS_MAX:
        return f"ramp_up_percents must list at most {RAMP_UP_DAYS_MAX} days, got {len(quota.ramp_up_percents)}"
    if wrong := [each for each in quota.ramp_up_percents if not 1 <= each <= 100]:
        return f"ramp_up_percents must be 1..100 each, got {wrong[0]}"
    if quota.ramp_up_days and quota.ramp_up_percents:
        return "ramp_up_days and ramp_up_percents must not both be set"
    if quota.daily_max is None and (quota.ramp_up_days or quota.ramp_up_percents):
        return "daily_max is required for a ramp-up, got none"
    return None


def allowed_on(quota: Quota, day_number: int) -> int | None:
    """Return how many e-mails may be sent on the n-th day, rounded up, or None if there is no limit."""
    assert day_number >= 1
    if quota.daily_max is None:
        return None
    if day_number <= len(quota.ramp_up_percents):
        return _part(quota.daily_max, quota.ramp_up_percents[day_number - 1], 100)
    if day_number <= quota.ramp_up_days:
        return _part(quota.daily_max, day_number, quota.ramp_up_days)
    return quota.daily_max


def day_number(first_day: date, day: date, window: SendingWindow | None = None) -> int:
    """Return this day's number, counting the first day as 1, whether or not anything was sent in between.

    If there is a window, only its days count, because otherwise the ramp-up would also grow over the weekend and jump
    on Monday.
    """
    count = (day - first_day).days + 1 if window is None else _open_days(window, first_day, day)
    return max(1, count)  # after a change to a time zone farther west, today may be the day before the first day


def _part(whole: int, parts: int, of: int) -> int:
    return -(-whole * parts // of)


def _open_days(window: SendingWindow, first: date, last: date) -> int:
    """Count the open days from first to last, inclusive.

    Whole weeks are counted at a time, because a workspace may be years old.
    """
    weeks, rest = divmod((last - first).days + 1, 7)
    odd = {(first.isoweekday() + n - 1) % 7 + 1 for n in range(rest)}
    off = sum(first <= each <= last and each.isoweekday() in window.days for each in window.holidays)
    return weeks * len(window.days) + len(odd & window.days) - off
