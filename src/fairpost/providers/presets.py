"""Presets are data: those that come with Fairpost, and an operator's own beside them."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from fairpost.model.account import DailyMode, Limits, WarmUp
from fairpost.model.errors import FairpostError
from fairpost.model.transport import Security

CUSTOM = "custom"
NONE = "none"
_LIMITS = {field.name for field in fields(Limits)}
_ABOUT = {"title", "domains", "mx", "smtp"}
_COUNTRY = re.compile(r"(com?\.)?[a-z]{2}")  # de, co.uk, com.br: what stands for the * of a domain


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetServer:
    host: str
    port: int
    security: Security


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    name: str
    title: str
    domains: tuple[str, ...]
    mx: tuple[str, ...]
    smtp: PresetServer | None  # that takes mail from its mailboxes; None: nobody can say
    limits: Limits


Presets = Mapping[str, Preset]


def read_presets(own: Path | None = None) -> Presets:
    """Raises FairpostError when the operator's file is no good: it says where."""
    presets = _parse(resources.files(__package__).joinpath("presets.toml").read_text("utf-8"), "presets.toml")
    if own is not None and own.is_file():
        try:
            presets |= _parse(own.read_text("utf-8"), str(own))
        except (OSError, UnicodeDecodeError) as error:
            raise FairpostError(f"{own} cannot be read: {error}") from error
    return presets


def by_domain(presets: Presets, domain: str) -> Preset | None:
    """A domain that is listed goes before one that only fits a rule."""
    domain = domain.rstrip(".").lower()
    listed = next((preset for preset in presets.values() if domain in preset.domains), None)
    fits = (p for p in presets.values() if any(_is_country_domain(domain, rule) for rule in p.domains))
    return listed or next(fits, None)


def by_mx(presets: Presets, hosts: list[str]) -> Preset | None:
    """`hosts`: the servers that take a domain's mail, the preferred first."""
    names = [host.rstrip(".").lower() for host in hosts]
    return next((p for name in names for p in presets.values() if any(_is_below(name, zone) for zone in p.mx)), None)


def _is_country_domain(domain: str, rule: str) -> bool:
    """`hotmail.co.uk` of `hotmail.*`; not `hotmail.evil.example`, nor anything below or before the name."""
    name, dot, country = domain.partition(".")
    return rule == name + dot + "*" and _COUNTRY.fullmatch(country) is not None


def _is_below(name: str, zone: str) -> bool:
    return name == zone or name.endswith(f".{zone}")


def _parse(text: str, where: str) -> dict[str, Preset]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FairpostError(f"{where} is not TOML: {error}") from error
    return {name: _preset(name, table, where) for name, table in tables.items()}


def _preset(name: str, table: Any, where: str) -> Preset:
    if not isinstance(table, dict):
        raise FairpostError(f"{where}: [{name}] must be a table of settings")
    unknown = set(table) - _LIMITS - _ABOUT
    if unknown or name == NONE:
        raise FairpostError(f"{where}: [{name}] has a setting that is not known: {', '.join(sorted(unknown)) or NONE}")
    try:
        return Preset(
            name=name,
            title=str(table.get("title", name)),
            domains=_domains(table.get("domains", [])),
            mx=_names(table.get("mx", [])),
            smtp=_server(table.get("smtp")),
            limits=limits_of({key: value for key, value in table.items() if key in _LIMITS}),
        )
    except (TypeError, ValueError) as error:
        raise FairpostError(f"{where}: [{name}] {error}") from error


def limits_of(given: Mapping[str, Any]) -> Limits:
    """Raises ValueError where a number makes no sense, TypeError where it is none."""
    values = dict(given)
    if "daily_mode" in values:
        values["daily_mode"] = DailyMode(values["daily_mode"])
    if isinstance(values.get("warm_up"), dict):
        values["warm_up"] = WarmUp(**values["warm_up"])
    limits = Limits(**values)
    _require_sense(limits)
    return limits


def _require_sense(limits: Limits) -> None:
    for field in fields(Limits):
        value = getattr(limits, field.name)
        if field.name in ("daily_mode", "warm_up") or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{field.name} must be a number, got {value!r}")
        if value < 0 or (value == 0 and field.name not in ("delay_ms", "bounce_percent_max")):
            raise ValueError(f"{field.name} must be more than 0, got {value}")
    if limits.gap_max_ms is not None and limits.gap_max_ms < limits.delay_ms:
        raise ValueError(f"gap_max_ms must not be less than delay_ms, got {limits.gap_max_ms} and {limits.delay_ms}")
    if limits.units_per_minute is not None and limits.units_per_minute < limits.units_per_send:
        raise ValueError("units_per_minute must allow at least one send")
    _require_plan(limits.warm_up)


def _require_plan(plan: WarmUp | None) -> None:
    if plan is None:
        return
    is_even, is_stepped = plan.days > 0, plan.start > 0 and plan.step >= 0
    if is_even == is_stepped or min(plan.start, plan.step, plan.days) < 0:
        raise ValueError("warm_up must have start and step, or days")


def _domains(value: Any) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        if "*" in name and not re.fullmatch(r"[^.*]+\.\*", name):
            raise ValueError(f"a * in domains stands for a country after one name, as in acme.*, got {name!r}")
    return names


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise TypeError(f"domains and mx must be lists of names, got {value!r}")
    return tuple(name.rstrip(".").lower() for name in value)


def _server(value: Any) -> PresetServer | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"host", "port", "security"}:
        raise TypeError(f"smtp must have host, port and security, got {value!r}")
    host, port = value["host"], value["port"]
    if not isinstance(host, str) or not host or type(port) is not int or not 1 <= port <= 65_535:
        raise ValueError(f"smtp must name a host, and a port of 1 to 65535, got {value!r}")
    return PresetServer(host=host, port=port, security=Security(value["security"]))
