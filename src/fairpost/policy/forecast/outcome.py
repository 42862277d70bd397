"""The result of a forecast, accumulated from its runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from fairpost.model.reason import Reason
from fairpost.policy.forecast.runs import Run
from fairpost.policy.windows import local_day, next_day

HOUR = timedelta(hours=1)


class Bottleneck(StrEnum):
    """The reasons why an account may have to wait."""

    DELAY = "account delay"
    HOURLY = "hourly limit"
    DAILY = "daily limit"
    WARM_UP = "warm-up"
    UNITS = "units"
    WINDOW = "sending window"
    QUOTA = "daily quota"
    RAMP_UP = "ramp-up"
    GAP = "gap"
    STEP_DELAY = "step delay"
    SENDING = "time a send takes"
    PAUSE = "pause of an account"
    NOTHING = "nothing"


class StepFigures(NamedTuple):
    emails: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    emails: int
    starts_at: datetime  # time of the first send, or now if nothing is sent
    ends_at: datetime  # time of the last send
    finished_after_s: float  # from now
    per_account: Mapping[str, int]
    per_step: tuple[StepFigures, ...]
    per_hour: tuple[tuple[datetime, int], ...]  # by the start of the hour in UTC; only hours with e-mails
    per_day: tuple[tuple[date, int], ...]  # by local day; only days with e-mails
    bottleneck: Bottleneck
    why: Reason  # the bottleneck, with its share of the waiting time
    waited_s: Mapping[Bottleneck, float]  # waits before e-mails that were sent, summed over all accounts, longest first


class SendCounts:
    def __init__(self, accounts: list[str], *, steps: int, timezone: str) -> None:
        self._timezone = timezone
        self._accounts = dict.fromkeys(accounts, 0)
        self._steps = [StepFigures(0, None, None)] * steps
        self._hours: Counter[datetime] = Counter()
        self._days: Counter[date] = Counter()
        self._day_ends: dict[date, datetime] = {}

    @property
    def emails(self) -> int:
        return sum(self._accounts.values())

    def add(self, sent: Mapping[str, Mapping[int, Sequence[Run]]]) -> None:
        """Add runs by account and step. Accounts of the same kind often send identical runs, so identical runs are
        added together.
        """
        together: Counter[tuple[int, Run]] = Counter()
        for account, steps in sent.items():
            for step, runs in steps.items():
                self._accounts[account] += sum(run.size for run in runs)
                together.update((step, run) for run in runs)
        for (step, run), times in together.items():
            self._steps[step - 1] = _with(self._steps[step - 1], run, times)
            self._add_hours(run, times)
            self._add_days(run, times)

    def _add_hours(self, run: Run, times: int) -> None:
        while run.size:
            hour = run.start.replace(minute=0, second=0, microsecond=0)
            n = run.before(hour + HOUR)
            self._hours[hour] += n * times
            run = run.without(n)

    def _add_days(self, run: Run, times: int) -> None:
        while run.size:
            day = local_day(self._timezone, run.start)
            n = run.before(self._end_of(day, run.start))
            self._days[day] += n * times
            run = run.without(n)

    def forecast(self, waited: Mapping[Bottleneck, timedelta], *, now: datetime) -> Forecast:
        firsts = [step.first_at for step in self._steps if step.first_at is not None]
        lasts = [step.last_at for step in self._steps if step.last_at is not None]
        ends_at = max(lasts, default=now)
        waited_s = {
            reason: length.total_seconds()
            for reason, length in sorted(waited.items(), key=lambda w: w[1], reverse=True)
        }
        bottleneck = next((reason for reason, length_s in waited_s.items() if length_s > 0), Bottleneck.NOTHING)
        return Forecast(
            emails=self.emails,
            starts_at=min(firsts, default=now),
            ends_at=ends_at,
            finished_after_s=(ends_at - now).total_seconds(),
            per_account=self._accounts,
            per_step=tuple(self._steps),
            per_hour=tuple(sorted(self._hours.items())),
            per_day=tuple(sorted(self._days.items())),
            bottleneck=bottleneck,
            why=_why(bottleneck, waited_s),
            waited_s=waited_s,
        )

    def _end_of(self, day: date, moment: datetime) -> datetime:
        end = self._day_ends.get(day)
        if end is None or end <= moment:  # a clock that is set back at midnight shows the previous day again
            end = self._day_ends[day] = next_day(self._timezone, moment)
        return end


def _with(step: StepFigures, run: Run, times: int) -> StepFigures:
    first_at = run.start if step.first_at is None else min(step.first_at, run.start)
    last_at = run.last if step.last_at is None else max(step.last_at, run.last)
    return StepFigures(step.emails + run.size * times, first_at, last_at)


def _why(bottleneck: Bottleneck, waited_s: Mapping[Bottleneck, float]) -> Reason:
    whole_s = sum(waited_s.values())
    percent = round(100 * waited_s[bottleneck] / whole_s) if bottleneck is not Bottleneck.NOTHING else None
    return Reason(f"bottleneck.{bottleneck.replace(' ', '_').replace('-', '_')}", percent=percent)
