"""Reading mails, valid and malicious: what can be shown is shown, and nothing raises."""

import json
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.quality.reading import HEADER_CHARS_MAX, SEARCH_CHARS_MAX, Reading, fold, read, search_text, storable


def assert_storable(reading: Reading) -> None:
    """PostgreSQL can store it: UTF-8 without NUL."""
    names = [part for file in reading.attachments for part in (file.filename, file.content_type, file.inline_id)]
    texts = [reading.text, reading.html, *(part for pair in reading.headers for part in pair), *names]
    for text in texts:
        assert text is None or "\x00" not in text.encode().decode()
    search_text(reading, sender="a@b.test", recipients=("c@d.test",)).encode()
    json.dumps(reading.headers)


def typical() -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ann Lee <ann@example.com>"
    mail["To"] = "Jürgen Groß <jg@example.com>, bob@example.com"
    mail["Subject"] = "Grüße an alle, die mit langen Betreffzeilen ihre liebe Not haben: Ärger über Ärger ✓"
    mail["Message-ID"] = "<1@example.com>"
    mail.set_content("Hallo Jürgen\n")
    mail.add_alternative('<p>Hallo <b>Jürgen</b><img src="cid:logo">', subtype="html")
    mail.add_attachment(b"\x89PNG\x00", maintype="image", subtype="png", filename="Größe.png", cid="<logo>")
    mail.add_attachment("a,b\n", subtype="csv", filename="data.csv")
    return mail


def test_a_typical_mail_is_read() -> None:
    reading = read(typical().as_bytes())
    assert reading.header("FROM") == "Ann Lee <ann@example.com>"
    assert reading.header("to") == "Jürgen Groß <jg@example.com>, bob@example.com"
    assert reading.header("subject") == typical()["Subject"]
    assert reading.header("x-none") == ""
    assert reading.text == "Hallo Jürgen\n"
    assert reading.html == '<p>Hallo <b>Jürgen</b><img src="cid:logo">\n'
    assert [(f.filename, f.content_type, f.inline_id, f.data) for f in reading.attachments] == [
        ("Größe.png", "image/png", "logo", b"\x89PNG\x00"),
        ("data.csv", "text/csv", None, b"a,b\n"),
    ]


def test_an_empty_mail_is_empty() -> None:
    assert read(b"") == Reading(headers=(), text="", html=None, attachments=())


def test_an_attached_mail_is_one_file() -> None:
    mail = typical()
    inner = EmailMessage()
    inner["Subject"] = "Inner"
    inner.set_content("inner text\n")
    mail.add_attachment(inner)
    reading = read(mail.as_bytes())
    assert reading.text == "Hallo Jürgen\n"
    assert reading.attachments[-1].filename == "part-3.eml"
    assert read(reading.attachments[-1].data).header("subject") == "Inner"


def test_several_texts_are_shown_one_after_the_other() -> None:
    raw = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\none\r\n--x\r\n\r\ntwo\r\n--x--\r\n"
    assert read(raw).text == "one\ntwo"


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (b"=?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        (b"=?UTF-8?B?R3LDvMOfZQ==?=", "Grüße"),
        (b"=?iso-8859-1*de?Q?Gr=FC=DFe_an?= alle", "Grüße an alle"),
        (b"=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?=", "Grüße"),  # cut inside a letter
        (b"=?utf-8?q?a?=\r\n =?utf-8?q?b?=\r\n c", "ab c"),
        ("Grüße".encode(), "Grüße"),
        ("Grüße".encode("latin-1"), "Grüße"),
        (b"=?no-such-charset?q?Gr=FCn?=", "Grün"),
        (b"=?utf-8?b?R3L*!?=", "Gr"),
        (b"=?utf-8?b?A?=", "A"),
        (b"=?utf-8?q?a=0D=0AState:_sent?=", "a State: sent"),  # no second line
        (b"=?punycode?q?a?= =?unicode_escape?q?=5Cx?= =?utf-7?q?+2AA-?=", "a\\x\ufffd"),
        (b"C:\\users =?utf-8?q?x?=", "C:\\users x"),
        (b"a\x00b", "a\ufffdb"),
        (b"=?utf-8?q?", "=?utf-8?q?"),
    ],
)
def test_a_subject_is_decoded_as_far_as_it_goes(header: bytes, shown: str) -> None:
    assert read(b"Subject: " + header + b"\r\n\r\n").header("subject") == shown


