"""Campaign files: their content is read exactly, and all of their errors are reported at once."""

import os
import re
from datetime import UTC, date, datetime, time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.campaigns.file import (
    FILE_BYTES_MAX,
    KEYS,
    STEPS_MAX,
    BadCampaignFile,
    CampaignFile,
    FileStep,
    parse_campaign,
    read_campaign_file,
)
from fairpost.campaigns.texts import TEMPLATE_BYTES_MAX
from fairpost.model.campaign import HUMAN_GAP, Gap, Schedule
from fairpost.model.window import Quota, SendingWindow
from fairpost.templates.reader import TEMPLATE_CHARS_MAX
from fairpost.templates.rendering import Template
from tests.facts import missing

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "campaign.toml"
PAGE = (ROOT / "docs" / "campaign-file.md").read_text("utf-8")
NOW = datetime(2027, 1, 4, 12, tzinfo=UTC)

TOP = 'name = "spring"\nlist = "customers"\n'
STEP = '[[step]]\nsubject = "Hello"\ntext = "How are you?"\n'
SECOND = '[[step]]\ndelay = "3d"\nsubject = "Hello"\ntext = "Still there?"\n'
CONTENT = Template(subject="Hello", text="How are you?")


def read(text: str, folder: Path = ROOT) -> CampaignFile:
    return parse_campaign(text, where="spring.toml", folder=folder, now=NOW)


def problems(text: str, folder: Path = ROOT) -> list[str]:
    with pytest.raises(BadCampaignFile) as refused:
        read(text, folder)
    assert str(refused.value) == "\n".join(f"spring.toml: {each}" for each in refused.value.problems)
    return list(refused.value.problems)


def schedule(lines: str) -> Schedule | None:
    return read(f"{TOP}[schedule]\n{lines}\n{STEP}").schedule


# ── content ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_least_that_a_file_can_say() -> None:
    assert read(TOP + STEP) == CampaignFile(
        name="spring",
        workspace="default",
        lists=("customers",),
        route="default",
        starts_at=None,
        user="",
        gap=None,
        by_recipients_clock=False,
        schedule=None,
        steps=(FileStep(content=CONTENT),),
    )


def test_the_example_says_everything() -> None:
    campaign = read_campaign_file(EXAMPLE, now=NOW)
    first, second, third = campaign.steps
    assert (campaign.name, campaign.workspace, campaign.user) == ("spring", "default", "")
    assert (campaign.lists, campaign.route, campaign.starts_at) == (("customers",), "default", None)
    assert (campaign.gap, campaign.by_recipients_clock) == (HUMAN_GAP, True)
    assert campaign.schedule == Schedule(
        timezone="Europe/Berlin",
        window=SendingWindow(
            timezone="Europe/Berlin",
            days=frozenset(range(1, 6)),
            start=time(9),
            end=time(17),
            holidays=frozenset({date(2027, 3, 26), date(2027, 3, 29), date(2027, 5, 6)}),
        ),
        quota=Quota(daily_max=200, ramp_up_days=10),
    )
    assert first.content is not None
    assert first.content.text == (EXAMPLE.parent / "templates" / "hello.txt").read_text("utf-8")
    assert first.content.html == (EXAMPLE.parent / "templates" / "hello.html").read_text("utf-8")
    assert (first.delay_s, second.delay_s, third.delay_s) == (0, 3 * 86_400, 7 * 86_400)
    assert (second.template_name, third.template_name) == (None, None)


def test_a_sequence_pauses_like_a_human_and_a_single_e_mail_does_not() -> None:
    assert read(TOP + STEP).gap is None
    assert read(TOP + STEP + SECOND).gap == HUMAN_GAP
    assert read(f'{TOP}gap = "none"\n{STEP}{SECOND}').gap is None
    assert read(f'{TOP}gap = "1-2"\n{STEP}').gap == Gap(min_s=1, max_s=2)


def test_one_account_instead_of_a_pool() -> None:
    assert read(f'{TOP}account = "sales-1"\n{STEP}').route == "@sales-1"


