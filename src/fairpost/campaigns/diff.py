"""The changes that a file would make, field by field or, for long text, line by line."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from difflib import unified_diff
from typing import Any

from fairpost.campaigns.file import CampaignFile, FileStep
from fairpost.campaigns.parsers import (
    gap_in_words,
    hours_in_words,
    ramp_up_in_words,
    weekdays_in_words,
)
from fairpost.model.campaign import Schedule
from fairpost.model.durations import write_duration
from fairpost.model.sender import normalize_user
from fairpost.model.window import SendingWindow

LINES_COMPARED_MAX = 2_000  # maximum number of lines to compare, because comparing takes quadratic time
CONTEXT_LINES = 2

Facts = dict[str, str | None]  # values by field, as text; None if absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to a field. A value is None if the field is absent."""

    field: str  # such as "step 2 text"
    before: str | None
    after: str | None


def diff(before: CampaignFile | None, after: CampaignFile) -> tuple[Change, ...]:
    """Compares two files. Equivalent values are not reported as changes.

    A file without a schedule leaves the workspace's schedule unchanged.
    """
    if before is not None and after.schedule is None:
        before = replace(before, schedule=None)
    old, new = _facts(before) if before else {}, _facts(after)
    changes = (Change(field=field, before=old.get(field), after=new.get(field)) for field in {**old, **new})
    return tuple(change for change in changes if change.before != change.after)


def in_lines(changes: Iterable[Change]) -> Iterator[str]:
    """Yields the changes in the format of `diff`: removed lines start with a minus, added lines with a plus."""
    for change in changes:
        before, after = _lines(change.before), _lines(change.after)
        if max(len(before), len(after)) > LINES_COMPARED_MAX:
            yield from _counted(change, before, after)
        elif before and after and (len(before) > 1 or len(after) > 1):
            yield f"{change.field}:"
            yield from _compared(before, after)
        else:
            yield from _said("-", change.field, before)
            yield from _said("+", change.field, after)


def _lines(text: str | None) -> list[str]:
    """Splits text into lines. Text other than None has at least one line, and a final line feed adds an empty line."""
    return [] if text is None else text.split("\n")


def _compared(before: list[str], after: list[str]) -> Iterator[str]:
    lines = unified_diff(before, after, n=CONTEXT_LINES, lineterm="")
    yield from list(lines)[2:]  # skips the first two lines, which contain file names


def _said(sign: str, field: str, lines: list[str]) -> Iterator[str]:
    if len(lines) == 1:
        yield f"{sign} {field}: {lines[0]}"
    elif lines:
        yield f"{sign} {field}:"
        yield from (f"{sign}{line}" for line in lines)


def _counted(change: Change, before: list[str], after: list[str]) -> Iterator[str]:
    if before:
        yield f"- {change.field}: {len(before):,} lines"
    if after:
        pairs = zip(before, after, strict=False)
        first = next((n for n, (old, new) in enumerate(pairs, 1) if old != new), min(len(before), len(after)) + 1)
        yield f"+ {change.field}: {len(after):,} lines" + (f", new from line {first:,} on" if before else "")


# ── a campaign as text ────────────────────────────────────────────────────────────────────────────────────


def _facts(campaign: CampaignFile) -> Facts:
    is_account = campaign.route.startswith("@")
    facts: Facts = {
        "name": campaign.name,
        "workspace": campaign.workspace,
        "lists": ", ".join(sorted(campaign.lists)),
        "pool": None if is_account else campaign.route,
        "account": campaign.route[1:] if is_account else None,
        "start": campaign.starts_at.astimezone(UTC).isoformat(" ") if campaign.starts_at else None,
        "user": normalize_user(campaign.user) or None,
        **{key: _label(campaign.labels.get(key)) for key in ("type", "tags", "metadata")},
        "headers": _label(dict(campaign.header_fields.headers) or None),
        "reply_to": str(campaign.header_fields.reply_to) if campaign.header_fields.reply_to else None,
        "gap": gap_in_words(campaign.gap),
        "clock": "recipient" if campaign.by_recipients_clock else "workspace",
        "footer": None if campaign.has_footer else "false",
    }
    facts |= _schedule_facts(campaign.schedule)
    for number, step in enumerate(campaign.steps, 1):
        facts |= {f"step {number} {key}": value for key, value in _step_facts(step, is_first=number == 1).items()}
    return facts


def _label(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _schedule_facts(schedule: Schedule | None) -> Facts:
    if schedule is None:
        return dict.fromkeys(_schedule_facts(Schedule()))
    quota = schedule.quota
    facts = {
        "timezone": schedule.timezone,
        **_window_facts(schedule.window),
        "quota": "none" if quota.daily_max is None else str(quota.daily_max),
        "ramp_up": ramp_up_in_words(quota.ramp_up_days, quota.ramp_up_percents),
    }
    return {f"schedule {key}": value for key, value in facts.items()}


def _window_facts(window: SendingWindow | None) -> Facts:
    """Returns the fields of a window. Without a window, sending is always allowed."""
    return {
        "days": weekdays_in_words(window.days) if window else "mon-sun",
        "hours": hours_in_words(window.start, window.end) if window else "all",
        "holidays": "\n".join(day.isoformat() for day in sorted(window.holidays)) or None if window else None,
    }


def _step_facts(step: FileStep, *, is_first: bool) -> Facts:
    content = step.content
    return {
        "delay": None if is_first else write_duration(step.delay_s),
        "template": step.template_name,
        "subject": content.subject if content and (is_first or step.own_subject) else None,
        "own_subject": "true" if content is None and step.own_subject else None,
        "text": content.text if content else None,
        "html": content.html if content else None,
    }