@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        (b"Content-Type: text/plain; charset=iso-8859-1\r\n", "Grüße".encode("latin-1"), "Grüße"),
        (b"Content-Type: text/plain; charset=utf-8\r\n", "Grüße".encode("latin-1"), "Gr\ufffd\ufffde"),
        (b"Content-Type: text/plain; charset=no-such\r\n", "Grüße".encode(), "Grüße"),
        (b"Content-Type: text/plain; charset=base64\r\n", b"abc", "abc"),
        (b"Content-Type: text/plain; charset=undefined\r\n", b"abc", "abc"),
        (b'Content-Type: text/plain; charset="a\x00b"\r\n', "ü".encode(), "ü"),
        (b"Content-Type: text/plain; charset*=utf-8''%00%ff\r\n", "ü".encode(), "ü"),
        (b"", "Grüße".encode("latin-1"), "Grüße"),
        (b"Content-Transfer-Encoding: base64\r\n", b"not base64 at all!", None),
        (b"Content-Transfer-Encoding: quoted-printable\r\n", b"a=ZZb=", "a=ZZb"),
        (b"Content-Transfer-Encoding: x-uuencode\r\n", b"begin 666 x\r\nrubbish\r\n", None),
        (b"Content-Type: multipart/mixed\r\n", b"no boundary", "no boundary"),
        (b"Content-Type: multipart/mixed; boundary=x\r\n", b"never begun", "never begun"),
        (b"Content-Type: ///\r\n", b"what is it", "what is it"),
    ],
)
def test_a_broken_body_is_shown_as_far_as_it_goes(headers: bytes, body: bytes, text: str | None) -> None:
    reading = read(headers + b"\r\n" + body)
    assert_storable(reading)
    if text is not None:
        assert reading.text == text


@pytest.mark.parametrize(
    "disposition",
    [
        b"attachment; filename*=utf-8''%ff%fe.txt",
        b"attachment; filename*=no-such''a",
        b"attachment; filename*=\"a\x00b''x\"",
        b"attachment; filename*0*=utf-8''a; filename*9999999999*=b",
        b"attachment; filename*x=a; filename*0=b; filename=c",
        b"attachment; filename=\xff\xfe",
        b'attachment; filename="' + b"a;" * 1000,
        b"attachment; filename*=utf-7''%2b2AA-",
        b"attachment",
        b"\xff; filename=",
    ],
)
def test_a_broken_filename_is_still_a_file(disposition: bytes) -> None:
    raw = b"Content-Disposition: " + disposition + b"\r\nContent-Type: image/png; name=a\xff\r\n\r\ndata"
    reading = read(raw)
    assert_storable(reading)
    (file,) = reading.attachments
    assert file.filename
    assert file.data == b"data"


def test_parts_nested_without_end_are_shown_as_raw_text() -> None:
    raw = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(3000))
    reading = read(raw)
    assert_storable(reading)
    assert reading.text is not None
    assert "boundary=b2999" in reading.text


def test_attached_messages_nested_without_end_do_no_harm() -> None:
    assert_storable(read(b"Content-Type: message/rfc822\r\n\r\n" * 3000))


def test_very_many_parts_and_very_long_headers_are_cut() -> None:
    many = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + b"--x\r\n\r\na\r\n" * 20_000
    assert len(read(many).text or "") < 5_000
    assert len(read(b"Subject: " + b"x" * 1_000_000 + b"\r\n\r\n").header("subject")) == HEADER_CHARS_MAX


@given(st.binary(max_size=2_000))
def test_arbitrary_bytes_never_crash(raw: bytes) -> None:
    assert_storable(read(raw))


PIECES = [
    *(b"Content-Type: ", b"multipart/mixed; boundary=x", b"text/html", b"message/rfc822", b"; charset=", b"utf-16"),
    *(b"message/delivery-status", b"Content-Transfer-Encoding: ", b"base64", b"quoted-printable", b"x-uuencode"),
    *(b"Content-Disposition: attachment; filename", b"*0*=utf-8''", b"*=", b"=", b'"', b"a", b"=?utf-8?b?", b"?="),
    *(b"Subject: ", b"From: ", b"=?x?q?", b"\r\n", b"\r\n\r\n", b"--x\r\n", b"--x--\r\n", b"\xff", b"\x00", b"utf-7"),
    *(b"idna", b"begin 666 a\r\n", b"+2AA-", b"<", b">", b";", b"%ff", b" ", b"\n", b"\r"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))
def test_hostile_mime_never_crashes(raw: bytes) -> None:
    assert_storable(read(raw))


def test_the_search_text_is_folded_and_cut() -> None:
    searched = search_text(read(typical().as_bytes()), sender="App@example.com", recipients=("Hidden@example.com",))
    for word in ("GRÜSSE", "jürgen groß", "ann@EXAMPLE.com", "app@", "hidden@", "hallo", "Gru\u0308ße"):
        assert fold(word) in searched
    assert len(search_text(read(b"\r\n" + b"x" * 50_000), sender="", recipients=())) == SEARCH_CHARS_MAX


def test_a_mail_with_html_only_is_found_by_its_words() -> None:
    reading = read(b"Content-Type: text/html\r\n\r\n<p class=secret>Fish &amp; <b>Chips</b>" + b"<" * 10_000)
    searched = search_text(reading, sender="", recipients=())
    assert "fish & " in searched
    assert "chips" in searched
    assert "secret" not in searched


def test_an_address_of_undecodable_bytes_becomes_storable() -> None:
    assert storable("a\udcff\ud800\x00") == "a??\ufffd"
    assert storable("a\udcff") == "aÿ"


def test_a_number_that_python_refuses_to_read_is_no_trouble() -> None:
    reading = read(b"Content-Type: text/html\r\n\r\n<p>a&#" + b"9" * 5_000 + b";b &#65; &#x1F600;")
    assert search_text(reading, sender="", recipients=()).strip() == "a\ufffdb a 😀"
