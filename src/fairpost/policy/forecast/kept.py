"""A forecast, as stored with its campaign for comparison with the actual progress."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.model.reason import Reason, as_json
from fairpost.policy.forecast.curve import Curve, curve_of, curve_of_hours, expected_by
from fairpost.policy.forecast.outcome import Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptForecast:
    """A forecast made at launch, or later for the remaining e-mails.

    `sent` is the number of e-mails already sent when the forecast was made; the points continue from that number.
    """

    made_at: datetime
    ends_at: datetime
    emails: int
    points: Curve
    sent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoKeptForecast:
    """The reason why no forecast was possible."""

    made_at: datetime
    why: Reason


def in_writing(found: Forecast, *, made_at: datetime, sent: int) -> str:
    return json.dumps(
        {
            "made_at": made_at.isoformat(),
            "ends_at": found.ends_at.isoformat(),
            "emails": found.emails,
            "sent": sent,
            "points": [[at.isoformat(), sent + n] for at, n in curve_of(found)],
        }
    )


def none_in_writing(none: NoKeptForecast) -> str:
    why = {"code": none.why.code, "params": as_json(none.why)}
    return json.dumps({"made_at": none.made_at.isoformat(), "why_none": why})


def read_kept(text: str) -> KeptForecast | NoKeptForecast:
    read = json.loads(text)
    made_at = datetime.fromisoformat(read["made_at"])
    if "why_none" in read:
        return NoKeptForecast(made_at=made_at, why=_read_why(read["why_none"]))
    ends_at = datetime.fromisoformat(read["ends_at"])
    if "points" in read:
        points = tuple((datetime.fromisoformat(at), n) for at, n in read["points"])
    else:  # the older format
        points = curve_of_hours([(datetime.fromisoformat(hour), n) for hour, n in read["per_hour"]], ends_at)
    return KeptForecast(
        made_at=made_at, ends_at=ends_at, emails=read["emails"], points=points, sent=read.get("sent", 0)
    )


def _read_why(stored: Any) -> Reason:
    """Parse a stored reason. Earlier versions stored a sentence, which may name the operator's accounts."""
    return Reason(stored["code"], **stored["params"]) if isinstance(stored, dict) else Reason("forecast.unknown")


def forecast_by(foretold: KeptForecast, moment: datetime) -> int:
    """Return how many e-mails should have been sent by the given moment."""
    return max(foretold.sent, expected_by(foretold.points, moment))
