"""A campaign as a TOML file, which can be kept under version control. This module defines the file's keys and checks
their values. The module checks only the file itself and the template files that the file names. Other modules check
whether the file's lists, accounts and stored templates exist in the database. docs/campaign-file.md explains every key.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from fairpost.campaigns import values
from fairpost.campaigns.parsers import EVERY_DAY, NO_RAMP_UP, WHOLE_DAY, shown
from fairpost.campaigns.texts import named_text, text_of
from fairpost.model.campaign import HUMAN_GAP, Gap, Schedule
from fairpost.model.errors import FairpostError
from fairpost.model.mailbox import HeaderFields
from fairpost.model.window import Quota, SendingWindow
from fairpost.policy.quotas import problem_of_quota
from fairpost.policy.windows import problem_of
from fairpost.templates.reader import TemplateError
from fairpost.templates.rendering import Template, compile_template

T = TypeVar("T")

FILE_BYTES_MAX = 16_777_216
STEPS_MAX = 100
KEY_CHARS_MAX = 100
UNKNOWN_TOLD_MAX = 20  # maximum number of unknown keys reported per table, because an unrelated file may have thousands

CONTENT_KEYS = ("subject", "text", "text_file", "html", "html_file")
KEYS: dict[str, tuple[str, ...]] = {  # allowed keys by table; the first table is the file itself
    "": (
        "name", "workspace", "list", "lists", "pool", "account", "start", "user", "gap", "clock", "footer", "schedule", "step",
        "type", "tags", "metadata", "headers", "reply_to",
    ),
    "schedule": ("timezone", "days", "hours", "holidays", "quota", "ramp_up"),
    "step": ("delay", "template", "own_subject", *CONTENT_KEYS),
}  # fmt: skip
HOMES = {
    "": "at the top of the file, above [schedule] and [[step]]",
    "schedule": "under [schedule]",
    "step": "under [[step]]",
}
IN_THE_FILE = {"daily_max": "quota", "ramp_up_days": "ramp_up (days)", "ramp_up_percents": "ramp_up (percents)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStep:
    """A step, with its content or the name of a stored template.

    Without `own_subject`, a follow-up uses the first step's subject, and the subject of any `content` is empty.
    """

    delay_s: int = 0
    template_name: str | None = None
    content: Template | None = None
    own_subject: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFile:
    name: str
    workspace: str = "default"
    lists: tuple[str, ...]
    route: str = "default"  # a pool name, or @ followed by an account name
    starts_at: datetime | None = None
    user: str = ""
    labels: Mapping[str, Any] = field(default_factory=dict)  # labels of the campaign's e-mails: type, tags, metadata
    header_fields: HeaderFields = field(default_factory=HeaderFields)  # headers of the campaign's e-mails
    gap: Gap | None
    by_recipients_clock: bool = False
    has_footer: bool = True
    schedule: Schedule | None = None  # None leaves the workspace's schedule unchanged
    steps: tuple[FileStep, ...]


class BadCampaignFile(FairpostError):
    """Contains all problems in a file. Each problem names its place in the file, the rule, and the invalid value."""

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join(f"{where}: {problem}" for problem in problems))
        self.where, self.problems = where, tuple(problems)


def read_campaign_file(path: Path, *, now: datetime) -> CampaignFile:
    """Reads a campaign file. Raises BadCampaignFile with all problems that were found."""
    try:
        text = text_of(path, FILE_BYTES_MAX)
    except ValueError as error:
        raise BadCampaignFile(str(path), [str(error)]) from error
    return parse_campaign(text, where=str(path), folder=path.parent, now=now)


def parse_campaign(text: str, *, where: str, folder: Path, now: datetime) -> CampaignFile:
    """Parses a campaign file. `where` is the file name to use in error messages. Relative paths in the file are
    resolved from `folder`.

    Use this function only for the operator's own files, because a hostile file could take hours to parse and could name
    any path.
    """
    problems: list[str] = []
    try:
        top = _Table("", tomllib.loads(text), problems)
    except RecursionError:
        raise BadCampaignFile(where, ["is not valid TOML: brackets are nested too deeply"]) from None
    except ValueError as error:  # usually a TOMLDecodeError, whose message names the line
        raise BadCampaignFile(where, [f"is not TOML: {error}"]) from error
    campaign = _campaign(top, folder, now)
    if problems:
        raise BadCampaignFile(where, problems)
    return campaign


class _Table:
    """A table in the file. Errors in the table's values are added to `problems`, and reading continues."""

    def __init__(self, kind: str, given: Mapping[str, Any], problems: list[str], place: str = "") -> None:
        self._given, self._problems, self._place = given, problems, place
        self._complain_of_unknown(kind)

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def get(self, key: str, default: Any = None) -> Any:
        return self._given.get(key, default)

    def complain(self, problem: str) -> None:
        self._problems.append(f"{self._place}{problem}")

    def problems_so_far(self) -> int:
        return len(self._problems)

    def read(self, key: str, parse: Callable[[Any], T], default: T) -> T:
        """Reads a key. `parse` raises ValueError with a message that continues a sentence beginning with the key."""
        if key not in self._given:
            return default
        try:
            return parse(self._given[key])
        except ValueError as error:
            self.complain(f"{key} {error}")
            return default

    def one_of(self, *keys: str) -> str | None:
        """Returns the key that is present, if any. If several of the keys are present, a problem is reported."""
        there = [key for key in keys if key in self]
        if len(there) > 1:
            self.complain(f"{there[0]} and {there[1]} cannot be combined: remove one of them")
        return there[0] if there else None

    def table(self, kind: str, given: Mapping[str, Any], place: str) -> "_Table":
        return _Table(kind, given, self._problems, place)

    def _complain_of_unknown(self, kind: str) -> None:
        unknown = [key for key in self._given if key not in KEYS[kind]]
        for key in unknown[:UNKNOWN_TOLD_MAX]:
            self.complain(_unknown(key, kind))
        if len(unknown) > UNKNOWN_TOLD_MAX:
            self.complain(f"and {len(unknown) - UNKNOWN_TOLD_MAX:,} more unknown keys")


