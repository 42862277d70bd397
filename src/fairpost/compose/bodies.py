"""Transfer encodings: any body as lines of ASCII.

Text is plain where it can be, else quoted-printable or base64, whichever comes out smaller. Files are base64.
A body ends as its content does: the line end before a boundary is added by whoever joins the parts.
"""

import binascii
import re
import struct

LINE_BYTES_MAX = 998
ROW_BYTES = 57  # 76 characters of base64
ROWS_AT_ONCE = 256  # in chunks of this size 10 MB take a third of the time

PRINTABLE = bytes(range(0x20, 0x7F))
PLAIN = PRINTABLE + b"\t\n"
UNQUOTED = PLAIN.replace(b"=", b"")
ESCAPES = [(bytes([byte]), b"=%02X" % byte) for byte in range(256)]
# Whole lines of at most 76, then as much of a longer one as leaves room for the = and cuts no =XX; at last, nothing.
UP_TO_SOFT_BREAK = re.compile(rb"(?:.{0,76}+\n)*+(?:.{73}[^\n=]{0,2}+|\Z)")
CHUNK_BYTES = ROW_BYTES * ROWS_AT_ONCE
CHUNK_ROWS = struct.Struct("76s" * ROWS_AT_ONCE)


def encode_text(text: str) -> tuple[bytes, bytes]:
    """The name of the encoding, and the text in it, with CRLF for every kind of line end."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    data = text.encode("utf-8", "replace")
    if is_plain(data):
        return b"7bit", data.replace(b"\n", b"\r\n")
    unsafe = data.translate(None, UNQUOTED)
    if len(data) * 77 // 75 + 2 * len(unsafe) <= len(data) * 104 // 76:
        return b"quoted-printable", quoted_printable(data, unsafe)
    return b"base64", base64_rows(data.replace(b"\n", b"\r\n"))


def is_plain(data: bytes) -> bool:
    """Whether text with LF line ends survives every server as it is. Mailboxes in files put a > before "From "."""
    return (
        data.isascii()
        and not data.translate(None, PLAIN)
        and not (data.startswith(b"From ") or b"\nFrom " in data)
        and (len(data) <= LINE_BYTES_MAX or max(map(len, data.split(b"\n"))) <= LINE_BYTES_MAX)
    )


def quoted_printable(data: bytes, unsafe: bytes) -> bytes:
    """Of text with LF line ends; `unsafe` are its bytes to escape, as often as they occur.

    A pass over the text for each byte that occurs, and one for the line breaks, all in C: faster than binascii.b2a_qp,
    which also makes lines too long that end with a blank.
    """
    ends_with_blank = data.rfind(b" \n") >= 0 or data.endswith(b" ")  # searched from behind: twice as fast
    data = (data + b"\n").replace(b"=", b"=3D")
    unsafe = unsafe.replace(b"=", b"")
    while unsafe:
        byte, escaped = ESCAPES[unsafe[0]]
        data = data.replace(byte, escaped)
        unsafe = unsafe.replace(byte, b"")
    if ends_with_blank:
        data = data.replace(b" \n", b"=20\n")
    if b"\t" in data:
        data = data.replace(b"\t\n", b"=09\n")
    *pieces, _ = UP_TO_SOFT_BREAK.findall(data)
    encoded = b"=\n".join(pieces)[:-1].replace(b"\n", b"\r\n")
    if not encoded.startswith(b"From ") and encoded.rfind(b"\nFrom ") < 0:
        return encoded
    # A line that begins with "From " grows when it is escaped, so it is broken there as well.
    if encoded.startswith(b"From "):
        encoded = b"=46rom=\r\n " + encoded.removeprefix(b"From ")
    return encoded.replace(b"\r\nFrom ", b"\r\n=46rom=\r\n ")


def base64_rows(data: bytes) -> bytes:
    whole = len(data) - len(data) % CHUNK_BYTES
    chunks = []
    for start in range(0, whole, CHUNK_BYTES):
        encoded = binascii.b2a_base64(data[start : start + CHUNK_BYTES], newline=False)
        chunks.append(b"\r\n".join(CHUNK_ROWS.unpack(encoded)))
    encoded = binascii.b2a_base64(data[whole:], newline=False)
    chunks += [encoded[start : start + 76] for start in range(0, len(encoded), 76)]
    return b"\r\n".join(chunks)
