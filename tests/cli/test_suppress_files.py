"""`fairpost suppress import` and `export`: whole lists, all of one or nothing."""

import codecs
import csv
import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.cli.suppress_csv import Defaults, as_it_was, cells, defused, read_list, rows_into
from fairpost.model.suppression import BadLine, Entry, Suppression, SuppressionKind
from fairpost.postgres.suppressions import export, import_list
from tests.cli.conftest import Cli

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
    assert bad(text) == [
        (3, "kind must be one of soft_bounces, hard_bounce, manual, unsubscribe, complaint; got 'spam'"),
        (5, "has no address"),
        (6, "created_at must be a time like 2030-01-31T09:00:00Z; got 'yesterday'"),
        (7, "workspace must be 1..200 characters on one line; got 'a\\nb'"),
        (9, "is not UTF-8: byte 0xe4 after 'e'"),
        (10, "has a zero byte"),
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("address\na@x.test\n".encode("utf-16"), "is UTF-16, or no text at all"),
        (b"name,city\nann,graz\n", "line 1: neither a header with the column address, nor an address"),
        (b"x" * 200_000, "line 1: more than 100,000 characters"),
        (b'address,reason\na@x.test,"never ends\n' + b"b@x.test\n" * 20_000, "cannot be read on from line 2"),
    ],
)
def test_what_is_no_list_is_refused_with_a_word(cli: Cli, file: Path, db: Db, data: bytes, said: str) -> None:
    file.write_bytes(data)
    for more in ((), ("--skip-bad",)):
        assert said in cli.error("suppress", "import", file, *more)
    assert rows(db) == []


# ── importing ─────────────────────────────────────────────────────────────────────────────────────────────


def test_an_import_says_what_became_of_each_line(cli: Cli, file: Path, db: Db) -> None:
    cli.ok("suppress", "known@x.test", "--reason", "r")
    file.write_text("address\nnew@x.test\nKnown@X.test\nNEW@x.test\nann@müller.example\nann@xn--mller-kva.example\n")
    assert cli.json("suppress", "import", file) == {**NOTHING, "added": 2, "known": 1, "duplicates": 2}
    assert cli.ok("suppress", "import", file) == "added 0, known 3, duplicates 2, bad 0\n"
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


def test_a_bad_file_changes_nothing(cli: Cli, file: Path, db: Db) -> None:
    cli.ok("suppress", "a@x.test", "--reason", "old")
    file.write_bytes(b"address,kind\na@x.test,complaint\nnew@x.test\nnobody\nb@x.test,spam\n\xe4@x.test\n")
    told = cli.error("suppress", "import", file).splitlines()
    assert told[:3] == [
        "line 4: 'nobody' is no e-mail address",
        "line 5: kind must be one of soft_bounces, hard_bounce, manual, unsubscribe, complaint; got 'spam'",
        "line 6: is not UTF-8: byte 0xe4 after ''",
    ]
    assert told[3].startswith("error: 3 lines are bad, and nothing was changed.")
    assert rows(db) == [("a@x.test", "default", "manual", "old")]


def test_bad_lines_can_be_left_out(cli: Cli, file: Path, db: Db) -> None:
    file.write_text("address\nnobody\nnew@x.test\n<x@y.test\n")
    imported = cli.json("suppress", "import", file, "--skip-bad")
    assert (imported["added"], imported["bad"]) == (1, 2)
    assert [line["line"] for line in imported["bad_lines"]] == [2, 4]
    assert [row[0] for row in rows(db)] == ["new@x.test"]


def test_of_many_bad_lines_some_are_shown_and_all_are_counted(cli: Cli, file: Path) -> None:
    file.write_text("address,kind\n" + "nobody,manual\n" * 150 + "a@x.test,spam\n" * 150)
    told = cli.error("suppress", "import", file)
    assert told.count("line ") == 20
    assert "… and 280 more" in told
    assert "300 lines are bad" in told


def test_it_reads_standard_input(cli: Cli, db: Db) -> None:
    done = CliRunner().invoke(app, ["suppress", "import", "-"], input="a@x.test\n", env=cli.environment)
    assert done.stdout == "added 1, known 0, duplicates 0, bad 0\n"
    assert [row[0] for row in rows(db)] == ["a@x.test"]


def test_an_empty_file_is_an_empty_list(cli: Cli, file: Path) -> None:
    for text in ("", "address\n", "\ufeffaddress"):
        file.write_text(text)
        assert cli.json("suppress", "import", file) == NOTHING


def test_a_file_that_is_not_there_is_an_error(cli: Cli, file: Path, tmp_path: Path) -> None:
    assert cli.error("suppress", "import", file) == f"error: {file} cannot be read: No such file or directory.\n"
    assert "Is a directory" in cli.error("suppress", "import", tmp_path)


