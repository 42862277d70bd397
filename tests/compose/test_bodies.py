"""The transfer encodings, each compared with the standard library's decoder."""

import base64
import binascii
import quopri

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.compose.bodies import CHUNK_BYTES, UNQUOTED, base64_rows, encode_text, encode_text_file, quoted_printable
from tests.compose import strategies as some
from tests.thorough import times

many = settings(max_examples=times(60))


@many
@given(
    st.one_of(
        st.integers(0, 200),
        st.integers(CHUNK_BYTES - 60, CHUNK_BYTES + 60),
        st.integers(3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 1),
    )
)
def test_base64_has_rows_of_76(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert base64_rows(data[:size]) == base64.encodebytes(data[:size]).replace(b"\n", b"\r\n").removesuffix(b"\r\n")


@many
@given(some.bodies)
def test_quoted_printable_is_decoded_to_what_it_was(text: str) -> None:
    data = text.replace("\r\n", "\n").replace("\r", "\n").encode()
    encoded = quoted_printable(data, data.translate(None, UNQUOTED))
    assert quopri.decodestring(encoded) == data.replace(b"\n", b"\r\n")
    assert encoded.isascii()
    assert max(map(len, encoded.split(b"\r\n"))) <= 76


@many
@given(
    some.bodies.map(str.encode)
    | st.lists(st.sampled_from([b"\n", b"\r", b"a" * 37, b"=", b" ", b"From ", b"."])).map(b"".join)
)
def test_a_text_file_is_decoded_to_the_same_bytes(data: bytes) -> None:
    encoding, encoded = encode_text_file(data)
    decoded = {b"7bit": encoded, b"quoted-printable": quopri.decodestring(encoded)}.get(encoding)
    assert (base64.b64decode(encoded) if decoded is None else decoded) == data
    assert encoded.isascii()
    assert encoding == b"7bit" or max(map(len, encoded.split(b"\r\n"))) <= 76
    assert not encoded.startswith(b"From ")
    assert b"\nFrom " not in encoded


@pytest.mark.parametrize(
    ("text", "encoding", "body"),
    [
        ("", b"7bit", b""),
        ("Hello\n", b"7bit", b"Hello\r\n"),
        ("a\rb\nc\r\nd\n\re", b"7bit", b"a\r\nb\r\nc\r\nd\r\n\r\ne"),
        (".\n..\n", b"7bit", b".\r\n..\r\n"),
        ("x" * 998, b"7bit", b"x" * 998),
        ("x" * 998 + "\n" + "x" * 998, b"7bit", b"x" * 998 + b"\r\n" + b"x" * 998),
        ("From me", b"quoted-printable", b"=46rom=\r\n me"),
        ("a\nFrom me", b"quoted-printable", b"a\r\n=46rom=\r\n me"),
        ("Viele Grüße an die Familie \n", b"quoted-printable", b"Viele Gr=C3=BC=C3=9Fe an die Familie=20\r\n"),
        ("ü" + "x" * 69 + " \n", b"quoted-printable", b"=C3=BC" + b"x" * 69 + b"=\r\n=20\r\n"),
        ("tab\x0bulator", b"quoted-printable", b"tab=0Bulator"),
        ("日本語", b"base64", b"5pel5pys6Kqe"),
        ("日本語\n", b"base64", b"5pel5pys6KqeDQo="),
        ("lone \ud800 surrogate", b"7bit", b"lone ? surrogate"),
    ],
)
def test_text_takes_the_plainest_encoding(text: str, encoding: bytes, body: bytes) -> None:
    assert encode_text(text) == (encoding, body)


@pytest.mark.parametrize("text", ["x" * 999, "short\n" + "x" * 999 + "\nshort", "x" * 20_000])
def test_a_line_too_long_is_broken_softly(text: str) -> None:
    encoding, body = encode_text(text)
    assert encoding == b"quoted-printable"
    assert quopri.decodestring(body) == text.replace("\n", "\r\n").encode()


@many
@given(st.text(st.sampled_from("aü日😀="), min_size=200, max_size=400))
def test_the_smaller_encoding_is_taken(text: str) -> None:
    data = text.encode()
    encoding, _ = encode_text(text)
    quoted, rows = len(binascii.b2a_qp(data)), len(base64_rows(data))
    assert encoding == b"7bit" or abs(quoted - rows) < 20 or (encoding == b"base64") == (rows < quoted)
