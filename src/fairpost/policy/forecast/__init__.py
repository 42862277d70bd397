"""Forecast when a campaign will finish, using the engine's rules for account limits, windows, quotas, pauses and steps.

The forecast uses no clock and no randomness. Each account advances through the campaign in runs of equal intervals, so
that a million e-mails take only seconds. Bounces, retries, outages and other campaigns on the same accounts are not
included.
"""

from fairpost.policy.forecast.curve import Curve, curve_of, expected_by
from fairpost.policy.forecast.kept import (
    KeptForecast,
    NoKeptForecast,
    forecast_by,
    in_writing,
    none_in_writing,
    read_kept,
)
from fairpost.policy.forecast.outcome import Bottleneck, Forecast, StepFigures
from fairpost.policy.forecast.plan import NoForecast, Pending, Plan, Sender
from fairpost.policy.forecast.suggestions import Suggestion, suggestions
from fairpost.policy.forecast.timeline import forecast

__all__ = [
    "Bottleneck",
    "Curve",
    "Forecast",
    "KeptForecast",
    "NoForecast",
    "NoKeptForecast",
    "Pending",
    "Plan",
    "Sender",
    "StepFigures",
    "Suggestion",
    "curve_of",
    "expected_by",
    "forecast",
    "forecast_by",
    "in_writing",
    "none_in_writing",
    "read_kept",
    "suggestions",
]
