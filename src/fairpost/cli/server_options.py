"""The options by which an account is told of its server: those of every kind of transport, in one command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fairpost.cli.option_groups import Groups
from fairpost.model.errors import FairpostError
from fairpost.transports.registry import kind_named, kinds

if TYPE_CHECKING:
    from fairpost.transports.kind import Given, TransportKind

ServerOptions = Annotated[Mapping[str, Any], Groups({kind.name: kind.options() for kind in kinds()})]
"""By kinds, what was given for each."""


def given_server(
    name: str, options: Mapping[str, Any], *, is_new: bool
) -> "tuple[TransportKind[Any], Given] | tuple[None, None]":
    """The kind, and what was given of it. `name`: the account's; `is_new`: it has no server yet."""
    given = {kind: kind_named(kind).given(name, each, is_new=is_new) for kind, each in options.items()}
    found = [(kind_named(kind), each) for kind, each in given.items() if each is not None]
    if len(found) > 1:
        ways = " or ".join(kind.way for kind, _ in found)
        raise FairpostError(f"An account sends {ways}: give the options of one of them.")
    return found[0] if found else (None, None)
