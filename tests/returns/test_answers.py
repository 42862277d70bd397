"""The stored form of a reply: text without quotes and harmless HTML, both bounded."""

from datetime import UTC, datetime

from fairpost.returns.answers import HTML_CHARS_MAX, TEXT_CHARS_MAX, read_answer, safe_html
from tests.returns.mails import QUOTE, mail


def html_mail(html: str, *, text: str = "") -> bytes:
    parts = f"--b\nContent-Type: text/plain\n\n{text}\n" if text else ""
    return (
        "From: Ann <ann@people.example>\nIn-Reply-To: <a@b.example>\nContent-Type: multipart/alternative; boundary=b\n\n"
        f"{parts}--b\nContent-Type: text/html; charset=utf-8\n\n{html}\n--b--\n"
    ).encode()


def test_who_wrote_when_and_in_which_thread() -> None:
    raw = (
        b"From: =?utf-8?q?Ann_M=C3=BCller?= <Ann@People.example>\nTo: Ben <ben@sender.example>, cy@sender.example\n"
        b"Date: Tue, 17 Nov 2026 10:00:00 +0100\nSubject: =?utf-8?q?Re=3A_Gr=C3=BC=C3=9Fe?=\nMessage-ID: <two@people.example>\n"
        b"In-Reply-To: <one@sender.example>\nReferences: <zero@sender.example>\n <one@sender.example>\n\nYes.\n"
    )
    answer = read_answer(raw)
    assert (answer.from_name, answer.from_address) == ("Ann Müller", "Ann@People.example")
    assert answer.to_addresses == ("ben@sender.example", "cy@sender.example")
    assert answer.sent_at == datetime(2026, 11, 17, 9, tzinfo=UTC)
    assert (answer.subject, answer.text, answer.html) == ("Re: Grüße", "Yes.", None)
    assert (answer.message_id, answer.in_reply_to) == ("<two@people.example>", "<one@sender.example>")
    assert answer.references == ("<zero@sender.example>", "<one@sender.example>")


def test_the_quoted_part_is_left_out_of_text_and_html() -> None:
    quotes = (
        '<div class="gmail_quote"><blockquote>old words</blockquote></div>',
        "<blockquote type=cite>old words</blockquote>",
        '<div id="appendonsend"></div><div>old words</div>',
        '<div class="moz-cite-prefix">On Monday:</div>old words',
    )
    for quote in quotes:
        answer = read_answer(html_mail(f"<p>Yes, gladly.</p>{quote}", text=f"Yes, gladly.\n\n{QUOTE}"))
        assert (answer.text, answer.html) == ("Yes, gladly.", "<p>Yes, gladly.</p>"), quote


def test_html_that_is_nothing_but_a_quote_is_kept() -> None:
    assert read_answer(html_mail("<blockquote>Yes, below.</blockquote>")).html == "<blockquote>Yes, below.</blockquote>"


HARMFUL = {
    "<script>alert(1)</script>": "script",
    "<img src=x onerror=alert(1)>": "onerror",
    '<img src="https://tracker.example/p.gif">': "tracker",
    '<a href="javascript:alert(1)">x</a>': "javascript",
    '<a href="JaVaScRiPt&colon;alert(1)">x</a>': "alert",
    '<a href="data:text/html,x">x</a>': "data:",
    "<div style=\"background:url('https://tracker.example')\">x</div>": "style",
    "<style>@import 'https://tracker.example'</style>": "tracker",
    "<svg><a xlink:href=javascript:alert(1)><text>x</text></a></svg>": "javascript",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>": "<img",
    "<form action=https://evil.example><input name=p></form>": "form",
    "<iframe srcdoc='<script>1</script>'></iframe>": "iframe",
    "<base href=https://evil.example>": "base",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>": "meta",
    "<!--[if mso]><img src=https://tracker.example/><![endif]-->": "tracker",
}


def test_safe_html_runs_nothing_and_loads_nothing() -> None:
    assert {source: safe_html(source) for source, harm in HARMFUL.items() if harm in safe_html(source).lower()} == {}
    assert safe_html('<a href="https://people.example">x</a>') == (
        '<a href="https://people.example" rel="noopener noreferrer">x</a>'
    )


def test_a_stored_answer_is_bounded_and_has_no_unstorable_characters() -> None:
    long = read_answer(mail("word " * 100_000))
    assert (len(long.text) <= TEXT_CHARS_MAX, long.is_cut) == (True, True)
    html = read_answer(html_mail("<p>word</p>" * 50_000))
    assert html.html is not None
    assert (len(html.html) <= 2 * HTML_CHARS_MAX, html.is_cut) == (True, True)
    odd = read_answer(
        b"From: \x00a@b.example\nSubject: =?utf-7?q?+2AA-?= \x00\nContent-Type: text/plain; charset=utf-7\n\n+2AA- \x00!"
    )
    for each in (odd.text, odd.subject, odd.from_address, odd.from_name):
        assert "\0" not in each
        each.encode()
    assert read_answer(b"").from_address == ""


def test_headers_cannot_be_smuggled_in_through_ids() -> None:
    raw = b"From: a@b.example\nMessage-ID: <a b@c>\nReferences: <ok@b.example> <a\r\n b@c> <\xff@c>\n\nx"
    answer = read_answer(raw)
    assert (answer.message_id, answer.references) == (None, ("<ok@b.example>",))
