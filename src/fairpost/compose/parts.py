"""The MIME tree: mixed(alternative(text, related(html, images)), files), without levels that would have only one
part.
"""

import re
from collections.abc import Sequence
from hashlib import blake2s
from typing import NamedTuple

from fairpost.compose.bodies import base64_rows, encode_text, encode_text_file, is_plain
from fairpost.compose.headers import fold
from fairpost.compose.markup import in_utf8
from fairpost.compose.parameters import parameter
from fairpost.compose.plain_text import text_of
from fairpost.model.email import Attachment, Content

MEDIA_TYPE = re.compile(r"[0-9A-Za-z!#$&^_.+-]+/[0-9A-Za-z!#$&^_.+-]+")
OPAQUE = b"application/octet-stream"
NOT_IN_AN_ID = re.compile(r"[^!-;=?-~]")
SAMPLE_BYTES = 64


class Part(NamedTuple):
    headers: bytes
    body: bytes  # without the final line ending
    is_plain: bool = False  # whether the body is user content, which may contain anything


def tree_of(content: Content) -> Part:
    text = _text_part(b"plain", _text_of(content))
    html = _text_part(b"html", in_utf8(content.html)) if content.html is not None else None
    images = [_file_part(file) for file in content.attachments if _is_inline(file, content)]
    files = [_file_part(file, is_inline=False) for file in content.attachments if not _is_inline(file, content)]
    seam = _seam([text, *([html] if html else ()), *images, *files])
    body = text
    if html:
        shown = _multipart(b'related; type="text/html"', [html, *images], b"=_r" + seam) if images else html
        body = _multipart(b"alternative", [text, shown], b"=_a" + seam)
    return _multipart(b"mixed", [body, *files], b"=_m" + seam) if files else body


def _text_of(content: Content) -> str:
    return content.text if content.text is not None else text_of(content.html or "")


def _is_inline(file: Attachment, content: Content) -> bool:
    return file.inline_id is not None and content.html is not None


def _text_part(subtype: bytes, text: str) -> Part:
    encoding, body = encode_text(text)
    headers = b"Content-Type: text/%b; charset=utf-8\r\nContent-Transfer-Encoding: %b\r\n" % (subtype, encoding)
    return Part(headers, body, is_plain=encoding == b"7bit")


def _file_part(file: Attachment, *, is_inline: bool = True) -> Part:
    media_type, encoding, body = _encoded_file(file)
    disposition = b"inline;" if is_inline else b"attachment;"
    headers = [
        fold(b"Content-Type", [media_type + b";", *parameter("name", file.filename)]),
        b"Content-Transfer-Encoding: %b\r\n" % encoding,
        fold(b"Content-Disposition", [disposition, *parameter("filename", file.filename)]),
    ]
    if is_inline and file.inline_id:
        headers.append(b"Content-ID: <%b>\r\n" % NOT_IN_AN_ID.sub("", file.inline_id).encode("ascii"))
    return Part(b"".join(headers), body, is_plain=encoding == b"7bit")


def _encoded_file(file: Attachment) -> tuple[bytes, bytes, bytes]:
    """Returns the media type, encoding and body of a file.

    RFC 2046 forbids encoding messages and multiparts, so they are sent as plain text or as opaque bytes.
    """
    kind = file.content_type.lower()
    if not MEDIA_TYPE.fullmatch(kind) or kind.startswith("multipart/"):
        return OPAQUE, b"base64", base64_rows(file.data)
    if kind.startswith("message/"):
        lines = file.data.replace(b"\r\n", b"\n")
        if is_plain(lines):
            return kind.encode("ascii"), b"7bit", lines.replace(b"\n", b"\r\n")
        return OPAQUE, b"base64", base64_rows(file.data)
    media_type = file.content_type.encode("ascii")
    if kind.startswith("text/") and _is_utf8(file.data):
        return media_type + b"; charset=utf-8", *encode_text_file(file.data)
    return media_type, b"base64", base64_rows(file.data)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _multipart(subtype: bytes, parts: Sequence[Part], boundary: bytes) -> Part:
    delimiter = b"--%b\r\n" % boundary
    pieces: list[bytes] = []
    for part in parts:
        pieces += (delimiter, part.headers, b"\r\n", part.body, b"\r\n")
    headers = b'Content-Type: multipart/%b;\r\n boundary="%b"\r\n' % (subtype, boundary)
    return Part(headers, b"".join([*pieces, b"--%b--" % boundary]))


def _seam(leaves: Sequence[Part]) -> bytes:
    """Returns the text that all boundaries share and that does not occur in any part. In a boundary, this text is
    preceded by =_, which encoded parts cannot contain.
    """
    sample = b"".join([b"%d %b" % (len(leaf.body), leaf.body[:SAMPLE_BYTES]) for leaf in leaves])
    seam = blake2s(sample, digest_size=16).hexdigest().encode("ascii")
    plain = [leaf.body for leaf in leaves if leaf.is_plain]
    while any(seam in body for body in plain):
        seam = blake2s(seam, digest_size=16).hexdigest().encode("ascii")
    return seam
