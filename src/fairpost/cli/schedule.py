"""`fairpost schedule`: when a workspace sends its campaigns, and how much a day."""

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fairpost.cli.arguments import limit
from fairpost.cli.names import Workspace, chosen
from fairpost.cli.output import AsJson, plain, print_json
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairpost.cli.schedule_view import ShownSchedule
    from fairpost.model.campaign import Schedule
    from fairpost.postgres.store import Store

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Say when a workspace sends its campaigns, and how much a day.")

ZONES_NAMED = 3
IN_OPTIONS = {  # how the rules call what these say
    "timezone": "--timezone",
    "days": "--days",
    "holidays": "--holiday",
    "daily_max": "--quota",
    "ramp_up_days": "--ramp-up",
    "ramp_up_percents": "--ramp-up",
}


@app.command("set")
def set_(
    workspace: Workspace = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="The clock of its days and hours, like Europe/Berlin.")
    ] = None,
    days: Annotated[str | None, typer.Option(metavar="DAYS", help="mon-fri, or mon,wed,fri, or all.")] = None,
    hours: Annotated[
        str | None, typer.Option(metavar="HOURS", help="09:00-17:00; 22:00-06:00 goes on into the next day; or: all.")
    ] = None,
    any_time: Annotated[bool, typer.Option("--any-time", help="On all days and at all hours; holidays stay.")] = False,
    holiday: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATE", help="A day without sending, like 2027-12-25, beside those there are; again for others."
        ),
    ] = None,
    no_holidays: Annotated[
        bool, typer.Option("--no-holidays", help="Forget the holidays, but for those given with it.")
    ] = False,
    quota: Annotated[
        int | None,
        typer.Option(parser=limit, metavar="N", help="Most e-mails a day, of all campaigns together; or: none."),
    ] = None,
    ramp_up: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN",
            help="Begin with less than the quota: 10d (evenly over 10 days), 5%,10%,25% (of each day), none.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set when and how much a workspace sends in campaigns.

    All its campaigns share the hours and the quota. It counts at once, also for what is queued already; e-mails outside of campaigns do
    not wait for it. What is not named stays as it is.

    \b
    Example: fairpost schedule set --timezone Europe/Berlin --days mon-fri --hours 09:00-17:00 --quota 200 --ramp-up 10d
    """
    from fairpost.campaigns import words

    if any_time and (days is not None or hours is not None):
        raise typer.BadParameter("--any-time is all days and all hours: leave --days and --hours out")
    if any_time:
        days, hours = "all", "all"
    if all(given is None for given in (timezone, days, hours, holiday, quota, ramp_up)) and not no_holidays:
        raise typer.BadParameter(
            "give at least one of --timezone, --days, --hours, --any-time, --holiday, --no-holidays, --quota and --ramp-up"
        )
    changes = {
        "timezone": _read("--timezone", _timezone, timezone),
        "days": _read("--days", words.weekdays, days),
        "hours": _read("--hours", words.hours, hours),
        "holidays": _read("--holiday", _holidays, holiday),
        "ramp_up": _read("--ramp-up", words.ramp_up, ramp_up),
        "quota": quota,
    }
    where = chosen(workspace)
    shown, began_anew = with_store(lambda store: _set(store, where, changes, drops_holidays=no_holidays))
    if as_json:
        print_json(shown.facts())
        return
    for line in shown.summary():
        typer.echo(plain(line))
    if began_anew:
        typer.echo("the ramp-up begins anew, with its first day")


@app.command()
def show(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show when and how much a workspace sends in campaigns.

    Whether it sends now and until when, how much of the quota is used today, where its ramp-up stands, and the next seven days.

    \b
    Example: fairpost schedule show
    """
    shown = with_store(lambda store: _shown(store, chosen(workspace)))
    if as_json:
        print_json(shown.facts())
    else:
        shown.print()


async def _set(
    store: "Store", workspace: str, changes: dict[str, Any], *, drops_holidays: bool
) -> "tuple[ShownSchedule, bool]":
    from fairpost.campaigns.calendars import BadSchedule, set_schedule
    from fairpost.postgres.schedules import schedule_of

    now = await store.now()
    before = await schedule_of(store, workspace)
    after = _changed(before.schedule, changes, drops_holidays=drops_holidays)
    try:
        await set_schedule(store, workspace, after, now=now)
    except BadSchedule as error:
        what, _, why = str(error).partition(" ")
        raise FairpostError(f"{IN_OPTIONS.get(what, what)} {why} See: fairpost schedule set --help") from error
    began_anew = before.first_day is not None and _ramp_up(before.schedule) != _ramp_up(after) != (0, ())
    return await _shown(store, workspace), began_anew


