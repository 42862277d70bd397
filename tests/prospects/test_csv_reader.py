"""Files of prospects: as programs write them, as people break them, and malicious ones."""

import codecs
import csv
import io
import os
import random
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairpost.model.prospect import BadProspectLine, ProspectLine
from fairpost.prospects.csv_reader import (
    DELIMITERS,
    FIELD_CHARS_MAX,
    Header,
    UnreadableFile,
    read_header,
    read_prospects,
)
from tests.facts import missing
from tests.thorough import times


def read(data: str | bytes, **how: Any) -> list[ProspectLine | BadProspectLine]:
    return list(read_prospects(io.BytesIO(data if isinstance(data, bytes) else data.encode()), **how))


def good(data: str | bytes, **how: Any) -> list[ProspectLine]:
    return [line for line in read(data, **how) if isinstance(line, ProspectLine)]


def bad(data: str | bytes, **how: Any) -> list[tuple[int, str]]:
    return [(line.line, line.why) for line in read(data, **how) if isinstance(line, BadProspectLine)]


def addresses(data: str | bytes, **how: Any) -> list[str]:
    return [line.address for line in good(data, **how)]


def columns(header: str, **how: Any) -> dict[str, str]:
    return read_header(io.BytesIO(header.encode()), **how).columns


def refusal(data: str | bytes, **how: Any) -> str:
    with pytest.raises(UnreadableFile) as caught:
        read_prospects(io.BytesIO(data if isinstance(data, bytes) else data.encode()), **how)
    return str(caught.value)


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_becomes_a_prospect() -> None:
    text = "ID,E-Mail,Vorname,Last Name,Firma,Time Zone,Favourite Colour\n7,Ann@Example.COM, Ann ,Lee,,Europe/Vienna,blue\n"
    assert read(text) == [
        ProspectLine(
            line=2,
            address="Ann@example.com",
            fields={"first_name": "Ann", "last_name": "Lee", "favourite_colour": "blue"},
            timezone="Europe/Vienna",
            external_id="7",
        )
    ]


