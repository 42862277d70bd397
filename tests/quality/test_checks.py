"""The findings about a mail: each mistake is named, correct mails have none, and any input gets an answer."""

import time
from collections.abc import Callable
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.quality import markup
from fairpost.quality.check import Checked, check
from fairpost.quality.findings import Level
from fairpost.quality.head import LINE_BYTES_MAX
from fairpost.quality.links import FAULTS
from fairpost.quality.marks import URL_CHARS_MAX
from fairpost.quality.markup import Image, Link, read_markup
from fairpost.quality.reading import read
from tests.quality.test_reading import PIECES
from tests.thorough import times

WORDS = "<p>Some words that say what the image shows.</p>"


def checked(raw: bytes) -> Checked:
    return check(raw, read(raw))


def mail(*, html: str | None = None, text: str | None = "Hello Ann\n", without: str = "", **headers: str) -> bytes:
    made = EmailMessage()
    usual = {
        "From": "Shop <shop@example.com>",
        "To": "ann@example.com",
        "Subject": "Welcome",
        "Date": "Tue, 01 Jan 2030 09:00:00 +0000",
        "Message-ID": "<1@example.com>",
    }
    for name, value in {**usual, **{key.replace("_", "-"): value for key, value in headers.items()}}.items():
        if name != without:
            made[name] = value
    if text is not None:
        made.set_content(text)
    if html is not None and text is not None:
        made.add_alternative(html, subtype="html")
    elif html is not None:
        made.set_content(html, subtype="html")
    return made.as_bytes()


def said(raw: bytes, what: str, level: Level | None = None) -> list[str]:
    return [each.text for each in checked(raw).findings if each.what == what and level in (None, each.level)]


def levels(raw: bytes, what: str) -> list[str]:
    return [each.level.value for each in checked(raw).findings if each.what == what]


def link(href: str, text: str = "Shop") -> bytes:
    return mail(html=f'<p>Hello <a href="{href}">{text}</a></p>')


def test_a_good_mail_has_nothing_bad() -> None:
    html = (
        '<h1>Hello</h1><a href="https://example.com/a">Shop</a><a href="mailto:a@b.test">us</a><img src="cid:x" alt="">'
    )
    raw = mail(
        html=html.replace('<img src="cid:x" alt="">', ""),
        text="Hello, see https://example.com/a.\n",
        List_Unsubscribe="<https://example.com/out?u=1>, <mailto:out@example.com>",
        List_Unsubscribe_Post="List-Unsubscribe=One-Click",
    )
    found = checked(raw)
    assert [each for each in found.findings if each.level is Level.BAD] == []
    assert [each.what for each in found.findings if each.level is Level.NOTE] == ["authentication"]
    assert [(each.url, each.text, each.part) for each in found.links] == [
        ("https://example.com/a", "Shop", "html"),
        ("https://example.com/a", "https://example.com/a", "text"),
    ]
    assert all(each.text.endswith(".") or ":" in each.text for each in found.findings)


@pytest.mark.parametrize(
    ("href", "text", "fault"),
    [
        ("http://example.com/", "Shop", "plain"),
        ("HTTP://example.com", "Shop", "plain"),
        (" ht\ntp://example.com", "Shop", "plain"),
        ("https://evil.example/x", "https://example.com/x", "shows_another"),
        ("https://evil.example/x", "See www.example.com.", "shows_another"),
        ("https://evil.example", "example.com", "shows_another"),
        ("https://evil.example", "exam<b>ple</b>.com", "shows_another"),
        ("https:\\\\evil.example", "https://example.com", "shows_another"),
        ("https://example.com@evil.example/", "Shop", "disguised"),
        ("https://example.com@evil.example/", "example.com", "shows_another"),
        ("/account", "Account", "nowhere"),
        ("account.html", "Account", "nowhere"),
        ("//example.com/x", "Account", "nowhere"),
        ("https:///?x", "Account", "nowhere"),
        ("https://", "Account", "nowhere"),
        ("#", "Account", "nowhere"),
        ("", "Account", "nowhere"),
        ("javascript:alert(1)", "Shop", "runs"),
        ("java&#10;script:alert(1)", "Shop", "runs"),
        ("&#1; data:text/html,x", "Shop", "runs"),
    ],
)
def test_a_link_that_is_wrong_is_named(href: str, text: str, fault: str) -> None:
    assert any(FAULTS[fault] in each for each in said(link(href, text), "links", Level.BAD)), checked(link(href, text))


