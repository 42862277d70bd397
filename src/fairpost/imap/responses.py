"""Parses an IMAP server's responses, with limits on size and nesting depth, whatever the server sends. No I/O.

A response is a line that may contain literals: for example, `{5}` at the end of a line is followed by five bytes, after
which the response continues.
"""

import re
from dataclasses import dataclass

LINE_BYTES_MAX = 1_048_576  # enough for the longest expected response: a search in 100,000 messages
LITERAL_BYTES_MAX = 2_097_152  # twice the size of the largest requested part
LITERALS_MAX = 64
DEPTH_MAX = 20  # maximum nesting of parentheses; real responses have a few levels
UNREAD_BYTES_MAX = 8_388_608
TEXT_CHARS_MAX = 4_000  # maximum length of a status or a code in characters; capabilities are the longest

Value = bytes | None | tuple["Value", ...]
"""An atom or a string; NIL; a list."""

_LITERAL = re.compile(rb"\{([0-9]{1,10})\+?\}$")
_STATUS = re.compile(rb"(\S+) (OK|NO|BAD|BYE|PREAUTH)(?: |$)(?:\[([^\]]*)\] ?)?(.*)", re.DOTALL | re.IGNORECASE)
_ATOM = re.compile(rb"[^\s()\"\[\]]+")
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_UNSEEN = dict.fromkeys((*range(32), 127), "\ufffd")


class Garbage(Exception):
    """The server sent something that is not IMAP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """OK, NO, BAD, BYE or PREAUTH. `tag` is None if this is not a reply to a command. `code` is the text in brackets,
    in upper case.
    """

    tag: str | None
    status: str
    code: str
    text: str

    @property
    def is_ok(self) -> bool:
        return self.status == "OK"

    @property
    def shown(self) -> str:
        return f"{self.status} [{self.code}] {self.text}" if self.code else f"{self.status} {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A server response, with its `kind` in upper case, such as FETCH, and the number before it."""

    kind: str
    number: int | None = None
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Continuation:
    """The server is waiting for the rest of a command. The text may be a challenge in base64."""

    text: str


Response = Status | Data | Continuation


