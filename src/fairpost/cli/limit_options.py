"""Options for an account's limits: its provider's preset and each individual limit."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.option_groups import Groups
from fairpost.model.account import LIMITS, Limits, limits_of
from fairpost.model.errors import FairpostError
from fairpost.model.limit import INTEGER_MAX, NONE, Limit

if TYPE_CHECKING:
    from fairpost.providers.presets import Preset, Presets
    from fairpost.transports.kind import TransportKind

Provider = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Provider whose limits the account starts with, or `none`. [default: determined by the address's domain]",
    ),
]
LookUpMx = Annotated[
    bool, typer.Option("--look-up-mx", help="Look up the provider of a hosted domain by its MX records.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetOptions:
    provider: Provider = None
    look_up_mx: LookUpMx = False


@dataclass(frozen=True, slots=True)
class Given:
    value: Any  # null means that there is no such limit


def _option(limit: Limit) -> Any:
    def read(text: str) -> Given:
        try:
            return Given(limit.read(text))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    metavar = "|".join(limit.choices) or _METAVARS.get(limit.unit, "PLAN" if limit.parts else "N")
    help_ = f"{limit.help} {_rule(limit)}".rstrip()
    return Annotated[Any, typer.Option(limit.option, parser=read, metavar=metavar, help=help_)]


def _rule(limit: Limit) -> str:
    if limit.choices:
        return ""
    if limit.le == INTEGER_MAX and not limit.parts:
        return f"Use `{NONE}` for no limit." if limit.is_optional else ""
    return f"{limit.rule[0].upper()}{limit.rule[1:]}."


_METAVARS = {"ms": "MS", "s": "S", "%": "PERCENT"}
_OPTIONS = make_dataclass("_OPTIONS", [(each.name, _option(each), None) for each in LIMITS])

LimitOptions = Annotated[Mapping[str, Any], Groups({"limits": _OPTIONS})]
"""An option for every limit of an account."""


def given_limits(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that were given, by column."""
    given = {each.name: getattr(options["limits"], each.name) for each in LIMITS}
    return {name: each.value for name, each in given.items() if each is not None}


def chosen_limits(
    address: str,
    preset: PresetOptions,
    given: Mapping[str, Any],
    *,
    kind: "TransportKind[Any] | None",
    home: Path,
) -> tuple[Limits, str | None]:
    """Return the provider's limits, overridden by any limits given, and the provider's name.

    `kind` is the given server's kind.
    """
    begun = _preset(address, preset, kind, has_own=bool(given), home=home)
    return with_given(begun.limits if begun else Limits(), given), begun.name if begun else None


def with_given(limits: Limits, given: Mapping[str, Any]) -> Limits:
    try:
        return limits_of(given, limits)
    except ValueError as error:
        raise FairpostError(f"These limits contradict each other: {error}. See: fairpost account add --help") from error


def _preset(
    address: str, options: PresetOptions, kind: "TransportKind[Any] | None", *, has_own: bool, home: Path
) -> "Preset | None":
    from fairpost.providers.presets import CUSTOM, by_domain, by_mx, read_presets

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
    # For an unknown provider, only the limits that were given apply.
    return known or (None if has_own else presets[CUSTOM])


def named_preset(presets: "Presets", name: str) -> "Preset":
    if name not in presets:
        raise FairpostError(
            f"There is no provider {name!r}. Known providers: {', '.join(sorted(presets))}. See: fairpost account providers"
        )
    return presets[name]
