"""A campaign written to a file and read back, and the changes that a file would make."""

import random
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from time import process_time
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairpost.campaigns.diff import LINES_COMPARED_MAX, Change, diff, in_lines
from fairpost.campaigns.file import CampaignFile, FileStep, parse_campaign
from fairpost.campaigns.parsers import DURATION_S_MAX
from fairpost.campaigns.writer import to_toml
from fairpost.model.campaign import HUMAN_GAP, Gap, Schedule
from fairpost.model.window import Quota, SendingWindow
from fairpost.templates.rendering import Template
from tests.thorough import times

NOW = datetime(2027, 1, 4, 12, tzinfo=UTC)

# Anything that a template may contain, except braces, which would have to be valid, and incomplete characters.
WRITTEN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{\0"), max_size=60)
HARD = st.lists(
    st.sampled_from(['"', '""', '"""', "\\", "\n", "\r\n", "\r", "\t", "\x7f", "'''", "#", " ", "a", "\u2028"])
)
TEXTS = st.one_of(WRITTEN, HARD.map("".join))
BODIES = TEXTS.filter(lambda text: bool(text.strip()))
NAMES = st.text("aZ09._-", max_size=20).map("x{}".format)
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"])
CLOCKS = st.builds(time, hour=st.integers(0, 23), minute=st.integers(0, 59), second=st.sampled_from([0, 0, 1, 59]))
OFFSETS = st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1970, 1, 3), datetime(2199, 12, 29), timezones=OFFSETS)


@st.composite
def gaps(draw: st.DrawFn) -> Gap | None:
    one, other = draw(st.floats(0, 86_400)), draw(st.floats(0.001, 86_400))
    return draw(st.sampled_from([None, Gap(min_s=min(one, other), max_s=max(one, other))]))


@st.composite
def contents(draw: st.DrawFn) -> Template:
    text, html = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    return Template(subject=draw(TEXTS), text=draw(BODIES) if text else None, html=draw(BODIES) if html else None)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    zone, window = draw(ZONES), None
    if draw(st.booleans()):
        start, end = draw(
            st.one_of(st.just((time(), time())), st.tuples(CLOCKS, CLOCKS).filter(lambda t: t[0] != t[1]))
        )
        window = SendingWindow(
            timezone=zone,
            days=draw(st.frozensets(st.integers(1, 7), min_size=1)),
            start=start,
            end=end,
            holidays=draw(st.frozensets(st.dates(date(2027, 1, 1), date(2027, 12, 31)), max_size=5)),
        )
    return Schedule(timezone=zone, window=window, quota=draw(quotas()))


def quotas() -> st.SearchStrategy[Quota]:
    most = st.integers(1, 1_000_000_000)
    return st.one_of(
        st.just(Quota()),
        st.builds(Quota, daily_max=most, ramp_up_days=st.integers(0, 365)),
        st.builds(Quota, daily_max=most, ramp_up_percents=st.lists(st.integers(1, 100)).map(tuple)),
    )


LABELS: tuple[dict[str, Any], ...] = (
    {},
    {"type": "newsletter", "tags": {"a.b": 'Zoë "x"\\', "-": ""}},
    {"metadata": {"": None, "deep": [1, 2.5, {"x": True}], "ü\n": "\x7f"}},
)


@st.composite
def campaigns(draw: st.DrawFn) -> CampaignFile:
    delays = [0, *draw(st.lists(st.integers(0, DURATION_S_MAX), max_size=3))]
    return CampaignFile(
        name=draw(NAMES),
        workspace=draw(LINES.filter(lambda name: name != "*")),
        lists=tuple(draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))),
        route=draw(st.one_of(LINES.filter(lambda name: name[0] != "@"), NAMES.map("@{}".format))),
        starts_at=draw(st.none() | MOMENTS),
        user=draw(st.just("") | LINES),
        labels=draw(st.sampled_from(LABELS)),
        gap=draw(gaps()),
        by_recipients_clock=draw(st.booleans()),
        schedule=draw(st.none() | schedules()),
        steps=tuple(draw(steps(delay_s) if n else first_steps()) for n, delay_s in enumerate(delays)),
    )


def first_steps() -> st.SearchStrategy[FileStep]:
    return st.one_of(st.builds(FileStep, template_name=NAMES), st.builds(FileStep, content=contents()))


def steps(delay_s: int) -> st.SearchStrategy[FileStep]:
    delay = st.just(delay_s)
    inheriting = contents().map(lambda content: replace(content, subject=""))
    return st.one_of(
        st.builds(FileStep, delay_s=delay, template_name=NAMES, own_subject=st.booleans()),
        st.builds(FileStep, delay_s=delay, content=contents(), own_subject=st.just(True)),
        st.builds(FileStep, delay_s=delay, content=inheriting),
    )


