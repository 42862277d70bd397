"""When to try again. Urgent mail: 1 min, 5 min, 30 min, 2 h. Bulk mail: 1, 5, 15 min, then hourly."""

from datetime import timedelta

from fairpost.model.states import EmailClass

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

DELAYS: dict[EmailClass, tuple[timedelta, ...]] = {
    EmailClass.URGENT: (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR),
    EmailClass.BULK: (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR),
}
JITTER = 0.1  # a tenth later at most, so that a broken server is not met by everybody at once


def retry_delay(email_class: EmailClass, *, attempts: int, roll: float) -> timedelta:
    """How long to wait after so many attempts; `roll` is from 0 to 1."""
    delays = DELAYS[email_class]
    return delays[min(attempts, len(delays)) - 1] * (1 + JITTER * roll)
