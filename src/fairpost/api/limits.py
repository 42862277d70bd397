"""Limits of an account: those a request gives, in the place of its provider's."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import INTEGER_MAX, Count, RequestModel, ResponseModel
from fairpost.api.errors import invalid
from fairpost.model.account import DailyMode, Limits, limits_of


class WarmUpModel(RequestModel):
    """From `start` by `step` a day, or evenly over `days`."""

    start: Annotated[int, Field(ge=0, le=INTEGER_MAX)] = 0
    step: Annotated[int, Field(ge=0, le=INTEGER_MAX)] = 0
    days: Annotated[int, Field(ge=0, le=10_000)] = 0


class LimitsIn(RequestModel):
    """What is left out is the provider's; null: no such limit."""

    delay_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 0
    gap_max_ms: Annotated[int | None, Field(ge=1, le=86_400_000)] = None
    hourly_max: Count | None = None
    daily_max: Count | None = None
    daily_mode: DailyMode = DailyMode.ANCHORED
    units_per_minute: Count | None = None
    units_per_send: Count = 1
    warm_up: WarmUpModel | None = None
    batch_max: Annotated[int, Field(ge=1, le=1_000)] = 50
    bounce_percent_max: Annotated[float | None, Field(ge=0, le=100)] = None
    bounce_sample_min: Count = 20
    cool_down_s: Count | None = None


class LimitsOut(ResponseModel):
    delay_ms: int
    gap_max_ms: int | None
    hourly_max: int | None
    daily_max: int | None
    daily_mode: DailyMode
    units_per_minute: int | None
    units_per_send: int
    warm_up: WarmUpModel | None
    batch_max: int
    bounce_percent_max: float | None
    bounce_sample_min: int
    cool_down_s: int | None


def with_given(limits: Limits, given: LimitsIn | None) -> Limits:
    named = given.model_dump(exclude_unset=True) if given is not None else {}
    try:
        return limits_of(named, limits)
    except ValueError as error:
        raise invalid("limits", str(error)) from None