def _unknown(key: str, kind: str) -> str:
    home = next((other for other, keys in KEYS.items() if key in keys), None)
    if home is not None:
        return f"{key} must be {HOMES[home]}"
    near = get_close_matches(key[:KEY_CHARS_MAX], KEYS[kind], n=1)
    known = f"did you mean {near[0]}?" if near else f"known keys are {', '.join(KEYS[kind])}"
    return f"{shown(key)} is unknown: {known}"


# ── campaign ──────────────────────────────────────────────────────────────────────────────────────────────


def _campaign(top: _Table, folder: Path, now: datetime) -> CampaignFile:
    if "name" not in top:
        top.complain('name is required, for example name = "spring"')
    steps = top.get("step")
    return CampaignFile(
        name=top.read("name", values.name, ""),
        workspace=top.read("workspace", values.workspace, "default"),
        lists=_lists(top),
        route=_route(top),
        starts_at=top.read("start", values.moment, None),
        user=top.read("user", values.user, ""),
        labels=_labels(top),
        header_fields=HeaderFields(
            headers=top.read("headers", values.headers, {}), reply_to=top.read("reply_to", values.mailbox, None)
        ),
        gap=top.read("gap", values.gap, HUMAN_GAP if isinstance(steps, list) and len(steps) > 1 else None),
        by_recipients_clock=top.read("clock", values.is_recipients, False),
        has_footer=top.read("footer", values.flag, True),
        schedule=_schedule(top, now),
        steps=tuple(_step(top, number, given, folder) for number, given in enumerate(_step_tables(top), 1)),
    )


def _labels(top: _Table) -> dict[str, Any]:
    given = {
        "type": top.read("type", values.email_type, None),
        "tags": top.read("tags", values.tags, None),
        "metadata": top.read("metadata", values.metadata, None),
    }
    return {name: value for name, value in given.items() if value}


def _lists(top: _Table) -> tuple[str, ...]:
    key = top.one_of("lists", "list")
    if key is None:
        top.complain('lists is required, for example lists = ["customers"]')
    return top.read("list", values.only_list, ()) if key == "list" else top.read("lists", values.list_names, ())


def _route(top: _Table) -> str:
    if top.one_of("pool", "account") == "account":
        return top.read("account", lambda value: f"@{values.name(value)}", "")
    return top.read("pool", values.pool, "default")


def _schedule(top: _Table, now: datetime) -> Schedule | None:
    if "schedule" not in top:
        return None
    given = top.get("schedule")
    if not isinstance(given, dict):
        top.complain(f"schedule must be one table: write [schedule] above its keys, got {values.said(given)}")
        return None
    table = top.table("schedule", given, "schedule: ")
    window = _window(table)
    if problem := problem_of(window, now):
        table.complain(problem)
    is_limited = any(key in table for key in ("days", "hours", "holidays"))
    return Schedule(timezone=window.timezone, window=window if is_limited else None, quota=_quota(table))


