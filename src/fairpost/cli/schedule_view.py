"""The state of a schedule now and on the coming days, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import typer

from fairpost.campaigns.parsers import DAYS, hours_in_words, weekdays_in_words
from fairpost.cli.output import print_pairs, print_table
from fairpost.model.durations import write_duration
from fairpost.policy import windows
from fairpost.policy.calendar import day_start
from fairpost.policy.quotas import allowed_on, day_number
from fairpost.policy.windows import Span

if TYPE_CHECKING:
    from fairpost.model.window import Quota, SendingWindow
    from fairpost.store.schedules import QuotaUsed, StoredSchedule

DAYS_AHEAD = 7
HOLIDAYS_NAMED = 10


@dataclass(frozen=True, slots=True)
class Day:
    """A day in the workspace's time zone. `open` is None if the window is open all day; `allowed` is None if there is
    no quota.
    """

    day: date
    starts_at: datetime
    ends_at: datetime
    open: tuple[Span, ...] | None
    allowed: int | None


@dataclass(frozen=True, slots=True)
class ShownSchedule:
    stored: "StoredSchedule"
    today: "QuotaUsed | None"  # as stored for the engine
    now: datetime

    @property
    def window(self) -> "SendingWindow | None":
        return self.stored.schedule.window

    @property
    def quota(self) -> "Quota":
        return self.stored.schedule.quota

    @property
    def timezone(self) -> str:
        return self.stored.schedule.timezone

    # ── the current state ─────────────────────────────────────────────────────────────────────────────────────

    def days(self) -> Iterator[Day]:
        """Yield today and the following days."""
        starts_at = day_start(self.timezone, self.now)
        first = self.stored.first_day or windows.local_day(self.timezone, self.now)
        for _ in range(DAYS_AHEAD):
            ends_at = windows.next_day(self.timezone, starts_at)
            day = windows.local_day(self.timezone, starts_at)
            spans = None if self.window is None else tuple(windows.spans(self.window, starts_at, ends_at))
            yield Day(day, starts_at, ends_at, spans, allowed_on(self.quota, day_number(first, day, self.window)))
            starts_at = ends_at

    def is_open(self) -> bool:
        return self.window is None or windows.is_open(self.window, self.now)

    def closes_at(self) -> datetime | None:
        """Return the time at which the window closes, or None if it is closed now or always open."""
        if self.window is None or not self.is_open():
            return None
        end = windows.closes_at(self.window, self.now)
        return end if end < self.now + windows.SEARCH_MAX else None

    def opens_at(self) -> datetime | None:
        """Return the time at which the window opens, or None if it is open now or will stay closed for a year."""
        if self.window is None or self.is_open():
            return None
        try:
            return windows.next_open(self.window, self.now)
        except windows.NeverOpens:
            return None

    def used(self) -> int:
        return self.today.used if self.today else 0

    def allowed(self) -> int | None:
        return self.today.allowed if self.today and self.quota.daily_max is not None else next(self.days()).allowed

    def ramp_up_days(self) -> int:
        return self.quota.ramp_up_days or len(self.quota.ramp_up_percents)

    def ramp_up_day(self) -> int | None:
        """Return the current day of the ramp-up, or None if there is no ramp-up or it has not begun."""
        if not self.ramp_up_days() or self.stored.first_day is None:
            return None
        return day_number(self.stored.first_day, windows.local_day(self.timezone, self.now), self.window)

    # ── for programs ──────────────────────────────────────────────────────────────────────────────────────

    def facts(self) -> dict[str, Any]:
        window, quota = self.window, self.quota
        return {
            "workspace": self.stored.workspace,
            "is_set": self.stored.is_stored,
            "timezone": self.timezone,
            "window": window
            and {
                "days": sorted(window.days),
                "start": window.start.isoformat(),
                "end": window.end.isoformat(),
                "holidays": [day.isoformat() for day in sorted(window.holidays)],
            },
            "quota": {
                "daily_max": quota.daily_max,
                "ramp_up_days": quota.ramp_up_days,
                "ramp_up_percents": quota.ramp_up_percents,
            },
            "is_open": self.is_open(),
            "closes_at": self.closes_at(),
            "opens_at": self.opens_at(),
            "today": {"used": self.used(), "allowed": self.allowed(), "resets_at": next(self.days()).ends_at},
            "ramp_up": {"day": self.ramp_up_day(), "days": self.ramp_up_days()} if self.ramp_up_days() else None,
            "days": [
                {"day": d.day.isoformat(), "open": d.open, "allowed": d.allowed, "ends_at": d.ends_at}
                for d in self.days()
            ],
            "recipients_timezones": self.stored.zones,
            "is_sending": self.stored.is_sending,
        }

    # ── for people ────────────────────────────────────────────────────────────────────────────────────────

    def summary(self) -> list[str]:
        under_way = ["running campaigns use it from now on"] if self.stored.is_sending else []
        sends = f"workspace {self.stored.workspace} sends {self._when()}, {self._how_much()}"
        return [sends, self._now_in_words(), *under_way]

    def print(self) -> None:
        set_by = "" if self.stored.is_stored else " (default; to set one: fairpost schedule set --help)"
        print_pairs(
            [
                ("workspace", self.stored.workspace),
                ("sends", f"{self._when()}, {self._how_much()}{set_by}"),
                ("holidays", self._holidays()),
                ("now", f"{self._local(self.now)} {self.timezone}: {self._now_in_words()}"),
                ("quota", self._quota_in_words()),
                ("ramp-up", self._ramp_up_in_words()),
                (
                    "node_state",
                    f"and those of recipients: {', '.join(self.stored.zones)}" if self.stored.zones else None,
                ),
                ("campaigns", "running" if self.stored.is_sending else "none running"),
            ]
        )
        if self.window is None and self.quota.daily_max is None:
            return
        typer.echo("")
        print_table(("day", "sends", ">at most"), map(self._row, self.days()))

    def _when(self) -> str:
        window = self.window
        if window is None:
            return "at any time"
        hours = "the whole day" if window.start == window.end else hours_in_words(window.start, window.end)
        night = " (into the next day)" if window.start > window.end and window.end != time() else ""
        off = len(self._holidays_ahead())
        holidays = f" except on {off} holiday{'s' if off > 1 else ''}" if off else ""
        return f"{days_in_words(window.days)} {hours.replace('-', '–')}{night} {self.timezone}{holidays}"

    def _how_much(self) -> str:
        quota = self.quota
        if quota.daily_max is None:
            return "without a daily quota"
        clock = f" (the days of {self.timezone})" if self.window is None else ""
        growth = f", growing evenly over the first {quota.ramp_up_days} days" if quota.ramp_up_days else ""
        if quota.ramp_up_percents:
            growth = f", starting with {', '.join(f'{each}%' for each in quota.ramp_up_percents)} of it over the first few days"
        return f"at most {quota.daily_max:,} a day{clock}{growth}"

    def _now_in_words(self) -> str:
        if self.is_open():
            end = self.closes_at()
            return f"open until {self._ahead(end)}" if end else "open"
        start = self.opens_at()
        return (
            f"closed; next opens {self._ahead(start)}"
            if start
            else "closed for the next year: add days or remove holidays"
        )

    def _quota_in_words(self) -> str:
        allowed = self.allowed()
        if allowed is None:
            return "none"
        left = max(0, allowed - self.used())
        resets_at = next(self.days()).ends_at
        return f"{self.used():,} of {allowed:,} used today, {left:,} left; the next day begins {self._ahead(resets_at)}"

    def _ramp_up_in_words(self) -> str | None:
        days, day = self.ramp_up_days(), self.ramp_up_day()
        if not days:
            return None
        if day is None:
            return f"{days} days from the first launch; shown below as if the first launch were today"
        return f"today is day {day} of {days}" if day <= days else f"finished after {days} days"

    def _holidays(self) -> str:
        ahead = self._holidays_ahead()
        more = f" and {len(ahead) - HOLIDAYS_NAMED} more" if len(ahead) > HOLIDAYS_NAMED else ""
        return ", ".join(day.isoformat() for day in ahead[:HOLIDAYS_NAMED]) + more

    def _holidays_ahead(self) -> list[date]:
        today = windows.local_day(self.timezone, self.now)
        return sorted(day for day in (self.window.holidays if self.window else ()) if day >= today)

    def _row(self, day: Day) -> tuple[str, str, str]:
        sends = (
            "at any time" if day.open is None else ", ".join(self._span(each, day) for each in day.open) or "nothing"
        )
        is_holiday = self.window is not None and day.day in self.window.holidays
        allowed = "" if day.open == () else "no quota" if day.allowed is None else f"{day.allowed:,}"
        return f"{day.day:%a %Y-%m-%d}", f"{sends} (holiday)" if is_holiday else sends, allowed

    def _span(self, span: Span, day: Day) -> str:
        end = "24:00" if span[1] == day.ends_at else f"{self._wall(span[1]):%H:%M}"
        return f"{self._wall(span[0]):%H:%M}–{end}"

    def _ahead(self, moment: datetime) -> str:
        away = write_duration(int((moment - self.now) / timedelta(minutes=1)) * 60)
        is_today = windows.local_day(self.timezone, moment) == windows.local_day(self.timezone, self.now)
        clock = f"{self._wall(moment):%H:%M}" if is_today else self._local(moment)
        return f"{clock} ({f'in {away}' if away != '0s' else 'in less than a minute'})"

    def _local(self, moment: datetime) -> str:
        return f"{self._wall(moment):%A %Y-%m-%d %H:%M}"

    def _wall(self, moment: datetime) -> datetime:
        return moment.astimezone(ZoneInfo(self.timezone))


def days_in_words(days: frozenset[int]) -> str:
    """Describe days, for example "Monday to Friday", or "Monday, Wednesday and Friday"."""
    if len(days) == len(DAYS):
        return "every day"
    full = {day[:3]: day.capitalize() for day in DAYS}
    parts = [" to ".join(full[end] for end in part.split("-")) for part in weekdays_in_words(days).split(",")]
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