@pytest.mark.parametrize(
    "text",
    [
        "email\na@x.test\nb@x.test",
        "Email\r\na@x.test\r\n\r\nb@x.test\r\n",
        "email\ra@x.test\rb@x.test\r",
        "Name;E-Mail\nAnn;a@x.test\nBob;b@x.test\n",
        '"E-Mail";"Name, first, last"\n"a@x.test";"A, B"\n"b@x.test";\n',
        "name\temail\nAnn\ta@x.test\nBob\tb@x.test\n",
        "name|email\nAnn|a@x.test\nBob|b@x.test\n",
        "sep=;\r\nemail;name\r\na@x.test;A\r\nb@x.test;B\r\n",
        "\n\n,,\nemail,name\na@x.test,A\n,\n  \nb@x.test,B\n",
        'email,"two\nlines"\na@x.test,"one ""quoted""\nline"\nb@x.test,x\n',
        "email,name,\na@x.test,A,\nb@x.test,B,\n",
        "email,name\na@x.test,A,,,\nb@x.test\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_files_of_many_makes_are_read(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    assert addresses(data) == ["a@x.test", "b@x.test"]
    assert bad(data) == []


def test_a_record_is_numbered_by_the_line_it_begins_on() -> None:
    lines = read('"e\nmail",note\r\n\r\na@x.test,"1\r\n2\n3"\r\nb@x.test,x\r\n\n"no\nbody",\r\nc@x.test,\r\n')
    assert [line.line for line in lines] == [4, 7, 9, 11]


def test_a_name_beside_the_address_is_kept_unless_there_is_one() -> None:
    first, second = good('email,name\nAnn Lee <a@x.test>,\n"""Lee, B"" <b@x.test>",Bob\n')
    assert (first.address, first.fields) == ("a@x.test", {"name": "Ann Lee"})
    assert (second.address, second.fields) == ("b@x.test", {"name": "Bob"})


def test_bad_lines_are_named_with_the_reason() -> None:
    text = (
        b"email,tz,id,name\nok@x.test,UTC,1,x\nnobody,,,\n,,,Ann\na@x.test,Mars/Base,,\na@x.test,,1:2,\n"
        b"a@x.test,,,Lee, Ann\na@x.test,,,\0\na@x.test,,," + "Jörg".encode() + b"\na@x.test,,,J\xf6rg\n"
    )
    expected: dict[int, tuple[str, ...]] = {
        3: ("'nobody'",),
        4: ("address",),
        5: ("timezone", "Europe/Berlin", "'Mars/Base'"),
        6: ("id", "200", '":"', "'1:2'"),
        7: ("5", "4", "quotes"),
        8: ("zero byte",),
        10: ("utf-8", "0xf6", "'a@x.test,,,J'"),
    }
    found = dict(bad(text))
    assert found.keys() == expected.keys()
    assert {line: missing(found[line], *facts) for line, facts in expected.items()} == {line: [] for line in expected}


def test_a_bad_line_is_shown_short_and_harmless() -> None:
    (line,) = read("email,name\nnobody,\x1b[2J" + "x" * 500 + "\n")
    assert isinstance(line, BadProspectLine)
    assert line.text == "nobody,\ufffd[2J" + "x" * 89 + "…"


def test_a_field_may_be_large_and_not_larger() -> None:
    def text(size: int) -> str:
        return f"email,note\na@x.test,{'x' * size}\nb@x.test,y\n"

    assert bad(text(FIELD_CHARS_MAX)) == []
    for size in (FIELD_CHARS_MAX + 1, 200_000, 999_980, 3_000_000):
        assert [line for line, _ in bad(text(size))] == [2]
        assert addresses(text(size)) == ["b@x.test"]


# ── quotes ────────────────────────────────────────────────────────────────────────────────────────────────

ROWS = "".join(f"p{i}@x.test,P{i},z\n" for i in range(8_000))


@pytest.mark.parametrize("later", ["", 'q@x.test,"Q",z\n', 'q@x.test,Q,"z"\n', '"q@x.test",Q,z\n'])
@pytest.mark.parametrize("rows", [10, 8_000])
def test_a_quote_that_does_not_end_costs_its_own_line_alone(later: str, rows: int) -> None:
    others = "".join(ROWS.splitlines(keepends=True)[:rows])
    text = f'email,name,x\na@x.test,"A,z\n{others}{later}'
    assert [line for line, _ in bad(text)] == [2]
    assert len(addresses(text)) == rows + bool(later)


def test_several_quotes_that_do_not_end_cost_a_line_each() -> None:
    text = f'email,name,x\na@x.test,"A,z\n{ROWS}b@x.test,"B,z\n{ROWS}c@x.test,C,"z\n'
    assert [line for line, _ in bad(text)] == [2, 8_003, 16_004]
    assert len(addresses(text)) == 16_000


def test_a_line_of_notes_is_no_prospect() -> None:
    """The field is too large, so its lines are read separately; but they lack columns."""
    note = "ask\nboss@x.test\n" * 20_000
    assert addresses(f'email,note\na@x.test,"{note}"\nb@x.test,\n') == ["b@x.test"]


@pytest.mark.parametrize(
    ("opened", "closed"),
    [('a@x.test,z,"A', 'c@x.test,24",z'), ('a@x.test,"A', 'c@x.test,z,24"')],
    ids=["more", "fewer"],
)
def test_a_record_over_several_lines_must_have_every_field(opened: str, closed: str) -> None:
    """Otherwise, a quote that is closed by the next one, as in inches, would swallow all lines in between."""
    text = f"email,screen,x\n{opened}\nb@x.test,B,z\n{closed}\nd@x.test,D\n"
    assert [line for line, _ in bad(text)] == [2]
    assert addresses(text) == ["b@x.test", "c@x.test", "d@x.test"]


def test_lines_are_not_read_again_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpost.prospects.csv_reader.REREAD_CHARS_MAX", 20)
    text = 'email,x\na@x.test,"A\nb@x.test,"B\nc@x.test,"C\nd@x.test,D\n'
    assert [(line, "(lines 3 to 4)" in why) for line, why in bad(text)] == [(2, False), (3, True)]
    assert addresses(text) == ["d@x.test"]


def test_a_quote_inside_a_field_must_be_doubled() -> None:
    text = 'email,name\na@x.test,"Ann "The Boss" Lee"\nb@x.test,"Bob ""B"" Lee"\nc@x.test,24" screens\n'
    assert [line for line, _ in bad(text)] == [2]
    assert [line.fields["name"] for line in good(text)] == ['Bob "B" Lee', '24" screens']


# ── the header ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_preview_says_how_the_file_will_be_read() -> None:
    file = io.BytesIO("E-Mail;Größe in cm;;Prénom\n".encode("cp1252"))
    assert read_header(file) == Header(
        encoding="cp1252",
        delimiter=";",
        columns={"E-Mail": "email", "Größe in cm": "größe_in_cm", "column 3": "column_3", "Prénom": "first_name"},
    )


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *(
            (name, "email")
            for name in ("email", "E-Mail", "MAIL", "e-mail address", "E_Mail-Adresse", "Adresse", "address")
        ),
        *((name, "external_id") for name in ("ID", "External ID", "prospectId")),
        *((name, "timezone") for name in ("Time Zone", "TZ", "timezone", "Zeitzone")),
        *((name, "first_name") for name in ("First Name", "firstName", "Vorname", "prénom")),
        *((name, "last_name") for name in ("Last Name", "Surname", "NACHNAME")),
        *((name, "company") for name in ("Company", "Firma", "organisation")),
        *((name, "name") for name in ("Name", "Full name")),
    ],
)
def test_columns_are_known_by_many_names(name: str, field: str) -> None:
    others = "" if field == "email" else ",email"
    assert columns(f"{name}{others}\n")[name] == field


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Favourite Colour", "favourite_colour"),
        ("  2nd -- phone (mobile) ", "_2nd_phone_mobile"),
        ("two\nlines", "two_lines"),
        ("会社", "会社"),
        ("हिन्दी", "हिन्दी"),
        ("__x__", "x"),
        ("???", "column_2"),
    ],
)
def test_other_columns_are_fields_of_their_own(name: str, slug: str) -> None:
    assert list(columns(f'email,"{name}"\n').values()) == ["email", slug]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\0'), max_size=20))
