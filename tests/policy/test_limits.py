"""When an account may send: exactly within its limits, whatever the times are."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import Limits, Usage
from fairpost.policy.limits import DAY, HOUR, Go, NotBefore, Reason, admit, batch_size, charge, refund

START = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

limits = st.builds(
    Limits,
    delay_ms=st.sampled_from([0, 100, 3000, 90_000]),
    hourly_max=st.none() | st.integers(1, 20),
    daily_max=st.none() | st.integers(1, 40),
    batch_max=st.integers(1, 50),
)


@given(limits=limits, gaps=st.lists(st.integers(0, 4000), max_size=200))
def test_no_window_ever_holds_more_than_its_limit(limits: Limits, gaps: list[int]) -> None:
    now, usage, sent = START, Usage(), list[datetime]()
    for gap in gaps:
        now += timedelta(seconds=gap)
        match admit(limits, usage, now=now):
            case Go(after):
                usage = after
                sent.append(now)
            case NotBefore(moment, _):
                assert moment > now
    for length, most in ((HOUR, limits.hourly_max), (DAY, limits.daily_max)):
        _windows_hold(sent, length, most)
    delay = timedelta(milliseconds=limits.delay_ms)
    assert all(b - a >= delay for a, b in pairwise(sent))


def _windows_hold(sent: list[datetime], length: timedelta, most: int | None) -> None:
    """A window begins with its first send and ends its length later; the next begins with the next send."""
    started, used = None, 0
    for at in sent:
        if started is None or at >= started + length:
            started, used = at, 0
        used += 1
        assert most is None or used <= most


@given(limits=limits, used=st.integers(0, 60))
def test_the_moment_it_names_is_the_first_at_which_it_may_send(limits: Limits, used: int) -> None:
    usage = Usage(hour_started_at=START, hour_used=used, day_started_at=START, day_used=used, last_begun_at=START)
    answer = admit(limits, usage, now=START)
    if isinstance(answer, NotBefore):
        assert isinstance(admit(limits, usage, now=answer.moment), Go)
        assert isinstance(admit(limits, usage, now=answer.moment - timedelta(microseconds=1)), NotBefore)


def test_the_reason_is_the_limit_that_lasts_longest() -> None:
    both = Limits(hourly_max=1, daily_max=1)
    usage = charge(Usage(), now=START)
    assert admit(both, usage, now=START + SECOND) == NotBefore(START + DAY, Reason.DAILY)
    hourly = Limits(hourly_max=1, daily_max=5, delay_ms=1000)
    assert admit(hourly, usage, now=START) == NotBefore(START + HOUR, Reason.HOURLY)


def test_a_refund_gives_back_one_and_never_more() -> None:
    assert refund(charge(Usage(), now=START)).day_used == 0
    assert refund(Usage()).hour_used == 0


@given(limits=limits, used=st.integers(0, 60))
def test_a_batch_is_no_more_than_any_limit_leaves(limits: Limits, used: int) -> None:
    usage = Usage(hour_started_at=START, hour_used=used, day_started_at=START, day_used=used)
    size = batch_size(limits, usage, now=START)
    assert 0 <= size <= limits.batch_max
    assert size <= max(1, 1000 // limits.delay_ms) if limits.delay_ms else True
    for most in (limits.hourly_max, limits.daily_max):
        assert most is None or size <= max(0, most - used)