def read(text: str) -> CampaignFile:
    return parse_campaign(text, where="x.toml", folder=Path("nowhere"), now=NOW)


def campaign(text: str = "Hello\n", **changes: Any) -> CampaignFile:
    first = FileStep(content=Template(subject="Hello", text=text))
    return replace(CampaignFile(name="spring", lists=("customers",), gap=None, steps=(first,)), **changes)


def told(before: CampaignFile | None, after: CampaignFile) -> list[str]:
    return list(in_lines(diff(before, after)))


# ── write and read ────────────────────────────────────────────────────────────────────────────────────────


@given(campaigns())
def test_a_written_file_reads_back_the_same_and_changes_nothing(before: CampaignFile) -> None:
    after = read(to_toml(before))
    assert after == before
    assert diff(before, after) == ()


@settings(max_examples=times(10))
@given(campaigns())
def test_a_written_file_reads_back_the_same_with_windows_line_endings(before: CampaignFile) -> None:
    assert read(to_toml(before).replace("\n", "\r\n")) == before


@given(TEXTS.filter(str.strip))
@example('"""')
@example('\n"""\n""""')
@example("\n\n\\\n")
@example("a\r\nb\r")
@example("{# \\ #}\n")
def test_any_text_is_written_so_that_it_is_read_as_the_same(text: str) -> None:
    assert read(to_toml(campaign(text))) == campaign(text)


def test_a_file_is_written_as_people_would() -> None:
    window = SendingWindow(
        timezone="Europe/Berlin",
        days=frozenset(range(1, 6)),
        start=time(9),
        end=time(17),
        holidays=frozenset({date(2027, 5, 6), date(2027, 4, 5)}),
    )
    quota = Quota(daily_max=200, ramp_up_percents=(10, 50))
    before = campaign(
        'Hello "you",\nC:\\ is full.\n',
        route="@sales-1",
        starts_at=datetime(2027, 3, 1, 9, tzinfo=timezone(timedelta(hours=1))),
        user="ann",
        gap=HUMAN_GAP,
        schedule=Schedule(timezone="Europe/Berlin", window=window, quota=quota),
    )
    before = replace(before, steps=(*before.steps, FileStep(delay_s=129_600, template_name="last-call")))
    assert to_toml(before) == (
        """\
name = "spring"
workspace = "default"
lists = ["customers"]
account = "sales-1"
start = 2027-03-01T08:00:00Z
user = "ann"
gap = "30-90"
clock = "workspace"

[schedule]
timezone = "Europe/Berlin"
days = "mon-fri"
hours = "09:00-17:00"
holidays = [2027-04-05, 2027-05-06]
quota = 200
ramp_up = [10, 50]

[[step]]
subject = "Hello"
text = \"""
Hello "you",
C:\\\\ is full.
\"""

[[step]]
delay = "1d 12h"
template = "last-call"
"""
    )


def test_a_window_that_ends_as_it_begins_is_the_whole_day() -> None:
    window = SendingWindow(timezone="UTC", days=frozenset({1}), start=time(9), end=time(9))
    before = campaign(schedule=Schedule(window=window))
    after = read(to_toml(before))
    assert after.schedule == Schedule(window=replace(window, start=time(), end=time()))
    assert diff(before, after) == ()


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=times(10))
@given(campaigns(), campaigns())
def test_only_differences_are_reported(before: CampaignFile, after: CampaignFile) -> None:
    changes = diff(before, after)
    assert all(change.before != change.after for change in changes)
    assert len({change.field for change in changes}) == len(changes)
    assert bool(changes) == bool(told(before, after))
    if not changes:
        assert replace(before, lists=(), schedule=None) == replace(after, lists=(), schedule=None)


@given(BODIES, BODIES)
def test_every_difference_in_a_text_is_shown(before: str, after: str) -> None:
    lines = told(campaign(before), campaign(after))
    assert any(line[:1] in "+-" for line in lines) == (before != after)


def test_a_new_campaign_is_all_new() -> None:
    assert told(None, campaign("Hello,\nhow are you?")) == [
        "+ name: spring",
        "+ workspace: default",
        "+ lists: customers",
        "+ pool: default",
        "+ gap: none",
        "+ clock: workspace",
        "+ step 1 subject: Hello",
        "+ step 1 text:",
        "+Hello,",
        "+how are you?",
    ]


def test_short_changes_take_one_line_each() -> None:
    after = campaign(gap=HUMAN_GAP, route="@sales-1", user="ann", starts_at=NOW, by_recipients_clock=True)
    assert told(campaign(), after) == [
        "- pool: default",
        "+ account: sales-1",
        "+ start: 2027-01-04 12:00:00+00:00",
        "+ user: ann",
        "- gap: none",
        "+ gap: 30-90",
        "- clock: workspace",
        "+ clock: recipient",
    ]
    assert diff(campaign(), campaign(gap=HUMAN_GAP)) == (Change(field="gap", before="none", after="30-90"),)