def test_a_start_is_kept_in_utc() -> None:
    starts_at = read(f"{TOP}start = 2027-03-01T09:00:00+01:00\n{STEP}").starts_at
    assert starts_at is not None
    assert starts_at.isoformat() == "2027-03-01T08:00:00+00:00"


def test_a_schedule_without_days_hours_and_holidays_has_no_window() -> None:
    assert schedule("") == Schedule()
    assert schedule('timezone = "Asia/Tokyo"\nquota = 5') == Schedule(timezone="Asia/Tokyo", quota=Quota(daily_max=5))


@pytest.mark.parametrize("line", ['days = "all"', 'hours = "all"', "holidays = []"])
def test_any_of_them_makes_a_window_that_is_open_otherwise(line: str) -> None:
    found = schedule(line)
    assert found is not None
    assert found.window == SendingWindow(timezone="UTC", days=frozenset(range(1, 8)), start=time(), end=time())


def test_days_may_be_a_list() -> None:
    found = schedule('days = ["mon", "thu-sat"]')
    assert found is not None
    assert found.window is not None
    assert found.window.days == {1, 4, 5, 6}


@pytest.mark.parametrize(
    ("value", "days", "percents"),
    [
        ("true", 10, ()),
        ("false", 0, ()),
        ("20", 20, ()),
        ("0", 0, ()),
        ("[5, 50]", 0, (5, 50)),
        ('"20d"', 20, ()),
        ('"none"', 0, ()),
    ],
)
def test_a_ramp_up_has_many_forms(value: str, days: int, percents: tuple[int, ...]) -> None:
    expected = Quota(daily_max=9, ramp_up_days=days, ramp_up_percents=percents)
    assert schedule(f"quota = 9\nramp_up = {value}") == Schedule(quota=expected)


def test_a_quota_may_be_none() -> None:
    assert schedule('quota = "none"') == Schedule()