def test_an_import_that_fails_half_way_changes_nothing(cli: Cli, file: Path, db: Db) -> None:
    """Whatever the reason; here the disk of the list breaks."""
    file.write_text("address\n" + "".join(f"p{i}@x.test\n" for i in range(5_000)))
    db.execute("ALTER TABLE fairpost.suppressions ADD CHECK (address <> 'p4999@x.test')")
    with pytest.raises(AssertionError):
        cli.ok("suppress", "import", file)
    assert rows(db) == []


# ── exporting ─────────────────────────────────────────────────────────────────────────────────────────────


def test_an_export_is_what_import_reads(cli: Cli, file: Path, db: Db) -> None:
    cli.ok("suppress", "=cmd@x.test", "--reason", '=HYPERLINK("http://evil.test")', "--kind", "complaint")
    cli.ok("suppress", "ann@x.test", "--reason", 'said "no",\nloudly; =1+1', "--everywhere")
    before = db.execute("SELECT * FROM fairpost.suppressions ORDER BY address").fetchall()
    assert cli.ok("suppress", "export", file) == f"wrote 2 addresses to {file}\n"
    written = list(csv.reader(io.StringIO(file.read_text())))
    assert not [cell for row in written for cell in row if cell.startswith(("=", "+", "-", "@"))]
    db.execute("DELETE FROM fairpost.suppressions")
    assert cli.json("suppress", "import", file)["added"] == 2
    assert db.execute("SELECT * FROM fairpost.suppressions ORDER BY address").fetchall() == before


def test_an_export_can_be_of_one_workspace_or_kind_and_go_to_standard_output(cli: Cli) -> None:
    cli.ok("suppress", "a@x.test", "--reason", "r", "--workspace", "acme")
    cli.ok("suppress", "b@x.test", "--reason", "r", "--kind", "complaint")
    out = cli.ok("suppress", "export", "-", "--workspace", "acme")
    assert out.splitlines()[0] == "address,kind,reason,created_at,workspace"
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == ["a@x.test"]
    assert [
        line.split(",")[0] for line in cli.ok("suppress", "export", "-", "--kind", "complaint").splitlines()[1:]
    ] == ["b@x.test"]


def test_a_file_is_not_overwritten_unasked_and_none_is_left_half_written(cli: Cli, file: Path) -> None:
    file.write_text("mine")
    assert "is there already" in cli.error("suppress", "export", file)
    assert file.read_text() == "mine"
    cli.ok("suppress", "export", file, "--force")
    assert file.read_text().startswith("address,")
    assert "cannot be written" in cli.error("suppress", "export", file.parent / "nowhere" / "list.csv")
    assert [path.name for path in file.parent.iterdir() if path.name.startswith("list")] == ["list.csv"]


ANY = st.characters(codec="utf-8")


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
ENTRIES = st.builds(
    Suppression,
    address=st.from_regex(r"[a-z=+'-]{1,10}@[a-z]{1,10}\.test", fullmatch=True),
    kind=st.sampled_from(SuppressionKind),
    reason=WORDS,
    created_at=st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    workspace=st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=20),
)


def in_a_file(entries: list[Suppression]) -> bytes:
    out = io.BytesIO()
    with rows_into(out) as write:
        for entry in entries:
            write(cells(entry))
    return out.getvalue()


@given(st.lists(ENTRIES, max_size=20))
def test_any_list_survives_the_way_through_a_file(entries: list[Suppression]) -> None:
    back = read(in_a_file(entries))
    assert [
        Suppression(address=e.address, kind=e.kind, reason=e.reason, created_at=e.created_at, workspace=e.workspace)
        for e in back
        if isinstance(e, Entry) and e.created_at
    ] == entries


@settings(max_examples=25)
@given(st.lists(ENTRIES, max_size=20, unique_by=lambda e: (e.address, e.workspace)))
async def test_any_list_survives_the_way_through_the_database(
    conn: "asyncpg.Connection", entries: list[Suppression]
) -> None:
    await conn.execute("DELETE FROM fairpost.suppressions")
    imported = await import_list(conn, read(in_a_file(entries)), skip_bad=False)
    assert imported.added == len(entries)
    found = [entry async for entry in export(conn, workspace=None, kind=None)]
    assert {(e.address, e.workspace): e for e in found} == {(e.address, e.workspace): e for e in entries}


@pytest.mark.slow
async def test_a_long_list_comes_in_quickly(
    conn: "asyncpg.Connection", file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its time is printed; a test machine promises none."""
    lines = 200_000

    def text() -> Iterator[str]:
        yield "address,kind,reason,created_at\n"
        for i in range(lines):
            yield f"Person.{i}@company{i % 5000}.example,hard_bounce,550 5.1.1 no such user,2024-05-01T10:00:00Z\n"

    with file.open("w") as out:
        out.writelines(text())
    started = perf_counter()
    with file.open("rb") as source:
        imported = await import_list(conn, read_list(source, name="list", defaults=DEFAULTS), skip_bad=False)
    took = perf_counter() - started
    assert imported.added == lines
    with capsys.disabled():
        sys.stdout.write(f"\n{lines:,} addresses imported in {took:.1f} s\n")
