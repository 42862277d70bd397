"""Renders reasons as text for people."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from fairpost.model.errors import FairpostError
from fairpost.model.reason import Reason, Value, as_json
from fairpost.policy.conditions import Condition, Tone
from fairpost.policy.forecast import Suggestion
from fairpost.reasons.catalogue import CATALOGUE, Meaning

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_NAME = re.compile(r"\{(\w+)\}")
_LAST = re.compile(r"\{(\w+)\}\.(?=\s|$)")  # parameter at the end of a sentence
_STOPS = (".", "!", "?", "…")


def sentence(reason: Reason, zone: str | None = None) -> str:
    """Returns the reason as a sentence. Times are in `zone`, or in UTC if `zone` is None."""
    return filled(CATALOGUE[reason.code].sentence, reason, zone)


def filled(template: str, reason: Reason, zone: str | None = None) -> str:
    return _filled(template, {name: _shown(value, zone) for name, value in reason.params.items()})


def brief(reason: Reason, zone: str | None = None) -> str:
    """Returns the reason as the end of a sentence, for use after a colon or in a column."""
    # Unknown codes are from a newer version or a custom scorer.
    meaning = CATALOGUE.get(reason.code, Meaning(sentence=reason.code))
    words = {name: _shown(value, zone) for name, value in reason.params.items()}
    return _filled(meaning.brief or meaning.sentence, words)


def brief_or_none(reason: Reason | None) -> str | None:
    return None if reason is None else brief(reason)


def coded(reason: Reason | None, name: str = "reason") -> dict[str, Any]:
    """Returns the reason for responses, both as text under its old name and as a code with parameters."""
    if reason is None:
        return {name: None, f"{name}_code": None, f"{name}_params": None}
    return {name: brief(reason), f"{name}_code": reason.code, f"{name}_params": as_json(reason)}


def field(reason: Reason) -> str:
    """Returns the invalid part of the request, or an empty string if no single part is to blame."""
    return CATALOGUE[reason.code].field.format_map(reason.params)


def mistakes(reason: Reason) -> list[dict[str, Any]]:
    """Returns the mistakes, each with a message and the field or line where it is."""
    return cast("list[dict[str, Any]]", reason.params.get("mistakes", []))


def mistake_in_words(mistake: Mapping[str, Any]) -> str:
    place = [str(mistake["field"])] if "field" in mistake else []
    place += [f"{name} {mistake[name]}" for name in ("line", "column") if mistake.get(name)]
    return f"{', '.join(place)}: {mistake['message']}"


def command(reason: Reason) -> str | None:
    """Returns the command to run next, or None."""
    words = {name: shlex.quote(text) if (text := _shown(value)) else "" for name, value in reason.params.items()}
    return _filled(CATALOGUE[reason.code].command, words).strip() or None


def error_in_words(error: FairpostError) -> str:
    """Returns the error with the next command, for the command line."""
    return str(error) if error.next_step is None else f"{error} {brief(error.next_step)}"


def told(condition: Condition, zone: str | None = None) -> str:
    """Describes a condition with the number of e-mails it affects, as in `status` and on pages."""
    words = sentence(condition.reason, zone)
    if condition.code == "mail.sending":
        return _sending(condition.reason.params)
    if condition.accounts > 1 and condition.keeps_mail_back:
        words = f"None of {condition.accounts} accounts can send now. {words}"
    if not condition.waiting:
        return words
    return f"{_emails(condition.waiting)} waiting. {words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A condition in responses. `code` is stable, while `text` may change. `then` is the next command."""

    code: str
    tone: Tone
    text: str
    then: str
    until: datetime | None
    waiting: int


def shown(condition: Condition, *, zone: str | None = None) -> Shown:
    return Shown(
        code=condition.code,
        tone=condition.tone,
        text=told(condition, zone),
        then=command(condition.reason) or "",
        until=condition.until,
        waiting=condition.waiting,
    )


def _sending(params: Mapping[str, Value]) -> str:
    per_s, waiting, blocked = (float(str(params[name])) for name in ("per_s", "waiting", "blocked"))
    pace = f" {_pace(per_s)}" if per_s else ""
    behind = f" {int(waiting):,} queued" if waiting else ""
    held = f", {int(blocked):,} of them blocked: see below" if blocked else ""
    return f"Sending{pace}.{behind}{held}{'.' if behind else ''}"


def _pace(per_s: float) -> str:
    if per_s >= 1:
        return f"{per_s:,.0f} e-mail{'' if round(per_s) == 1 else 's'}/s"
    per_minute = max(1, round(per_s * 60))
    return f"{per_minute} e-mail{'' if per_minute == 1 else 's'}/min"


def _emails(n: int) -> str:
    return f"{n:,} e-mail{'' if n == 1 else 's'}"


def _filled(template: str, words: Mapping[str, str]) -> str:
    def kept(found: re.Match[str]) -> str:
        return found[1] if all(words.get(name) for name in _NAME.findall(found[1])) else ""

    def stopped(found: re.Match[str]) -> str:
        """Avoids a second full stop, because parameters may contain text that ends with one."""
        return found[0].removesuffix(".") if words.get(found[1], "").endswith(_STOPS) else found[0]

    return _LAST.sub(stopped, _OPTIONAL.sub(kept, template)).format_map(_Words(words))


class _Words(dict[str, str]):
    """Leaves out parameters that are missing from a reason stored by an earlier version."""

    def __missing__(self, name: str) -> str:
        return ""


def local(moment: datetime, zone: str) -> str:
    """Formats a time for people, for example Monday 2030-01-07 09:00 (Europe/Berlin)."""
    return f"{moment.astimezone(ZoneInfo(zone)):%A %Y-%m-%d %H:%M} ({zone})"


def suggested(found: Suggestion, zone: str, *, now: datetime) -> str:
    """Returns a suggestion with the end that it would lead to, and the end without it."""
    return (
        f"{brief(found.change)}: done {soon(found.ends_at, zone, now)} instead of {soon(found.instead_of, zone, now)}"
    )


def soon(moment: datetime, zone: str, now: datetime) -> str:
    """Formats a time for people. Within the coming week, the weekday is enough."""
    there, today = moment.astimezone(ZoneInfo(zone)), now.astimezone(ZoneInfo(zone))
    days = (there.date() - today.date()).days
    if days == 0:
        return f"today {there:%H:%M}"
    if days < 7:
        return f"{there:%A %H:%M}"
    year = "" if there.year == today.year else f" {there.year}"
    return f"{there:%a} {there.day} {there:%b}{year} {there:%H:%M}"


def _shown(value: Value, zone: str | None = None) -> str:
    match value:
        case datetime():
            return local(value, zone) if zone else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:g}"
        case str():
            return value
        case Reason():
            return brief(value, zone)
        case None:
            return ""
        case Mapping():
            return ", ".join(f"{name}: {_shown(each)}" for name, each in value.items())
        case _:
            each = [_shown(one) for one in value]
            return ("; " if any("," in one for one in each) else ", ").join(each)