@pytest.mark.parametrize(
    ("href", "text"),
    [
        ("https://example.com/x", "https://example.com/other"),
        ("https://click.example.com/x", "example.com"),
        ("https://www.example.com/x", "EXAMPLE.com"),
        ("https://xn--mller-kva.example/", "müller.example"),
        ("https://example.com/x", "invoice.pdf"),
        ("https://example.com/x", "ann@other.example"),
        ("https://example.com/x", "Read more. Then come."),
        ("https://example.com:8443/x", "https://example.com:8443/"),
        ("https://[2001:db8::1]/x", "Shop"),
        ("mailto:ann@example.com", "ann@example.com"),
        ("tel:+491234", "+49 1234"),
        ("#top", "Up"),
    ],
)
def test_a_link_that_is_right_is_not_blamed(href: str, text: str) -> None:
    assert levels(link(href, text), "links") == ["good"]


def test_a_link_to_this_machine_is_noted() -> None:
    assert levels(link("http://localhost:3000/x"), "links") == ["note"]
    assert levels(link("http://127.0.0.1/x"), "links") == ["note"]


@pytest.mark.parametrize(
    "raw",
    [
        mail(Subject="Hello {{ name }}"),
        mail(text="Hello {{first_name}},\n"),
        mail(text="Hello {% if x %}you{% endif %}\n"),
        mail(text="Hello *|FNAME|*\n"),
        mail(text="Hello %%FIRST_NAME%%\n"),
        mail(text="Hello ${user.name}\n"),
        mail(html="<p>Hello {{ <b>name</b> }}</p>"),
        link("https://example.com/{{ token }}"),
        link("https://example.com/%7B%7B%20token%20%7D%7D"),
        link("{{ url }}"),
        mail(text="https://example.com/{{token}}\n"),
        mail(To="{{ name }} <ann@example.com>"),
    ],
)
def test_a_template_that_was_not_filled_in_is_found(raw: bytes) -> None:
    assert levels(raw, "template marks") == ["bad"]


def test_braces_of_style_and_script_are_no_template() -> None:
    raw = mail(html="<style>a{width:100%} @media x{{ b }}</style><script>x={{}}</script><!-- {{ old }} --><p>50% {off}")
    assert levels(raw, "template marks") == ["good"]
    assert levels(link("{{ url }}"), "links") == ["good"]  # one mistake is reported once


def codes(raw: bytes, level: Level = Level.BAD) -> list[str]:
    return [each.code for each in checked(raw).findings if each.level is level]


def test_bulk_mail_without_a_way_to_unsubscribe_is_bad() -> None:
    for header in ("List-Id: <spring.acme.example>", "Precedence: bulk"):
        for way in ("", "List-Unsubscribe: <mailto:out@example.com>\r\n"):
            assert "unsubscribe.missing" in codes(f"{header}\r\n{way}".encode() + mail(html=WORDS))
    assert "unsubscribe.missing" not in codes(mail(html=WORDS))


def test_fields_that_were_left_over_are_named_and_counted() -> None:
    raw = mail(html="<p>{{ first_name }}, {{first_name}} of *|COMPANY|*</p>")
    (found,) = [each for each in checked(raw).findings if each.code == "template_marks.unfilled"]
    assert "first_name (2), COMPANY (1)" in found.text
    assert found.text.startswith("2 fields ")


def test_a_mail_made_of_images_is_reported() -> None:
    image = '<img src="cid:x" alt="Everything there is to know, in one picture">'
    assert "images.alone" in codes(mail(html=image))
    assert "images.alone" not in codes(mail(html=f"{WORDS}{image}"))


