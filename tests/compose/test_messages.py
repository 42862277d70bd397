"""Messages byte by byte, and the result for each kind of e-mail."""

import email.utils
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.compose import Uncomposable, compose, prepare
from fairpost.compose.message import date_of
from fairpost.model.email import Attachment, Mailbox, Recipient
from tests.compose.composing import ANN, NOW, SHOP, message_of
from tests.compose.reading import defects_of, read_by_stdlib, seen_by_rust, seen_by_stdlib
from tests.compose.strategies import content_of, email_of

PNG = Attachment(filename="logo.png", content_type="image/png", inline_id="logo", data=b"\x89PNG")
INVOICE = Attachment(filename="Rechnung März.pdf", content_type="application/pdf", data=b"%PDF")


def crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode("ascii")


def test_a_text_alone_is_one_part() -> None:
    message = message_of(
        content_of("Your order", "Thank you."), (Recipient(kind="to", address="ann@example.com", name="Ann Lee"),)
    )
    assert message.data == crlf("""\
Date: Thu, 31 Jan 2030 09:00:00 +0000
From: shop@example.org
To: Ann Lee <ann@example.com>
Subject: Your order
Message-ID: <7.39f9a8f985b9a628@example.org>
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 7bit

Thank you.
""")
    assert (message.sender, message.recipients) == ("shop@example.org", ("ann@example.com",))
    assert message.message_id == "<7.39f9a8f985b9a628@example.org>"
    assert not message.needs_smtputf8


def test_an_email_with_everything() -> None:
    content = content_of(
        "Grüße aus Köln",
        "Guten Tag, Frau Müller.\n",
        '<img src="cid:logo"><p>Guten Tag, Frau Müller.</p>',
        Mailbox(address="hilfe@bücher.example", name="Hilfe, schnell"),
        {
            "List-Unsubscribe": "<https://example.org/u/1>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "X-Ort": "Köln",
        },
        (INVOICE, PNG),
    )
    people = (
        Recipient(kind="to", address="ann@example.com", name="Ann Müller"),
        Recipient(kind="cc", address="bob@example.com", name='Bob "B" Ray'),
        Recipient(kind="bcc", address="eve@example.com", name="Eve"),
    )
    message = message_of(content, people, Mailbox(address="shop@bücher.example", name="Der Shop"))
    seam = re.search(rb"=_m([0-9a-f]{32})", message.data)
    assert seam
    assert message.data.replace(seam[1], b"SEAM") == crlf("""\
Date: Thu, 31 Jan 2030 09:00:00 +0000
From: Der Shop <shop@xn--bcher-kva.example>
Reply-To: "Hilfe, schnell" <hilfe@xn--bcher-kva.example>
To: =?utf-8?q?Ann_M=C3=BCller?= <ann@example.com>
Cc: "Bob \\"B\\" Ray" <bob@example.com>
Subject: =?utf-8?b?R3LDvMOfZSBhdXMgS8O2bG4=?=
Message-ID: <7.MESSAGE-ID@xn--bcher-kva.example>
List-Unsubscribe: <https://example.org/u/1>
List-Unsubscribe-Post: List-Unsubscribe=One-Click
X-Ort: =?utf-8?b?S8O2bG4=?=
MIME-Version: 1.0
Content-Type: multipart/mixed;
 boundary="=_mSEAM"

--=_mSEAM
Content-Type: multipart/alternative;
 boundary="=_aSEAM"

--=_aSEAM
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Guten Tag, Frau M=C3=BCller.

--=_aSEAM
Content-Type: multipart/related; type="text/html";
 boundary="=_rSEAM"

--=_rSEAM
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<img src=3D"cid:logo"><p>Guten Tag, Frau M=C3=BCller.</p>
--=_rSEAM
Content-Type: image/png; name="logo.png"
Content-Transfer-Encoding: base64
Content-Disposition: inline; filename="logo.png"
Content-ID: <logo>

iVBORw==
--=_rSEAM--
--=_aSEAM--
--=_mSEAM
Content-Type: application/pdf; name*=UTF-8''Rechnung%20M%C3%A4rz.pdf
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename*=UTF-8''Rechnung%20M%C3%A4rz.pdf

JVBERg==
--=_mSEAM--
""").replace(b"<7.MESSAGE-ID@xn--bcher-kva.example>", message.message_id.encode())
    assert message.recipients == ("ann@example.com", "bob@example.com", "eve@example.com")


