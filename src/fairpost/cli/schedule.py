"""`fairpost schedule`: a workspace's sending window and daily quota for campaigns."""

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fairpost.cli.acting import act_on
from fairpost.cli.arguments import limit
from fairpost.cli.names import Workspace
from fairpost.cli.output import AsJson, plain, print_json
from fairpost.cli.session import with_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairpost.cli.schedule_view import ShownSchedule
    from fairpost.store.store import Store

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Set a workspace's sending window and daily quota.")

ZONES_NAMED = 3
IN_OPTIONS = {  # the option for each schedule field
    "timezone": "--timezone",
    "days": "--days",
    "holidays": "--holiday",
    "daily_max": "--quota",
    "ramp_up_days": "--ramp-up",
    "ramp_up_percents": "--ramp-up",
}


Timezone = Annotated[
    str | None, typer.Option(metavar="ZONE", help="Time zone for the days and hours, for example Europe/Berlin.")
]
Days = Annotated[
    str | None,
    typer.Option(metavar="DAYS", help="Days to send on, for example mon-fri or mon,wed,fri. Use `all` for every day."),
]
Hours = Annotated[
    str | None,
    typer.Option(
        metavar="HOURS",
        help="Hours to send in, for example 09:00-17:00, or 22:00-06:00 to span midnight. Use `all` for the whole day.",
    ),
]
AnyTime = Annotated[bool, typer.Option("--any-time", help="Send on all days and at all hours. Holidays are kept.")]
Holiday = Annotated[
    list[str] | None,
    typer.Option(metavar="DATE", help="Add a date on which nothing is sent, for example 2027-12-25. Repeatable."),
]
NoHolidays = Annotated[
    bool, typer.Option("--no-holidays", help="Remove all holidays except those given with --holiday.")
]
Quota = Annotated[
    int | None,
    typer.Option(
        parser=limit,
        metavar="N",
        help="Maximum number of e-mails per day across all campaigns, or `none` for no quota.",
    ),
]
RampUp = Annotated[
    str | None,
    typer.Option(
        metavar="PLAN",
        help="How to ramp up to the quota: 10d (evenly over 10 days), 5%,10%,25% (one percentage per day), or `none` for no ramp-up.",
    ),
]


@app.command("set")
def set_(
    workspace: Workspace = "",
    timezone: Timezone = None,
    days: Days = None,
    hours: Hours = None,
    any_time: AnyTime = False,
    holiday: Holiday = None,
    no_holidays: NoHolidays = False,
    quota: Quota = None,
    ramp_up: RampUp = None,
    as_json: AsJson = False,
) -> None:
    """Set a workspace's sending window and daily quota.

    The window and the quota apply to all of the workspace's campaigns together. Changes take effect immediately, even
    for queued e-mails. E-mails outside campaigns are not affected. Omitted options keep their current values.

    \b
    Example: fairpost schedule set --timezone Europe/Berlin --days mon-fri --hours 09:00-17:00 --quota 200 --ramp-up 10d
    """
    from fairpost.campaigns import parsers

    if any_time and (days is not None or hours is not None):
        raise typer.BadParameter("--any-time cannot be combined with --days and --hours")
    if any_time:
        days, hours = "all", "all"
    if all(given is None for given in (timezone, days, hours, holiday, quota, ramp_up)) and not no_holidays:
        raise typer.BadParameter(
            "specify at least one of --timezone, --days, --hours, --any-time, --holiday, --no-holidays, --quota and --ramp-up"
        )
    from fairpost.actions.schedules import SetSchedule
    from fairpost.actions.schedules import set_ as set_schedule

    request = SetSchedule(
        workspace=workspace,
        timezone=_read("--timezone", _timezone, timezone),
        days=_read("--days", parsers.weekdays, days),
        hours=_read("--hours", parsers.hours, hours),
        holidays=_read("--holiday", _holidays, holiday) or frozenset(),
        drops_holidays=no_holidays,
        daily_max=quota,
        ramp_up=_read("--ramp-up", parsers.ramp_up, ramp_up),
    )

    async def work(store: "Store") -> "tuple[ShownSchedule, bool]":
        done = await act_on(store, set_schedule, request, fields=IN_OPTIONS)
        return await _shown(store, request.workspace), done.is_replanned

    shown, is_replanned = with_store(work)
    if as_json:
        print_json(shown.facts())
        return
    for line in shown.summary():
        typer.echo(plain(line))
    if is_replanned:
        typer.echo("the ramp-up restarts at day one")


@app.command()
def show(workspace: Workspace = "", as_json: AsJson = False) -> None:
    """Show a workspace's sending window and daily quota.

    Shows whether the window is open now, how much of the quota has been used today, the ramp-up, and the next seven
    days.

    \b
    Example: fairpost schedule show
    """
    shown = with_store(lambda store: _shown(store, workspace))
    if as_json:
        print_json(shown.facts())
    else:
        shown.print()


async def _shown(store: "Store", workspace: str) -> "ShownSchedule":
    from fairpost.cli.schedule_view import ShownSchedule
    from fairpost.store.schedules import quota_days, schedule_of

    now = await store.now()
    today = await quota_days(store, workspace, since=now, until=now)
    return ShownSchedule(await schedule_of(store, workspace), today[-1] if today else None, now)


# ── parse options ─────────────────────────────────────────────────────────────────────────────────────────


def _read(option: str, parse: "Callable[[Any], T]", given: Any) -> T | None:
    if given is None:
        return None
    try:
        return parse(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _timezone(text: str) -> str:
    """Parse a time zone. The name must be exact, because a spelling that works on this machine may fail on another."""
    from zoneinfo import available_timezones

    from fairpost.campaigns.parsers import shown

    known = available_timezones()
    if text in known:
        return text
    near = _near(text, sorted(known))
    asked = f": did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(f"must be a name such as Europe/Berlin, got {shown(text)}{asked}")


def _near(text: str, zones: "Sequence[str]") -> list[str]:
    from difflib import get_close_matches

    wanted = "_".join(text.lower().split())
    same = [zone for zone in zones if wanted in (zone.lower(), zone.lower().rpartition("/")[2])]
    return (same or get_close_matches(text[:100], zones, n=ZONES_NAMED, cutoff=0.8))[:ZONES_NAMED]


def _holidays(texts: list[str]) -> frozenset[date]:
    from fairpost.campaigns.parsers import shown
    from fairpost.campaigns.values import YEARS

    found = set()
    for text in texts:
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"must be a date such as 2027-12-25, got {shown(text)}") from None
        if day.year not in YEARS:
            raise ValueError(f"must be between the years {YEARS[0]} and {YEARS[-1]}, got {shown(text)}")
        found.add(day)
    return frozenset(found)
