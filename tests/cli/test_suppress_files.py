"""`fairpost suppress import` and `export`: complete lists, all or nothing."""

import codecs
import csv
import errno
import io
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.cli.suppress_csv import Defaults, as_it_was, cells, defused, read_list, rows_into
from fairpost.model.suppression import BadLine, Entry, Stops, Suppression, SuppressionKind
from fairpost.store.suppressions import export, import_list
from tests.cli.conftest import Cli, missing
from tests.thorough import times

if TYPE_CHECKING:
    import asyncpg

Db = psycopg.Connection[Any]

NOTHING = {"added": 0, "known": 0, "duplicates": 0, "bad": 0, "bad_lines": []}
DEFAULTS = Defaults(workspace="default")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "list.csv"


def rows(db: Db) -> list[tuple[Any, ...]]:
    sql = "SELECT address, workspace, kind::text, reason FROM fairpost.suppressions ORDER BY address, workspace"
    return db.execute(sql).fetchall()


def read(text: str | bytes) -> list[Entry | BadLine]:
    data = text if isinstance(text, bytes) else text.encode()
    return list(read_list(io.BytesIO(data), name="list.csv", defaults=DEFAULTS))


def addresses(text: str | bytes) -> list[str]:
    return [entry.address for entry in read(text) if isinstance(entry, Entry)]


def bad(text: str | bytes) -> list[tuple[int, str]]:
    return [(line.line, line.why) for line in read(text) if isinstance(line, BadLine)]


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "address\na@x.test\nb@x.test\n",
        "a@x.test\nb@x.test",
        "E-Mail\r\na@x.test\r\nb@x.test\r\n",
        "a@x.test\rb@x.test\r",
        "Name;Email;City\nAnn;a@x.test;Graz\nBob;b@x.test;Wien\n",
        "kind\taddress\nmanual\ta@x.test\nmanual\tb@x.test\n",
        '"address","reason"\n"a@x.test","one, two"\n\n"b@x.test","three\nfour"\n',
        "a@x.test;;;;\nb@x.test;;;;\n",
        "address,reason\n a@x.test ,\nb@x.test",
    ],
)
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["", "BOM"])
def test_lists_of_many_makes_are_read(text: str, mark: bytes) -> None:
    assert addresses(mark + text.encode()) == ["a@x.test", "b@x.test"]
    assert bad(text) == []


def test_all_columns_are_read_and_defaults_fill_the_gaps() -> None:
    first, second = read(
        "address,kind,reason,created_at,workspace\na@x.test,Complaint,why,2024-05-01T10:00:00+02:00,acme\nb@x.test\n"
    )
    assert first == Entry(
        line=2,
        address="a@x.test",
        kind=SuppressionKind.COMPLAINT,
        reason="why",
        created_at=datetime(2024, 5, 1, 8, tzinfo=UTC),
        workspace="acme",
    )
    assert second == Entry(
        line=3, address="b@x.test", kind=SuppressionKind.MANUAL, reason="imported", created_at=None, workspace="default"
    )


def test_a_time_without_a_zone_is_utc() -> None:
    (entry,) = read("address,created_at\na@x.test,2024-05-01 12:30:00\n")
    assert isinstance(entry, Entry)
    assert entry.created_at == datetime(2024, 5, 1, 12, 30, tzinfo=UTC)


def test_bad_lines_are_named_by_their_numbers() -> None:
    text = b'address,kind,created_at,workspace\nok@x.test\n"two\nlines",spam\n,manual\nc@x.test,,yesterday\nd@x.test,,,"a\nb"\ne\xe4@x.test\nf\0@x.test\n'
    facts = {
        3: ("kind", "soft_bounces, hard_bounce, manual, unsubscribe, complaint", "'spam'"),
        5: ("address",),
        6: ("created_at", "2030-01-31T09:00:00Z", "'yesterday'"),
        7: ("workspace", "1..200", r"'a\nb'"),
        9: ("UTF-8", "0xe4", "'e'"),
        10: (),
    }
    found = dict(bad(text))
    assert found.keys() == facts.keys()
    assert [(line, lacks) for line, why in found.items() if (lacks := missing(why, *facts[line]))] == []