def test_a_template_may_lie_anywhere(tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("How are you?", "utf-8")
    (tmp_path / "campaigns").mkdir()
    for path in ("../hello.txt", str(tmp_path / "hello.txt")):
        step = f'[[step]]\nsubject = "Hello"\ntext_file = "{path}"'
        assert read(TOP + step, tmp_path / "campaigns").steps[0].content == CONTENT


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────


def tells(problem: str, *facts: str) -> bool:
    """Returns whether the message begins with the first error and its position, and contains the others."""
    return problem.startswith(facts[0]) and all(fact in problem for fact in facts)


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ('name = "a:b"', ("name", "100", '"a:b"')),
        ('name = ""', ("name", "100", '""')),
        (f'name = "{"x" * 101}"', ("name", "100", '"' + "x" * 60 + '…"')),
        ("name = 7", ("name", '"spring"', "7")),
        ("name = 0x" + "f" * 9_999, ("name", '"spring"')),
        (r'user = "a\u0000"', ("user", r"\u0000")),
        ('workspace = ""', ("workspace", '""')),
        ('workspace = "*"', ("workspace", '"*"')),
        (r'workspace = "a\nb"', ("workspace", "200", r'"a\nb"')),
        ("workspace = true", ("workspace", '"acme"', "true")),
        (f'user = "{"x" * 201}"', ("user", "200", '"' + "x" * 60 + '…"')),
        ("user = 1.5", ("user", '"ann"', "1.5")),
        ("type = 5", ("type", "5")),
        ('type = "a b"', ("type", '"a b"')),
        ("tags = 5", ("tags", "5")),
        ("tags = { a = 5 }", ("tags", "a")),
        ("metadata = 5", ("metadata",)),
        ('metadata = "[1]"', ("metadata",)),
        ("metadata = { a = 2027-01-01 }", ("metadata",)),
        ("list = 7", ("list", '"spring"', "7")),
        ('list = ["a", "b"]', ("list", "2", "lists")),
        ('list = "a b"', ("list", "100", '"a b"')),
        ('lists = "a"', ("lists", "1 to 100", '["customers"]', '"a"')),
        ("lists = []", ("lists", "1 to 100", '["customers"]')),
        (f"lists = {['a'] * 101}", ("lists", "1 to 100", '["customers"]', "101")),
        ('lists = ["a", "b", "a"]', ("lists", '"a"')),
        ('lists = ["a", {}]', ("lists", '"spring"')),
        ('pool = "@sales"', ("pool", '"@sales"', "account")),
        ('pool = ""', ("pool", '""', "account")),
        (f'pool = "{"x" * 101}"', ("pool", "100", '"' + "x" * 60 + '…"')),
        ('account = "@sales"', ("account", "100", '"@sales"')),
        ('pool = "a"\naccount = "b"', ("pool", "account")),
        ("start = 2027-03-01", ("start", "2027-03-01T09:00:00+01:00", "2027-03-01")),
        ('start = "now"', ("start", "2027-03-01T09:00:00+01:00", '"now"')),
        (
            "start = 2027-03-01T09:00:00",
            ("start", "UTC", "2027-03-01T09:00:00+01:00", "2027-03-01T09:00:00"),
        ),
        ("start = 0001-01-01T00:00:00+01:00", ("start", "1970", "2199", "0001-01-01T00:00:00+01:00")),
        ("start = 2199-12-31T23:00:00-05:00", ("start", "1970", "2199", "2199-12-31T23:00:00-05:00")),
        ("gap = 60", ("gap", '"30-90"', "60")),
        ('gap = "90-30"', ("gap", '"90-30"')),
        ('clock = "mine"', ("clock", '"workspace"', '"recipient"', '"mine"')),
        ("clock = 09:00:00", ("clock", '"workspace"', '"recipient"', "09:00:00")),
        ("schedule = 1", ("schedule", "[schedule]", "1")),
        ("[[schedule]]", ("schedule", "[schedule]", "1")),
        ("step = 1", ("step", "[[step]]", "1")),
        ("[step]", ("step", "[[step]]")),
        ("step = []", ("step", "[[step]]", "subject")),
        ("step = [1]", ("step 1", "[[step]]", "1")),
        ('worksapce = "acme"', ('"worksapce"', "workspace")),
        ("[[steps]]", ('"steps"', " step")),
        (
            '"q\\n" = 1',
            (r'"q\n"', "name", "workspace", "list", "lists", "pool", "account", "start", "user", "gap", "clock", "schedule", "step"),
        ),
        ("quota = 1", ("quota", "[schedule]")),
        ('delay = "3d"', ("delay", "[[step]]")),
    ],
)  # fmt: skip
def test_errors_at_the_top_level_are_reported(line: str, facts: tuple[str, ...]) -> None:
    key = re.split(r"\W+", line.strip('["'))[0]
    rest = [each for each in TOP.splitlines() if each.split()[0] not in (key, key.removesuffix("s"))]
    (problem,) = problems("\n".join([*rest, line, "" if key == "step" else STEP]))
    assert tells(problem, *facts), problem


def test_required_values_are_asked_for() -> None:
    name, lists, step = problems("")
    assert tells(name, "name", 'name = "spring"')
    assert tells(lists, "lists", 'lists = ["customers"]')
    assert tells(step, "step", "[[step]]", "subject", "text")


