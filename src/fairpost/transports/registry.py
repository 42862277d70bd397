"""The kinds of transport. To add a kind, add a folder and a line here, as described in docs/transports.md."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from fairpost.model.transport import ServerSettings, TransportSettings, UnknownTransport
from fairpost.transports.kind import TransportKind, written

# The stored name of each kind and the module that defines its KIND. SMTP is first because every provider supports it.
KINDS = {
    "smtp": "fairpost.transports.smtp.kind",
    "gmail": "fairpost.transports.gmail.kind",
}


def kinds() -> list[TransportKind[Any]]:
    return [kind_named(name) for name in KINDS]


@cache
def kind_named(name: str) -> TransportKind[Any]:
    kind: TransportKind[Any] = import_module(KINDS[name]).KIND
    return kind


def kind_of(settings: ServerSettings) -> TransportKind[Any]:
    return kind_named(settings.kind)


def preload() -> None:
    """Imports, for every kind, the modules needed for sending."""
    for kind in kinds():
        kind.preload()


def read_transport(stored: Mapping[str, Any]) -> TransportSettings | None:
    """Parses stored settings. Returns None if there is no server. Invalid settings do not raise an error."""
    if not stored:
        return None
    kind = str(stored.get("kind"))
    if kind not in KINDS:
        return UnknownTransport(kind)
    try:
        settings: ServerSettings = kind_named(kind).read({k: v for k, v in stored.items() if k != "kind"})
    except (KeyError, TypeError, ValueError):
        return UnknownTransport(f"{kind}, damaged")
    return settings


def write_transport(settings: ServerSettings | None) -> dict[str, Any]:
    return {} if settings is None else written(settings)
