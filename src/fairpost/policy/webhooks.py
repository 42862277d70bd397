"""Decide when a webhook is tried again, when its endpoint is disabled, and what a response means."""

from datetime import datetime, timedelta

from fairpost.model.reason import Reason

PAUSES_S = (5, 30, 120, 600, 1800, 3600, 7200, 10_800, 14_400)  # the last delay is repeated
JITTER = 0.2
GIVE_UP_AFTER = timedelta(days=1)
ATTEMPTS_MIN = 5  # minimum, in case no engine was running for most of the day
RETRY_AFTER_S_MAX = 3600.0


def next_try(now: datetime, failures: int, *, roll: float, retry_after_s: float | None = None) -> datetime:
    """Return when to try again after this many consecutive failures. `roll` is a random number from 0 to 1.

    The server may request a longer pause, up to an hour.
    """
    pause_s = PAUSES_S[min(failures, len(PAUSES_S)) - 1] * (1 - JITTER + 2 * JITTER * roll)
    return now + timedelta(seconds=max(pause_s, min(retry_after_s or 0.0, RETRY_AFTER_S_MAX)))


def is_given_up(since: datetime | None, now: datetime, *, attempts: int) -> bool:
    return since is not None and now - since >= GIVE_UP_AFTER and attempts >= ATTEMPTS_MIN


def judged(status: int) -> Reason | None:
    """Return why a response means that the event was not accepted, or None if it was."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return Reason("webhook.redirect", status=status)
    if status == 410:
        return Reason("webhook.gone")
    return Reason("webhook.status", status=status)