def test_images_are_checked() -> None:
    html = f'{WORDS}<img src="https://example.com/a.png"><img src="cid:logo" alt=Logo><img src=x alt="">'
    (first, second, third) = [
        (each.level, each.text) for each in checked(mail(html=html)).findings if each.what == "images"
    ]
    assert first[0] is Level.BAD
    assert first[1].startswith("1 image ")
    assert "'https://example.com/a.png'" in first[1]
    assert (second[0], second[1][:8]) == (Level.NOTE, "1 image ")
    assert (third[0], "cid:logo" in third[1]) == (Level.BAD, True)
    assert levels(mail(html=f'{WORDS}<img src="data:image/png;base64,AA==" alt="">'), "images") == ["good"]


def test_an_image_that_came_with_it_is_not_missed() -> None:
    made = EmailMessage()
    made.set_content(f'{WORDS}<img alt="" src="cid:logo%40x">', subtype="html")
    made.add_related(b"\x89PNG", maintype="image", subtype="png", cid="<logo@x>")
    assert levels(made.as_bytes(), "images") == ["good"]


@pytest.mark.parametrize(
    ("unsubscribe", "post", "expected"),
    [
        (None, None, ["note"]),
        ("<https://example.com/out>", None, ["good", "note"]),
        ("<https://example.com/out>", "List-Unsubscribe=One-Click", ["good", "good"]),
        ("<https://example.com/out>, <mailto:out@example.com>", "List-Unsubscribe=One-Click", ["good", "good"]),
        ("<https://example.com/out>", "List-Unsubscribe=one-click", ["good", "bad"]),
        ("<https://example.com/out>", "One-Click", ["good", "bad"]),
        ("<http://example.com/out>", "List-Unsubscribe=One-Click", ["bad", "bad"]),
        ("<mailto:out@example.com>", None, ["note", "note"]),
        ("<mailto:out@example.com>", "List-Unsubscribe=One-Click", ["note", "bad"]),
        ("https://example.com/out", None, ["bad", "note"]),
        ("<https://>", "List-Unsubscribe=One-Click", ["bad", "bad"]),
        (None, "List-Unsubscribe=One-Click", ["note", "bad"]),
    ],
)
def test_unsubscribing_is_checked(unsubscribe: str | None, post: str | None, expected: list[str]) -> None:
    given = {"List_Unsubscribe": unsubscribe, "List_Unsubscribe_Post": post}
    raw = mail(**{name: value for name, value in given.items() if value})
    assert [*levels(raw, "unsubscribe"), *levels(raw, "one-click")] == expected


@pytest.mark.parametrize("name", ["From", "Date", "Message-ID", "Subject"])
def test_a_header_that_is_missing_or_there_twice_is_bad(name: str) -> None:
    assert levels(mail(without=name), name.lower()) == ["bad"]
    assert "bad" in levels(f"{name}: <a@b.test>\r\n".encode() + mail(), name.lower())


@pytest.mark.parametrize(
    "value", ["Ann", "<>", "Ann <ann>", "@example.com", "ann@", "a b@example.com", "<a@b> c@ d <x>"]
)
def test_a_sender_that_cannot_be_answered_is_bad(value: str) -> None:
    assert levels(f"From: {value}\r\n".encode() + mail(without="From"), "from") == ["bad"]


@pytest.mark.parametrize(
    "value", [b"ann@example.com", b"=?utf-8?q?Lee=2C_Ann?= <ann@example.com>", b'"a b"@[192.0.2.1]']
)
def test_a_sender_that_can_be_answered_is_good(value: bytes) -> None:
    assert levels(b"From: " + value + b"\r\n" + mail(without="From"), "from") == ["good"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("Date", "yesterday"), ("Date", "Tue, 99 Jan 2030"), ("Message-ID", "one"), ("Message-ID", "<a b@c>")],
)
def test_a_header_that_cannot_be_read_is_bad(name: str, value: str) -> None:
    assert levels(f"{name}: {value}\r\n".encode() + mail(without=name), name.lower()) == ["bad"]