def _window(table: _Table) -> SendingWindow:
    start, end = table.read("hours", values.hours, WHOLE_DAY)
    return SendingWindow(
        timezone=table.read("timezone", values.timezone, "UTC"),
        days=table.read("days", values.days, EVERY_DAY),
        start=start,
        end=end,
        holidays=table.read("holidays", values.holidays, frozenset()),
    )


def _quota(table: _Table) -> Quota:
    before = table.problems_so_far()
    daily_max = table.read("quota", values.daily_max, None)
    days, percents = table.read("ramp_up", values.ramp_up, NO_RAMP_UP)
    quota = Quota(daily_max=daily_max, ramp_up_days=days, ramp_up_percents=percents)
    if table.problems_so_far() == before and (problem := problem_of_quota(quota)):
        table.complain(re.sub("|".join(IN_THE_FILE), lambda found: IN_THE_FILE[found[0]], problem))
    return quota


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────


def _step_tables(top: _Table) -> list[Any]:
    tables = top.get("step", [])
    if not isinstance(tables, list):
        top.complain(f"step must be a list of tables: write [[step]] in double brackets, got {values.said(tables)}")
        return []
    if not tables:
        top.complain("step is required at least once: write [[step]], with subject and text below it")
    if len(tables) > STEPS_MAX:
        top.complain(f"step is allowed at most {STEPS_MAX} times, got {len(tables):,}")
    return tables[:STEPS_MAX]


def _step(top: _Table, number: int, given: Any, folder: Path) -> FileStep:
    if not isinstance(given, dict):
        top.complain(f"step {number} must be a table: write [[step]] above its keys, got {values.said(given)}")
        return FileStep()
    table = top.table("step", given, f"step {number}: ")
    delay_s = _delay_s(table, is_first=number == 1)
    is_first = number == 1
    if "template" not in table:
        if "own_subject" in table:
            table.complain("own_subject is only allowed with template: this step has its own subject anyway")
        own_subject = not is_first and "subject" in table
        return FileStep(delay_s=delay_s, content=_content(table, folder, is_first=is_first), own_subject=own_subject)
    if is_first and "own_subject" in table:
        table.complain("own_subject is not allowed in the first step, whose subject the other steps use")
    if own := [key for key in CONTENT_KEYS if key in table]:
        table.complain(f"template cannot be combined with {', '.join(own)}: remove one of them")
    own_subject = not is_first and table.read("own_subject", values.flag, False)
    return FileStep(delay_s=delay_s, template_name=table.read("template", values.name, ""), own_subject=own_subject)


def _delay_s(table: _Table, *, is_first: bool) -> int:
    if is_first and "delay" in table:
        table.complain("delay is not allowed in the first step, which is sent at the start: remove it, or use start")
        return 0
    if not is_first and "delay" not in table:
        table.complain('delay is required, for example delay = "3d": the time after the previous step')
    return table.read("delay", values.delay, 0)


def _content(table: _Table, folder: Path, *, is_first: bool) -> Template:
    names = {part: table.one_of(part, f"{part}_file") or "" for part in ("text", "html")}
    if not any(names.values()):
        table.complain("text or html (or text_file, html_file) is required unless template is given")
    if is_first and "subject" not in table:
        table.complain('subject is required, for example subject = "Hello"')
    bodies = {part: _body(table, key, folder) for part, key in names.items()}
    template = Template(subject=table.read("subject", values.text, ""), **bodies)
    for error in _template_errors(template):
        key = names.get(error.part, error.part)
        file = f" {shown(str(table.get(key)))}" if key.endswith("_file") else ""
        table.complain(f"{key}{file}, line {error.line}, column {error.column}: {error.message}")
    return template


def _body(table: _Table, key: str, folder: Path) -> str | None:
    if key.endswith("_file"):
        return table.read(key, lambda path: values.filled(named_text(path, folder)), None)
    return table.read(key, values.filled, None)


def _template_errors(template: Template) -> Iterable[TemplateError]:
    """Yields the first error in each part. Compiling the template as a whole would report only one error."""
    parts = [Template(subject=template.subject)]
    parts += [Template(subject="", text=template.text), Template(subject="", html=template.html)]
    return filter(None, map(_template_error, parts))


def _template_error(template: Template) -> TemplateError | None:
    try:
        compile_template(template)
    except TemplateError as error:
        return error
    return None