def test_list_and_lists_are_one_too_many() -> None:
    (problem,) = problems(f'lists = ["a"]\n{TOP}{STEP}')
    assert tells(problem, "lists", " list ")


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ('timezone = "Berlin"', ("timezone", "Europe/Berlin", '"Berlin"')),
        ('timezone = ""', ("timezone", "Europe/Berlin", '""')),
        ('timezone = "Europe"', ("timezone", "Europe/Berlin", '"Europe"')),
        ('timezone = "../x"', ("timezone", "Europe/Berlin", '"../x"')),
        ("timezone = 1", ("timezone", '"Europe/Berlin"', "1")),
        ('days = "mo-fr"', ("days", "mon-fri", "mon,wed,fri", '"mo-fr"')),
        ("days = []", ("days", '"mon-fri"')),
        ("days = [1, 2]", ("days", '"mon-fri"', "2")),
        ('hours = "9-17"', ("hours", "09:00-17:00", '"all"', '"9-17"')),
        ("hours = 09:00:00", ("hours", '"09:00-17:00"', "09:00:00")),
        (
            'hours = "09:00-09:00"',
            ("hours", '"09:00-09:00"', '"all"'),
        ),
        (
            "holidays = 2027-04-05",
            ("holidays", "1,000", "2027-04-05"),
        ),
        (
            f"holidays = [{'2027-04-05,' * 1_001}]",
            ("holidays", "1,000", "2027-04-05", "1,001"),
        ),
        ('holidays = ["2027-04-05"]', ("holidays", "2027-04-05", '"2027-04-05"')),
        (
            "holidays = [2027-04-05T00:00:00]",
            ("holidays", "2027-04-05", "2027-04-05T00:00:00"),
        ),
        ("quota = 0", ("quota", "1", "0")),
        ("quota = true", ("quota", "1..1000000000", '"none"', "true")),
        ("quota = 1.5", ("quota", "1..1000000000", '"none"', "1.5")),
        (
            "quota = 2000000000\nramp_up = true",
            ("quota", "1..1000000000", '"none"'),
        ),
        ("ramp_up = true", ("quota", "ramp-up")),
        ("quota = 9\nramp_up = 366", ("ramp_up", "0..365", "366", "days")),
        ("quota = 9\nramp_up = -1", ("ramp_up", "0..365", "-1", "days")),
        ("quota = 9\nramp_up = [50, 0]", ("ramp_up", "1..100", "0")),
        (f"quota = 9\nramp_up = {[1] * 366}", ("ramp_up", "365", "366")),
        (
            "quota = 9\nramp_up = []",
            ("ramp_up", "true", "[10, 20, 50]"),
        ),
        (
            'ramp_up = "fast"',
            ("ramp_up", "10d", "10%,20%,50%", '"yes"', '"none"', '"fast"'),
        ),
        ('timezome = "UTC"', ('"timezome"', "timezone")),
        ('gap = "none"', ("gap", "[schedule]", "[[step]]")),
        ('text = "Hello"', ("text", "[[step]]")),
        ("zzz = 1", ('"zzz"', "ramp_up", "timezone", "days", "hours", "holidays", "quota")),
    ],
)  # fmt: skip
def test_errors_in_the_schedule_are_reported(line: str, facts: tuple[str, ...]) -> None:
    (problem,) = problems(f"{TOP}[schedule]\n{line}\n{STEP}")
    assert tells(problem, f"schedule: {facts[0]}", *facts[1:]), problem


