"""What a token server says, as it may be shown: one line, not too long, and without our secrets."""

from datetime import timedelta

from fairpost.model.secrets import masked

CHARS_MAX = 300


def shown(text: object, *secrets: str | None) -> str:
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return " ".join(masked(line, *secrets).split())[:CHARS_MAX]


def span(length: timedelta) -> str:
    """Like 2 h 5 min."""
    minutes, seconds = divmod(int(abs(length).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    return " ".join(f"{n} {unit}" for n, unit in [part for part in parts if part[0]][:2]) or "0 s"
