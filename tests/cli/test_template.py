"""`fairpost template`: write, check, preview and remove templates."""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from tests.cli.conftest import Case, Cli, missing

Db = psycopg.Connection[Any]

SUBJECT = ("--subject", 'Hello {{ first_name or "there" }}')
TEXT = ("--text", "How is {{ company }}?")


@pytest.fixture
def welcome(cli: Cli) -> str:
    cli.ok("template", "set", "welcome", *SUBJECT, *TEXT)
    return "welcome"


def words(cli: Cli, name: str = "welcome", *arguments: str) -> tuple[str, str | None, str | None]:
    shown = cli.json("template", "show", name, *arguments)
    return shown["subject"], shown["text"], shown["html"]


# ── set ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_one_shows_which_fields_it_needs(cli: Cli) -> None:
    said = cli.ok("template", "set", "welcome", *SUBJECT, *TEXT)
    assert missing(said, "company", "first_name", "fairpost template preview welcome") == []
    again = cli.json("template", "set", "welcome", *SUBJECT, *TEXT)
    assert (again["required"], again["optional"]) == (["company"], ["first_name"])


def test_the_address_is_always_known(cli: Cli) -> None:
    made = cli.json("template", "set", "plain", "--subject", "Hello", "--text", "You are {{ email }}")
    assert (made["required"], made["optional"]) == ([], [])


def test_lists_are_told_to_come_from_no_csv_file(cli: Cli) -> None:
    text = "{% for p in products %}{{ p.name }}{% endfor %}{{ order.total }}"
    set_ = ("template", "set", "deals", "--subject", "Deals", "--text", text)
    assert missing(cli.ok(*set_), "CSV", "order, products") == []
    again = cli.json(*set_)
    assert (again["required"], again["nested"], again["changed"]) == (
        ["order.total", "products"],
        ["order", "products"],
        [],
    )


def test_headers_and_reply_to_are_set_kept_and_removed(cli: Cli, welcome: str) -> None:
    asked = ("--reply-to", "Desk <desk@example.com>", "--header", "X-Team: sales", "--header", "X-A: 1: 2")
    assert cli.json("template", "set", welcome, *asked)["changed"] == ["headers", "reply_to"]
    assert cli.json("template", "set", welcome, "--subject", "Hi")["changed"] == ["subject"]
    fields = cli.json("template", "show", welcome)["header_fields"]
    assert fields == {
        "headers": {"X-Team": "sales", "X-A": "1: 2"},
        "reply_to": {"address": "desk@example.com", "name": "Desk"},
    }
    assert missing(cli.ok("template", "show", welcome), "desk@example.com", "X-Team") == []
    assert cli.json("template", "set", welcome, "--reply-to", "", "--header", "")["changed"] == ["headers", "reply_to"]
    assert cli.json("template", "show", welcome)["header_fields"] == {"headers": {}, "reply_to": None}
    for wrong in (("--header", "nonsense"), ("--header", "Subject: x"), ("--reply-to", "nonsense")):
        cli.error(
            "template", "set", welcome, *wrong, code=2 if wrong[1] == "nonsense" and wrong[0] == "--header" else 1
        )


def test_omitted_values_are_kept(cli: Cli, welcome: str) -> None:
    assert cli.json("template", "set", welcome, "--html", "<p>{{ company }}</p>")["changed"] == ["html"]
    assert words(cli) == (SUBJECT[1], TEXT[1], "<p>{{ company }}</p>")
    cli.ok("template", "set", welcome, "--subject", "Hi")
    assert words(cli) == ("Hi", TEXT[1], "<p>{{ company }}</p>")
    cli.ok("template", "set", welcome, "--no-text")
    assert words(cli) == ("Hi", None, "<p>{{ company }}</p>")


def test_the_same_words_again_change_nothing(cli: Cli, welcome: str) -> None:
    before = cli.json("template", "show", welcome)
    assert cli.json("template", "set", welcome, *SUBJECT, *TEXT)["changed"] == []
    assert cli.json("template", "show", welcome) == before