async def _shown(store: "Store", workspace: str) -> "ShownSchedule":
    from fairpost.cli.schedule_view import ShownSchedule
    from fairpost.postgres.schedules import quota_days, schedule_of

    now = await store.now()
    today = await quota_days(store, workspace, since=now, until=now)
    return ShownSchedule(await schedule_of(store, workspace), today[-1] if today else None, now)


def _changed(before: "Schedule", changes: dict[str, Any], *, drops_holidays: bool) -> "Schedule":
    """With what was named in the place of what it was. A window that is always open is none."""
    from fairpost.campaigns.values import HOLIDAYS_MAX
    from fairpost.campaigns.words import EVERY_DAY, WHOLE_DAY
    from fairpost.model.campaign import Schedule
    from fairpost.model.window import Quota, SendingWindow

    old = before.window or SendingWindow(timezone="", days=EVERY_DAY, start=WHOLE_DAY[0], end=WHOLE_DAY[1])
    timezone = changes["timezone"] or before.timezone
    start, end = changes["hours"] or (old.start, old.end)
    kept = frozenset[date]() if drops_holidays else old.holidays
    days, holidays = changes["days"] or old.days, kept | (changes["holidays"] or frozenset())
    if len(holidays) > HOLIDAYS_MAX:
        raise FairpostError(
            f"A schedule has at most {HOLIDAYS_MAX:,} holidays, got {len(holidays):,}. Nothing was changed. "
            "Begin anew with --no-holidays."
        )
    window = SendingWindow(timezone=timezone, days=days, start=start, end=end, holidays=holidays)
    is_always_open = days == EVERY_DAY and start == end and not holidays
    daily_max = before.quota.daily_max if changes["quota"] is None else changes["quota"] or None
    ramp_up = changes["ramp_up"] or _ramp_up(before)
    if daily_max is None and changes["ramp_up"] is None and ramp_up != (0, ()):
        raise FairpostError(
            "There is a ramp-up, and it needs a quota to grow to. Nothing was changed. "
            "To take both away: fairpost schedule set --quota none --ramp-up none"
        )
    return Schedule(
        timezone=timezone,
        window=None if is_always_open else window,
        quota=Quota(daily_max=daily_max, ramp_up_days=ramp_up[0], ramp_up_percents=ramp_up[1]),
    )


def _ramp_up(schedule: "Schedule") -> tuple[int, tuple[int, ...]]:
    return schedule.quota.ramp_up_days, schedule.quota.ramp_up_percents


# ── how it is written ─────────────────────────────────────────────────────────────────────────────────────


def _read(option: str, parse: "Callable[[Any], T]", given: Any) -> T | None:
    if given is None:
        return None
    try:
        return parse(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _timezone(text: str) -> str:
    """Only by its very name: one that merely this machine understands would fail on another."""
    from zoneinfo import available_timezones

    from fairpost.campaigns.words import shown

    known = available_timezones()
    if text in known:
        return text
    near = _near(text, sorted(known))
    asked = f": did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(f"must be a name like Europe/Berlin, got {shown(text)}{asked}")


def _near(text: str, zones: "Sequence[str]") -> list[str]:
    from difflib import get_close_matches

    wanted = "_".join(text.lower().split())
    same = [zone for zone in zones if wanted in (zone.lower(), zone.lower().rpartition("/")[2])]
    return (same or get_close_matches(text[:100], zones, n=ZONES_NAMED, cutoff=0.8))[:ZONES_NAMED]


def _holidays(texts: list[str]) -> frozenset[date]:
    from fairpost.campaigns.values import YEARS
    from fairpost.campaigns.words import shown

    found = set()
    for text in texts:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"must be a day like 2027-12-25, got {shown(text)}") from None
        if day.year not in YEARS:
            raise ValueError(f"must lie in the years {YEARS[0]}..{YEARS[-1]}, got {shown(text)}")
        found.add(day)
    return frozenset(found)