def test_long_lists_of_recipients_are_broken_between_them() -> None:
    people = tuple(Recipient(kind="to", address=f"person{number}@example.com") for number in range(5))
    assert (
        crlf("""\
To: person0@example.com, person1@example.com, person2@example.com,
 person3@example.com, person4@example.com
""")
        in message_of(content_of(), people).data
    )


def test_bcc_is_never_shown() -> None:
    people = (*ANN, Recipient(kind="bcc", address="eve@secret.example", name="Eve Secret"))
    message = message_of(content_of(), people)
    assert b"eve" not in message.data.lower()
    assert message.recipients == ("ann@example.com", "eve@secret.example")


def test_an_email_without_visible_recipients_says_so() -> None:
    message = message_of(content_of(), (Recipient(kind="bcc", address="eve@example.com"),))
    assert b"\r\nTo: undisclosed-recipients:;\r\n" in message.data
    assert defects_of(read_by_stdlib(message.data)) == []


def test_a_copy_without_a_main_recipient_has_no_to() -> None:
    message = message_of(content_of(), (Recipient(kind="cc", address="ann@example.com"),))
    assert b"\r\nCc: ann@example.com\r\n" in message.data
    assert b"\r\nTo:" not in message.data


def test_only_remaining_recipients_are_in_the_envelope_but_all_in_the_headers() -> None:
    people = (*ANN, Recipient(kind="to", address="bob@bücher.example"))
    waiting = replace(email_of(content_of(), people), envelope=("bob@bücher.example", "bob@bücher.example"))
    message = compose(waiting, prepare(content_of()), sender=SHOP, date=NOW)
    assert message.recipients == ("bob@xn--bcher-kva.example", "bob@xn--bcher-kva.example")
    assert b"To: ann@example.com, bob@xn--bcher-kva.example\r\n" in message.data


def test_a_message_id_stays_over_all_attempts() -> None:
    first = compose(email_of(content_of(), ANN, attempts=1), prepare(content_of()), sender=SHOP, date=NOW)
    later = replace(email_of(content_of(), ANN, attempts=4), envelope=())
    again = compose(later, prepare(content_of("Another", "text")), sender=SHOP, date=NOW + timedelta(days=1))
    assert first.message_id == again.message_id
    assert f"\r\nMessage-ID: {again.message_id}\r\n".encode() in again.data


def test_a_message_id_says_nothing_of_the_number_inside() -> None:
    def message_id(number: int, public_id: str | None) -> str:
        email = replace(email_of(content_of(), ANN, number=number), public_id=public_id)
        return compose(email, prepare(content_of()), sender=SHOP, date=NOW).message_id

    public = message_id(7, "em_079kt5312d80w")
    assert re.fullmatch(r"<em_079kt5312d80w\.[0-9a-f]{16}@example\.org>", public)
    assert message_id(8, "em_079kt5312d80w") == public, "a correct guess of the number cannot be confirmed"
    assert message_id(7, "em_f37gfthx8ab4h")[17:] != public[17:]


def test_different_emails_have_different_message_ids() -> None:
    bob = (Recipient(kind="to", address="bob@example.com"),)
    emails = [
        email_of(content_of(), ANN),
        email_of(content_of(), bob),
        email_of(content_of(), (*ANN, *bob)),
        email_of(content_of(), ANN, workspace="other"),
        *(email_of(content_of(), ANN, number=number) for number in (0, 35, 36, 2**63 - 1)),
    ]
    ids = {compose(one, prepare(content_of()), sender=SHOP, date=NOW).message_id for one in emails}
    assert len(ids) == len(emails)
    assert all(re.fullmatch(r"<[0-9a-z]+\.[0-9a-f]{16}@example\.org>", one) for one in ids)


@settings(deadline=None)
@given(st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_a_date_is_written_as_rfc_5322_wants_it(moment: datetime, offset_min: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset_min)))
    assert date_of(aware).decode() == email.utils.format_datetime(aware.astimezone(UTC))


def test_equal_contents_are_prepared_to_equal_bytes() -> None:
    content = content_of("Grüße", "a", "<p>a</p>", attachments=(PNG,))
    assert prepare(content) == prepare(replace(content, id=2))
    assert prepare(content).size == sum(
        map(len, (prepare(content).subject, prepare(content).headers, prepare(content).body))
    )


@pytest.mark.parametrize("wide", ["from", "reply_to", "to", "cc", "bcc"])
def test_an_international_local_part_anywhere_needs_smtputf8(wide: str) -> None:
    def address(place: str) -> str:
        return "müller@bücher.example" if place == wide else "mueller@bücher.example"

    people = tuple(Recipient(kind=kind, address=address(kind)) for kind in ("to", "cc", "bcc"))
    content = content_of(reply_to=Mailbox(address=address("reply_to")))
    message = message_of(content, people, Mailbox(address=address("from")))
    assert message.needs_smtputf8
    assert message.data.isascii() == (wide == "bcc")
    assert (
        "müller@xn--bcher-kva.example"
        in (message.data.decode(), *message.recipients)[wide == "bcc" :][0 if wide != "bcc" else 2]
    )