def test_a_schedule_with_no_day_left_is_refused() -> None:
    mondays = ", ".join(str(date.fromordinal(NOW.toordinal() + 7 * week)) for week in range(60))
    (problem,) = problems(f'{TOP}[schedule]\ndays = "mon"\nholidays = [{mondays}]\n{STEP}')
    assert tells(problem, "schedule: holidays", "2028-01-05")


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ('subject = "Hello"', ("text", "html", "text_file", "html_file", "template")),
        ('subject = 1\ntext = "Hello"', ("subject", '"Hello"', "1")),
        ('subject = "Hello"\ntext = ["Hello"]', ("text", '"Hello"', "1")),
        ('subject = "Hello"\ntext = " \\n"', ("text",)),
        ('subject = "Hello"\ntext = "Hello"\nhtml = ""', ("html",)),
        (
            'subject = "Hello"\ntext = "Hello"\ntext_file = "x"',
            ("text", "text_file"),
        ),
        (
            'subject = "Hello"\nhtml = "Hello"\nhtml_file = "x"',
            ("html", "html_file"),
        ),
        (
            'template = "a"\nsubject = "Hello"\nhtml = "Hello"',
            ("template", "subject", "html"),
        ),
        ('template = "a:1"', ("template", "100", '"a:1"')),
        (
            'subject = "Hello {{ name"\ntext = "Hello"',
            ("subject", "line 1, column 7", '"{{"', '"}}"'),
        ),
        (
            'subject = "Hello"\ntext = """\nHello\n  {% iff name %}"""',
            ("text", "line 2, column 3", '"iff"'),
        ),
        ('subject = "Hello"\ntext = "Hello"\nsubjekt = "x"', ('"subjekt"', "subject")),
        (
            'subject = "Hello"\ntext = "Hello"\nworkspace = "x"',
            ("workspace", "[schedule]", "[[step]]"),
        ),
        ('subject = "Hello"\ntext = "Hello"\nquota = 1', ("quota", "[schedule]")),
        (
            'subject = "Hello"\ntext_file = 7',
            ("text_file", '"templates/hello.txt"', "7"),
        ),
        (
            'subject = "Hello"\ntext_file = "nowhere.txt"',
            ("text_file", '"nowhere.txt"'),
        ),
        (
            'subject = "Hello"\nhtml_file = "docs"',
            ("html_file", '"docs"'),
        ),
        (
            f'subject = "Hello"\ntext_file = "{"x" * 300}"',
            ("text_file", '"' + "x" * 60 + '…"'),
        ),
        (
            f'subject = "Hello"\ntext_file = "{"x/" * 501}"',
            ("text_file", "1,000", '"' + "x/" * 30 + '…"'),
        ),
    ],
)  # fmt: skip
def test_errors_in_a_step_are_reported(lines: str, facts: tuple[str, ...]) -> None:
    (first,) = problems(f"{TOP}[[step]]\n{lines}")
    (second,) = problems(f'{TOP}{STEP}[[step]]\ndelay = "3d"\n{lines}')
    assert tells(first, f"step 1: {facts[0]}", *facts[1:]), first
    assert tells(second, f"step 2: {facts[0]}", *facts[1:]), second


def test_the_first_step_has_no_delay_and_every_other_one_has() -> None:
    first, second = problems(TOP + SECOND + STEP)
    assert tells(first, "step 1: delay", "start")
    assert tells(second, "step 2: delay", 'delay = "3d"')


@pytest.mark.parametrize(
    ("delay", "facts"),
    [
        ('"3 days"', ("delay", "3d", "12h", "30m", '"1d 12h"', '"3 days"')),
        ('"400d"', ("delay", "366d", '"400d"')),
        ("3", ("delay", '"3d"', "3")),
    ],
)
def test_errors_in_a_delay_are_reported(delay: str, facts: tuple[str, ...]) -> None:
    (problem,) = problems(f"{TOP}{STEP}{SECOND}".replace('"3d"', delay))
    assert tells(problem, f"step 2: {facts[0]}", *facts[1:]), problem


def test_steps_have_a_limit() -> None:
    assert len(read(TOP + STEP + SECOND * (STEPS_MAX - 1)).steps) == STEPS_MAX
    (problem,) = problems(TOP + STEP + SECOND * 200)
    assert tells(problem, "step", f"{STEPS_MAX}", "201")


def test_every_part_of_a_template_is_checked() -> None:
    bad = "{{ x"
    found = problems(f'{TOP}[[step]]\nsubject = "{bad}"\ntext = "{bad}"\nhtml = "{bad}"')
    assert len(found) == 3
    for problem, part in zip(found, ("subject", "text", "html"), strict=True):
        assert tells(problem, f"step 1: {part}, line 1, column 1", '"{{"')


