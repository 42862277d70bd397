"""A campaign's timeline, in which all accounts advance together, from opening to opening.

Each account first sends as if it were alone. If all accounts together would send more e-mails than the day's quota
allows or the pool contains, the timeline finds the moment at which the quota or the pool runs out. The sends are then
recalculated from the start of the opening up to that moment.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from fairpost.policy.forecast.openings import Opening, Openings
from fairpost.policy.forecast.outcome import Bottleneck, Forecast, SendCounts
from fairpost.policy.forecast.plan import HORIZON_DAYS, NoForecast, Plan, Sender, require_possible, too_long
from fairpost.policy.forecast.runs import Run, ends_for
from fairpost.policy.forecast.track import POOL, Sends, Track, track_of
from fairpost.policy.limits import begins_within


def forecast(
    plan: Plan, senders: Sequence[Sender], *, now: datetime, is_late: Callable[[], bool] = lambda: False
) -> Forecast:
    """Forecast when a campaign finishes, by account and by hour. Raise NoForecast if the campaign never finishes.
    `is_late` is called for each day; if it returns True, NoForecast is raised as well.
    """
    now = now.astimezone(UTC)
    require_possible(plan, senders, now=now)
    timeline = _Timeline(plan, senders, now)
    while timeline.goes_on():
        if is_late():
            raise NoForecast("forecast.too_slow", done=timeline.counts.emails, emails=plan.emails)
    assert timeline.counts.emails == plan.emails
    return timeline.counts.forecast(timeline.waited(), now=now)


class _Timeline:
    def __init__(self, plan: Plan, senders: Sequence[Sender], now: datetime) -> None:
        self.counts = SendCounts([s.name for s in senders], steps=plan.steps, timezone=plan.schedule.timezone)
        share = plan.emails / len(senders)
        self._tracks = {sender.name: track_of(sender, plan, share=share, now=now) for sender in senders}
        self._openings = Openings(plan, now=now)
        self._pool = plan.recipients
        self._emails = plan.emails
        self._reached = now  # time does not run backwards
        self._horizon = max(now, plan.starts_at or now).astimezone(UTC) + timedelta(days=HORIZON_DAYS)

    def goes_on(self) -> bool:
        """Advance through the next opening. Return False if there is nothing left to send."""
        ready = [track for track in self._tracks.values() if track.go_on(has_pool=self._pool > 0)]
        if not ready:
            return False
        opening = self._openings.first_from(max(self._reached, min(track.at for track in ready)))
        self._reached = opening.start
        if opening.start > self._horizon:
            raise too_long(self.counts.emails, self._emails)
        with_a_turn = _first(ready, opening)
        for track in with_a_turn:
            track.wait_for(opening)
        self._pass(opening, with_a_turn)
        return True

    def _pass(self, opening: Opening, ready: Sequence[Track]) -> None:
        before = [track.copy() for track in ready] if self._may_run_out(opening, ready) else []
        sends = [track.send(until=opening.end, pool=self._pool, most=opening.left) for track in ready]
        ends = self._ends(opening, sends) if before else None
        if ends is not None:
            ready = before
            self._tracks |= {track.name: track for track in before}
            sends = [
                track.send(until=end, pool=self._pool, most=opening.left)
                for track, end in zip(before, ends, strict=True)
            ]
        self._openings.use(opening, _count(sends))
        self._pool -= _count_pooled(sends)
        self.counts.add({track.name: _by_step(each) for track, each in zip(ready, sends, strict=True)})

    def _may_run_out(self, opening: Opening, ready: Sequence[Track]) -> bool:
        """Return whether the quota or the pool could run out if accounts were limited only by their pauses."""
        most = sum(begins_within(opening.end - track.at, track.pause) for track in ready if track.at < opening.end)
        return most > opening.left or most > self._pool > 0

    def _ends(self, opening: Opening, sends: Sequence[Sends]) -> list[datetime] | None:
        """Return when each account must stop so that together they stay within the quota and the pool. Return None if
        they stay within both anyway.
        """
        ends = []
        if _count(sends) > opening.left:
            ends.append(ends_for([[run for runs in each.values() for run in runs] for each in sends], opening.left))
        if _count_pooled(sends) > self._pool:
            ends.append(ends_for([each.get(POOL, []) for each in sends], self._pool))
        return [min(each) for each in zip(*ends, strict=True)] if ends else None

    def waited(self) -> dict[Bottleneck, timedelta]:
        total: dict[Bottleneck, timedelta] = {}
        for track in self._tracks.values():
            for reason, length in track.waited.items():
                total[reason] = total.get(reason, timedelta()) + length
        return total


def _first(ready: list[Track], opening: Opening) -> list[Track]:
    """Return the accounts that may send. If there are too many, only those that can start first are returned."""
    if len(ready) <= opening.left:
        return ready
    by_moment = sorted(ready, key=lambda track: max(track.at, opening.start))
    names = {track.name for track in by_moment[: opening.left]}
    return [track for track in ready if track.name in names]


def _by_step(sends: Sends) -> dict[int, list[Run]]:
    """Return the runs by step. E-mails from the pool are first steps."""
    return {
        step: sends.get(step, []) + (sends.get(POOL, []) if step == 1 else []) for step in {max(1, s) for s in sends}
    }


def _count(sends: Sequence[Sends]) -> int:
    return sum(run.size for each in sends for runs in each.values() for run in runs)


def _count_pooled(sends: Sequence[Sends]) -> int:
    return sum(run.size for each in sends for run in each.get(POOL, ()))
