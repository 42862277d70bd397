"""Properties that filters hold against a message, and that ours do not have."""

from email import message_from_bytes
from email.policy import default

from fairpost.compose.markup import in_utf8
from fairpost.model.email import Attachment
from tests.compose.composing import message_of
from tests.compose.strategies import content_of


def test_html_says_the_encoding_that_it_is_sent_in() -> None:
    cases = {
        '<meta charset="iso-8859-1">': '<meta charset="utf-8">',
        "<META CHARSET=windows-1252 >": "<META CHARSET=utf-8 >",
        '<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-15">': '<meta http-equiv="Content-Type" content="text/html; charset=utf-8">',
        '<meta charset="UTF-8">': '<meta charset="UTF-8">',
        "<p>charset=latin1</p>": "<p>charset=latin1</p>",
        "<meta name=x content=y><p>charset=latin1</p>": "<meta name=x content=y><p>charset=latin1</p>",
        "": "",
    }
    assert {html: in_utf8(html) for html in cases} == cases
    hostile = "<meta " * 100_000 + 'charset="x"'
    assert in_utf8(hostile) == hostile
    html = message_from_bytes(message_of(content_of(html='<meta charset="latin1"><p>ü')).data, policy=default).get_body(
        ("html",)
    )
    assert html is not None
    assert 'charset="utf-8"' in html.get_content()


def test_plain_text_files_are_not_disguised_and_arrive_byte_by_byte() -> None:
    encodings = {
        b"a,b\r\n1,2\r\n": "7bit",
        b"": "7bit",
        b"a,b\n1,2\n": "quoted-printable",  # 7bit would convert its line endings to CRLF
        b"a\n\n\n": "quoted-printable",
        b"name;town \n" * 40 + b"end \t": "quoted-printable",
        b"a,b,c\r\n1,2,3\n4,5,6\r": "quoted-printable",
        b"From x\n\nFrom y\r\n": "quoted-printable",
        "Grüße an alle anderen im Haus und daneben\r\n".encode(): "quoted-printable",
        "Grüße an alle anderen im Haus und daneben\n=0A=\n".encode(): "quoted-printable",
        b"x" * 999: "quoted-printable",
        b"=0A and then some\n" * 20 + b"y" * 80 + b"\n": "quoted-printable",
        "日本語\n".encode(): "base64",
        b"a\x00\x01\n": "base64",
    }
    for data, encoding in encodings.items():
        file = Attachment(filename="a.csv", content_type="text/csv", data=data)
        raw = message_of(content_of(attachments=(file,))).data
        (part,) = message_from_bytes(raw, policy=default).iter_attachments()
        assert part["Content-Transfer-Encoding"] == encoding, data
        assert part.get_payload(decode=True) == data
        assert max(map(len, raw.split(b"\r\n"))) <= 78