def test_ten_problems_are_all_told() -> None:
    found = problems(
        """
        name = "a:b"
        worksapce = "acme"
        start = 2027-03-01T09:00:00
        gap = "90-30"
        clock = "mine"

        [schedule]
        timezone = "Berlin"
        hours = "9-17"
        quota = 0

        [[step]]
        subject = "Hello {{ first_name"
        text_file = "nowhere.txt"

        [[step]]
        delay = "3 days"
        template = "follow up"
        """
    )
    places = [
        '"worksapce"',
        "name",
        "lists",
        "start",
        "gap",
        "clock",
        "schedule: hours",
        "schedule: timezone",
        "schedule: quota",
        'step 1: text_file "nowhere.txt"',
        "step 1: subject",
        "step 2: delay",
        "step 2: template",
    ]
    assert len(found) == len(places)
    assert [place for place, problem in zip(places, found, strict=True) if not problem.startswith(place)] == []


def test_only_the_first_of_a_thousand_unknown_keys_are_reported() -> None:
    found = problems("".join(f"zz{n} = 1\n" for n in range(1_000)) + TOP + STEP)
    assert len(found) == 21
    assert "980" in found[-1]


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────


def refusal(path: Path) -> str:
    with pytest.raises(BadCampaignFile) as refused:
        read_campaign_file(path, now=NOW)
    assert str(refused.value).startswith(f"{path}: ")
    return str(refused.value).removeprefix(f"{path}: ")


def written(folder: Path, data: bytes | str) -> Path:
    path = folder / "spring.toml"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(tmp_path / "spring.toml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "directory" in refusal(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, TOP + STEP)
    path.chmod(0)
    assert "Permission denied" in refusal(path)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ('name = "spring"\nlists = [\n', "end of document"),
        ("name = spring\n", "line 1, column 8"),
        ('name = "a"\n\nname = "b"\n', "line 3, column 11"),
        ("start = 2027-02-30T00:00:00Z\n", "line 1, column 9"),
        ("x = " + "[" * 100_000, "brackets"),
    ],
)
def test_invalid_toml_is_reported_with_its_line(tmp_path: Path, text: str, fact: str) -> None:
    told = refusal(written(tmp_path, text))
    assert "TOML" in told
    assert fact in told


def test_a_number_that_no_machine_holds_is_no_toml(tmp_path: Path) -> None:
    assert "TOML" in refusal(written(tmp_path, f"x = {'9' * 10_000}"))


def test_a_mark_at_the_beginning_is_no_matter(tmp_path: Path) -> None:
    assert read_campaign_file(written(tmp_path, "\ufeff" + TOP + STEP), now=NOW) == read(TOP + STEP)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_recognized(tmp_path: Path, encoding: str) -> None:
    told = refusal(written(tmp_path, (TOP + STEP).encode(encoding)))
    assert "UTF-16" in told
    assert "UTF-8" in told


def test_latin_1_is_reported_with_its_line(tmp_path: Path) -> None:
    data = f'{TOP}user = "Zoë"\n{STEP}'.encode("latin-1")
    told = refusal(written(tmp_path, data))
    assert missing(told, "UTF-8", "line 3", "0xeb") == []


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    os.truncate(path, FILE_BYTES_MAX + 1)
    assert f"{FILE_BYTES_MAX:,} bytes" in refusal(path)


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    text = TOP + '[[step]]\nsubject = "Hello"\ntext = """\nHow\nare\nyou?"""\nhtml_file = "hello.html"\n'
    (tmp_path / "hello.html").write_bytes(b"<p>\r\nHello\r\n</p>")
    campaign = read_campaign_file(written(tmp_path, text.replace("\n", "\r\n")), now=NOW)
    content = Template(subject="Hello", text="How\nare\nyou?", html="<p>\nHello\n</p>")
    assert campaign.steps == (FileStep(content=content),)


def named(folder: Path, data: bytes) -> list[str]:
    (folder / "hello.txt").write_bytes(data)
    return problems(f'{TOP}[[step]]\nsubject = "Hello"\ntext_file = "hello.txt"', folder)