def test_bodies_come_from_files_and_from_standard_input(cli: Cli, tmp_path: Path) -> None:
    html = tmp_path / "a page.html"
    html.write_bytes(
        b"\xef\xbb\xbf<p>Gr\xc3\xbc\xc3\x9fe</p>\r\n\t<b>\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb</b>\r\n"
    )
    result = CliRunner().invoke(
        app,
        ["template", "set", "welcome", "--subject", "日本語", "--text-file", "-", "--html-file", str(html)],
        env=cli.environment,
        input="Привет {{ prénom or 'ты' }}\n",
    )
    assert result.exit_code == 0, result.output
    assert words(cli) == ("日本語", "Привет {{ prénom or 'ты' }}\n", "<p>Grüße</p>\n\t<b>👩‍💻</b>\n")
    assert cli.ok("template", "preview", "welcome", "--html") == "<p>Grüße</p>\n\t<b>👩‍💻</b>\n"


def test_a_line_break_that_is_none_is_pointed_out(cli: Cli) -> None:
    assert "--text-file" in cli.ok("template", "set", "a", "--subject", "a", "--text", r"Hi\n\nyou")
    assert "--text-file" not in cli.ok("template", "set", "b", "--subject", "a", "--text", "Hi\n\nyou")


def test_a_mistake_is_shown_where_it_is_and_nothing_is_changed(cli: Cli, welcome: str) -> None:
    said = cli.error("template", "set", welcome, "--text", "Dear all,\n日本 {{ first name }}, hello")
    first, what, line, caret, advice = said.splitlines()
    assert "error:" in first
    assert missing(what, "text, line 2, column 13:", '"name"') == []
    assert (line, caret) == ("  日本 {{ first name }}, hello", "                ^")
    assert "fairpost template set --help" in advice
    assert words(cli) == (SUBJECT[1], TEXT[1], None)


def test_the_mistakes_of_all_parts_are_shown_at_once(cli: Cli) -> None:
    given = ("--subject", "{{ a", "--text", "{% if b %}", "--html", "<p>\t{{ c | shout }}")
    said = cli.error("template", "set", "bad", *given)
    assert missing(said, 'subject, line 1, column 1: "{{"', 'text, line 1, column 1: "if"') == []
    assert re.search('^html, line 1, column 12: .*"shout"', said, re.MULTILINE)
    assert "  <p> {{ c | shout }}\n             ^\n" in said
    assert cli.json("template", "list") == []


def test_letters_that_are_none_are_refused(cli: Cli) -> None:
    said = cli.error("template", "set", "bad", *SUBJECT, "--text", "caf\udce9 {{ company }}")
    assert "text, line 1, column 4:" in said
    assert cli.json("template", "list") == []


def test_only_the_relevant_part_of_a_long_line_is_shown(cli: Cli) -> None:
    said = cli.error("template", "set", "bad", *SUBJECT, "--html", "x" * 5_000 + "{{ a b }}" + "y" * 5_000)
    line, caret = said.splitlines()[2:4]
    assert len(line) < 120
    assert line[caret.index("^")] == "b"
    assert line.startswith("  …")
    assert line.endswith("…")


BODY = ("--subject", "a", "--text", "b")
MISUSED: list[Case] = [
    (["set", "new", "--subject", " ", "--text", "Hi"], ["--subject"]),
    (["set", "new", "--text", "a", "--text-file", "b"], ["--text, --text-file", "--no-text"]),
    (["set", "new", "--subject", "a", "--text-file", "-", "--html-file", "-"], []),
    (["set", "new"], ["--subject"]),
    (["set", "spring:1", *BODY], ["1..100", "._-"]),
    (["set", "-", *BODY], ["1..100"]),
    (["set", "a" * 101, *BODY], ["1..100"]),
    (["set", "new", *BODY, "--workspace", "*"], ["--workspace"]),
]
REFUSED: list[Case] = [
    (["set", "new", "--subject", "Hi"], ["--text"]),
    (["set", "new", "--text", "Hi"], ["--subject", "new", "default"]),
    (["set", "new", "--subject", "Hi", "--text", " \n"], ["--text"]),
    (["set", "new", "--subject", "Hi", "--text-file", "/nowhere.txt"], ["/nowhere.txt"]),
    (["set", "new", "--subject", "Hi", "--text-file", "/"], [" / "]),
    (["show", "new"], ["new", "default", "fairpost template list"]),
    (["preview", "new"], ["new", "default"]),
    (["remove", "new"], ["new", "default"]),
]


