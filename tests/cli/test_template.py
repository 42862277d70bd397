"""`fairpost template`: written, checked, seen as somebody would get it, and removed."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from tests.cli.conftest import Cli

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


def test_a_new_one_tells_which_fields_it_needs(cli: Cli) -> None:
    assert cli.ok("template", "set", "welcome", *SUBJECT, *TEXT) == (
        "wrote template welcome: subject and text\n"
        "everybody must have: company\n"
        "may be missing: first_name\n"
        "see it: fairpost template preview welcome\n"
    )


def test_the_address_is_always_known(cli: Cli) -> None:
    said = cli.ok("template", "set", "plain", "--subject", "Hello", "--text", "You are {{ email }}")
    assert "nothing has to be known of a recipient but the address" in said


def test_lists_are_told_to_come_from_no_csv_file(cli: Cli) -> None:
    text = "{% for p in products %}{{ p.name }}{% endfor %}{{ order.total }}"
    set_ = ("template", "set", "deals", "--subject", "Deals", "--text", text)
    assert "no CSV file can bring these lists and objects: order, products" in cli.ok(*set_)
    again = cli.json(*set_)
    assert (again["required"], again["nested"], again["changed"]) == (
        ["order.total", "products"],
        ["order", "products"],
        [],
    )


def test_what_is_not_named_stays(cli: Cli, welcome: str) -> None:
    said = cli.ok("template", "set", welcome, "--html", "<p>{{ company }}</p>")
    assert said.startswith("changed template welcome: html changed, subject and text as before\n")
    assert words(cli) == (SUBJECT[1], TEXT[1], "<p>{{ company }}</p>")
    cli.ok("template", "set", welcome, "--subject", "Hi")
    assert words(cli) == ("Hi", TEXT[1], "<p>{{ company }}</p>")
    assert "text taken out" in cli.ok("template", "set", welcome, "--no-text")
    assert words(cli) == ("Hi", None, "<p>{{ company }}</p>")


def test_the_same_words_again_change_nothing(cli: Cli, welcome: str) -> None:
    before = cli.json("template", "show", welcome)
    assert "is the same as before" in cli.ok("template", "set", welcome, *SUBJECT, *TEXT)
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
    assert "line breaks come with --text-file" in cli.ok(
        "template", "set", "a", "--subject", "a", "--text", r"Hi\n\nyou"
    )


def test_a_mistake_is_shown_where_it_is_and_nothing_is_changed(cli: Cli, welcome: str) -> None:
    said = cli.error("template", "set", welcome, "--text", "Dear all,\n日本 {{ first name }}, hello")
    assert said == (
        "error: Template welcome cannot be used as it is, and nothing was changed:\n"
        'text, line 2, column 13: "name" cannot be used here\n'
        "  日本 {{ first name }}, hello\n"
        "                ^\n"
        "What can stand in braces: fairpost template set --help\n"
    )
    assert words(cli) == (SUBJECT[1], TEXT[1], None)


def test_the_mistakes_of_all_parts_are_shown_at_once(cli: Cli) -> None:
    given = ("--subject", "{{ a", "--text", "{% if b %}", "--html", "<p>\t{{ c | shout }}")
    said = cli.error("template", "set", "bad", *given)
    assert 'subject, line 1, column 1: "{{" is never closed' in said
    assert 'text, line 1, column 1: "if" is never closed' in said
    assert 'html, line 1, column 12: there is no "shout"' in said
    assert "  <p> {{ c | shout }}\n             ^\n" in said
    assert cli.json("template", "list") == []


def test_letters_that_are_none_are_refused(cli: Cli) -> None:
    said = cli.error("template", "set", "bad", *SUBJECT, "--text", "caf\udce9 {{ company }}")
    assert "text, line 1, column 4: there is half a character" in said


def test_of_a_long_line_only_the_place_is_shown(cli: Cli) -> None:
    said = cli.error("template", "set", "bad", *SUBJECT, "--html", "x" * 5_000 + "{{ a b }}" + "y" * 5_000)
    line, caret = said.splitlines()[2:4]
    assert len(line) < 120
    assert line[caret.index("^")] == "b"
    assert line.startswith("  …")
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["set", "new", "--subject", "Hi"], 1, "There is no template new in workspace default yet"),
        (["set", "new", "--text", "Hi"], 1, "a new one needs a subject and a text (or HTML)"),
        (["set", "new", "--subject", " ", "--text", "Hi"], 2, "a subject must not be empty"),
        (["set", "new", "--subject", "Hi", "--text", " \n"], 1, "--text is empty, and nothing was changed"),
        (["set", "new", "--subject", "Hi", "--text-file", "/nowhere.txt"], 1, "/nowhere.txt cannot be read"),
        (["set", "new", "--subject", "Hi", "--text-file", "/"], 1, "/ cannot be read"),
        (["set", "new", "--text", "a", "--text-file", "b"], 2, "give one of --text, --text-file and --no-text"),
        (["set", "new", "--subject", "a", "--text-file", "-", "--html-file", "-"], 2, "only once"),
        (["set", "new"], 2, "give at least one of --subject"),
        (["set", "spring:1", "--subject", "a", "--text", "b"], 2, "must be 1..100 letters, digits or . _ -"),
        (["set", "-", "--subject", "a", "--text", "b"], 2, "must be 1..100 letters"),
        (["set", "a" * 101, "--subject", "a", "--text", "b"], 2, "must be 1..100 letters"),
        (["set", "new", "--subject", "a", "--text", "b", "--workspace", "*"], 2, "must be the name of one workspace"),
        (["show", "new"], 1, "There is no template new in workspace default. See: fairpost template list"),
        (["preview", "new"], 1, "There is no template new"),
        (["remove", "new"], 1, "There is no template new"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(cli: Cli, arguments: list[str], code: int, said: str) -> None:
    assert said in cli.error("template", *arguments, code=code)
    assert cli.json("template", "list") == []


def test_the_last_body_cannot_be_taken_out(cli: Cli, welcome: str) -> None:
    assert "would have neither text nor HTML" in cli.error("template", "set", welcome, "--no-text")
    assert words(cli) == (SUBJECT[1], TEXT[1], None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("Grüße".encode("latin-1"), "is not UTF-8: see line 1. Save it as UTF-8."),
        ("Hello".encode("utf-16"), "is UTF-16, or no text"),
        (b"x" * 4_194_305, "is too long"),
        (b"", "is empty, and nothing was changed. To take the text out: --no-text"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(cli: Cli, tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(data)
    error = cli.error("template", "set", "welcome", *SUBJECT, "--text-file", str(file))
    assert f"{file} {said}" in error


def test_launched_campaigns_are_said_to_keep_their_words(cli: Cli, db: Db, welcome: str) -> None:
    cli.ok("sequence", "set", "hello", "--step", welcome)
    assert "keep the words" not in cli.ok("template", "set", welcome, "--subject", "Two")
    launch(db, "hello")
    said = cli.ok("template", "set", welcome, "--subject", "Three")
    assert "campaigns that were launched with it keep the words they had" in said


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
    assert "used by   sequence hello (campaigns spring)\n" in said
    assert "fields    everybody must have: company\n" in said
    assert "\ntext:\nHow is {{ company }}?\n" in said
    assert cli.json("template", "show", welcome)["used_by"] == [{"sequence": "hello", "campaigns": ["spring"]}]
    assert "\x1b" not in cli.ok("template", "show", "again")


def test_without_any_it_says_how_to_write_one(cli: Cli) -> None:
    assert "fairpost template set NAME" in cli.ok("template", "list")


def test_one_that_is_used_cannot_be_removed(cli: Cli, welcome: str) -> None:
    cli.ok("sequence", "set", "hello", "--step", welcome)
    assert "Template welcome is used by hello. Nothing was changed." in cli.error("template", "remove", welcome)
    cli.ok("sequence", "remove", "hello")
    assert cli.ok("template", "remove", welcome) == "removed template welcome\n"
    assert cli.json("template", "list") == []


def test_workspaces_do_not_see_each_other(cli: Cli, welcome: str) -> None:
    other = ("--workspace", "other")
    assert cli.json("template", "list", *other) == []
    cli.ok("template", "set", welcome, "--subject", "Theirs", "--text", "t", *other)
    assert words(cli)[0] == SUBJECT[1]
    assert words(cli, welcome, *other)[0] == "Theirs"
    cli.ok("template", "remove", welcome, *other)
    assert words(cli)[0] == SUBJECT[1]
    assert "in workspace other" in cli.error("template", "preview", welcome, *other)


# ── preview ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def people(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("email,first name,company\nann@example.com,Ann,<Ä & Söhne>\nbob@example.com,,\n")
    cli.ok("prospects", "import", "people", str(file))


def test_a_preview_has_made_up_values_and_says_so(cli: Cli, welcome: str) -> None:
    assert cli.ok("template", "preview", welcome) == (
        "with made-up values: company Example Ltd, first_name Ada\nsubject: Hello Ada\n\nHow is Example Ltd?\n"
    )


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
    assert said.startswith("subject: Hello Ann\n\nHow is <Ä & Söhne>?\n")
    assert "--html > preview.html" in said
    html = cli.ok("template", "preview", welcome, "--prospect", "ann@example.com", "--html")
    assert html == ann["html"] + "\n"


def test_a_missing_field_is_named(cli: Cli, welcome: str, people: None) -> None:
    said = cli.error("template", "preview", welcome, "--prospect", "bob@example.com")
    assert "Template welcome cannot be filled in for bob@example.com: company missing" in said
    assert '{{ company or "something else" }}' in said
    assert "with these fields: company missing" in cli.error(
        "template", "preview", welcome, "--field", "first_name=Ann", "--field", "company= "
    )


def test_fields_can_be_given(cli: Cli, welcome: str) -> None:
    given = ("--field", "company=A=B", "--field", "order.total=5")
    assert "How is A=B?" in cli.ok("template", "preview", welcome, *given)
    cli.ok("template", "set", welcome, "--text", "{{ order.total }} {{ email }}")
    assert cli.json("template", "preview", welcome, *given)["text"] == "5 ada@example.com"
    assert cli.json("template", "preview", welcome, *given, "--field", "email=x@y.test")["text"] == "5 x@y.test"


@pytest.mark.parametrize("field", ["company", "=x", ".a=x", "a..b=x", ""])
def test_a_field_that_is_none_is_refused(cli: Cli, welcome: str, field: str) -> None:
    assert "write it like first_name=Ann" in cli.error("template", "preview", welcome, "--field", field, code=2)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--prospect", "a@b.test", "--field", "a=b"], 2, "--prospect or --field, not both"),
        (["--prospect", "nobody@example.com"], 1, "nobody@example.com is no prospect of workspace default"),
        (["--html"], 1, "Template welcome has no HTML"),
    ],
)
def test_what_cannot_be_previewed(cli: Cli, welcome: str, arguments: list[str], code: int, said: str) -> None:
    assert said in cli.error("template", "preview", welcome, *arguments, code=code)


def test_html_alone_is_shown_as_it_is(cli: Cli) -> None:
    cli.ok("template", "set", "page", "--subject", "s", "--html", "<p>Hi</p>")
    assert cli.ok("template", "preview", "page") == "subject: s\n\n<p>Hi</p>\n"
