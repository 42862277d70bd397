"""When to try again.

An e-mail, after an attempt: urgent after 1 min, 5 min, 30 min, 2 h; bulk after 1, 5, 15 min, then hourly. An account whose
server cannot be reached: after 1, 2, 4 … seconds, a minute at most; one whose server finds it too fast and names no
moment: after 1, 2, 4 … minutes, an hour at most. Its e-mails are not to blame and wait for nothing.
"""

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


UNREACHABLE_S_MAX = 60


def unreachable_delay(*, times: int, roll: float) -> timedelta:
    """How long an account rests after its server could not be reached so many times in a row."""
    return timedelta(seconds=min(UNREACHABLE_S_MAX, 2 ** min(times - 1, 10)) * (1 + JITTER * roll))


BACK_OFF_MAX = HOUR


def back_off_delay(*, times: int, roll: float) -> timedelta:
    """How long an account rests after it was told so many times in a row that it sends too much."""
    minutes: int = 2 ** min(times - 1, 10)
    return min(BACK_OFF_MAX, MINUTE * minutes) * (1 + JITTER * roll)
