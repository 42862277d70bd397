"""Why something is as it is, or cannot be done: a stable code, and what it is about.

Reasons are stored, answered and logged as they are. Sentences are made at the edge: see reasons/catalogue.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

Value: TypeAlias = "str | int | float | bool | datetime | Sequence[Value] | Mapping[str, Value] | None"


@dataclass(frozen=True, slots=True, init=False)
class Reason:
    code: str
    params: Mapping[str, Value]

    def __init__(self, code: str, /, **params: Value) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "params", params)


Log = Callable[[Reason], None]
"""Hears of what happens, one event a call. Its codes are those of reasons/catalogue.py and reasons/events.py."""
