"""The senders of `fairpost simulate abuse`: honest ones and abusers, generated with seeded dice and labelled. Senders
behave as they do in practice, not in the way that is easiest for the rules to detect. The rules are implemented
elsewhere.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from fairpost.system.chance import Dice, dice

START = datetime(2030, 1, 7, tzinfo=UTC)  # a Monday
HISTORY = timedelta(days=28)  # senders are not scored during this period, which establishes their usual volume
ORIGIN = START - HISTORY
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
SATURDAY = 5


class Kind(StrEnum):
    STEADY = "steady"
    NEWSLETTER = "newsletter"
    NEWCOMER = "newcomer"
    OLD_LIST = "old-list"
    BLASTER = "blaster"
    ALL_AT_ONCE = "all-at-once"
    HIJACKED = "hijacked"
    SLOW = "slow"

    @property
    def is_abuse(self) -> bool:
        return self in (Kind.BLASTER, Kind.ALL_AT_ONCE, Kind.HIJACKED, Kind.SLOW)


# One sender in four is an abuser. This share is far higher than in reality, but with fewer abusers, no conclusions
# could be drawn.
MIX = (
    *(Kind.STEADY, Kind.BLASTER, Kind.NEWSLETTER, Kind.STEADY, Kind.NEWCOMER),
    *(Kind.STEADY, Kind.HIJACKED, Kind.NEWSLETTER, Kind.STEADY, Kind.OLD_LIST),
    *(Kind.STEADY, Kind.ALL_AT_ONCE, Kind.NEWSLETTER, Kind.STEADY, Kind.NEWCOMER),
    *(Kind.STEADY, Kind.SLOW, Kind.STEADY, Kind.STEADY, Kind.BLASTER),
)


@dataclass(frozen=True, slots=True)
class Batch:
    due: datetime
    at: datetime  # when the e-mails are sent, unless they are held
    emails: int
    bounced: int
    rejected: int
    takes: timedelta  # time until the outcome is known


@dataclass(frozen=True, slots=True)
class Sender:
    kind: Kind
    created_at: datetime
    batches: tuple[Batch, ...]
    abuses_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Answers:
    """The quality of a list: the share of its e-mails that bounce, and the share that are rejected."""

    bounced: float
    rejected: float


def senders_of(seed: int, *, senders: int, days: int) -> list[Sender]:
    return [DRAW[kind](dice(f"{seed} {n}"), days) for n, kind in zip(range(senders), _kinds(), strict=False)]


def _kinds() -> Iterator[Kind]:
    while True:
        yield from MIX


def _steady(roll: Dice, days: int) -> Sender:
    usual, answers = 5 * 30 ** roll(), _good_answers(roll)
    return Sender(Kind.STEADY, _long_ago(roll), (*_everyday(roll, usual, answers, days),))


def _newsletter(roll: Dice, days: int) -> Sender:
    """Returns a sender that sends few e-mails on most days and, once a week, hundreds or thousands within two hours."""
    usual, letters, weekday = _between(roll, 5, 30), round(300 * 10 ** roll()), int(roll() * 5)
    answers = _Answers(_between(roll, 0.01, 0.05), _between(roll, 0, 0.015))
    batches = list(_everyday(roll, usual, answers, days))
    for day in _days(days):
        if day.weekday() == weekday:
            batches += _spread(roll, day + 9 * HOUR, letters, 2 * HOUR, answers, size=50)
    return Sender(Kind.NEWSLETTER, _long_ago(roll), (*batches,))


def _newcomer(roll: Dice, days: int) -> Sender:
    """Returns a sender that starts with a few e-mails a day. Each day adds half of the first day's volume."""
    created_at = START + _between(roll, 0, 0.5) * days * DAY
    first = _between(roll, 10, 40)
    answers = _Answers(_between(roll, 0.01, 0.06), _between(roll, 0, 0.015))
    batches: list[Batch] = []
    for number in range(days):
        emails = round(first * (1 + number / 2) * _between(roll, 0.6, 1.4))
        batches += _spread(roll, created_at + number * DAY + HOUR, emails, 8 * HOUR, answers)
    return Sender(Kind.NEWCOMER, created_at, (*batches,))


def _old_list(roll: Dice, days: int) -> Sender:
    """Returns a steady sender that one day e-mails all addresses it ever had, 7% to 12% of which no longer exist."""
    usual, answers = _between(roll, 10, 40), _good_answers(roll)
    old = _Answers(_between(roll, 0.07, 0.12), _between(roll, 0.005, 0.02))
    burst = _spread(roll, _some_time(roll, days), round(usual * _between(roll, 20, 40)), 3 * HOUR, old, size=50)
    return Sender(Kind.OLD_LIST, _long_ago(roll), (*_everyday(roll, usual, answers, days), *burst))


