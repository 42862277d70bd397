"""What a file would change: field by field, and in long texts line by line. What to do about it is decided elsewhere."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from difflib import unified_diff

from fairpost.campaigns.file import CampaignFile, FileStep
from fairpost.campaigns.words import (
    gap_in_words,
    hours_in_words,
    ramp_up_in_words,
    weekdays_in_words,
)
from fairpost.model.campaign import Schedule
from fairpost.model.durations import write_duration
from fairpost.model.sender import normalize_user
from fairpost.model.window import SendingWindow

LINES_COMPARED_MAX = 2_000  # comparing takes their square
CONTEXT_LINES = 2

Facts = dict[str, str | None]  # by field, in words; None: it is not there


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """None: it was not there before, or will not be there after."""

    field: str  # as in "step 2 text"
    before: str | None
    after: str | None


def diff(before: CampaignFile | None, after: CampaignFile) -> tuple[Change, ...]:
    """A file without a schedule leaves that of the workspace as it is. What means the same is no change."""
    if before is not None and after.schedule is None:
        before = replace(before, schedule=None)
    old, new = _facts(before) if before else {}, _facts(after)
    changes = (Change(field=field, before=old.get(field), after=new.get(field)) for field in {**old, **new})
    return tuple(change for change in changes if change.before != change.after)


def in_lines(changes: Iterable[Change]) -> Iterator[str]:
    """As `diff` prints them: what goes begins with a minus, what comes with a plus."""
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
    """Of text that is there at least one. A line feed at the end counts: the last one is then empty."""
    return [] if text is None else text.split("\n")


def _compared(before: list[str], after: list[str]) -> Iterator[str]:
    lines = unified_diff(before, after, n=CONTEXT_LINES, lineterm="")
    yield from list(lines)[2:]  # the first two would name files


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


# ── a campaign in words ───────────────────────────────────────────────────────────────────────────────────


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
        "gap": gap_in_words(campaign.gap),
        "clock": "recipient" if campaign.by_recipients_clock else "workspace",
    }
    facts |= _schedule_facts(campaign.schedule)
    for number, step in enumerate(campaign.steps, 1):
        facts |= {f"step {number} {key}": value for key, value in _step_facts(step, is_first=number == 1).items()}
    return facts


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
    """No window is one that is always open."""
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