def test_an_invalid_list_is_refused_with_a_message(cli: Cli, file: Path, db: Db) -> None:
    endless = b'address,reason\na@x.test,"never ends\n' + b"b@x.test\n" * 20_000
    for data, facts in (
        ("address\na@x.test\n".encode("utf-16"), ["UTF-16"]),
        (b"name,city\nann,graz\n", ["line 1", "address"]),
        (b"x" * 200_000, ["line 1", "100,000"]),
        (endless, ["line 2"]),
    ):
        file.write_bytes(data)
        for more in ((), ("--skip-bad",)):
            error = cli.error("suppress", "import", file, *more)
            assert missing(error, file, *facts) == [], error
    assert rows(db) == []


# ── importing ─────────────────────────────────────────────────────────────────────────────────────────────


def test_an_import_says_what_became_of_each_line(cli: Cli, file: Path, db: Db) -> None:
    cli.ok("suppress", "known@x.test", "--reason", "r")
    file.write_text("address\nnew@x.test\nKnown@X.test\nNEW@x.test\nann@müller.example\nann@xn--mller-kva.example\n")
    assert cli.json("suppress", "import", file) == {**NOTHING, "added": 2, "known": 1, "duplicates": 2}
    assert re.findall(r"\d+", cli.ok("suppress", "import", file)) == ["0", "3", "2", "0"]
    assert [row[0] for row in rows(db)] == ["ann@xn--mller-kva.example", "known@x.test", "new@x.test"]


def test_the_options_count_for_lines_that_say_nothing(cli: Cli, file: Path, db: Db) -> None:
    file.write_text("address,kind,reason,workspace\na@x.test,,,\nb@x.test,manual,why,acme\nc@x.test,,,*\n")
    cli.ok("suppress", "import", file, "--kind", "unsubscribe", "--reason", "moved here", "--workspace", "w1")
    assert rows(db) == [
        ("a@x.test", "w1", "unsubscribe", "moved here"),
        ("b@x.test", "acme", "manual", "why"),
        ("c@x.test", "*", "unsubscribe", "moved here"),
    ]
    cli.ok("suppress", "import", file, "--everywhere")
    assert ("a@x.test", "*", "manual", "imported") in rows(db)


def test_the_weightier_reason_wins_in_the_file_and_in_the_list(cli: Cli, file: Path, db: Db) -> None:
    cli.ok("suppress", "a@x.test", "--reason", "old", "--kind", "hard_bounce")
    cli.ok("suppress", "b@x.test", "--reason", "old", "--kind", "complaint")
    file.write_text("a@x.test,manual,m\na@x.test,unsubscribe,u\nb@x.test,manual,m\n")
    assert cli.json("suppress", "import", file) == {**NOTHING, "known": 2, "duplicates": 1}
    assert [row[2:] for row in rows(db)] == [("unsubscribe", "u"), ("complaint", "old")]


def test_an_imported_unsubscribe_does_not_weaken_a_stop_of_urgent_mail(cli: Cli, file: Path) -> None:
    def stops() -> dict[str, str]:
        return {each["address"]: each["stops"] for each in cli.json("suppress", "list")}

    cli.ok("suppress", "a@x.test", "--reason", "old", "--kind", "hard_bounce")
    file.write_text("a@x.test,unsubscribe\nb@x.test,hard_bounce\nb@x.test,unsubscribe\nc@x.test,unsubscribe\n")
    cli.ok("suppress", "import", file)
    assert stops() == {"a@x.test": "all", "b@x.test": "all", "c@x.test": "bulk"}
    file.write_text("c@x.test,complaint\nd@x.test,unsubscribe\n")
    cli.ok("suppress", "import", file)
    assert stops() == {"a@x.test": "all", "b@x.test": "all", "c@x.test": "all", "d@x.test": "bulk"}


def test_a_kind_that_stops_everything_cannot_be_told_to_stop_less(cli: Cli, file: Path, db: Db) -> None:
    file.write_text("address,kind,stops\na@x.test,complaint,bulk\nb@x.test,unsubscribe,some\n")
    assert missing(cli.error("suppress", "import", file), "2 ") == []
    assert rows(db) == []


