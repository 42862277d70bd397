"""`fairpost forecast`: when a campaign will finish according to the engine's rules. Nothing is sent or stored."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.output import AsJson, print_json
from fairpost.cli.plots import Plot, require_plottable, save
from fairpost.cli.schedule_options import (
    parse_day,
    parse_duration,
    parse_gap,
    parse_moment,
    parse_ramp_up,
    parse_timezone,
    parse_window,
)
from fairpost.model.campaign import HUMAN_GAP, Gap, Schedule
from fairpost.model.window import Quota
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairpost.policy.forecast import Plan, Sender

RECIPIENTS_MAX = 1_000_000_000
ACCOUNTS_MAX = 10_000
STEPS_MAX = 100
DELAY = "3d"
EXAMPLE = "fairpost forecast --recipients 1000 --account gmail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The inputs of a forecast."""

    plan: "Plan"
    senders: "Sequence[Sender]"
    now: datetime


Campaign = Annotated[
    str | None,
    typer.Argument(
        metavar="[CAMPAIGN]",
        help="An existing campaign. To describe a campaign with options instead, omit this argument.",
    ),
]
Recipients = Annotated[
    int | None,
    typer.Option(min=1, max=RECIPIENTS_MAX, metavar="N", help="Number of recipients for the first step."),
]
Account = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PRESET",
        help="The account's provider, for example gmail, or gmail:3 for three accounts. Repeatable.",
    ),
]
Delay = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TIME",
        help=f"Delay between two steps, for example 3d, 12h or 30m. Repeatable. The last delay applies to all remaining steps. [default: {DELAY}]",
    ),
]
GapOption = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS",
        help="Range of the random pause before each e-mail from an account, in seconds, for example 30-90. [default: none with one step, 30-90 with more]",
    ),
]
Window = Annotated[
    str | None,
    typer.Option(metavar="WINDOW", help='Sending window, for example "mon-fri 09:00-17:00". [default: any time]'),
]
Holiday = Annotated[
    list[str] | None,
    typer.Option(metavar="DATE", help="Date on which nothing is sent, for example 2027-12-25. Repeatable."),
]
QuotaOption = Annotated[
    int | None,
    typer.Option(min=1, max=RECIPIENTS_MAX, metavar="N", help="Maximum number of e-mails per day across all accounts."),
]
RampUp = Annotated[
    str | None,
    typer.Option(
        metavar="PLAN",
        help="How to ramp up to the quota: 10d (evenly over 10 days), 5%,10%,25% (one percentage per day), or `yes` (the default ramp).",
    ),
]
Start = Annotated[
    str | None, typer.Option(metavar="TIME", help="Start time, for example 2027-03-01T09:00. [default: now]")
]
Workspace = Annotated[str | None, typer.Option(help="The campaign's workspace. [default: FAIRPOST_WORKSPACE]")]