def test_subjects_parts_sizes_lines_and_bytes_are_checked() -> None:
    assert levels(mail(Subject="x" * 79), "subject") == ["note"]
    assert levels(mail(Subject="x" * 78), "subject") == ["good"]
    assert levels(mail(html="<p>Hi", text=None), "parts") == ["note"]
    assert levels(mail(html="<p>Hi"), "parts") == ["good"]
    assert levels(mail(), "parts") == ["good"]
    assert levels(mail(text=""), "parts") == ["bad"]
    assert levels(mail(html="<p>" + "x" * 102_000), "size") == ["bad"]
    assert levels(mail(html="<p>" + "x" * 100_000), "size") == ["good"]
    assert levels(mail() + b"x" * 999 + b"\r\n", "lines") == ["bad"]
    assert levels(mail() + b"x" * 998 + b"\r\n", "lines") == []
    assert levels(mail() + b"x" * 998, "lines") == []
    assert levels(mail() + b"x" * 999, "lines") == ["bad"]
    assert levels(mail() + b"\n" * 5_000 + b"x" * 999 + b"\n\n", "lines") == ["bad"]
    assert levels("X-Name: Jürgen\r\n".encode() + mail(), "headers") == ["bad"]
    assert levels(mail(text="Jürgen\n"), "headers") == []


def test_signatures_and_results_are_reported() -> None:
    assert levels(mail(), "authentication") == ["note"]
    head = (
        "DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=key1; h=from; bh=x; b=y\r\n"
        "DKIM-Signature: v=1\r\n"
        "Authentication-Results: mx.example.org; dkim=pass header.d=example.com; spf=pass; dmarc=fail (p=none)\r\n"
        "Authentication-Results: mx.example.org; dkim=pass\r\n"
        "Authentication-Results: mx.example.org; none\r\n"
        "Received-SPF: softfail (domain does not say)\r\n"
        "ARC-Seal: i=1; a=rsa-sha256; cv=none; d=example.org; s=a; b=x\r\n"
    )
    found = [
        (each.level.value, each.text)
        for each in checked(head.encode() + mail()).findings
        if each.what == "authentication"
    ]
    assert [level for level, _ in found] == ["good", "bad", "bad", "good", "note", "bad", "note"]
    assert "example.com" in found[0][1]
    assert "key1" in found[0][1]
    assert "dkim=pass, spf=pass, dmarc=fail" in found[2][1]
    assert "cv=none" in found[6][1]


def test_html_is_read_as_browsers_do() -> None:
    html = """<!DOCTYPE html><title><a href=no></title><!-- <a href=no> --><!--><A HREF = 'https://a.test/?x=1&amp;y' title='>'>o<b>n</b>e
      <br>two<img src=p alt="P&amp;Q"></a><a name=x>x</a><a href=https://b.test/>three<a/href="c">4<area href=d alt=five><img alt src>< a 5 < 6"""
    read_ = read_markup(html)
    assert read_.links == (
        Link("https://a.test/?x=1&y", "one twoP&Q"),
        Link("https://b.test/", "three"),
        Link("d", "five"),
        Link("c", "4< a 5 < 6"),
    )
    assert read_.images == (Image("p", "P&Q"), Image("", ""))
    assert "5 < 6" in read_.words
    assert not read_.is_cut


# fmt: off
HOSTILE = (
    "<a ", "<!--", "<!", "</", "<", "<script>", "<a href='", '<a href="x">', "<img alt=", "&#", "&#9", "=", "<a/", "a=b ",
    "{{", "{%", "*|", "${", "%%", "<%", "http://", "https://x@", "www.", "a.", "@", "\\", " ", "\n", "<a href=x>a.b", "cid:",
)
# fmt: on
IN_HEADERS = ("<", "a@", "=?utf-8?q?", "; d=", "dkim=", " ", "(", '"', "1 ", ",")


def is_linear(made: Callable[[int], bytes], size: int) -> bool:
    """Four times the input takes about four times the work; quadratic work would take sixteen times as much.

    Measured in CPU time of this thread, and repeated if a busy machine interfered.
    """
    return any(cpu_s(made(4 * size)) < 10 * cpu_s(made(size)) + 0.05 for _ in range(3))


def cpu_s(raw: bytes) -> float:
    began_s = time.thread_time()
    checked(raw)
    return time.thread_time() - began_s


def repeated(piece: str, before: str, after: str = "") -> Callable[[int], bytes]:
    return lambda n: f"{before}{piece * (n // len(piece))}{after}".encode()