@example("²")
@example("\u0903x")
def test_any_column_can_be_named_in_a_template(name: str) -> None:
    try:
        found = list(columns(f'email,"{name}"\n').values())
    except UnreadableFile:  # one more e-mail column
        return
    assert found[1].isidentifier()


def test_an_address_column_next_to_an_email_column_is_a_postal_address() -> None:
    assert columns("Adresse,E-Mail\n") == {"Adresse": "adresse", "E-Mail": "email"}


def test_a_mapping_has_the_last_word() -> None:
    header = "Kontakt,E-Mail,Firma,Notes\n"
    mapping = {"kontakt": "e-mail", "Firma": "Client", "Notes": ""}
    assert columns(header, mapping=mapping) == {"Kontakt": "email", "E-Mail": "e_mail", "Firma": "client", "Notes": ""}
    (line,) = good(header + "a@x.test,b@x.test,Acme,secret\n", mapping=mapping)
    assert (line.address, line.fields) == ("a@x.test", {"e_mail": "b@x.test", "client": "Acme"})


@pytest.mark.parametrize(
    ("data", "how", "said"),
    [
        ("", {}, "the file is empty"),
        ("\n\n , \n", {}, "the file is empty"),
        ("name,city\nAnn,Graz\n", {}, "or map one. The columns are: name, city."),
        ("a@x.test,Ann\n", {}, "The first line contains an address"),
        ("email,Phone,phone \n", {}, "columns 2 ('Phone') and 3 ('phone') are both 'phone'"),
        ("email,E-Mail\n", {}, "columns 1 ('email') and 2 ('E-Mail') are both 'email'"),
        ("email,???,???\n", {}, "columns 2 ('???') and 3 ('???') are both"),
        ("email,x\n", {"mapping": {"x": "E-Mail address"}}, "are both 'email'"),
        ("email,x\n", {"mapping": {"y": "name"}}, "there is no column 'y'. The columns are: email, x"),
        ("email,x\n", {"mapping": {"email": ""}}, "no column contains the e-mail address"),
        ("email\n", {"delimiter": "::"}, "delimiter must be one of"),
        ("email\n", {"encoding": "klingon"}, "'klingon'"),
        ("email\n", {"encoding": "hex"}, "'hex'"),
        ("email\n", {"encoding": "utf-16"}, "the file is not utf-16"),
        ('"email,name\n' + "a@x.test,Ann\n" * 20_000, {}, "quote"),
        ("x," * 1_001, {}, "at most 1,000 columns"),
        ("email\na@x.test\n".encode("utf-16-le"), {}, "UTF-16"),
        ("email\na@x.test\n".encode("utf-32"), {}, "UTF-16"),
    ],
)
def test_an_unreadable_file_is_refused_before_the_first_line(data: str | bytes, how: dict[str, Any], said: str) -> None:
    assert said in refusal(data, **how)


