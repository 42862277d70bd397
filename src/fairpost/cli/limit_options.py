"""The options that say how much an account may send: its provider's preset, and every number of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.arguments import limit
from fairpost.model.account import DailyMode, Limits, WarmUp
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from fairpost.providers.presets import Preset, Presets
    from fairpost.transports.kind import TransportKind

Provider = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Whose limits to begin with, or: none. [default: by the address's domain]"),
]
LookUpMx = Annotated[
    bool, typer.Option("--look-up-mx", help="Know a hosted domain's provider by the servers that take its mail.")
]
DelayMs = Annotated[int | None, typer.Option(min=0, max=86_400_000, help="Least time between two sends, in ms.")]
GapMaxMs = Annotated[
    int | None,
    typer.Option(parser=limit, metavar="MS", help="Pause at random, from --delay-ms to this; or: none."),
]
Hourly = Annotated[int | None, typer.Option(parser=limit, metavar="N", help="Most sends an hour, or: none.")]
Daily = Annotated[int | None, typer.Option(parser=limit, metavar="N", help="Most sends a day, or: none.")]
DailyModeOption = Annotated[
    DailyMode | None,
    typer.Option(
        "--daily-mode", help="What a day is: from midnight UTC, 24 hours from its first send, or any 24 hours."
    ),
]
UnitsPerMinute = Annotated[
    int | None, typer.Option(parser=limit, metavar="N", help="Quota units a minute of the provider's API, or: none.")
]
UnitsPerSend = Annotated[int | None, typer.Option(min=1, help="What one send costs of that quota.")]
WarmUpOption = Annotated[
    str | None,
    typer.Option(
        "--warm-up",
        metavar="PLAN",
        help="Lower the daily limit at first: 20+10 (20 on the first day, 10 more each day), 10d (evenly over 10 days), none.",
    ),
]
BouncePercentMax = Annotated[
    str | None, typer.Option(metavar="PERCENT", help="Pause when more of a day bounces, or: none. [default: 5]")
]
BounceSampleMin = Annotated[int | None, typer.Option(min=1, help="Count that only from so many sends on.")]
CoolDownS = Annotated[
    int | None,
    typer.Option(parser=limit, metavar="S", help="End such a pause after so long; none: when a person does."),
]
BatchSize = Annotated[int | None, typer.Option(min=1, max=1000, help="Most e-mails claimed at once.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    provider: Provider = None
    look_up_mx: LookUpMx = False
    delay_ms: DelayMs = None
    gap_max_ms: GapMaxMs = None
    hourly: Hourly = None
    daily: Daily = None
    daily_mode: DailyModeOption = None
    units_per_minute: UnitsPerMinute = None
    units_per_send: UnitsPerSend = None
    warm_up: WarmUpOption = None
    bounce_percent_max: BouncePercentMax = None
    bounce_sample_min: BounceSampleMin = None
    cool_down_s: CoolDownS = None
    batch_size: BatchSize = None


def given_limits(options: LimitOptions) -> dict[str, Any]:
    """By columns, only those that were given. `none` is null."""
    numbers = {
        "delay_ms": options.delay_ms,
        "daily_mode": options.daily_mode,
        "units_per_send": options.units_per_send,
        "bounce_sample_min": options.bounce_sample_min,
        "batch_max": options.batch_size,
    }
    or_none = {
        "gap_max_ms": options.gap_max_ms,
        "hourly_max": options.hourly,
        "daily_max": options.daily,
        "units_per_minute": options.units_per_minute,
        "cool_down_s": options.cool_down_s,
    }
    given: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    given |= {name: value or None for name, value in or_none.items() if value is not None}
    if options.warm_up is not None:
        given["warm_up"] = _plan(options.warm_up)
    if options.bounce_percent_max is not None:
        given["bounce_percent_max"] = _percent(options.bounce_percent_max)
    return given


def chosen_limits(
    address: str, options: LimitOptions, *, kind: "TransportKind[Any] | None", home: Path
) -> tuple[Limits, str | None]:
    """The provider's numbers with those given in their place, and the provider's name. `kind`: of the server that is given with them."""
    given = given_limits(options)
    preset = _preset(address, options, kind, has_own=bool(given), home=home)
    return with_given(preset.limits if preset else Limits(), given), preset.name if preset else None


def with_given(limits: Limits, given: Mapping[str, Any]) -> Limits:
    from fairpost.providers.presets import limits_of

    try:
        return limits_of({**asdict(limits), **given})
    except ValueError as error:
        raise FairpostError(f"These limits do not go together: {error}. See: fairpost account add --help") from error


def _preset(
    address: str, options: LimitOptions, kind: "TransportKind[Any] | None", *, has_own: bool, home: Path
) -> "Preset | None":
    from fairpost.providers.presets import CUSTOM, NONE, by_domain, by_mx, read_presets

    presets = read_presets(home / "providers.toml")
    if options.provider == NONE:
        return None
    if options.provider is not None:
        return named_preset(presets, options.provider)
    domain = address.rpartition("@")[2].rstrip(">")
    known = by_domain(presets, domain)
    if kind is not None and kind.preset is not None:
        return presets[kind.presets.get(known.name if known else "", kind.preset)]
    if known is None and options.look_up_mx:
        from fairpost.providers.mx import mx_hosts

        known = by_mx(presets, mx_hosts(domain))
    # Whoever gives numbers for a mailbox that nobody knows has thought of them, and wants no others.
    return known or (None if has_own else presets[CUSTOM])


def named_preset(presets: "Presets", name: str) -> "Preset":
    if name not in presets:
        raise FairpostError(
            f"There is no provider {name!r}; known are {', '.join(sorted(presets))}. See: fairpost account providers"
        )
    return presets[name]


def _plan(text: str) -> dict[str, int] | None:
    if text == "none":
        return None
    start, plus, step = text.partition("+")
    if text.endswith("d") and text[:-1].isdecimal() and int(text[:-1]) > 0:
        return asdict(WarmUp(days=int(text[:-1])))
    if plus and start.isdecimal() and step.isdecimal() and int(start) > 0:
        return asdict(WarmUp(start=int(start), step=int(step)))
    raise FairpostError(f"--warm-up must be like 20+10, 10d or none, got {text!r}")


def _percent(text: str) -> float | None:
    if text == "none":
        return None
    try:
        percent = float(text.rstrip("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise FairpostError(f"--bounce-percent-max must be from 0 to 100, or none, got {text!r}")
    return percent


def limits_in_words(limits: Limits) -> str:
    parts = [
        f"{limits.daily_max} a day" if limits.daily_max is not None else "",
        f"{limits.hourly_max} an hour" if limits.hourly_max is not None else "",
        _pause_in_words(limits),
        warm_up_in_words(limits.warm_up) or "",
    ]
    return ", ".join(part for part in parts if part) or "no limits"


def _pause_in_words(limits: Limits) -> str:
    if limits.gap_max_ms is not None:
        return f"{limits.delay_ms / 1000:g} to {limits.gap_max_ms / 1000:g} s between sends"
    return f"{limits.delay_ms / 1000:g} s between sends" if limits.delay_ms else ""


def warm_up_in_words(plan: WarmUp | None) -> str | None:
    if plan is None:
        return None
    return f"warm-up over {plan.days} days" if plan.days else f"warm-up from {plan.start} by {plan.step} a day"
