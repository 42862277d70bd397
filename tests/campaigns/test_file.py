"""A campaign's file: what it says is what is read, and all that is wrong with it is said at once."""

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


# ── what is read ──────────────────────────────────────────────────────────────────────────────────────────


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


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────

NAME_RULE = "must be 1..100 letters, digits or . _ - and begin with a letter or digit, got"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('name = "a:b"', f'name {NAME_RULE} "a:b"'),
        ('name = ""', f'name {NAME_RULE} ""'),
        (f'name = "{"x" * 101}"', f'name {NAME_RULE} "{"x" * 60}…"'),
        ("name = 7", 'name must be text in quotes, like "spring", got 7'),
        ("name = 0x" + "f" * 9_999, 'name must be text in quotes, like "spring", got a huge number'),
        (r'user = "a\u0000"', r"user must not have \u0000 in it: no database takes that"),
        ('workspace = ""', 'workspace must be the name of one workspace, got ""'),
        ('workspace = "*"', 'workspace must be the name of one workspace, got "*"'),
        (r'workspace = "a\nb"', r'workspace must be one line of at most 200 characters, got "a\nb"'),
        ("workspace = true", 'workspace must be text in quotes, like "acme", got true'),
        (f'user = "{"x" * 201}"', f'user must be one line of at most 200 characters, got "{"x" * 60}…"'),
        ("user = 1.5", 'user must be text in quotes, like "ann", got 1.5'),
        ("list = 7", 'list must be text in quotes, like "spring", got 7'),
        ('list = ["a", "b"]', "list must be one name, got a list of 2: for several write lists = …"),
        ('list = "a b"', f'list {NAME_RULE} "a b"'),
        ('lists = "a"', 'lists must be 1..100 names in brackets, like ["customers"], got "a"'),
        ("lists = []", 'lists must be 1..100 names in brackets, like ["customers"], got an empty list'),
        (f"lists = {['a'] * 101}", 'lists must be 1..100 names in brackets, like ["customers"], got a list of 101'),
        ('lists = ["a", "b", "a"]', 'lists must have each name once, got "a" twice'),
        ('lists = ["a", {}]', 'lists must be text in quotes, like "spring", got a table'),
        ('pool = "@sales"', 'pool must be the name of a pool, got "@sales": for one account write account = …'),
        ('pool = ""', 'pool must be the name of a pool, got "": for one account write account = …'),
        (f'pool = "{"x" * 101}"', f'pool must be one line of at most 100 characters, got "{"x" * 60}…"'),
        ('account = "@sales"', f'account {NAME_RULE} "@sales"'),
        ('pool = "a"\naccount = "b"', "pool and account must not both be there: take one of them out"),
        ("start = 2027-03-01", "start must be a moment like 2027-03-01T09:00:00+01:00, without quotes, got 2027-03-01"),
        ('start = "now"', 'start must be a moment like 2027-03-01T09:00:00+01:00, without quotes, got "now"'),
        (
            "start = 2027-03-01T09:00:00",
            "start must say how far its clock is from UTC, like 2027-03-01T09:00:00+01:00, got 2027-03-01T09:00:00",
        ),
        ("start = 0001-01-01T00:00:00+01:00", "start must lie in the years 1970..2199, got 0001-01-01T00:00:00+01:00"),
        ("start = 2199-12-31T23:00:00-05:00", "start must lie in the years 1970..2199, got 2199-12-31T23:00:00-05:00"),
        ("gap = 60", 'gap must be text in quotes, like "30-90", got 60'),
        ('gap = "90-30"', 'gap must have the smaller number first, got "90-30"'),
        ('clock = "mine"', 'clock must be "workspace" or "recipient", got "mine"'),
        ("clock = 09:00:00", 'clock must be "workspace" or "recipient", got 09:00:00'),
        ("schedule = 1", "schedule must be one table: write [schedule] above its keys, got 1"),
        ("[[schedule]]", "schedule must be one table: write [schedule] above its keys, got a list of 1"),
        ("step = 1", "step must be a list of tables: write [[step]] in double brackets, got 1"),
        ("[step]", "step must be a list of tables: write [[step]] in double brackets, got a table"),
        ("step = []", "step must be there at least once: write [[step]], and under it subject and text"),
        ("step = [1]", "step 1 must be a table: write [[step]] above its keys, got 1"),
        ('worksapce = "acme"', '"worksapce" is not known: did you mean workspace?'),
        ("[[steps]]", '"steps" is not known: did you mean step?'),
        (
            '"q\\n" = 1',
            r'"q\n" is not known: known are name, workspace, list, lists, pool, account, start, user, gap, clock, schedule, step',
        ),
        ("quota = 1", "quota must stand under [schedule]"),
        ('delay = "3d"', "delay must stand under [[step]]"),
    ],
)  # fmt: skip
def test_what_is_wrong_at_the_top_is_said(line: str, problem: str) -> None:
    key = re.split(r"\W+", line.strip('["'))[0]
    rest = [each for each in TOP.splitlines() if each.split()[0] not in (key, key.removesuffix("s"))]
    assert problems("\n".join([*rest, line, "" if key == "step" else STEP])) == [problem]