def test_a_long_text_is_compared_line_by_line() -> None:
    before = "".join(f"line {n}\n" for n in range(1, 20))
    assert told(campaign(before), campaign(before.replace("line 9\n", "line nine\n"))) == [
        "step 1 text:",
        "@@ -7,5 +7,5 @@",
        " line 7",
        " line 8",
        "-line 9",
        "+line nine",
        " line 10",
        " line 11",
    ]


def test_a_line_feed_at_the_end_is_a_change_that_can_be_seen() -> None:
    assert told(campaign("Hello"), campaign("Hello\n")) == ["step 1 text:", "@@ -1 +1,2 @@", " Hello", "+"]


def test_steps_come_and_go() -> None:
    first = campaign().steps[0]
    second = FileStep(delay_s=259_200, template_name="follow-up")
    two = campaign(steps=(first, second))
    assert told(campaign(), two) == ["+ step 2 delay: 3d", "+ step 2 template: follow-up"]
    assert told(two, campaign()) == ["- step 2 delay: 3d", "- step 2 template: follow-up"]
    words = replace(second, template_name=None, content=first.content, own_subject=True)
    assert told(two, campaign(steps=(first, words))) == [
        "- step 2 template: follow-up",
        "+ step 2 subject: Hello",
        "+ step 2 text:",
        "+Hello",
        "+",
    ]


def test_a_file_without_a_schedule_leaves_that_of_the_workspace() -> None:
    assert diff(campaign(schedule=Schedule(quota=Quota(daily_max=5))), campaign()) == ()


def test_a_schedule_is_reported_field_by_field() -> None:
    window = SendingWindow(timezone="UTC", days=frozenset({1, 2}), start=time(22), end=time())
    before = Schedule(window=window, quota=Quota(daily_max=5))
    after = Schedule(
        timezone="Asia/Tokyo",
        window=replace(window, timezone="Asia/Tokyo", end=time(6), holidays=frozenset({date(2027, 4, 5)})),
        quota=Quota(daily_max=6, ramp_up_days=10),
    )
    assert told(campaign(schedule=before), campaign(schedule=after)) == [
        "- schedule timezone: UTC",
        "+ schedule timezone: Asia/Tokyo",
        "- schedule hours: 22:00-24:00",
        "+ schedule hours: 22:00-06:00",
        "+ schedule holidays: 2027-04-05",
        "- schedule quota: 5",
        "+ schedule quota: 6",
        "- schedule ramp_up: none",
        "+ schedule ramp_up: 10d",
    ]
    assert told(campaign(), campaign(schedule=Schedule())) == [
        "+ schedule timezone: UTC",
        "+ schedule days: mon-sun",
        "+ schedule hours: all",
        "+ schedule quota: none",
        "+ schedule ramp_up: none",
    ]


def test_a_window_that_is_always_open_is_as_good_as_none() -> None:
    always = SendingWindow(timezone="UTC", days=frozenset(range(1, 8)), start=time(), end=time())
    assert diff(campaign(schedule=Schedule()), campaign(schedule=Schedule(window=always))) == ()


def test_the_order_of_lists_is_no_change() -> None:
    assert diff(campaign(lists=("a", "b")), campaign(lists=("b", "a"))) == ()
    assert told(campaign(lists=("a",)), campaign(lists=("b", "a"))) == ["- lists: a", "+ lists: a, b"]


def test_a_moment_is_the_same_on_any_clock() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=9)))
    assert diff(campaign(starts_at=NOW), campaign(starts_at=there)) == ()


def test_a_text_of_very_many_lines_is_counted_instead() -> None:
    long = "line\n" * LINES_COMPARED_MAX
    removed, added = told(campaign(long), campaign(f"{long}more"))
    assert removed.startswith("- step 1 text: 2,001 ")
    assert added.startswith("+ step 1 text: 2,001 ")
    assert added.count("2,001") == 2, "the number of new ones, and where they begin"
    assert told(campaign(long), campaign(f"{long}\n"))[1].count("2,002") == 2
    assert told(None, campaign(long))[-1].startswith("+ step 1 text: 2,001 ")


def test_texts_that_have_little_in_common_are_compared_within_seconds() -> None:
    chance = random.Random(1)
    before, after = ("\n".join(str(chance.randrange(190)) for _ in range(LINES_COMPARED_MAX)) for _ in range(2))
    began = process_time()
    told(campaign(before), campaign(after))
    assert process_time() - began < 30  # it takes a hundredth of this, in this process's time alone