@pytest.mark.thorough
@pytest.mark.parametrize("head", ["Content-Type: text/html\r\n\r\n", "\r\n", "Content-Type: text/html\r\n\r\n<a href="])
def test_hostile_html_takes_work_in_proportion_to_its_size(head: str) -> None:
    assert [piece for piece in HOSTILE if not is_linear(repeated(piece, head), times(40_000))] == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["From", "Date", "Message-ID", "List-Unsubscribe", "DKIM-Signature", "Authentication-Results"]
)
def test_hostile_headers_take_work_in_proportion_to_their_size(name: str) -> None:
    size = times(40_000)
    long = [piece for piece in IN_HEADERS if not is_linear(repeated(piece, f"{name}: ", "\r\n\r\n"), size)]
    often = [piece for piece in IN_HEADERS if not is_linear(repeated(f"{name}: {piece * 100}\r\n", ""), size)]
    assert (long, often) == ([], [])


def test_truncated_content_is_reported() -> None:
    many = "".join(f'<a href="https://e.test/{n}">x</a><img alt="" src="cid:{n}">' for n in range(1_100))
    found = checked(mail(html=many, text="https://e.test/ " * 1_100))
    assert sum(each.part == "html" for each in found.links) == markup.LINKS_MAX
    assert sum(each.part == "text" for each in found.links) == markup.LINKS_MAX
    assert len([each for each in found.findings if each.what == "limits"]) == 2
    assert levels(mail(html="x" * 1_000_001), "limits") == ["note"]
    assert levels(b"X-A: b\r\n" * 1_001 + mail(), "limits") == ["note"]
    parts = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + b"--x\r\n\r\na\r\n" * 1_100
    assert levels(parts, "limits") == ["note"]


def assert_sane(found: Checked) -> None:
    assert found.findings
    for each in found.findings:
        assert each.text
        assert len(each.text) < 1_000
        each.text.encode()
    for link_ in found.links:
        (link_.url + link_.text).encode()
        assert len(link_.url) <= URL_CHARS_MAX


@given(st.binary(max_size=2_000))
def test_arbitrary_bytes_are_checked(raw: bytes) -> None:
    assert_sane(checked(raw))


TAGS = [
    *(
        b"<a href=",
        b"<img src=",
        b"alt=",
        b"cid:",
        b">",
        b"</a>",
        b"http://",
        b"https://",
        b"[",
        b"]",
        b"@",
        b"www.",
        b".com",
    ),
    *(
        b"{{",
        b"}}",
        b"javascript:",
        b"&#99999999999;",
        b"&#0;",
        b"&#xD800;",
        b"<!--",
        b"-->",
        b"<script",
        b"%7B%7B",
        b"%ff",
    ),
    *(
        "ß.example".encode(),
        b"xn--",
        b":",
        b"/",
        b"\\",
        b"List-Unsubscribe: <",
        b"Date: ",
        b"Message-ID: <",
        b"DKIM-Signature: d=",
    ),
]


@given(st.lists(st.sampled_from([*PIECES, *TAGS]), max_size=60).map(b"".join))
def test_hostile_mail_is_checked(raw: bytes) -> None:
    assert_sane(checked(raw))


@given(st.lists(st.sampled_from(TAGS), max_size=60).map(b"".join), st.text(max_size=200))
def test_hostile_html_is_checked(tags: bytes, text: str) -> None:
    body = tags + text.encode("utf-8", "replace")
    assert_sane(checked(b"Content-Type: text/html; charset=utf-8\r\n\r\n" + body))
    assert_sane(checked(b"\r\n" + body))


@given(st.text())
def test_html_without_marks_is_its_own_words(text: str) -> None:
    plain = text.replace("<", "").replace("&", "")
    assert read_markup(plain).words == plain


@given(st.lists(st.sampled_from([0, 1, 500, 997, 998, 999, 1_000]), max_size=8), st.sampled_from([b"\n", b"\r\n"]))
def test_a_long_line_is_found_wherever_it_stands(lengths: list[int], end: bytes) -> None:
    raw = b"Subject: x" + end + end + end.join(b"x" * length for length in lengths)
    assert levels(raw, "lines") == (["bad"] if max(lengths, default=0) > LINE_BYTES_MAX else [])
