"""An account's limits in requests, responses and forms, all generated from the limit descriptions."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from fairpost.api.answers import RequestModel, ResponseModel
from fairpost.api.errors import invalid
from fairpost.model.account import LIMITS, Limits, limits_of
from fairpost.model.limit import Limit

M = TypeVar("M", bound=BaseModel)


def _asked(limit: Limit) -> tuple[Any, Any]:
    bounds: Any = {} if limit.choices or limit.parts else {"ge": limit.ge, "le": limit.le}
    return Annotated[_type(limit), Field(description=limit.help, **bounds)], limit.default


def _answered(limit: Limit) -> tuple[Any, Any]:
    return Annotated[_type(limit), Field(description=limit.help)], ...


def _type(limit: Limit) -> Any:
    type_: Any = _PLANS[limit.name] if limit.parts else limit.type
    return type_ | None if limit.is_optional else type_


def _plan(limit: Limit) -> type[RequestModel]:
    parts: Any = {part.name: _asked(part) for part in limit.parts}
    about = limit.type.__doc__
    return create_model(f"{limit.type.__name__}Model", __base__=RequestModel, __doc__=about, **parts)


_PLANS = {limit.name: _plan(limit) for limit in LIMITS if limit.parts}


def _asking(model: type[M]) -> type[M]:
    fields: Any = {each.name: _asked(each) for each in LIMITS}
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, __module__=__name__, **fields)


def _answering(model: type[M]) -> type[M]:
    fields: Any = {each.name: _answered(each) for each in LIMITS}
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, __module__=__name__, **fields)


@_asking
class LimitsIn(RequestModel):
    """An account's limits. If a limit is omitted, the provider's limit applies. Null means no limit."""


@_answering
class LimitsOut(ResponseModel):
    """The limits of an account. Null means no limit."""


def with_given(limits: Limits, given: LimitsIn | None) -> Limits:
    named = given.model_dump(exclude_unset=True) if given is not None else {}
    try:
        return limits_of(named, limits)
    except ValueError as error:
        raise invalid("limits", str(error)) from None


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────────────


class LimitField(ResponseModel):
    name: Annotated[str, Field(description="The field's name in requests, such as `daily_max` or `warm_up.start`.")]
    label: str
    options: Annotated[list[tuple[str, str]], Field(description="Values to choose from, with labels.")]
    default: int | float | str | None
    is_optional: Annotated[bool, Field(description="Whether the field can be empty, which means no limit.")]
    min: float | None
    max: float | None
    scale: Annotated[
        int,
        Field(
            description="The factor by which to multiply the input to get the value: forms show milliseconds as seconds."
        ),
    ]
    is_whole: Annotated[bool, Field(description="Whether only whole numbers are allowed.")]
    is_asked_first: Annotated[bool, Field(description="Whether the form for adding an account shows the field.")]


def limit_fields() -> list[LimitField]:
    return [
        field for limit in LIMITS for field in ([_part(limit, p) for p in limit.parts] or [_field(limit, limit.name)])
    ]


def _part(limit: Limit, part: Limit) -> LimitField:
    return _field(part, f"{limit.name}.{part.name}")


def _field(limit: Limit, name: str) -> LimitField:
    scale, unit = (1000, "s") if limit.unit == "ms" else (1, limit.unit)
    return LimitField(
        name=name,
        label=f"{limit.label} ({unit})" if unit in ("s", "%") else limit.label,
        options=list(limit.choices.items()),
        default=limit.default,
        is_optional=limit.is_optional,
        min=None if limit.choices else limit.ge / scale,
        max=None if limit.choices else limit.le / scale,
        scale=scale,
        is_whole=limit.type is int and scale == 1,
        is_asked_first=limit.is_asked_first,
    )