def test_an_invalid_field_is_named_and_nothing_is_changed(cli: Cli) -> None:
    for code, cases in ((2, MISUSED), (1, REFUSED)):
        commands = [(("template", *arguments), facts) for arguments, facts in cases]
        assert cli.wrong_errors(commands, code=code) == []
    assert cli.json("template", "list") == []


def test_the_last_body_cannot_be_taken_out(cli: Cli, welcome: str) -> None:
    assert "--text" in cli.error("template", "set", welcome, "--no-text")
    assert words(cli) == (SUBJECT[1], TEXT[1], None)


def test_a_file_that_cannot_be_used_is_named(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for data, facts in (
        ("Grüße".encode("latin-1"), ["UTF-8", "line 1"]),
        ("Hello".encode("utf-16"), ["UTF-16"]),
        (b"x" * 4_194_305, []),
        (b"", ["--no-text"]),
    ):
        file.write_bytes(data)
        error = cli.error("template", "set", "welcome", *SUBJECT, "--text-file", file)
        assert missing(error, file, *facts) == []
    assert cli.json("template", "list") == []


def test_launched_campaigns_are_said_to_keep_their_words(cli: Cli, db: Db, welcome: str) -> None:
    cli.ok("sequence", "set", "hello", "--step", welcome)
    before = cli.ok("template", "set", welcome, "--subject", "Two")
    launch(db, "hello")
    after = cli.ok("template", "set", welcome, "--subject", "Three")
    assert len(after.splitlines()) == len(before.splitlines()) + 1


def launch(db: Db, sequence: str, campaign: str = "spring") -> None:
    db.execute(
        """INSERT INTO fairpost.campaigns (workspace, name, state, sequence_id, lists, route, created_at, launched_at)
           SELECT s.workspace, %s, 'running', s.id, '{}', 'default', now(), now() FROM fairpost.sequences s WHERE s.name = %s""",
        (campaign, sequence),
    )


# ── list, show, remove ───────────────────────────────────────────────────────────────────────────────────


def test_they_are_listed_and_shown_with_who_uses_them(cli: Cli, db: Db, welcome: str) -> None:
    cli.ok("template", "set", "again", "--subject", "Again\x1b[31m", "--html", "<p>Hi</p>")
    cli.ok("sequence", "set", "hello", "--step", welcome, "--step", "again after 3d")
    launch(db, "hello")
    again, first = cli.json("template", "list")
    assert (again["name"], again["text"], first["name"], first["sequences"]) == ("again", None, welcome, ["hello"])
    listed = cli.ok("template", "list")
    assert "hello" in listed
    assert "\x1b" not in listed
    said = cli.ok("template", "show", welcome)
    assert missing(said, "hello", "spring", "company", "How is {{ company }}?") == []
    assert cli.json("template", "show", welcome)["used_by"] == [{"sequence": "hello", "campaigns": ["spring"]}]
    assert "\x1b" not in cli.ok("template", "show", "again")


def test_without_any_it_says_how_to_write_one(cli: Cli) -> None:
    assert "fairpost template set NAME" in cli.ok("template", "list")


def test_one_that_is_used_cannot_be_removed(cli: Cli, welcome: str) -> None:
    cli.ok("sequence", "set", "hello", "--step", welcome)
    assert missing(cli.error("template", "remove", welcome), "welcome", "hello") == []
    assert words(cli) == (SUBJECT[1], TEXT[1], None)
    cli.ok("sequence", "remove", "hello")
    assert "welcome" in cli.ok("template", "remove", welcome)
    assert cli.json("template", "list") == []


def test_workspaces_do_not_see_each_other(cli: Cli, welcome: str) -> None:
    other = ("--workspace", "other")
    assert cli.json("template", "list", *other) == []
    cli.ok("template", "set", welcome, "--subject", "Theirs", "--text", "t", *other)
    assert words(cli)[0] == SUBJECT[1]
    assert words(cli, welcome, *other)[0] == "Theirs"
    cli.ok("template", "remove", welcome, *other)
    assert words(cli)[0] == SUBJECT[1]
    assert missing(cli.error("template", "preview", welcome, *other), welcome, "other") == []


# ── preview ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def people(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("email,first name,company\nann@example.com,Ann,<Ä & Söhne>\nbob@example.com,,\n")
    cli.ok("prospects", "import", "people", str(file))


def test_a_preview_has_made_up_values_and_says_so(cli: Cli, welcome: str) -> None:
    values, subject, _, text = cli.ok("template", "preview", welcome).splitlines()
    assert missing(values, "company Example Ltd", "first_name Ada") == []
    assert subject.endswith("Hello Ada")
    assert text == "How is Example Ltd?"


def test_a_preview_is_what_a_prospect_gets(cli: Cli, welcome: str, people: None) -> None:
    cli.ok("template", "set", welcome, "--html", "<p>{{ company }} {{ email }}</p>")
    ann = cli.json("template", "preview", welcome, "--prospect", "ANN@example.com")
    assert ann == {
        "subject": "Hello Ann",
        "text": "How is <Ä & Söhne>?",
        "html": "<p>&lt;Ä &amp; Söhne&gt; ann@example.com</p>",
        "fields": {"email": "ann@example.com", "first_name": "Ann", "company": "<Ä & Söhne>"},
    }
    said = cli.ok("template", "preview", welcome, "--prospect", "ann@example.com")
    assert "Hello Ann\n\nHow is <Ä & Söhne>?\n" in said
    assert "--html > preview.html" in said
    html = cli.ok("template", "preview", welcome, "--prospect", "ann@example.com", "--html")
    assert html == ann["html"] + "\n"


def test_a_missing_field_is_named(cli: Cli, welcome: str, people: None) -> None:
    said = cli.error("template", "preview", welcome, "--prospect", "bob@example.com")
    assert missing(said, "welcome", "bob@example.com", "{{ company or ") == []
    given = ("--field", "first_name=Ann", "--field", "company= ")
    assert "{{ company or " in cli.error("template", "preview", welcome, *given)


def test_fields_can_be_given(cli: Cli, welcome: str) -> None:
    given = ("--field", "company=A=B", "--field", "order.total=5")
    assert "How is A=B?" in cli.ok("template", "preview", welcome, *given)
    cli.ok("template", "set", welcome, "--text", "{{ order.total }} {{ email }}")
    assert cli.json("template", "preview", welcome, *given)["text"] == "5 ada@example.com"
    assert cli.json("template", "preview", welcome, *given, "--field", "email=x@y.test")["text"] == "5 x@y.test"


def test_errors_of_a_preview(cli: Cli, welcome: str) -> None:
    preview = ("template", "preview", welcome)
    wrong_fields: list[Case] = [
        ((*preview, "--field", field), ["first_name=Ann"]) for field in ("company", "=x", ".a=x", "a..b=x", "")
    ]
    both = (*preview, "--prospect", "a@b.test", "--field", "a=b")
    assert cli.wrong_errors([*wrong_fields, (both, ["--prospect", "--field"])], code=2) == []
    unknown = (*preview, "--prospect", "nobody@example.com")
    assert cli.wrong_errors([(unknown, ["nobody@example.com", "default"]), ((*preview, "--html"), ["welcome"])]) == []


def test_html_alone_is_shown_as_it_is(cli: Cli) -> None:
    cli.ok("template", "set", "page", "--subject", "s", "--html", "<p>Hi</p>")
    assert cli.ok("template", "preview", "page").endswith(" s\n\n<p>Hi</p>\n")
