"""A forecast as a curve: it never falls, ends with all e-mails, and matches the hours it was made from."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import Limits
from fairpost.model.reason import Reason
from fairpost.policy.forecast import (
    KeptForecast,
    NoForecast,
    NoKeptForecast,
    Plan,
    Sender,
    curve_of,
    expected_by,
    forecast,
    in_writing,
    none_in_writing,
    read_kept,
)

NOW = datetime(2030, 1, 7, 8, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


def sender(**limits: Any) -> Sender:
    return Sender(name="anna", limits=Limits(**limits))


@given(
    recipients=st.integers(1, 3000),
    hourly=st.integers(1, 300),
    delay_s=st.integers(0, 900),
    points_max=st.integers(2, 300),
)
def test_a_curve_never_falls_and_ends_with_all(recipients: int, hourly: int, delay_s: int, points_max: int) -> None:
    found = forecast(Plan(recipients=recipients), [sender(hourly_max=hourly, delay_ms=delay_s * 1000)], now=NOW)
    curve = curve_of(found, points_max=points_max)
    assert len(curve) <= points_max or len(curve) <= 2
    assert (curve[0], curve[-1]) == ((found.starts_at, 0), (found.ends_at, recipients))
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in pairwise(curve))
    assert expected_by(curve, NOW - HOUR) == 0
    assert expected_by(curve, found.ends_at) == expected_by(curve, found.ends_at + HOUR) == recipients
    assert all(expected_by(curve, at) == n for (at, n), after in pairwise(curve) if at < after[0])


def test_at_every_full_hour_a_curve_says_what_the_hours_say() -> None:
    found = forecast(Plan(recipients=500), [sender(hourly_max=60, daily_max=200)], now=NOW)
    curve, done = curve_of(found), 0
    for hour, n in found.per_hour[:-1]:
        done += n
        assert expected_by(curve, hour + HOUR) == done


def test_no_token_is_returned_after_the_deadline() -> None:
    with pytest.raises(NoForecast, match=r"forecast\.too_slow"):
        forecast(Plan(recipients=5000), [sender(daily_max=10)], now=NOW, is_late=lambda: True)


def test_a_stored_curve_reads_back_the_same() -> None:
    found = forecast(Plan(recipients=500), [sender(hourly_max=60)], now=NOW)
    kept = read_kept(in_writing(found, made_at=NOW, sent=70))
    assert isinstance(kept, KeptForecast)
    assert (kept.made_at, kept.ends_at, kept.emails, kept.sent) == (NOW, found.ends_at, 500, 70)
    assert kept.points == tuple((at, 70 + n) for at, n in curve_of(found))
    none = NoKeptForecast(
        made_at=NOW, why=Reason("forecast.never_sends", account="anna", limit="daily_max", least=1, value=0)
    )
    assert read_kept(none_in_writing(none)) == none
    old = f'{{"made_at": "{NOW.isoformat()}", "why_none": "The relay big-relay is paused.", "account": "big-relay"}}'
    assert read_kept(old) == NoKeptForecast(made_at=NOW, why=Reason("forecast.unknown"))
