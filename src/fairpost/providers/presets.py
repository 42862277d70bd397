"""Reads and finds presets: Fairpost's own and the operator's."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fairpost.model.account import LIMITS, Limits, limits_of
from fairpost.model.errors import FairpostError
from fairpost.model.limit import NONE
from fairpost.model.transport import Security

CUSTOM = "custom"
_LIMITS = {each.name for each in LIMITS}
_ABOUT = {"title", "domains", "mx", "smtp", "choices"}
_COUNTRY = re.compile(r"(com?\.)?[a-z]{2}")  # what * matches at the end of a domain, such as de, co.uk or com.br


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
    smtp: PresetServer | None  # the server that accepts mail from the provider's mailboxes, or None if unknown
    choices: tuple[str, ...]  # the kinds of account for which the form offers this preset first
    limits: Limits


Presets = Mapping[str, Preset]


def read_presets(own: Path | None = None) -> Presets:
    """Reads the presets. Raises FairpostError with the position if the operator's file is invalid."""
    presets = _parse(resources.files(__package__).joinpath("presets.toml").read_text("utf-8"), "presets.toml")
    if own is not None and own.is_file():
        try:
            presets |= _parse(own.read_text("utf-8"), str(own))
        except (OSError, UnicodeDecodeError) as error:
            raise FairpostError(f"{own} cannot be read: {error}") from error
    return presets


def by_domain(presets: Presets, domain: str) -> Preset | None:
    """Finds a preset by domain. A listed domain takes precedence over one that only matches a rule."""
    domain = domain.rstrip(".").lower()
    listed = next((preset for preset in presets.values() if domain in preset.domains), None)
    fits = (p for p in presets.values() if any(_is_country_domain(domain, rule) for rule in p.domains))
    return listed or next(fits, None)


def by_mx(presets: Presets, hosts: list[str]) -> Preset | None:
    """Finds a preset by the servers that accept a domain's mail, preferred first."""
    names = [host.rstrip(".").lower() for host in hosts]
    return next((p for name in names for p in presets.values() if any(_is_below(name, zone) for zone in p.mx)), None)


def _is_country_domain(domain: str, rule: str) -> bool:
    """Returns whether a rule matches: `hotmail.*` matches `hotmail.co.uk`, but not `hotmail.evil.example` or a
    subdomain.
    """
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
        raise FairpostError(f"{where}: [{name}] has an unknown setting: {', '.join(sorted(unknown)) or NONE}")
    try:
        return Preset(
            name=name,
            title=str(table.get("title", name)),
            domains=_domains(table.get("domains", [])),
            mx=_names(table.get("mx", [])),
            smtp=_server(table.get("smtp")),
            choices=_names(table.get("choices", [])),
            limits=limits_of({key: value for key, value in table.items() if key in _LIMITS}),
        )
    except (TypeError, ValueError) as error:
        raise FairpostError(f"{where}: [{name}] {error}") from error


def _domains(value: Any) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        if "*" in name and not re.fullmatch(r"[^.*]+\.\*", name):
            raise ValueError(
                f"in domains, * is allowed only as the ending after a single name, as in acme.*, got {name!r}"
            )
    return names


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise TypeError(f"domains, mx and choices must be lists of names, got {value!r}")
    return tuple(name.rstrip(".").lower() for name in value)


def _server(value: Any) -> PresetServer | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"host", "port", "security"}:
        raise TypeError(f"smtp must have host, port and security, got {value!r}")
    host, port = value["host"], value["port"]
    if not isinstance(host, str) or not host or type(port) is not int or not 1 <= port <= 65_535:
        raise ValueError(f"smtp must name a host and a port from 1 to 65535, got {value!r}")
    return PresetServer(host=host, port=port, security=Security(value["security"]))