# ── encodings ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
def test_letters_are_read_in_the_encoding_they_were_written_in(encoding: str) -> None:
    (line,) = good("email,Größe\njörg@müller.example,Übergröße\n".encode(encoding))
    assert (line.address, line.fields) == ("jörg@müller.example", {"größe": "Übergröße"})


def test_an_encoding_can_be_named() -> None:
    data = "email,имя\na@x.test,Дмитрий\n".encode("cp1251")
    assert good(data, encoding="Windows-1251")[0].fields == {"имя": "Дмитрий"}
    assert addresses("email\na@x.test\n".encode("utf-16-le"), encoding="utf-16-le") == ["a@x.test"]


def test_a_few_broken_bytes_do_not_change_the_encoding_of_the_rest() -> None:
    data = b"email,name\n" + "a@x.test,Jörg\n".encode() * 3 + b"a@x.test,J\xf6rg\n"
    assert [line.fields["name"] for line in good(data)] == ["Jörg"] * 3
    assert [line for line, _ in bad(data)] == [5]


def test_bytes_that_come_late_are_reported_by_their_line() -> None:
    plain = b"email,name\n" + b"a@x.test,Ann\n" * 100_000
    assert [line for line, _ in bad(plain + b"b@x.test,J\xf6rg\n" * 2)] == [100_002, 100_003]
    assert good(plain + b"b@x.test,J\xf6rg\n", encoding="cp1252")[-1].fields == {"name": "Jörg"}
    ((line, why),) = bad(b"email,\xe4\nb@x.test,\x81\n")
    assert (line, missing(why, "cp1252", "0x81", "'b@x.test,'")) == (2, [])


def test_utf_16_may_break_off_or_be_broken() -> None:
    data = (
        "email,name\na@x.test,A\nb@x.test,".encode("utf-16") + b"\x00\xd8" + "\nc@x.test,C".encode("utf-16-le") + b"x"
    )
    assert addresses(data) == ["a@x.test"]
    assert [line for line, _ in bad(data)] == [3, 4]


# ── write and read ────────────────────────────────────────────────────────────────────────────────────────

ENCODINGS = {"utf-8": None, "utf-8-sig": None, "utf-16": None, "cp1252": "cp1252", "latin-1": "latin-1"}


# The characters that each can write. If asked for a codec, Hypothesis tries every character, which takes seconds.
LETTERS = {
    "cp1252": st.sampled_from(bytes(range(1, 256)).decode("cp1252", "ignore")),
    "latin-1": st.sampled_from(bytes(range(1, 256)).decode("latin-1")),
}


