"""Writes a campaign to a file. Reading the file back returns the same campaign."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from fairpost.campaigns.file import CampaignFile, FileStep
from fairpost.campaigns.parsers import gap_in_words, hours_in_words, weekdays_in_words
from fairpost.model.campaign import Schedule
from fairpost.model.durations import write_duration
from fairpost.model.window import Quota, SendingWindow

_ESCAPED = re.compile(r'[\x00-\x08\x0a-\x1f\x7f"\\]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_ESCAPED_IN_LINES = re.compile(r'[\x00-\x08\x0b-\x1f\x7f\\]|(?<="")"|"\Z')


def to_toml(campaign: CampaignFile) -> str:
    """Returns the campaign as TOML, with its templates inline.

    A window whose start and end are equal is written as a whole day.
    """
    blocks = [_top(campaign)]
    if campaign.schedule is not None:
        blocks.append(_schedule(campaign.schedule))
    blocks += [_step(step, is_first=number == 0) for number, step in enumerate(campaign.steps)]
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks)


def _top(campaign: CampaignFile) -> Iterator[str]:
    yield f"name = {_quoted(campaign.name)}"
    yield f"workspace = {_quoted(campaign.workspace)}"
    yield f"lists = [{', '.join(map(_quoted, campaign.lists))}]"
    is_account = campaign.route.startswith("@")
    yield f"{'account' if is_account else 'pool'} = {_quoted(campaign.route.removeprefix('@'))}"
    if campaign.starts_at is not None:
        yield f"start = {_moment(campaign.starts_at)}"
    if campaign.user:
        yield f"user = {_quoted(campaign.user)}"
    if "type" in campaign.labels:
        yield f"type = {_quoted(campaign.labels['type'])}"
    if "tags" in campaign.labels:
        tags = [f"{_quoted(name)} = {_quoted(value)}" for name, value in campaign.labels["tags"].items()]
        yield f"tags = {{ {', '.join(tags)} }}"
    if "metadata" in campaign.labels:
        yield f"metadata = {_quoted(json.dumps(campaign.labels['metadata'], ensure_ascii=False))}"  # TOML has no null
    if campaign.header_fields.headers:
        headers = [f"{_quoted(name)} = {_quoted(value)}" for name, value in campaign.header_fields.headers.items()]
        yield f"headers = {{ {', '.join(headers)} }}"
    if campaign.header_fields.reply_to is not None:
        yield f"reply_to = {_quoted(str(campaign.header_fields.reply_to))}"
    yield f"gap = {_quoted(gap_in_words(campaign.gap))}"
    yield f"clock = {_quoted('recipient' if campaign.by_recipients_clock else 'workspace')}"
    if not campaign.has_footer:
        yield "footer = false"


def _schedule(schedule: Schedule) -> Iterator[str]:
    yield "[schedule]"
    yield f"timezone = {_quoted(schedule.timezone)}"
    if schedule.window is not None:
        yield from _window(schedule.window)
    yield from _quota(schedule.quota)


def _window(window: SendingWindow) -> Iterator[str]:
    yield f"days = {_quoted(weekdays_in_words(window.days))}"
    yield f"hours = {_quoted(hours_in_words(window.start, window.end))}"
    if window.holidays:
        yield f"holidays = [{', '.join(day.isoformat() for day in sorted(window.holidays))}]"


def _quota(quota: Quota) -> Iterator[str]:
    if quota.daily_max is not None:
        yield f"quota = {quota.daily_max}"
    if quota.ramp_up_percents:
        yield f"ramp_up = [{', '.join(map(str, quota.ramp_up_percents))}]"
    elif quota.ramp_up_days:
        yield f"ramp_up = {quota.ramp_up_days}"


def _step(step: FileStep, *, is_first: bool) -> Iterator[str]:
    yield "[[step]]"
    if not is_first:
        yield f"delay = {_quoted(write_duration(step.delay_s))}"
    if step.content is None:
        yield f"template = {_quoted(step.template_name or '')}"
        if step.own_subject:
            yield "own_subject = true"
        return
    if is_first or step.own_subject:
        yield f"subject = {_quoted(step.content.subject)}"
    for part, source in (("text", step.content.text), ("html", step.content.html)):
        if source is not None:
            yield f"{part} = {_in_lines(source) if chr(10) in source else _quoted(source)}"


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _in_lines(text: str) -> str:
    return f'"""\n{_ESCAPED_IN_LINES.sub(_escape, text)}"""'


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"
