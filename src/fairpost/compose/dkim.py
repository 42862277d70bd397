"""DKIM signatures (RFC 6376, RFC 8463) over composed bytes: relaxed/relaxed, with SHA-256. No I/O, no clock.

SMTP changes nothing that a signature covers: every line already ends with CRLF, bodies are 7-bit, and the receiver
undoes dot-stuffing. Relaxed canonicalization tolerates servers that change white space.

The headers below are signed if they are present. Each header is listed one more time than it occurs (oversigned), so a
second From or List-Unsubscribe added in transit breaks the signature. The headers in ALWAYS are listed even if they are
absent, so adding one also breaks the signature.
"""

import re
from binascii import b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from fairpost.model.dkim import Algorithm

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

ALWAYS = (b"from", b"to", b"cc", b"reply-to", b"subject", b"date", b"message-id", b"in-reply-to", b"references")
WHERE_THERE = frozenset({
    b"mime-version", b"content-type", b"content-transfer-encoding", b"sender", b"list-id", b"list-unsubscribe", b"list-unsubscribe-post",
    b"list-help", b"list-post", b"list-subscribe", b"list-owner", b"list-archive", b"feedback-id", b"auto-submitted", b"precedence",
})  # fmt: skip
LINE_CHARS = 72

_BLANKS = re.compile(rb"[ \t]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    domain: str  # as written in DNS
    selector: str
    algorithm: Algorithm
    private: "RSAPrivateKey | Ed25519PrivateKey" = field(repr=False)


def signatures(keys: Sequence[SigningKey], head: bytes, *, body_hash: bytes, at: datetime) -> bytes:
    """Returns the header lines to put before the message: one DKIM-Signature for each key.

    `head` contains the message's header lines, each ending with CRLF.
    """
    if not keys:
        return b""
    names, lines = _signed(head)
    return b"".join([_signature(key, names, lines, body_hash, at) for key in keys])


def hash_of_body(body: bytes) -> bytes:
    """Returns the body hash in base64. Messages with the same body share this hash."""
    return b2a_base64(sha256(_relaxed_body(body)).digest(), newline=False)


def _signature(key: SigningKey, names: bytes, lines: bytes, body_hash: bytes, at: datetime) -> bytes:
    unsigned = (
        b"DKIM-Signature: v=1; a=%b-sha256; c=relaxed/relaxed; d=%b;\r\n s=%b; t=%d;\r\n h=%b;\r\n bh=%b;\r\n b="
        % (
            *(key.algorithm.encode("ascii"), key.domain.encode("ascii"), key.selector.encode("ascii")),
            *(int(at.timestamp()), names, body_hash),
        )
    )
    signed = _signed_bytes(key, lines + _relaxed_line(unsigned.replace(b"\r\n", b"")))
    text = b2a_base64(signed, newline=False)
    rows = [text[start : start + LINE_CHARS] for start in range(0, len(text), LINE_CHARS)]
    return unsigned + b"\r\n ".join(rows) + b"\r\n"


def _signed_bytes(key: SigningKey, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256

    if isinstance(key.private, RSAPrivateKey):
        return key.private.sign(data, PKCS1v15(), SHA256())
    return key.private.sign(sha256(data).digest())  # in RFC 8463, the signed data is the hash, not the text


def _signed(head: bytes) -> tuple[bytes, bytes]:
    """Returns the folded value of `h=` and the header lines that it names. If a name occurs several times, its last
    line comes first.
    """
    found: dict[bytes, list[bytes]] = {name: [] for name in ALWAYS}
    for line in _unfolded(head):
        name = line.partition(b":")[0].rstrip(b" \t").lower()
        if name in found or name in WHERE_THERE:
            found.setdefault(name, []).append(_relaxed_line(line) + b"\r\n")
    names = [name for name, lines in found.items() for _ in range(len(lines) + 1)]
    return _folded(tuple(names)), b"".join([line for lines in found.values() for line in reversed(lines)])


def _unfolded(head: bytes) -> list[bytes]:
    return head.replace(b"\r\n ", b" ").replace(b"\r\n\t", b"\t").split(b"\r\n")


def _relaxed_line(line: bytes) -> bytes:
    name, _, value = line.partition(b":")
    return b"%b:%b" % (name.rstrip(b" \t").lower(), _BLANKS.sub(b" ", value).strip(b" "))


def _relaxed_body(body: bytes) -> bytes:
    if not body.endswith(b"\r\n"):
        body += b"\r\n"
    if b"\t" in body or b"  " in body:
        body = _BLANKS.sub(b" ", body)
    if b" \r\n" in body:
        body = body.replace(b" \r\n", b"\r\n")
    end = len(body)
    while body.endswith(b"\r\n", 0, end):
        end -= 2
    return body[:end] + b"\r\n" if end else b""


@lru_cache(maxsize=64)  # most messages have the same header names
def _folded(names: tuple[bytes, ...]) -> bytes:
    rows, row = [], b""
    for name in names:
        if len(row) + len(name) + 1 > LINE_CHARS and row:
            rows.append(row + b":")
            row = name
        else:
            row = b"%b:%b" % (row, name) if row else name
    return b"\r\n ".join([*rows, row])