def test_an_html_alone_gets_a_text_with_the_targets_of_its_links() -> None:
    html = '<h1>Hello</h1><p>Your <a href="https://example.com/order?a=1&amp;b=2">order</a> is here.</p><img alt="Logo" src="cid:x">'
    seen = seen_by_stdlib(message_of(content_of(text=None, html=html)).data)
    assert seen.text is not None
    text = seen.text.decode()
    assert "Hello" in text
    assert "[order](https://example.com/order?a=1&b=2)" in text
    assert "[Logo]" in text
    assert "<" not in text


@pytest.mark.parametrize(
    "html",
    [
        "",
        "  \n",
        "<!-- nothing -->",
        "<style>p{}</style>",
        '<?xml\tversion="1.0" encoding="utf-8"?><p>x</p>',
        "<div>" * 9000 + "x",
        "<p>\ud800</p>",
    ],
    ids=lambda html: html[:12].encode("ascii", "replace").decode(),
)
def test_unreadable_html_gets_some_text_and_is_sent(html: str) -> None:
    message = read_by_stdlib(message_of(content_of(text=None, html=html)).data)
    assert [part.get_content_type() for part in message.walk()] == ["multipart/alternative", "text/plain", "text/html"]


def test_neither_text_nor_html_is_an_empty_text() -> None:
    assert message_of(content_of(text=None)).data.endswith(b"Content-Transfer-Encoding: 7bit\r\n\r\n")


def test_images_for_an_html_that_does_not_exist_are_attachments() -> None:
    (file,) = seen_by_rust(message_of(content_of(attachments=(PNG,))).data).files
    assert (file.disposition, file.content_id, file.data) == ("attachment", None, PNG.data)


def test_megabytes_come_back() -> None:
    data = os.urandom(2_000_000)
    message = message_of(
        content_of(attachments=(Attachment(filename="a.bin", content_type="application/zip", data=data),))
    )
    assert [file.data for file in seen_by_rust(message.data).files] == [data]
    assert [file.data for file in seen_by_stdlib(message.data).files] == [data]


def test_a_forwarded_message_is_not_encoded() -> None:
    original = message_of(content_of("Original", "Grüße", "<p>x</p>")).data
    file = Attachment(filename="original.eml", content_type="message/rfc822", data=original.replace(b"\r\n", b"\n"))
    message = read_by_stdlib(message_of(content_of(attachments=(file,))).data)
    (forwarded,) = message.iter_attachments()
    assert forwarded.get_content_type() == "message/rfc822"
    assert forwarded["content-transfer-encoding"] == "7bit"
    assert forwarded.get_content()["subject"] == "Original"
    assert original in message_of(content_of(attachments=(file,))).data
    assert defects_of(message) == []


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("message/rfc822", "Subject: Grüße\r\n\r\nx".encode()),
        ("message/rfc822", b"Subject: x\r\n\r\nlone\rCR"),
        ("message/rfc822", b"Subject: x\r\n\r\n" + b"y" * 999),
        ("message/rfc822", b"Subject: x\r\n\r\nFrom me"),
        ("Message/RFC822", b"Subject: x\r\n\r\n\0"),
        ("multipart/mixed", b"--x\r\n\r\n--x--"),
        ("no type", b"x"),
        ("text/plain\r\nX-Evil: 1", b"x"),
    ],
)
def test_a_file_that_may_not_be_encoded_under_its_type_is_sent_as_bytes(content_type: str, data: bytes) -> None:
    message = message_of(content_of(attachments=(Attachment(filename="a.eml", content_type=content_type, data=data),)))
    for seen in (seen_by_stdlib(message.data), seen_by_rust(message.data)):
        (file,) = seen.files
        assert (file.content_type, file.data) == ("application/octet-stream", data)


@pytest.mark.parametrize(("data", "charset"), [("ä;ö".encode(), "utf-8"), (b"a;b", "utf-8"), (b"\xe4;\xf6", None)])
def test_a_text_file_says_its_charset_where_it_can_be_known(data: bytes, charset: str | None) -> None:
    message = message_of(content_of(attachments=(Attachment(filename="a.csv", content_type="text/csv", data=data),)))
    (file,) = read_by_stdlib(message.data).iter_attachments()
    assert file.get_content_charset() == charset


