"""What a server says, out of its bytes: bounded, and with nothing in it that could hurt who stores or shows it."""

import re

from fairpost.model.report import Reply

LINE_BYTES_MAX = 2_048  # RFC 5321 promises 512; some write more
REPLY_BYTES_MAX = 32_768  # an EHLO reply has a few KB at most
BUFFER_BYTES_MAX = 65_536  # replies to a pipelined group of 50 recipients fit twice

_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])([^\n]{0,%d}))?\r?\n" % (LINE_BYTES_MAX - 5))
_UNSEEN = dict.fromkeys((*range(9), 11, 12, 13, *range(14, 32), 127), "\ufffd")


class Garbage(Exception):
    """The server does not speak SMTP, or not any more."""


class ReplyReader:
    """Takes bytes as they come, gives whole replies."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # what lies before is read
        self._code = b""  # of the reply that is not complete yet
        self._lines: list[bytes] = []
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        """Nothing was sent that is not read yet."""
        return not self._buffer and not self._code

    def feed(self, data: bytes) -> None:
        if len(self._buffer) + len(data) > BUFFER_BYTES_MAX:
            raise Garbage(f"the server sent more than {BUFFER_BYTES_MAX} bytes that nobody asked for")
        self._buffer += data

    def next(self) -> Reply | None:
        """The next reply, None when it is not complete yet. Raises Garbage."""
        if not self._buffer:
            return None
        while match := _LINE.match(self._buffer, self._at):
            self._at = match.end()
            if not self._code and match.group(2) == b" ":  # a reply of one line, as most are
                reply = Reply(int(match[1]), _text(match[3].removesuffix(b"\r")))
                self._forget_what_was_read()
                return reply
            if self._add(*match.groups(b"")):
                return self._finished()
        self._complain_of_garbage()
        self._forget_what_was_read()
        return None

    def _add(self, code: bytes, more: bytes, text: bytes) -> bool:
        """Whether this line ends the reply."""
        if self._code and self._code != code:
            raise Garbage(f"the server began a reply with {_text(self._code)} and went on with {_text(code)}")
        self._code = code
        self._bytes += len(text)
        if self._bytes > REPLY_BYTES_MAX:
            raise Garbage(f"the server sent a reply of more than {REPLY_BYTES_MAX} bytes")
        self._lines.append(text.removesuffix(b"\r"))
        return more != b"-"

    def _finished(self) -> Reply:
        reply = Reply(int(self._code), "\n".join([_text(line) for line in self._lines]))
        self._code = b""
        self._lines.clear()
        self._bytes = 0
        self._forget_what_was_read()
        return reply

    def _forget_what_was_read(self) -> None:
        if self._at == len(self._buffer):
            self._buffer.clear()
            self._at = 0

    def _complain_of_garbage(self) -> None:
        """What follows is no line of a reply: is it the beginning of one?"""
        if self._buffer.find(b"\n", self._at) >= 0 or len(self._buffer) - self._at > LINE_BYTES_MAX:
            raise Garbage(f"the server sent no reply but {_text(bytes(self._buffer[self._at : self._at + 80]))!r}")


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.translate(_UNSEEN)
