"""Actions on a workspace's sending window and daily quota."""

from dataclasses import asdict, dataclass
from datetime import date, time

from fairpost.actions.acting import Actor, action
from fairpost.campaigns.calendars import set_schedule
from fairpost.campaigns.parsers import EVERY_DAY, WHOLE_DAY
from fairpost.campaigns.values import HOLIDAYS_MAX
from fairpost.model.campaign import Schedule
from fairpost.model.errors import Refusal
from fairpost.model.window import Quota, SendingWindow
from fairpost.store import schedules
from fairpost.store.schedules import StoredSchedule
from fairpost.store.store import Store

RampUp = tuple[int, tuple[int, ...]]  # either the number of days, or the percentage for each day
NO_RAMP_UP: RampUp = (0, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchedule:
    """A request to set a schedule. None keeps the current value.

    A `daily_max` of 0 means no quota. `holidays` are added to the existing holidays, or replace them if
    `drops_holidays` is True. With `is_whole`, omitted values are reset to their defaults.
    """

    workspace: str
    timezone: str | None = None
    days: frozenset[int] | None = None
    hours: tuple[time, time] | None = None
    holidays: frozenset[date] = frozenset()
    drops_holidays: bool = False
    daily_max: int | None = None
    ramp_up: RampUp | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSet:
    before: StoredSchedule
    after: StoredSchedule

    @property
    def is_replanned(self) -> bool:
        """Whether a running ramp-up was replaced by a different one, which starts from the beginning."""
        before, after = _ramp_up(self.before.schedule), _ramp_up(self.after.schedule)
        return self.before.first_day is not None and before != after != NO_RAMP_UP


@action("schedule.set")
async def set_(actor: Actor, request: SetSchedule, store: Store) -> ScheduleSet:
    """Sets the schedule. The new schedule applies immediately, even to e-mails that are already queued."""
    workspace = request.workspace
    before = await schedules.schedule_of(store, workspace)
    wanted = _merged(Schedule() if request.is_whole else before.schedule, request)
    if not before.is_stored or before.schedule != wanted:
        await set_schedule(store, workspace, wanted, now=await store.now())
        await actor.record(store, "schedule.set", "schedule", workspace=workspace, **_as_detail(wanted))
    return ScheduleSet(before=before, after=await schedules.schedule_of(store, workspace))


def _merged(before: Schedule, request: SetSchedule) -> Schedule:
    """Returns the new schedule. A window that is always open is stored as None."""
    old = before.window or SendingWindow(timezone="", days=EVERY_DAY, start=WHOLE_DAY[0], end=WHOLE_DAY[1])
    timezone = before.timezone if request.timezone is None else request.timezone
    days = old.days if request.days is None else request.days
    start, end = request.hours or (old.start, old.end)
    holidays = request.holidays if request.drops_holidays else old.holidays | request.holidays
    if len(holidays) > HOLIDAYS_MAX:
        raise Refusal("schedule.too_many_holidays", most=HOLIDAYS_MAX, count=len(holidays))
    is_always_open = days == EVERY_DAY and start == end and not holidays
    window = SendingWindow(timezone=timezone, days=days, start=start, end=end, holidays=holidays)
    daily_max = before.quota.daily_max if request.daily_max is None else request.daily_max or None
    ramp_up = _ramp_up(before) if request.ramp_up is None else request.ramp_up
    if daily_max is None and ramp_up != NO_RAMP_UP:
        raise Refusal("schedule.ramp_up_without_quota", workspace=request.workspace)
    return Schedule(
        timezone=timezone,
        window=None if is_always_open else window,
        quota=Quota(daily_max=daily_max, ramp_up_days=ramp_up[0], ramp_up_percents=ramp_up[1]),
    )


def _ramp_up(schedule: Schedule) -> RampUp:
    return schedule.quota.ramp_up_days, schedule.quota.ramp_up_percents


def _as_detail(schedule: Schedule) -> dict[str, object]:
    window = schedule.window and {
        "days": sorted(schedule.window.days),
        "start": schedule.window.start,
        "end": schedule.window.end,
        "holidays": sorted(schedule.window.holidays),
    }
    return {"timezone": schedule.timezone, "window": window, "quota": asdict(schedule.quota)}