def test_a_bad_file_changes_nothing(cli: Cli, file: Path, db: Db) -> None:
    cli.ok("suppress", "a@x.test", "--reason", "old")
    file.write_bytes(b"address,kind\na@x.test,complaint\nnew@x.test\nnobody\nb@x.test,spam\n\xe4@x.test\n")
    told = cli.error("suppress", "import", file).splitlines()
    facts = [("error:", " 3 "), ("line 4:", "'nobody'"), ("line 5:", "kind", "'spam'"), ("line 6:", "0xe4"), ("Next:",)]
    assert [missing(line, *those) for line, those in zip(told, facts, strict=True)] == [[]] * 5
    assert rows(db) == [("a@x.test", "default", "manual", "old")]


def test_bad_lines_can_be_left_out(cli: Cli, file: Path, db: Db) -> None:
    file.write_text("address\nnobody\nnew@x.test\n<x@y.test\n")
    imported = cli.json("suppress", "import", file, "--skip-bad")
    assert (imported["added"], imported["bad"]) == (1, 2)
    assert [line["line"] for line in imported["bad_lines"]] == [2, 4]
    assert [row[0] for row in rows(db)] == ["new@x.test"]


def test_each_workspace_that_a_file_names_has_its_entry_in_the_audit(cli: Cli, file: Path, db: Db) -> None:
    file.write_text("address,workspace\na@x.test,acme\nb@x.test,acme\nc@x.test,\nd@x.test,*\n")
    cli.ok("suppress", "import", file)
    rows = db.execute(
        "SELECT workspace, action, subject, left(who, 4) FROM fairpost.audit ORDER BY workspace"
    ).fetchall()
    assert rows == [
        ("acme", "suppression.import", "2 addresses", "cli "),
        ("default", "suppression.import", "1 addresses", "cli "),
        (None, "suppression.import", "1 addresses", "cli "),
    ]


def test_some_of_many_bad_lines_are_shown_and_all_are_counted(cli: Cli, file: Path) -> None:
    file.write_text("address,kind\n" + "nobody,manual\n" * 150 + "a@x.test,spam\n" * 150)
    told = cli.error("suppress", "import", file)
    assert told.count("line ") == 20
    assert missing(told, " 280 ", " 300 ") == []


def test_it_reads_standard_input(cli: Cli, db: Db) -> None:
    done = CliRunner().invoke(app, ["suppress", "import", "-"], input="a@x.test\n", env=cli.environment)
    assert re.findall(r"\d+", done.stdout) == ["1", "0", "0", "0"]
    assert [row[0] for row in rows(db)] == ["a@x.test"]


def test_an_empty_file_is_an_empty_list(cli: Cli, file: Path) -> None:
    for text in ("", "address\n", "\ufeffaddress"):
        file.write_text(text)
        assert cli.json("suppress", "import", file) == NOTHING


def test_a_file_that_does_not_exist_is_an_error(cli: Cli, file: Path, tmp_path: Path) -> None:
    for path, why in ((file, os.strerror(errno.ENOENT)), (tmp_path, os.strerror(errno.EISDIR))):
        assert missing(cli.error("suppress", "import", path), path, why) == []


@pytest.mark.thorough
def test_a_long_list_comes_in_whole_or_not_at_all(cli: Cli, file: Path, db: Db) -> None:
    """Its last row is the first to break a rule of the table."""
    lines = times(5_000)
    reason = "hard_bounce,550 5.1.1,2024-05-01T10:00:00Z"
    file.write_text("".join(f"Person.{i}@company{i % 50}.example,{reason}\n" for i in range(lines)))
    last = f"person.{lines - 1}@company{(lines - 1) % 50}.example"
    db.execute(f"ALTER TABLE fairpost.suppressions ADD CONSTRAINT not_the_last CHECK (address <> '{last}')")
    with pytest.raises(AssertionError):
        cli.ok("suppress", "import", file)
    assert rows(db) == []
    db.execute("ALTER TABLE fairpost.suppressions DROP CONSTRAINT not_the_last")
    assert cli.json("suppress", "import", file)["added"] == len(rows(db)) == lines


# ── exporting ─────────────────────────────────────────────────────────────────────────────────────────────


def test_an_export_is_what_import_reads(cli: Cli, file: Path, db: Db) -> None:
    cli.ok("suppress", "=cmd@x.test", "--reason", '=HYPERLINK("http://evil.test")', "--kind", "complaint")
    cli.ok("suppress", "ann@x.test", "--reason", 'said "no",\nloudly; =1+1', "--everywhere")
    before = db.execute("SELECT * FROM fairpost.suppressions ORDER BY address").fetchall()
    assert missing(cli.ok("suppress", "export", file), " 2 ", file) == []
    written = list(csv.reader(io.StringIO(file.read_text())))
    assert not [cell for row in written for cell in row if cell.startswith(("=", "+", "-", "@"))]
    db.execute("DELETE FROM fairpost.suppressions")
    assert cli.json("suppress", "import", file)["added"] == 2
    assert db.execute("SELECT * FROM fairpost.suppressions ORDER BY address").fetchall() == before


