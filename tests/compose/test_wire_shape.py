"""The form of every message on the wire, whatever its content."""

import re
from collections.abc import Sequence
from email.header import decode_header

from hypothesis import given, settings

from fairpost.model.email import Content, Mailbox, Recipient
from fairpost.model.message import Message
from tests.compose import strategies as some
from tests.compose.composing import message_of
from tests.thorough import times

ENCODED_WORD = re.compile(rb"=\?utf-8\?([qb])\?([^? ]*)\?=")
OUR_HEADERS = [b"date", b"from", b"subject", b"message-id", b"mime-version", b"content-type"]


def lines_of(data: bytes) -> list[bytes]:
    assert data.endswith(b"\r\n")
    return data.split(b"\r\n")[:-1]


def head_of(data: bytes) -> list[bytes]:
    return lines_of(data)[: lines_of(data).index(b"")]


@settings(max_examples=times(50))
@given(some.contents(), some.recipients(), some.mailboxes())
def test_any_message_is_well_formed(content: Content, people: tuple[Recipient, ...], sender: Mailbox) -> None:
    message = message_of(content, people, sender)
    lines_end_with_crlf_and_none_is_too_long(message.data)
    shown = [one for one in people if one.kind != "bcc"] + [sender] + ([content.reply_to] if content.reply_to else [])
    it_is_ascii_unless_it_needs_smtputf8(message, shown, people)
    the_head_has_each_header_of_ours_once(message.data)
    an_encoded_word_is_short_and_holds_whole_characters(message.data)


def lines_end_with_crlf_and_none_is_too_long(data: bytes) -> None:
    assert not set(data.replace(b"\r\n", b"")) & set(b"\r\n\0")
    assert max(map(len, lines_of(data))) <= 998
    assert not any(line.startswith(b"From ") for line in lines_of(data))


def it_is_ascii_unless_it_needs_smtputf8(
    message: Message, shown: Sequence[Mailbox | Recipient], people: Sequence[Recipient]
) -> None:
    wide_header = any(not one.address.rpartition("@")[0].isascii() for one in shown)
    wide_bcc = any(not one.address.rpartition("@")[0].isascii() for one in people)
    assert message.needs_smtputf8 == (wide_header or wide_bcc)
    assert message.data.isascii() == (not wide_header)
    assert message.message_id.isascii()
    assert all(address.rpartition("@")[2].isascii() for address in (message.sender, *message.recipients))


def the_head_has_each_header_of_ours_once(data: bytes) -> None:
    head = head_of(data)
    starts = [line for line in head if line[:1] not in (b" ", b"\t")]
    names = [line.partition(b":")[0].lower() for line in starts]
    assert all(re.fullmatch(rb"[!-9;-~]+:( .*)?", line) for line in starts)
    assert all(line.strip() for line in head)
    assert [names.count(name) for name in OUR_HEADERS] == [1] * len(OUR_HEADERS)
    assert names.count(b"to") <= 1
    assert b"bcc" not in names


def an_encoded_word_is_short_and_holds_whole_characters(data: bytes) -> None:
    for line in head_of(data):
        words = [found.group() for found in ENCODED_WORD.finditer(line)]
        for word in words:
            ((decoded, _),) = decode_header(word.decode("ascii"))
            assert isinstance(decoded, bytes)
            assert decoded.decode("utf-8")
            assert len(word) <= 75
        name, _, _ = line.partition(b":")
        assert not words or len(line) <= 76 or (line[:1] != b" " and len(name) > 50)


@settings(max_examples=times(60))
@given(some.subjects)
def test_a_line_is_only_long_where_it_has_no_space_to_break_at(subject: str) -> None:
    for line in head_of(message_of(some.content_of(subject)).data):
        words = re.split(rb"(?<![ \t]) (?![ \t])", line.removeprefix(b"Subject: ").removeprefix(b" "))
        assert len(line) <= 76 or len(words) == 1


@settings(max_examples=times(60))
@given(some.bodies, some.bodies)
def test_an_encoded_body_has_short_lines_and_no_blank_at_their_end(text: str, html: str) -> None:
    data = message_of(some.content_of(text=text, html=html)).data
    for part in re.split(rb"\r\n--=_a.*", data)[1:-1]:
        head, _, body = part.partition(b"\r\n\r\n")
        if b"base64" in head or b"quoted-printable" in head:
            assert max(map(len, body.split(b"\r\n"))) <= 76
        if b"quoted-printable" in head:
            assert re.fullmatch(rb"(?:[ -<>-~\t\r\n]|=[0-9A-F]{2}|=\r\n)*", body)
            assert not re.search(rb"[ \t](?:\r\n|$)", body)
