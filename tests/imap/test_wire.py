"""IMAP without I/O: the meaning of bytes, however they are split, and what a hostile server cannot do."""

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.imap import wire as say
from fairpost.imap.names import decoded_name, encoded_name
from fairpost.imap.responses import (
    DEPTH_MAX,
    LINE_BYTES_MAX,
    UNREAD_BYTES_MAX,
    Continuation,
    Data,
    Garbage,
    Response,
    ResponseReader,
    Status,
)
from fairpost.imap.wire import Command, State, Wire
from fairpost.smtp.auth import Password, Token

TALK = (
    b"* OK [CAPABILITY IMAP4rev1 IDLE] here {5}\r\n"
    b"* 12 FETCH (FLAGS (\\Seen) UID 4 BODY[HEADER.FIELDS (DATE TO)]<0> {9}\r\nDate: )(\n BODY[TEXT] NIL)\r\n"
    b'* LIST (\\HasNoChildren \\Sent) "/" "a \\"b\\" \\\\"\r\n'
    b"* LIST () NIL {4}\r\nab\r\n\r\n"
    b"* SEARCH\r\n"
    b"+ go on\r\n"
    b"f1 NO [AUTHENTICATIONFAILED] wrong\r\n"
)
SAID: list[Response] = [
    Status(tag=None, status="OK", code="CAPABILITY IMAP4REV1 IDLE", text="here {5}"),
    Data(
        kind="FETCH",
        number=12,
        values=(
            (
                b"FLAGS",
                (b"\\Seen",),
                b"UID",
                b"4",
                b"BODY[HEADER.FIELDS (DATE TO)]<0>",
                b"Date: )(\n",
                b"BODY[TEXT]",
                None,
            ),
        ),
    ),
    Data(kind="LIST", values=((b"\\HasNoChildren", b"\\Sent"), b"/", b'a "b" \\')),
    Data(kind="LIST", values=((), None, b"ab\r\n")),
    Data(kind="SEARCH"),
    Continuation("go on"),
    Status(tag="f1", status="NO", code="AUTHENTICATIONFAILED", text="wrong"),
]


def read(reader: ResponseReader) -> list[Response]:
    found = []
    while (response := reader.next()) is not None:
        found.append(response)
    return found


@given(cuts=st.lists(st.integers(0, len(TALK)), max_size=30))
def test_responses_mean_the_same_however_they_are_cut(cuts: list[int]) -> None:
    reader = ResponseReader()
    found: list[Response] = []
    ends = [0, *sorted(cuts), len(TALK)]
    for begin, end in pairwise(ends):
        reader.feed(TALK[begin:end])
        found += read(reader)
    assert found == SAID
    assert reader.is_empty


@given(data=st.binary(max_size=300) | st.text(alphabet='*+ ()[]{}"\\01\r\nOKFETCH', max_size=300).map(str.encode))
def test_no_bytes_do_anything_but_mean_something_or_end_the_connection(data: bytes) -> None:
    reader = ResponseReader()
    reader.feed(data)
    try:
        read(reader)
    except Garbage:
        return


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (LINE_BYTES_MAX + 1),
        b"* 1 FETCH (BODY[] {4294967295}\r\n",
        b"* 1 FETCH " + b"(" * DEPTH_MAX + b")" * DEPTH_MAX + b"\r\n",
        b"* 1 FETCH ((\r\n",
        b"* 1 FETCH )\r\n",
        b"* 12\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_oversized_and_foreign_responses_are_garbage(data: bytes) -> None:
    reader = ResponseReader()
    reader.feed(data)
    with pytest.raises(Garbage):
        read(reader)


