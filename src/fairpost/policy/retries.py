"""Decide when to try again.

An urgent e-mail waits after each failed attempt: first 1, 5 and 30 minutes, then 2 hours each time. A bulk e-mail
waits 1, 5 and 15 minutes, then an hour each time. If an account's server is unreachable, the account waits 1, 2, 4 …
seconds, up to a minute. If the server says that the account is sending too fast but names no time, the account waits 1,
2, 4 … minutes, up to an hour. In both cases, the account's e-mails are not to blame.
"""

from datetime import timedelta

from fairpost.model.states import EmailClass

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

DELAYS: dict[EmailClass, tuple[timedelta, ...]] = {
    EmailClass.URGENT: (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR),
    EmailClass.BULK: (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR),
}
JITTER = 0.1  # up to a tenth later, so senders do not all return to a broken server at once


def retry_delay(email_class: EmailClass, *, attempts: int, roll: float) -> timedelta:
    """Return how long to wait after this many attempts. `roll` is a random number from 0 to 1."""
    delays = DELAYS[email_class]
    return delays[min(attempts, len(delays)) - 1] * (1 + JITTER * roll)


UNREACHABLE_S_MAX = 60


def unreachable_delay(*, times: int, roll: float) -> timedelta:
    """Return how long an account pauses after its server was unreachable this many times in a row."""
    return timedelta(seconds=min(UNREACHABLE_S_MAX, 2 ** min(times - 1, 10)) * (1 + JITTER * roll))


LOCKED = 5 * MINUTE


def locked_delay(*, roll: float) -> timedelta:
    """Return how long an e-mail waits if its signing key cannot be unsealed. The key must be repaired manually."""
    return LOCKED * (1 + JITTER * roll)


BACK_OFF_MAX = HOUR


def back_off_delay(*, times: int, roll: float) -> timedelta:
    """Return how long an account pauses after it was throttled this many times in a row."""
    minutes: int = 2 ** min(times - 1, 10)
    return min(BACK_OFF_MAX, MINUTE * minutes) * (1 + JITTER * roll)
