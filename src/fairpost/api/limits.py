"""Limits of an account, as a request gives them, as they are answered, and as a form asks for them: all from their descriptions."""

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
    """Omitted limits are the provider's. Null: no limit."""


@_answering
class LimitsOut(ResponseModel):
    """Null: no such limit."""


def with_given(limits: Limits, given: LimitsIn | None) -> Limits:
    named = given.model_dump(exclude_unset=True) if given is not None else {}
    try:
        return limits_of(named, limits)
    except ValueError as error:
        raise invalid("limits", str(error)) from None


# ── on a form ─────────────────────────────────────────────────────────────────────────────────────────────


class LimitField(ResponseModel):
    name: Annotated[str, Field(description="As a request names it, like `daily_max` or `warm_up.start`.")]
    label: str
    options: Annotated[list[tuple[str, str]], Field(description="Values to choose from, and what each means.")]
    default: int | float | str | None
    is_optional: Annotated[bool, Field(description="Left empty: no such limit.")]
    min: float | None
    max: float | None
    scale: Annotated[int, Field(description="What is typed times this is the value: people type seconds for ms.")]
    is_whole: Annotated[bool, Field(description="Only whole numbers can be typed.")]
    is_asked_first: Annotated[bool, Field(description="When an account is added; the others follow from its provider.")]


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
