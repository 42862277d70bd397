"""RFC 2047 encoding of text that a header cannot contain directly, as encoded words of at most 75 characters.

A character is never split between two words. In the Q encoding, only characters that are safe everywhere, even in
names, are left unencoded.
"""

import binascii
import string

WORD_CHARS_MAX = 75
FRAME = len("=?utf-8?q??=")
WORD_CHARS_MIN = FRAME + 12  # enough for a four-byte character in the Q encoding

PLAIN = (string.ascii_letters + string.digits + "!*+-/").encode()
SAFE = PLAIN + b" "
Q = [bytes([byte]) if byte in PLAIN else b"_" if byte == 0x20 else b"=%02X" % byte for byte in range(256)]


def encoded_words(text: str, *, first: int = WORD_CHARS_MAX, rest: int = WORD_CHARS_MAX) -> list[bytes]:
    """Encodes the text. `first` and `rest` are the maximum lengths of the first word and of each further word. Both
    lengths must be at least WORD_CHARS_MIN.
    """
    data = text.encode("utf-8", "replace")
    q_chars = len(data) + 2 * len(data.translate(None, SAFE))
    b_chars = (len(data) + 2) // 3 * 4
    if q_chars <= b_chars:
        return [b"=?utf-8?q?%b?=" % piece for piece in _q_pieces(data, first - FRAME, rest - FRAME)]
    return [b"=?utf-8?b?%b?=" % piece for piece in _b_pieces(data, first - FRAME, rest - FRAME)]


def _q_pieces(data: bytes, room: int, rest: int) -> list[bytes]:
    quoted = b"".join(map(Q.__getitem__, data))
    pieces, start = [], 0
    while len(quoted) - start > room:
        end = start + room
        if quoted[end - 1] == 0x3D:
            end -= 1
        elif quoted[end - 2] == 0x3D:
            end -= 2
        while quoted[end] == 0x3D and quoted[end + 1] in b"89AB":  # inside a character
            end -= 3
        pieces.append(quoted[start:end])
        start, room = end, rest
    return [*pieces, quoted[start:]]


def _b_pieces(data: bytes, room: int, rest: int) -> list[bytes]:
    pieces, start, size = [], 0, room // 4 * 3
    while len(data) - start > size:
        end = start + size
        while data[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        pieces.append(data[start:end])
        start, size = end, rest // 4 * 3
    return [binascii.b2a_base64(piece, newline=False) for piece in [*pieces, data[start:]]]