def cells(encoding: str) -> st.SearchStrategy[str]:
    letters = LETTERS.get(encoding, st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    return st.text(letters | st.sampled_from(",;\t|\"'\r\n ="), max_size=20)


FILES = {encoding: st.lists(st.tuples(cells(encoding), cells(encoding)), max_size=8) for encoding in ENCODINGS}


@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(max_examples=times(30))
@given(data=st.data(), delimiter=st.sampled_from(DELIMITERS), has_quotes=st.booleans())
def test_any_written_value_can_be_read_back(
    encoding: str, data: st.DataObject, delimiter: str, has_quotes: bool
) -> None:
    rows = data.draw(FILES[encoding])
    dialect = "unix" if has_quotes else "excel"  # the first quotes everything
    out = io.StringIO(newline="")
    writer = csv.writer(out, dialect, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(["note", "email", "city"])
    writer.writerows([one, f"p{i}@x.test", two] for i, (one, two) in enumerate(rows))
    found = read(out.getvalue().encode(encoding), encoding=ENCODINGS[encoding])
    assert found == [
        ProspectLine(
            line=found[i].line,
            address=f"p{i}@x.test",
            fields={name: cell.strip() for name, cell in (("note", one), ("city", two)) if cell.strip()},
            timezone=None,
            external_id=None,
        )
        for i, (one, two) in enumerate(rows)
    ]


# ── malicious files ───────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=400) | st.text('a@.,;"\n\r\0 \x85\u2028ä', max_size=200).map(str.encode))
@example(b'"')
@example(b"\xff")
@example(codecs.BOM_UTF8)
@example(codecs.BOM_UTF16_LE + b"\n")
@example(b"\xef\xbb")
def test_garbage_is_refused_or_bad_and_never_more(garbage: bytes) -> None:
    for start in (b"", b"email,x\n", b"email,\xe4\n", "email,ä\n".encode(), "email,x\n".encode("utf-16"), b"\xff\xfee"):
        try:
            lines = read(start + garbage)
        except UnreadableFile:
            continue
        numbers = [line.line for line in lines]
        assert numbers == sorted(set(numbers))
        assert all(line.why and line.text.isprintable() for line in lines if isinstance(line, BadProspectLine))


@pytest.mark.parametrize("start", [b"", b"email,name\n", b"email,name\na@x.test,\xc3\xa4\n" * 2])
def test_a_long_stretch_of_noise_is_survived(start: bytes) -> None:
    noise = random.Random(1).randbytes(2_000_000)
    try:
        assert not [line for line in read(start + noise) if isinstance(line, ProspectLine) and line.line > 4]
    except UnreadableFile:
        assert start == b""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", [b'"x","\n', b'a@x.test,"x\n', b'"\n', b'""\n', b'","\n', b'a,"b""\n', b'"",""\n"x\n'])
def test_quotes_without_end_take_time_in_proportion(line: bytes) -> None:
    lines = read(b"email,b\n" + line * 40_000)
    assert not [line for line in lines if isinstance(line, ProspectLine)]


def made_of(part: bytes, count: int, start: bytes, end: bytes) -> Callable[[], io.BufferedReader]:
    """A file too large for memory, through a pipe."""

    def opened() -> io.BufferedReader:
        out, into = os.pipe()

        def write() -> None:
            with open(into, "wb") as file:
                file.write(start)
                for _ in range(count):
                    file.write(part)
                file.write(end)

        threading.Thread(target=write, daemon=True).start()
        return open(out, "rb")

    return opened


@pytest.mark.parametrize(
    ("part", "start", "line_count"),
    [
        (b"x" * 1_000_000, b"email\n", 1),
        (b"a@x.test," * 100_000, b"email\n", 1),
        (b"," * 1_000_000, b"email\n", 1),
        (b'"' * 1_000_000, b"email\n", 1),
        (b"\xff" * 1_000_000, b"email\n\xc3\xa4\n", 2),
        (b"\0" * 1_000_000, b"email\n", 1),
    ],
    ids=["letters", "cells", "delimiters", "quotes", "broken", "zeros"],
)
def test_a_line_of_ten_megabytes_is_bad_and_never_in_memory(part: bytes, start: bytes, line_count: int) -> None:
    with made_of(part, 10, start, b"\nlast@x.test\n")() as file:
        tracemalloc.start()
        *bads, last = read_prospects(file)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert isinstance(last, ProspectLine)
    assert (last.address, last.line) == ("last@x.test", line_count + 2)
    assert len(bads) == line_count
    assert peak_bytes < 15_000_000


def test_memory_does_not_grow_with_the_file() -> None:
    with made_of((b"a@x.test,Ann,Lee," + b"x" * 600 + b"\n") * 1_000, 15, b"email,a,b,c\n", b"")() as file:
        tracemalloc.start()
        assert sum(1 for _ in read_prospects(file)) == 15_000
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 5_000_000


def test_the_file_stays_open_for_its_owner() -> None:
    file = io.BytesIO(b"email\na@x.test\n")
    assert len(list(read_prospects(file))) == 1
    assert not file.closed
    file.seek(0)
    assert read_header(file).columns == {"email": "email"}