def _blaster(roll: Dice, days: int) -> Sender:
    """Returns a new account with a bought list."""
    begins_at = _some_time(roll, days)
    batches = (*_blast(roll, begins_at),)
    return Sender(Kind.BLASTER, begins_at - _between(roll, 0.1, 24) * HOUR, batches, abuses_from=begins_at)


def _all_at_once(roll: Dice, days: int) -> Sender:
    """Returns a sender like `_blaster`, except that all of its e-mails are queued at once. The pace is the same."""
    begins_at = _some_time(roll, days)
    batches = (*_blast(roll, begins_at, due=begins_at),)
    return Sender(Kind.ALL_AT_ONCE, begins_at - _between(roll, 0.1, 24) * HOUR, batches, abuses_from=begins_at)


def _hijacked(roll: Dice, days: int) -> Sender:
    """Returns a steady sender whose password is stolen, after which fifty days' worth of mail is sent within hours."""
    usual, answers = _between(roll, 20, 100), _good_answers(roll)
    bad = _Answers(_between(roll, 0.04, 0.2), _between(roll, 0.08, 0.25))
    begins_at = _some_time(roll, days)
    burst = _spread(roll, begins_at, round(50 * usual), _between(roll, 2, 6) * HOUR, bad, size=40)
    batches = (*_everyday(roll, usual, answers, days), *burst)
    return Sender(Kind.HIJACKED, _long_ago(roll), batches, abuses_from=begins_at)


def _slow(roll: Dice, days: int) -> Sender:
    """Returns an abuser that has a new account, knows the rules, and stays just below each limit every day."""
    created_at = START + _between(roll, 0, 0.5) * days * DAY
    answers = _Answers(_between(roll, 0.06, 0.095), _between(roll, 0.03, 0.045))
    batches: list[Batch] = []
    for number in range(days):
        batches += _spread(roll, created_at + number * DAY, round(_between(roll, 60, 80)), 20 * HOUR, answers)
    return Sender(Kind.SLOW, created_at, (*batches,), abuses_from=created_at)


DRAW: dict[Kind, Callable[[Dice, int], Sender]] = {
    Kind.STEADY: _steady,
    Kind.NEWSLETTER: _newsletter,
    Kind.NEWCOMER: _newcomer,
    Kind.OLD_LIST: _old_list,
    Kind.BLASTER: _blaster,
    Kind.ALL_AT_ONCE: _all_at_once,
    Kind.HIJACKED: _hijacked,
    Kind.SLOW: _slow,
}


def _good_answers(roll: Dice) -> _Answers:
    return _Answers(_between(roll, 0.005, 0.03), _between(roll, 0, 0.01))


def _blast(roll: Dice, begins_at: datetime, *, due: datetime | None = None) -> Iterator[Batch]:
    answers = _Answers(_between(roll, 0.15, 0.4), _between(roll, 0.05, 0.2))
    emails, over = round(_between(roll, 2_000, 8_000)), _between(roll, 2, 6) * HOUR
    return _spread(roll, begins_at, emails, over, answers, size=40, due=due)


def _everyday(roll: Dice, usual: float, answers: _Answers, days: int) -> Iterator[Batch]:
    """Yields batches during working hours on working days, beginning long before the start."""
    for day in _days(days):
        if day.weekday() < SATURDAY:
            yield from _spread(roll, day + 8 * HOUR, round(usual * _between(roll, 0.6, 1.4)), 10 * HOUR, answers)


def _days(days: int) -> Iterator[datetime]:
    return (ORIGIN + number * DAY for number in range(HISTORY // DAY + days))


def _spread(
    roll: Dice,
    start: datetime,
    emails: int,
    over: timedelta,
    answers: _Answers,
    *,
    size: int = 10,
    due: datetime | None = None,
) -> Iterator[Batch]:
    """Yields evenly spaced batches, with some randomness. With `due`, all batches are queued at that time."""
    batches = -(-emails // size)
    for number in range(batches):
        at = start + over * ((number + roll()) / batches)
        some = emails * (number + 1) // batches - emails * number // batches
        rolls = [roll() for _ in range(some)]
        bounced = sum(rolled < answers.bounced for rolled in rolls)
        rejected = sum(answers.bounced <= rolled < answers.bounced + answers.rejected for rolled in rolls)
        yield Batch(due or at, at, some, bounced, rejected, takes=_between(roll, 5, 120) * SECOND)


def _some_time(roll: Dice, days: int) -> datetime:
    """Returns a time that is not near the end, because enough time must remain to detect the abuse."""
    return START + _between(roll, 0.1, 0.7) * days * DAY


def _long_ago(roll: Dice) -> datetime:
    return ORIGIN - _between(roll, 30, 1_000) * DAY


def _between(roll: Dice, least: float, most: float) -> float:
    return least + roll() * (most - least)
