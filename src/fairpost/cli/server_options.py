"""Options for an account's server, for every kind of transport."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fairpost.cli.option_groups import Groups
from fairpost.model.errors import FairpostError
from fairpost.transports.registry import kind_named, kinds

if TYPE_CHECKING:
    from fairpost.transports.kind import Given, TransportKind

ServerOptions = Annotated[Mapping[str, Any], Groups({kind.name: kind.options() for kind in kinds()})]
"""The options given, by kind of transport."""


def given_server(
    name: str, options: Mapping[str, Any], *, is_new: bool
) -> "tuple[TransportKind[Any], Given] | tuple[None, None]":
    """Return the kind and its options. `is_new` means that the account `name` has no server yet."""
    given = {kind: kind_named(kind).given(name, each, is_new=is_new) for kind, each in options.items()}
    found = [(kind_named(kind), each) for kind, each in given.items() if each is not None]
    if len(found) > 1:
        ways = " or ".join(kind.way for kind, _ in found)
        raise FairpostError(f"An account sends {ways}. Use the options for only one of these ways.")
    return found[0] if found else (None, None)