def boundaries(data: bytes) -> set[bytes]:
    return set(re.findall(rb'boundary="([^"]+)"', data))


def test_a_text_that_contains_its_own_boundary_gets_another() -> None:
    text = "x" * 100 + "\n" + "y" * 69 + "\n"
    (expected,) = boundaries(message_of(content_of(text=text, html="h")).data)
    evil = text[:101] + f"--{expected.decode()}\n".ljust(70, "y")
    message = message_of(content_of(text=evil, html="h"))
    assert len(evil.replace("\n", "\r\n")) == len(text.replace("\n", "\r\n")), "otherwise the boundary differs anyway"
    assert expected not in boundaries(message.data)
    assert seen_by_stdlib(message.data).text == evil.replace("\n", "\r\n").encode()
    assert seen_by_rust(message.data).text == evil.replace("\n", "\r\n").encode()


def test_boundaries_are_as_rfc_2046_wants_them() -> None:
    found = boundaries(message_of(content_of(html="h", attachments=(PNG, INVOICE))).data)
    assert len(found) == 3
    assert len({len(one) for one in found}) == 1, "one must not begin with another"
    assert all(one.startswith(b"=_") and len(one) <= 70 for one in found)


INJECTION = "x\r\nX-Evil: 1\r\n\r\nbody"


def test_line_breaks_never_make_a_header() -> None:
    """The database accepts none, but fields are filled into subjects and headers later."""
    content = content_of(
        INJECTION,
        "text",
        "html",
        Mailbox(address="a@example.com", name=INJECTION),
        {"X-Text": INJECTION, "References": INJECTION},
        (Attachment(filename=INJECTION, content_type=INJECTION, inline_id=INJECTION, data=b""),),
    )
    message = message_of(
        content,
        (Recipient(kind="to", address="ann@example.com", name=INJECTION),),
        Mailbox(address="a@b.example", name=INJECTION),
    )
    parsed = read_by_stdlib(message.data)
    assert all("X-Evil" not in part for part in parsed.walk())
    assert not re.search(rb"^x-evil", message.data, re.MULTILINE | re.IGNORECASE)
    assert len(list(parsed.walk())) == 5


@pytest.mark.parametrize("name", ["", "X:", "X Y", "Ü", "X\r\nY"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(Uncomposable, match="header name"):
        prepare(content_of(headers={name: "x"}))


@pytest.mark.parametrize(
    "address",
    [
        "ann",
        "@example.com",
        "ann@",
        "",
        "a\nb@example.com",
        "ann@💩.example",
        "ann@ä..example",
        "ann@\ud800.example",
        "ann@ａ＠b.example",
    ],
)
def test_an_address_that_is_none_is_refused_by_name(address: str) -> None:
    with pytest.raises(Uncomposable) as caught:
        message_of(content_of(), (Recipient(kind="to", address=address),))
    assert repr(address) in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_local_part_that_is_no_dot_atom_is_quoted() -> None:
    message = message_of(content_of(), (Recipient(kind="to", address='a "b"@example.com'),))
    assert b'To: "a \\"b\\""@example.com\r\n' in message.data


@pytest.mark.parametrize("name", ["List-Unsubscribe", "References"])
def test_a_machine_readable_word_is_never_broken(name: str) -> None:
    word = "<https://example.com/" + "x" * 975 + ">"
    assert f"{name}:\r\n {word}\r\n".encode() in message_of(content_of(headers={name: word})).data
    with pytest.raises(Uncomposable, match=name):
        prepare(content_of(headers={name: word + "y"}))


def test_the_pair_for_unsubscribing_at_a_click_passes_intact() -> None:
    url = "<https://example.com/unsubscribe?token=" + "a" * 200 + ">"
    pair = {"List-Unsubscribe": f"{url}, <mailto:u@example.com>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    message = message_of(content_of(headers=pair))
    assert (
        f"List-Unsubscribe: {url},\r\n <mailto:u@example.com>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n".encode()
        in message.data
    )
    assert b"One-Click" not in message_of(content_of(headers={"List-Unsubscribe": url})).data


def test_lone_surrogates_are_replaced() -> None:
    content = content_of(
        "a\ud800",
        "b\udfff",
        "c\ud800",
        Mailbox(address="a@b.example", name="d\ud800"),
        {"X-A": "e\ud800", "References": "f\ud800"},
        (replace(PNG, filename="g\ud800"),),
    )
    message = message_of(content)
    assert message.data.isascii()
    assert seen_by_stdlib(message.data).subject == "a?"
    assert seen_by_stdlib(message.data).files[0].filename == "g?"