def test_a_template_in_a_file_is_held_to_the_same(tmp_path: Path) -> None:
    place = 'step 1: text_file "hello.txt"'
    cases: dict[bytes, tuple[str, ...]] = {
        "Zoë".encode("utf-16"): (place, "UTF-16", "UTF-8"),
        b"\nZo\xeb": (place, "UTF-8", "line 2", "0xeb"),
        b"\n": ("step 1: text_file",),
        b"Hello\n  {{ x | y }}": (f"{place}, line 2, column 10", '"y"', "capitalize", "urlencode"),
        b"x" * (TEMPLATE_CHARS_MAX + 1): (f"{place}, line 1, column 1", "1,048,577", f"{TEMPLATE_CHARS_MAX:,}"),
        b"x" * (TEMPLATE_BYTES_MAX + 1): (place, f"{TEMPLATE_BYTES_MAX:,} bytes"),
    }
    for data, facts in cases.items():
        (problem,) = named(tmp_path, data)
        assert tells(problem, *facts), problem


def test_a_pipe_is_no_template(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hello.txt")
    (problem,) = problems(f'{TOP}[[step]]\nsubject = "Hello"\ntext_file = "hello.txt"', tmp_path)
    assert problem.startswith('step 1: text_file "hello.txt"')


# ── arbitrary input ───────────────────────────────────────────────────────────────────────────────────────

SCALARS = st.one_of(
    st.sampled_from(
        ["true", "-1", "1e9", "nan", "2027-01-01", "2027-01-01T00:00:00Z", "09:00:00", "{}", "[]", "[[1]]"]
    ),
    st.integers().map(str),
    st.sampled_from(["mon-fri", "all", "none", "30-90", "3d", "09:00-17:00", "UTC", "docs", "{{ x }}", "{{"]).map(repr),
)
LINES = st.tuples(st.sampled_from(sorted({key for keys in KEYS.values() for key in keys})), SCALARS).map(" = ".join)
TABLES = st.tuples(st.sampled_from(["", "[schedule]\n", "[[step]]\n", "[step]\n"]), st.lists(LINES, max_size=6))


@given(st.lists(TABLES, max_size=5))
def test_any_input_is_parsed_or_refused_with_a_message(tables: list[tuple[str, list[str]]]) -> None:
    text = "".join(head + "".join(f"{line}\n" for line in lines) for head, lines in tables)
    try:
        read(text)
    except BadCampaignFile as error:
        assert 0 < len(error.problems) == len(str(error).splitlines())  # noqa: PT017 - it need not be raised


# ── the docs page ─────────────────────────────────────────────────────────────────────────────────────────

SECTIONS = {"": "## The campaign\n", "schedule": "## Schedule\n", "step": "## Steps\n"}


@pytest.mark.parametrize("kind", KEYS)
def test_the_page_explains_exactly_the_keys_there_are(kind: str) -> None:
    section = PAGE.partition(SECTIONS[kind])[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ", section, re.MULTILINE)
    assert set(rows) == set(KEYS[kind]) - {"schedule", "step"}
    assert len(rows) == len(set(rows))
    assert "`[schedule]`" in PAGE
    assert "`[[step]]`" in PAGE


def test_the_example_of_the_page_can_be_read(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (path,) = re.findall(r'_file = "(.*)"', block)
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text("Did you?", "utf-8")
    campaign = read(block, tmp_path)
    assert len(campaign.steps) == 2
    assert campaign.schedule is not None


def test_the_page_shows_problems_as_they_are_reported() -> None:
    block = PAGE.partition("\n\n```\n")[2].partition("```\n")[0]
    found = problems(
        f'{TOP}gap = "90-30"\n[schedule]\ntimezome = "UTC"\n{STEP}'
        '[[step]]\ndelay = "3 days"\nsubject = "Hello"\ntext = """\na\nb\nc\nHello {{ name"""'
    )
    assert block.splitlines() == [f"spring.toml: {each}" for each in found]


def test_the_page_names_the_limits() -> None:
    assert f"up to {STEPS_MAX} " in PAGE
    assert f"{FILE_BYTES_MAX >> 20} MB" in PAGE
    assert f"{TEMPLATE_BYTES_MAX >> 20} MB" in PAGE
    assert f"{TEMPLATE_CHARS_MAX:,} characters" in PAGE