class ResponseReader:
    """Accepts bytes as they arrive and returns complete responses."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0  # there is no line ending before this position
        self._parts: list[bytes] = []  # parts of the incomplete response: text, literal, text, …
        self._literal: int | None = None  # bytes of the current literal so far

    @property
    def is_empty(self) -> bool:
        return not self._buffer and not self._parts

    def feed(self, data: bytes) -> None:
        """Adds received bytes. Raises Garbage if the server sends more than any expected response could contain."""
        if len(self._buffer) + len(data) > UNREAD_BYTES_MAX:
            raise Garbage(f"the server sent more than {UNREAD_BYTES_MAX:,} unexpected bytes")
        self._buffer += data

    def next(self) -> Response | None:
        """Returns the next response, or None if it is not complete yet. Raises Garbage."""
        while True:
            part = self._part()
            if part is None:
                return None
            self._parts.append(part)
            if self._literal is not None:
                self._literal = None
                continue
            self._literal = self._announced(part)
            if self._literal is None:
                parts, self._parts = self._parts, []
                return read_response(parts)

    def _part(self) -> bytes | None:
        return self._line() if self._literal is None else self._taken(self._literal)

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._scanned)
        if (len(self._buffer) if end < 0 else end) > LINE_BYTES_MAX:
            raise Garbage(f"the server sent a line longer than {LINE_BYTES_MAX:,} bytes")
        if end < 0:
            self._scanned = len(self._buffer)
            return None
        line = self._taken(end + 1)
        assert line is not None
        return line.rstrip(b"\r\n")

    def _taken(self, size: int) -> bytes | None:
        if len(self._buffer) < size:
            return None
        taken = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        self._scanned = 0
        return taken

    def _announced(self, line: bytes) -> int | None:
        """Returns the size of the literal that follows the line, if any. The text of a status may end in braces even if
        no literal follows.
        """
        found = _LITERAL.search(line)
        if found is None or (len(self._parts) == 1 and _is_text(line)):
            return None
        size = int(found[1])
        if size > LITERAL_BYTES_MAX or len(self._parts) > 2 * LITERALS_MAX:
            raise Garbage("the server announced more data than was asked for")
        return size


def _is_text(line: bytes) -> bool:
    return line.startswith(b"+") or _STATUS.match(line) is not None


def read_response(parts: list[bytes]) -> Response:
    """Parses a response. The `parts` are text, literal, text, … Raises Garbage."""
    line = parts[0]
    if line.startswith(b"+"):
        return Continuation(shown(line[1:].strip()))
    if (found := _STATUS.match(line)) is not None:
        tag = found[1].decode("ascii", "replace")
        code = shown(found[3] or b"").upper()
        return Status(
            tag=None if tag == "*" else tag, status=found[2].decode().upper(), code=code, text=shown(found[4])
        )
    if not line.startswith(b"* "):
        raise Garbage(f"the server's response is not IMAP: {shown(line[:100])}")
    values = _Values([line[2:], *parts[1:]]).read()
    number = _number(values[0]) if values else None
    if number is not None:
        values = values[1:]
    if not values or not isinstance(values[0], bytes):
        raise Garbage(f"the server's response is not IMAP: {shown(line[:100])}")
    return Data(kind=shown(values[0]).upper(), number=number, values=tuple(values[1:]))


def _number(value: Value) -> int | None:
    return int(value) if isinstance(value, bytes) and re.fullmatch(rb"[0-9]{1,10}", value) else None


class _Values:
    """Reads the values of one response. Parts with even indexes are text, and parts with odd indexes are literals."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self._part = 0
        self._at = 0

    def read(self) -> list[Value]:
        open_: list[list[Value]] = [[]]
        while (piece := self._piece()) is not None:
            if piece == "(":
                open_.append([])
                if len(open_) > DEPTH_MAX:
                    raise Garbage(f"the server sent more than {DEPTH_MAX} nested lists")
            elif piece == ")":
                if len(open_) == 1:
                    raise Garbage("the server closed a list that it had not opened")
                closed = tuple(open_.pop())
                open_[-1].append(closed)
            else:
                assert isinstance(piece, tuple)
                open_[-1].append(piece[0])
        if len(open_) > 1:
            raise Garbage("the server left a list open")
        return open_[0]

    def _piece(self) -> str | tuple[bytes | None] | None:
        """Returns the next parenthesis or value, or None at the end."""
        text = self._parts[self._part]
        while self._at < len(text) and text[self._at] in b" \t":
            self._at += 1
        if self._part + 1 < len(self._parts) and (found := _LITERAL.match(text, self._at)) and found.end() == len(text):
            literal = self._parts[self._part + 1]
            self._part, self._at = self._part + 2, 0
            return (literal,)
        if self._at >= len(text):
            return None
        if text[self._at] in b"()":
            self._at += 1
            return chr(text[self._at - 1])
        if (quoted := _QUOTED.match(text, self._at)) is not None:
            self._at = quoted.end()
            return (re.sub(rb"\\(.)", rb"\1", quoted[1], flags=re.DOTALL),)
        return (self._atom(text),)

    def _atom(self, text: bytes) -> bytes | None:
        """Reads an atom. Brackets and their content are part of the atom, as in BODY[HEADER.FIELDS (DATE)]<0>."""
        begin = self._at
        while self._at < len(text) and (found := _ATOM.match(text, self._at) or _bracketed(text, self._at)):
            self._at = found.end()
        if self._at == begin:
            raise Garbage(f"the server's response is not IMAP: {shown(text[begin : begin + 100])}")
        atom = text[begin : self._at]
        return None if atom.upper() == b"NIL" else atom


_BRACKETED = re.compile(rb"\[[^\]]*\]")


def _bracketed(text: bytes, at: int) -> "re.Match[bytes] | None":
    return _BRACKETED.match(text, at)


def shown(text: bytes) -> str:
    """Returns the text in a form that is safe to store and show."""
    return text.decode("utf-8", "replace").translate(_UNSEEN)[:TEXT_CHARS_MAX]