def test_an_export_can_be_of_one_workspace_or_kind_and_go_to_standard_output(cli: Cli) -> None:
    cli.ok("suppress", "a@x.test", "--reason", "r", "--workspace", "acme")
    cli.ok("suppress", "b@x.test", "--reason", "r", "--kind", "complaint")
    out = cli.ok("suppress", "export", "-", "--workspace", "acme")
    assert out.splitlines()[0] == "address,kind,reason,created_at,workspace,stops"
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == ["a@x.test"]
    assert [
        line.split(",")[0] for line in cli.ok("suppress", "export", "-", "--kind", "complaint").splitlines()[1:]
    ] == ["b@x.test"]


def test_a_file_is_not_overwritten_unasked_and_none_is_left_half_written(cli: Cli, file: Path) -> None:
    file.write_text("mine")
    assert missing(cli.error("suppress", "export", file), file, "--force") == []
    assert file.read_text() == "mine"
    cli.ok("suppress", "export", file, "--force")
    assert file.read_text().startswith("address,")
    nowhere = file.parent / "nowhere" / "list.csv"
    assert str(nowhere) in cli.error("suppress", "export", nowhere)
    assert [path.name for path in file.parent.iterdir() if path.name.startswith("list")] == ["list.csv"]


ANY = st.characters(exclude_categories=["Cs"])


@given(st.text(ANY))
@example("'=x")
@example("'")
@example("a;=b,'c\t-d")
@example("''''")
@example("\n=1")
def test_a_cell_is_read_as_it_was_written_and_is_no_formula(cell: str) -> None:
    assert as_it_was(defused(cell)) == cell
    for separator in ",;\t\r\n|":
        assert not [part for part in defused(cell).split(separator) if part[:1] in tuple("=+-@＝＋－＠")]


WORDS = st.text(
    st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("=+-@';,\"\t\n\r"), min_size=1, max_size=40
)
_ENTRIES = st.builds(
    Suppression,
    address=st.from_regex(r"[a-z=+'-]{1,10}@[a-z]{1,10}\.test", fullmatch=True),
    kind=st.sampled_from(SuppressionKind),
    reason=WORDS,
    created_at=st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    workspace=st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=20),
)
ENTRIES = st.builds(  # only an unsubscribe can stop bulk mail alone
    lambda entry, stops: replace(entry, stops=stops if entry.kind == "unsubscribe" else Stops.ALL),
    _ENTRIES,
    st.sampled_from(Stops),
)


def in_a_file(entries: list[Suppression]) -> bytes:
    out = io.BytesIO()
    with rows_into(out) as write:
        for entry in entries:
            write(cells(entry))
    return out.getvalue()


@pytest.mark.thorough
@settings(max_examples=times(15))
@given(st.lists(ENTRIES, max_size=10))
def test_any_list_survives_the_way_through_a_file(entries: list[Suppression]) -> None:
    back = read(in_a_file(entries))
    assert [
        Suppression(
            address=e.address,
            kind=e.kind,
            reason=e.reason,
            created_at=e.created_at,
            workspace=e.workspace,
            stops=Stops.ALL if e.also_urgent else Stops.BULK,
        )
        for e in back
        if isinstance(e, Entry) and e.created_at
    ] == entries


@pytest.mark.thorough
@settings(max_examples=times(10))
@given(st.lists(ENTRIES, max_size=10, unique_by=lambda e: (e.address, e.workspace)))
async def test_any_list_survives_the_way_through_the_database(
    conn: "asyncpg.Connection", entries: list[Suppression]
) -> None:
    await conn.execute("DELETE FROM fairpost.suppressions")
    imported = await import_list(conn, read(in_a_file(entries)), skip_bad=False)
    assert imported.added == len(entries)
    found = [entry async for entry in export(conn, workspace=None, kind=None)]
    assert {(e.address, e.workspace): e for e in found} == {(e.address, e.workspace): e for e in entries}
