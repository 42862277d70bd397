"""Options shared by several commands: the fields of a dataclass, passed to a command as one value."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True)
class Groups:
    """Mark a parameter that maps names to groups."""

    by_name: Mapping[str, type]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass, or `Groups` of dataclasses, with one option per field."""
    groups: dict[str, type | Groups] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation) and isinstance(parameter.annotation, type):
            groups[parameter.name] = parameter.annotation
            parameters += _options_of(parameter.annotation)
        elif several := next((each for each in get_args(parameter.annotation)[1:] if isinstance(each, Groups)), None):
            groups[parameter.name] = several
            parameters += [option for group in several.by_name.values() for option in _options_of(group)]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def gathered(**given: Any) -> None:
        def gather(group: type | Groups) -> Any:
            if isinstance(group, Groups):
                return {name: gather(each) for name, each in group.by_name.items()}
            return group(**{field.name: given.pop(field.name) for field in fields(group)})

        values = {name: gather(group) for name, group in groups.items()}
        command(**given, **values)

    gathered.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del gathered.__wrapped__
    return gathered


def _options_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