def test_a_flood_is_not_kept() -> None:
    wire = Wire()
    for _ in range(UNREAD_BYTES_MAX // 65_536 + 1):
        wire.receive(b"x" * 65_536)
    with pytest.raises(Garbage):
        wire.next()


# ── the conversation ──────────────────────────────────────────────────────────────────────────────────────


def greeted(capabilities: str = "IMAP4rev1") -> Wire:
    wire = Wire()
    wire.receive(f"* OK [CAPABILITY {capabilities}] here\r\n".encode())
    wire.next()
    return wire


def test_an_answer_to_another_command_is_garbage() -> None:
    wire = greeted()
    wire.say(say.CAPABILITY)
    wire.receive(b"f2 OK done\r\n")
    with pytest.raises(Garbage):
        wire.next()


def test_what_was_said_before_tls_does_not_count() -> None:
    wire = greeted("IMAP4rev1 STARTTLS AUTH=PLAIN")
    wire.say(say.STARTTLS)
    wire.receive(b"f1 OK go on\r\n")
    wire.next()
    assert wire.state is State.UPGRADE
    wire.under_tls()
    assert wire.capabilities is None


def test_bytes_smuggled_in_before_tls_end_the_connection() -> None:
    wire = greeted("IMAP4rev1 STARTTLS")
    wire.say(say.STARTTLS)
    wire.receive(b"f1 OK go on\r\n* OK more\r\n")
    wire.next()
    with pytest.raises(Garbage):
        wire.under_tls()


def test_no_command_of_the_wire_can_change_a_mailbox() -> None:
    names = {name for allowed in say.MAY_SAY.values() for name in allowed}
    assert names.isdisjoint({"SELECT", "STORE", "EXPUNGE", "COPY", "MOVE", "APPEND", "DELETE", "RENAME", "CREATE"})
    assert b"PEEK" in say.fetch(1, bytes_max=10).pieces[0]


def test_a_goodbye_is_not_taken_back_by_an_answer() -> None:
    wire = greeted()
    wire.say(say.CAPABILITY)
    wire.receive(b"* BYE later\r\nf1 OK done\r\n")
    wire.next()
    wire.next()
    assert wire.state is State.CLOSED


PASSWORD = Password(user="ann", secret='p"a\\ss')


@pytest.mark.parametrize(
    ("login", "capabilities", "pieces"),
    [
        (PASSWORD, "AUTH=PLAIN SASL-IR", (b"AUTHENTICATE PLAIN AGFubgBwImFcc3M=",)),
        (PASSWORD, "AUTH=PLAIN", (b"AUTHENTICATE PLAIN", b"AGFubgBwImFcc3M=")),
        (PASSWORD, "", (b'LOGIN "ann" "p\\"a\\\\ss"',)),
        (Password(user="ann", secret="pä"), "", (b'LOGIN "ann" {3}', "pä".encode())),
        (Password(user="ä", secret="ü"), "", (b"LOGIN {2}", "ä {2}".encode(), "ü".encode())),
        (PASSWORD, "LOGINDISABLED", None),
        (
            Token(user="ann", secret="t"),
            "AUTH=XOAUTH2 SASL-IR",
            (b"AUTHENTICATE XOAUTH2 dXNlcj1hbm4BYXV0aD1CZWFyZXIgdAEB", b""),
        ),
        (Token(user="ann", secret="t"), "AUTH=PLAIN", None),
    ],
)
def test_logins_as_the_server_takes_them(
    login: Password | Token, capabilities: str, pieces: tuple[bytes, ...] | None
) -> None:
    command = say.log_in(login, frozenset(capabilities.split()))
    assert (command.pieces if command else None) == pieces


def test_a_command_never_shows_its_password() -> None:
    command = say.log_in(PASSWORD, frozenset())
    assert isinstance(command, Command)
    assert "ss" not in repr(command)


def test_dates_of_searches_are_in_english_whatever_the_locale() -> None:
    assert say.search_since(date(2026, 3, 1)).pieces == (b"UID SEARCH SINCE 1-Mar-2026",)


# ── names of folders ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("INBOX", b"INBOX"),
        ("Entwürfe", b"Entw&APw-rfe"),
        ("R&D", b"R&-D"),
        ("~peter/mail/台北/日本語", b"~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
        ("📬", b"&2D3c7A-"),
    ],
)
def test_folder_names_on_the_wire(name: str, wire: bytes) -> None:
    assert encoded_name(name) == wire
    assert decoded_name(wire) == name


@given(name=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_every_folder_name_comes_back(name: str) -> None:
    assert decoded_name(encoded_name(name)) == name


@given(name=st.binary(max_size=40))
def test_no_folder_name_raises(name: bytes) -> None:
    decoded_name(name)