def forecast(
    campaign: Campaign = None,
    recipients: Recipients = None,
    account: Account = None,
    steps: Annotated[int, typer.Option(min=1, max=STEPS_MAX, metavar="N", help="E-mails per recipient.")] = 1,
    delay: Delay = None,
    gap: GapOption = None,
    no_gap: Annotated[bool, typer.Option("--no-gap", help="Do not pause between e-mails.")] = False,
    window: Window = None,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="Time zone for the sending window.")] = "UTC",
    holiday: Holiday = None,
    quota: QuotaOption = None,
    ramp_up: RampUp = None,
    start: Start = None,
    workspace: Workspace = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Forecast when a campaign will finish.

    Applies the engine's own rules: account limits, the sending window, the daily quota, pauses, and delays between
    steps. For an existing campaign, starts from its current state and shows the forecast made at launch for comparison.
    Nothing is sent. Bounces, retries, outages and other campaigns on the same accounts are not included.

    \b
    Example: fairpost forecast --recipients 1000 --account gmail:2 --steps 3 --window "mon-fri 09:00-17:00" --timezone Europe/Berlin
    """
    from fairpost.policy.forecast import Plan
    from fairpost.system import clock

    now = clock.now()
    require_plottable(plot)
    if campaign is not None:
        if recipients is not None or account:
            raise typer.BadParameter("specify either a campaign or options that describe one")
        _tell_known(campaign, workspace, plot=plot, as_json=as_json)
        return
    if recipients is None:
        raise typer.BadParameter(f"Specify a campaign, or the number of recipients and the accounts: {EXAMPLE}")
    zone = parse_timezone(timezone)
    senders = _senders(account)
    plan = Plan(
        recipients=recipients,
        delays_s=_delays_s(delay or [], steps),
        gap=_gap(gap, steps, is_off=no_gap),
        schedule=_schedule(window, zone, holiday or [], quota, ramp_up),
        starts_at=_start(start, zone, now),
    )
    _tell(Asked(plan=plan, senders=senders, now=now), plot=plot, as_json=as_json)


def _tell_known(name: str, workspace: str | None, *, plot: Path | None, as_json: bool) -> None:
    """Forecast an existing campaign, with its progress so far."""
    from fairpost.cli.forecast_campaign import known_campaign, reality_facts, show_reality

    known = known_campaign(name, workspace)
    if not as_json:
        show_reality(known)
    if known.question.plan.emails == 0 and not as_json:
        typer.echo("Nothing is left to send.")
        return
    asked = Asked(plan=known.question.plan, senders=known.question.senders, now=known.now)
    _tell(asked, plot=plot, as_json=as_json, more=reality_facts(known))


def _tell(asked: Asked, *, plot: Path | None, as_json: bool, more: "Mapping[str, Any] | None" = None) -> None:
    """Print the forecast and suggestions in the requested format. `more` is added to the JSON."""
    from fairpost.cli.forecast_plot import draw_forecast
    from fairpost.cli.forecast_view import facts, show
    from fairpost.policy.forecast import forecast as compute_forecast
    from fairpost.policy.forecast import suggestions

    found = compute_forecast(asked.plan, asked.senders, now=asked.now)
    helpful = suggestions(asked.plan, asked.senders, now=asked.now, found=found)
    if plot is not None:
        save(draw_forecast(found, timezone=asked.plan.schedule.timezone), plot)
    if as_json:
        print_json({**facts(found, helpful, asked), **(more or {})})
    else:
        show(found, helpful, asked)


# ── parse options ─────────────────────────────────────────────────────────────────────────────────────────


def _senders(given: list[str] | None) -> "list[Sender]":
    """Return accounts by preset, numbered if a preset has more than one account."""
    from fairpost.cli.limit_options import named_preset
    from fairpost.policy.forecast import Sender
    from fairpost.providers.presets import read_presets

    presets = read_presets(read_settings().home / "providers.toml")
    if not given:
        known = ", ".join(sorted(presets))
        raise typer.BadParameter(
            f"Specify the accounts, for example --account gmail or --account outlook:3. Known providers: {known}"
        )
    counts: dict[str, int] = {}
    for text in given:
        name, count = _counted(text)
        counts[named_preset(presets, name).name] = counts.get(name, 0) + count
    if sum(counts.values()) > ACCOUNTS_MAX:
        raise typer.BadParameter(f"--account: at most {ACCOUNTS_MAX:,} accounts in total, got {sum(counts.values()):,}")
    return [
        Sender(name=f"{name}-{n}" if count > 1 else name, limits=presets[name].limits)
        for name, count in counts.items()
        for n in range(1, count + 1)
    ]


def _counted(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if not colon:
        return name, 1
    if not count.isascii() or not count.isdigit() or not 1 <= int(count[:9]) <= ACCOUNTS_MAX:
        raise typer.BadParameter(
            f"--account must be a provider and optionally a count, for example gmail or gmail:3, with 1 to {ACCOUNTS_MAX:,}, got {text!r}"
        )
    return name, int(count)


def _delays_s(given: list[str], steps: int) -> tuple[float, ...]:
    if len(given) > steps - 1:
        raise typer.BadParameter(
            f"--delay: {steps} steps have {steps - 1} delays, got {len(given)}. For more steps, set --steps."
        )
    delays = [parse_duration(text) for text in given or [DELAY]]
    return tuple(delays[min(n, len(delays) - 1)] for n in range(steps - 1))


def _gap(given: str | None, steps: int, *, is_off: bool) -> Gap | None:
    if is_off and given is not None:
        raise typer.BadParameter("specify either --gap or --no-gap")
    if given is not None:
        return parse_gap(given)
    return None if is_off or steps == 1 else HUMAN_GAP


def _schedule(window: str | None, zone: str, holidays: list[str], quota: int | None, ramp_up: str | None) -> Schedule:
    days_off = [parse_day(text) for text in holidays]
    hours = parse_window(window or "all", zone, days_off) if window is not None or days_off else None
    days, percents = parse_ramp_up(ramp_up) if ramp_up is not None else (0, ())
    if ramp_up is not None and quota is None:
        raise typer.BadParameter("--ramp-up requires a daily quota, for example --quota 200")
    return Schedule(
        timezone=zone,
        window=hours,
        quota=Quota(daily_max=quota, ramp_up_days=days, ramp_up_percents=percents),
    )


def _start(given: str | None, zone: str, now: datetime) -> datetime | None:
    if given is None:
        return None
    moment = parse_moment(given, zone)
    if moment < now:
        raise typer.BadParameter(f"--start must be in the future, got {given}. Omit it to start now")
    return moment
