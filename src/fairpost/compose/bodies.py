"""Transfer encodings, which turn any body into lines of ASCII.

Text stays plain if possible; otherwise, it is encoded as quoted-printable or base64, whichever is smaller. Other files
are encoded in base64. A body has no line ending after its content: the line ending before a boundary is added when the
parts are joined.
"""

import binascii
import re
import struct

LINE_BYTES_MAX = 998
ROW_BYTES = 57  # this number of bytes becomes 76 base64 characters
ROWS_AT_ONCE = 256  # with chunks of this size, encoding 10 MB takes a third of the time

PRINTABLE = bytes(range(0x20, 0x7F))
PLAIN = PRINTABLE + b"\t\n"
UNQUOTED = PLAIN.replace(b"=", b"")
ESCAPES = [(bytes([byte]), b"=%02X" % byte) for byte in range(256)]
# Matches complete lines of at most 76 characters. At the end, matches nothing.
# From a longer line, matches as much as possible without splitting an =XX, but leaves room for the =.
UP_TO_SOFT_BREAK = re.compile(rb"(?:.{0,76}+\n)*+(?:.{73}[^\n=]{0,2}+|\Z)")
CHUNK_BYTES = ROW_BYTES * ROWS_AT_ONCE
CHUNK_ROWS = struct.Struct("76s" * ROWS_AT_ONCE)


def encode_text(text: str) -> tuple[bytes, bytes]:
    """Returns the name of the encoding and the encoded text, with every kind of line ending converted to CRLF."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    data = text.encode("utf-8", "replace")
    if is_plain(data):
        return b"7bit", data.replace(b"\n", b"\r\n")
    unsafe = data.translate(None, UNQUOTED)
    if _is_smaller_quoted(data, unsafe):
        return b"quoted-printable", quoted_printable(data, unsafe)
    return b"base64", base64_rows(data.replace(b"\n", b"\r\n"))


def encode_text_file(data: bytes) -> tuple[bytes, bytes]:
    """Encodes a text file so that every byte arrives unchanged. A line ending other than CRLF is escaped, because the
    receiver would otherwise replace it with its own line ending.
    """
    lines = data.replace(b"\r\n", b"\n")
    is_exact = lines.count(b"\n") != data.count(b"\r\n")
    if is_exact:
        lines = data
    elif is_plain(lines):
        return b"7bit", data
    unsafe = lines.translate(None, UNQUOTED)
    if _is_smaller_quoted(lines, unsafe):
        return b"quoted-printable", quoted_printable(lines, unsafe, is_exact=is_exact)
    return b"base64", base64_rows(data)


def _is_smaller_quoted(data: bytes, unsafe: bytes) -> bool:
    """Returns whether quoted-printable is at most as long as base64, not counting escaped line endings."""
    return len(data) * 77 // 75 + 2 * len(unsafe) <= len(data) * 104 // 76


def is_plain(data: bytes) -> bool:
    """Returns whether text with LF line endings passes through every server unchanged. Returns False for text with a
    line that begins with "From ", because mailbox files escape such lines.
    """
    return (
        data.isascii()
        and not data.translate(None, PLAIN)
        and not (data.startswith(b"From ") or b"\nFrom " in data)
        and (len(data) <= LINE_BYTES_MAX or max(map(len, data.split(b"\n"))) <= LINE_BYTES_MAX)
    )


def quoted_printable(data: bytes, unsafe: bytes, *, is_exact: bool = False) -> bytes:
    """Encodes text with LF line endings. `unsafe` contains the bytes to escape, each repeated as often as it occurs.
    With `is_exact`, decoding the result yields LF line endings.

    Makes one pass over the text for each distinct unsafe byte and one for the line breaks, all in C. This is faster
    than binascii.b2a_qp, which also makes lines that end with a space too long.
    """
    ends_with_blank = data.rfind(b" \n") >= 0 or data.endswith(b" ")  # here, rfind is twice as fast as `in`
    data = (data + b"\n").replace(b"=", b"=3D")
    unsafe = unsafe.replace(b"=", b"")
    while unsafe:
        byte, escaped = ESCAPES[unsafe[0]]
        data = data.replace(byte, escaped)
        unsafe = unsafe.replace(byte, b"")
    if is_exact:
        data = data[:-1].replace(b"\n", b"=0A=\n").removesuffix(b"=\n") + b"\n"
    if ends_with_blank:
        data = data.replace(b" \n", b"=20\n")
    if b"\t" in data:
        data = data.replace(b"\t\n", b"=09\n")
    *pieces, _ = UP_TO_SOFT_BREAK.findall(data)
    encoded = b"=\n".join(pieces)[:-1].replace(b"\n", b"\r\n")
    if not encoded.startswith(b"From ") and encoded.rfind(b"\nFrom ") < 0:
        return encoded
    # Escaping makes a line that begins with "From " longer, so the line is also broken there.
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
