"""Why something is in a state or was refused, as a stable code with parameters. Reasons are stored, returned and logged
as codes. Front ends render them as sentences (see reasons/catalogue.py).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

Value: TypeAlias = "str | int | float | bool | datetime | Reason | Sequence[Value] | Mapping[str, Value] | None"


@dataclass(frozen=True, slots=True, init=False)
class Reason:
    code: str
    params: Mapping[str, Value]

    def __init__(self, code: str, /, **params: Value) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "params", params)


Log = Callable[[Reason], None]
"""Receives one event per call. The codes are in reasons/catalogue.py and reasons/events.py."""


def as_json(reason: Reason) -> dict[str, Any]:
    """Return the parameters that are not empty."""
    return {name: _as_json(value) for name, value in reason.params.items() if value is not None}


def write_params(reason: Reason) -> str:
    return json.dumps(as_json(reason))


def read_reason(code: str, params: str) -> Reason:
    """Parse a stored reason. Parameters named until, since or something_at are times."""
    return Reason(code, **{name: _read(name, value) for name, value in json.loads(params).items()})


def _as_json(value: Value) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case Reason():
            return {"code": value.code, "params": as_json(value)}
        case Mapping():
            return {name: _as_json(each) for name, each in value.items()}
        case str() | int() | float() | None:
            return value
        case _:
            return [_as_json(each) for each in value]


def _read(name: str, value: Any) -> Value:
    if isinstance(value, list):
        return [_read("", each) for each in value]
    if isinstance(value, dict) and value.keys() == {"code", "params"}:
        return Reason(value["code"], **{key: _read(key, each) for key, each in value["params"].items()})
    is_moment = isinstance(value, str) and (name in ("until", "since") or name.endswith("_at"))
    return datetime.fromisoformat(value) if is_moment else value
