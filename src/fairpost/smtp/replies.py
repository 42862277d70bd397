"""Parses a server's replies: bounded in size, and safe to store and show."""

import re
from collections import deque
from functools import lru_cache

from fairpost.model.report import Reply

LINE_BYTES_MAX = 2_048  # RFC 5321 requires 512; some servers send more
REPLY_BYTES_MAX = 32_768  # enough for an EHLO reply, which is a few KB at most
UNREAD_BYTES_MAX = 65_536  # twice the size of the replies to a pipelined group of 50 recipients

_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?", re.DOTALL)
_UNSEEN = dict.fromkeys((*range(9), *range(11, 32), 127), "\ufffd")


class Garbage(Exception):
    """The server sent something that is not SMTP."""


class ReplyReader:
    """Takes bytes as they arrive and returns complete replies. Replies that arrived before garbage are still
    returned.
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()  # complete lines, not parsed yet
        self._rest = b""  # the incomplete last line
        self._unread = 0  # bytes in `_lines` and `_rest`
        self._is_flooded = False
        self._code = b""  # lines of the incomplete reply
        self._texts: list[bytes] = []

    @property
    def is_empty(self) -> bool:
        """Whether everything received has been parsed."""
        return not self._unread and not self._code

    @property
    def unread_bytes(self) -> int:
        """The number of bytes held in memory until they are parsed, at most UNREAD_BYTES_MAX."""
        return sum(len(line) + 1 for line in self._lines) + len(self._rest)

    def feed(self, data: bytes) -> None:
        room = UNREAD_BYTES_MAX - self._unread
        if len(data) > room:
            data, self._is_flooded = data[:room], True
        self._unread += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(lines)

    def next(self) -> Reply | None:
        """Returns the next reply, or None if it is not complete yet. Raises Garbage."""
        while self._lines:
            line = self._lines.popleft()
            self._unread -= len(line) + 1
            reply = self._read(line) if self._code else _one_line(line) or self._read(line)
            if reply is not None:
                return reply
        if self._is_flooded:
            raise Garbage(f"the server sent more than {UNREAD_BYTES_MAX} unexpected bytes")
        if len(self._rest) > LINE_BYTES_MAX:
            raise _no_reply(self._rest)
        return None

    def _read(self, line: bytes) -> Reply | None:
        """Returns the reply that this line completes."""
        code, more, text = _parts(line)
        if self._code:
            return self._go_on(code, more, text)
        self._code = code
        self._texts.append(text)
        return None

    def _go_on(self, code: bytes, more: bytes, text: bytes) -> Reply | None:
        if code != self._code:
            raise Garbage(f"the server began a reply with {_text(self._code)} and continued it with {_text(code)}")
        self._texts.append(text)
        if sum(map(len, self._texts)) + len(self._texts) > REPLY_BYTES_MAX:
            raise Garbage(f"the server sent a reply larger than {REPLY_BYTES_MAX} bytes")
        if more == b"-":
            return None
        reply = Reply(int(code), "\n".join(map(_text, self._texts)))
        self._code = b""
        self._texts = []
        return reply


@lru_cache(maxsize=128)  # a server repeats most of its replies
def _one_line(line: bytes) -> Reply | None:
    """Returns the reply if it has a single line. Raises Garbage."""
    code, more, text = _parts(line)
    return Reply(int(code), _text(text)) if more != b"-" else None


def _parts(line: bytes) -> tuple[bytes, bytes, bytes]:
    line = line.removesuffix(b"\r")
    match = _LINE.fullmatch(line)
    if match is None or len(line) > LINE_BYTES_MAX:
        raise _no_reply(line)
    code, more, text = match.groups(b"")
    return code, more, text


def _no_reply(line: bytes) -> Garbage:
    return Garbage(f"the server did not send a valid reply, but {_text(line[:80])!r}")


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.translate(_UNSEEN)