def test_what_must_be_there_is_asked_for() -> None:
    assert problems("") == [
        'name must be given, like name = "spring"',
        'lists must be given, like lists = ["customers"]: whom to write to',
        "step must be there at least once: write [[step]], and under it subject and text",
    ]


def test_list_and_lists_are_one_too_many() -> None:
    assert problems(f'lists = ["a"]\n{TOP}{STEP}') == ["lists and list must not both be there: take one of them out"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('timezone = "Berlin"', 'timezone must be a name like Europe/Berlin, got "Berlin"'),
        ('timezone = ""', 'timezone must be a name like Europe/Berlin, got ""'),
        ('timezone = "Europe"', 'timezone must be a name like Europe/Berlin, got "Europe"'),
        ('timezone = "../x"', 'timezone must be a name like Europe/Berlin, got "../x"'),
        ("timezone = 1", 'timezone must be text in quotes, like "Europe/Berlin", got 1'),
        ('days = "mo-fr"', 'days must be days like mon-fri or mon,wed,fri, got "mo-fr"'),
        ("days = []", 'days must be text in quotes, like "mon-fri", got an empty list'),
        ("days = [1, 2]", 'days must be text in quotes, like "mon-fri", got a list of 2'),
        ('hours = "9-17"', 'hours must be times like 09:00-17:00, or "all", got "9-17"'),
        ("hours = 09:00:00", 'hours must be text in quotes, like "09:00-17:00", got 09:00:00'),
        (
            'hours = "09:00-09:00"',
            'hours must end at another time than they begin, got "09:00-09:00": the whole day is "all"',
        ),
        (
            "holidays = 2027-04-05",
            "holidays must be at most 1,000 dates in brackets, like [2027-04-05], got 2027-04-05",
        ),
        (
            f"holidays = [{'2027-04-05,' * 1_001}]",
            "holidays must be at most 1,000 dates in brackets, like [2027-04-05], got a list of 1,001",
        ),
        ('holidays = ["2027-04-05"]', 'holidays must be dates like 2027-04-05, without quotes, got "2027-04-05"'),
        (
            "holidays = [2027-04-05T00:00:00]",
            "holidays must be dates like 2027-04-05, without quotes, got 2027-04-05T00:00:00",
        ),
        ("quota = 0", "quota must be at least 1, or none for no quota, got 0: nothing would ever be sent"),
        ("quota = true", 'quota must be a whole number of 1..1000000000 e-mails a day, or "none", got true'),
        ("quota = 1.5", 'quota must be a whole number of 1..1000000000 e-mails a day, or "none", got 1.5'),
        (
            "quota = 2000000000\nramp_up = true",
            'quota must be a whole number of 1..1000000000 e-mails a day, or "none", got a huge number',
        ),
        ("ramp_up = true", "quota must be set for a ramp-up: it says what to grow to, got none"),
        ("quota = 9\nramp_up = 366", "ramp_up (days) must be 0..365, got 366"),
        ("quota = 9\nramp_up = -1", "ramp_up (days) must be 0..365, got -1"),
        ("quota = 9\nramp_up = [50, 0]", "ramp_up (percents) must be 1..100 each, got 0"),
        (f"quota = 9\nramp_up = {[1] * 366}", "ramp_up (percents) must be for at most 365 days, got 366"),
        (
            "quota = 9\nramp_up = []",
            "ramp_up must be true, a number of days, or percents like [10, 20, 50], got an empty list",
        ),
        (
            'ramp_up = "fast"',
            'ramp_up must be days like 10d, percents like 10%,20%,50%, "yes" or "none", got "fast"',
        ),
        ('timezome = "UTC"', '"timezome" is not known: did you mean timezone?'),
        ('gap = "none"', "gap must stand at the top of the file, above [schedule] and [[step]]"),
        ('text = "Hello"', "text must stand under [[step]]"),
        ("zzz = 1", '"zzz" is not known: known are timezone, days, hours, holidays, quota, ramp_up'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_schedule_is_said(line: str, problem: str) -> None:
    assert problems(f"{TOP}[schedule]\n{line}\n{STEP}") == [f"schedule: {problem}"]


def test_a_schedule_with_no_day_left_is_refused() -> None:
    mondays = ", ".join(str(date.fromordinal(NOW.toordinal() + 7 * week)) for week in range(60))
    found = problems(f'{TOP}[schedule]\ndays = "mon"\nholidays = [{mondays}]\n{STEP}')
    assert found == ["schedule: holidays must leave a day open within a year, got none before 2028-01-05"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('text = "Hello"', 'subject must be given, like subject = "Hello"'),
        ('subject = "Hello"', "text or html must be given (or text_file, html_file), or else template"),
        ('subject = 1\ntext = "Hello"', 'subject must be text in quotes, like "Hello", got 1'),
        ('subject = "Hello"\ntext = ["Hello"]', 'text must be text in quotes, like "Hello", got a list of 1'),
        ('subject = "Hello"\ntext = " \\n"', "text must not be empty: write something, or take it out"),
        ('subject = "Hello"\ntext = "Hello"\nhtml = ""', "html must not be empty: write something, or take it out"),
        (
            'subject = "Hello"\ntext = "Hello"\ntext_file = "x"',
            "text and text_file must not both be there: take one of them out",
        ),
        (
            'subject = "Hello"\nhtml = "Hello"\nhtml_file = "x"',
            "html and html_file must not both be there: take one of them out",
        ),
        (
            'template = "a"\nsubject = "Hello"\nhtml = "Hello"',
            "template names one that is kept, so subject, html must not be there: take out either",
        ),
        ('template = "a:1"', f'template {NAME_RULE} "a:1"'),
        (
            'subject = "Hello {{ name"\ntext = "Hello"',
            'subject, line 1, column 7: "{{" is never closed: write "}}" where it ends',
        ),
        (
            'subject = "Hello"\ntext = """\nHello\n  {% iff name %}"""',
            'text, line 2, column 3: "iff" is not available: there are only if and for',
        ),
        ('subject = "Hello"\ntext = "Hello"\nsubjekt = "x"', '"subjekt" is not known: did you mean subject?'),
        (
            'subject = "Hello"\ntext = "Hello"\nworkspace = "x"',
            "workspace must stand at the top of the file, above [schedule] and [[step]]",
        ),
        ('subject = "Hello"\ntext = "Hello"\nquota = 1', "quota must stand under [schedule]"),
        (
            'subject = "Hello"\ntext_file = 7',
            'text_file must be text in quotes, like "templates/hello.txt", got 7',
        ),
        (
            'subject = "Hello"\ntext_file = "nowhere.txt"',
            "text_file \"nowhere.txt\" is not there: the path begins at the folder of the campaign's file",
        ),
        (
            'subject = "Hello"\nhtml_file = "docs"',
            "html_file \"docs\" is no file: the path begins at the folder of the campaign's file",
        ),
        (
            f'subject = "Hello"\ntext_file = "{"x" * 300}"',
            f'text_file "{"x" * 60}…" cannot be read: File name too long',
        ),
        (
            f'subject = "Hello"\ntext_file = "{"x/" * 501}"',
            f'text_file must be one line of at most 1,000 characters, got "{"x/" * 30}…"',
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_step_is_said(lines: str, problem: str) -> None:
    assert problems(f"{TOP}[[step]]\n{lines}") == [f"step 1: {problem}"]
    assert problems(f'{TOP}{STEP}[[step]]\ndelay = "3d"\n{lines}') == [f"step 2: {problem}"]


def test_the_first_step_has_no_delay_and_every_other_one_has() -> None:
    assert problems(TOP + SECOND + STEP) == [
        "step 1: delay must not be there: the first step is sent at the start; take it out, or use start",
        'step 2: delay must be given, like delay = "3d": how long after the step before',
    ]


@pytest.mark.parametrize(
    ("delay", "problem"),
    [
        ('"3 days"', 'delay must be a time like 3d, 12h, 30m or "1d 12h", got "3 days"'),
        ('"400d"', 'delay must be at most 366d, got "400d"'),
        ("3", 'delay must be text in quotes, like "3d", got 3'),
    ],
)
def test_what_is_wrong_with_a_delay_is_said(delay: str, problem: str) -> None:
    assert problems(f"{TOP}{STEP}{SECOND}".replace('"3d"', delay)) == [f"step 2: {problem}"]


def test_steps_have_a_limit() -> None:
    assert len(read(TOP + STEP + SECOND * (STEPS_MAX - 1)).steps) == STEPS_MAX
    assert problems(TOP + STEP + SECOND * 200) == ["step must be there at most 100 times, got 201"]


def test_every_part_of_a_template_is_looked_at() -> None:
    bad = "{{ x"
    found = problems(f'{TOP}[[step]]\nsubject = "{bad}"\ntext = "{bad}"\nhtml = "{bad}"')
    why = 'line 1, column 1: "{{" is never closed: write "}}" where it ends'
    assert found == [f"step 1: {part}, {why}" for part in ("subject", "text", "html")]


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
    assert [re.sub(r" (must|is|and|,).*|, line.*", "", each) for each in found] == [
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


def test_of_a_thousand_unknown_keys_the_first_are_told() -> None:
    found = problems("".join(f"zz{n} = 1\n" for n in range(1_000)) + TOP + STEP)
    assert len(found) == 21
    assert found[-1] == "and 980 more keys that are not known"


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


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "spring.toml") == "cannot be read: No such file or directory"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "is a folder: name a file in it"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, TOP + STEP)
    path.chmod(0)
    assert refusal(path) == "cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('name = "spring"\nlists = [\n', "is not TOML: Invalid value (at end of document)"),
        ("name = spring\n", "is not TOML: Invalid value (at line 1, column 8)"),
        ('name = "a"\n\nname = "b"\n', "is not TOML: Cannot overwrite a value (at line 3, column 11)"),
        ("start = 2027-02-30T00:00:00Z\n", "is not TOML: Invalid date or datetime (at line 1, column 9)"),
        ("x = " + "[" * 100_000, "is not TOML of use: its brackets go too deep"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    assert refusal(written(tmp_path, text)) == problem


def test_a_number_that_no_machine_holds_is_no_toml(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, f"x = {'9' * 10_000}")).startswith("is not TOML: Exceeds the limit")


def test_a_mark_at_the_beginning_is_no_matter(tmp_path: Path) -> None:
    assert read_campaign_file(written(tmp_path, "\ufeff" + TOP + STEP), now=NOW) == read(TOP + STEP)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_told_apart(tmp_path: Path, encoding: str) -> None:
    assert refusal(written(tmp_path, (TOP + STEP).encode(encoding))) == "is UTF-16, or no text: save it as UTF-8"


def test_latin_1_is_told_with_its_line(tmp_path: Path) -> None:
    data = f'{TOP}user = "Zoë"\n{STEP}'.encode("latin-1")
    assert refusal(written(tmp_path, data)) == "is not UTF-8: line 3 has the byte 0xeb; save it as UTF-8"


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    os.truncate(path, FILE_BYTES_MAX + 1)
    assert refusal(path) == "is too long: it must have at most 16,777,216 bytes"


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
    assert named(tmp_path, "Zoë".encode("utf-16")) == [f"{place} is UTF-16, or no text: save it as UTF-8"]
    assert named(tmp_path, b"\nZo\xeb") == [f"{place} is not UTF-8: line 2 has the byte 0xeb; save it as UTF-8"]
    assert named(tmp_path, b"\n") == ["step 1: text_file must not be empty: write something, or take it out"]
    assert named(tmp_path, b"Hello\n  {{ x | y }}") == [
        f'{place}, line 2, column 10: there is no "y": use one of capitalize, d, default, float, int, join, length,'
        " lower, round, title, trim, upper, urlencode"
    ]
    assert named(tmp_path, b"x" * (TEMPLATE_CHARS_MAX + 1)) == [
        f"{place}, line 1, column 1: it has 1,048,577 characters, and at most 1,048,576 are allowed"
    ]
    assert named(tmp_path, b"x" * (TEMPLATE_BYTES_MAX + 1)) == [
        f"{place} is too long: it must have at most 4,194,304 bytes"
    ]


def test_a_pipe_is_no_template(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hello.txt")
    (problem,) = problems(f'{TOP}[[step]]\nsubject = "Hello"\ntext_file = "hello.txt"', tmp_path)
    assert problem.startswith('step 1: text_file "hello.txt" is no file: ')


# ── anything at all ───────────────────────────────────────────────────────────────────────────────────────

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
def test_whatever_stands_there_is_read_or_refused_with_words(tables: list[tuple[str, list[str]]]) -> None:
    text = "".join(head + "".join(f"{line}\n" for line in lines) for head, lines in tables)
    try:
        read(text)
    except BadCampaignFile as error:
        assert 0 < len(error.problems) == len(str(error).splitlines())  # noqa: PT017 - it need not be raised


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────

SECTIONS = {"": "## The campaign\n", "schedule": "## When it sends\n", "step": "## What it sends\n"}


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


def test_the_page_shows_problems_as_they_are_told() -> None:
    block = PAGE.partition("\n\n```\n")[2].partition("```\n")[0]
    found = problems(
        f'{TOP}gap = "90-30"\n[schedule]\ntimezome = "UTC"\n{STEP}'
        '[[step]]\ndelay = "3 days"\nsubject = "Hello"\ntext = """\na\nb\nc\nHello {{ name"""'
    )
    assert block.splitlines() == [f"spring.toml: {each}" for each in found]


def test_the_page_names_the_limits() -> None:
    assert f"up to {STEPS_MAX}." in PAGE
    assert f"may have {FILE_BYTES_MAX >> 20} MB" in PAGE
    assert f"names {TEMPLATE_BYTES_MAX >> 20} MB" in PAGE
    assert f"{TEMPLATE_CHARS_MAX:,} characters" in PAGE
