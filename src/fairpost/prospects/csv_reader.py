"""Reads prospects from a CSV file of any size, as written by spreadsheet programs. The file is read record by record,
in bounded memory. Returns the content of each line, or the error in it. The database decides which prospects already
exist and which values are written.
"""

import codecs
import csv
import io
import re
import sys
import unicodedata
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import BinaryIO
from zoneinfo import available_timezones

from fairpost.model.errors import FairpostError
from fairpost.model.prospect import BadProspectLine, ProspectLine
from fairpost.prospects.addresses import parse

DELIMITERS = ",;\t|"
SAMPLE_BYTES = 1_048_576  # how much is read to guess the encoding; also the maximum size of a header
COLUMNS_MAX = 1_000
COLUMN_NAME_CHARS_MAX = 100
FIELD_CHARS_MAX = 100_000
RECORD_CHARS_MAX = 1_000_000
REREAD_CHARS_MAX = 100_000_000  # rereading this much takes a second or two
EXTERNAL_ID_CHARS_MAX = 200  # the ID becomes part of an idempotency key, which can be up to 500 characters long
TEXT_CHARS_SHOWN = 100
COLUMNS_SHOWN = 20


class UnreadableFile(FairpostError):
    """The file does not contain prospects. Raised before the first line is read or, if the specified encoding turns out
    to be wrong, later.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """How to read the file. `columns` maps each column name to a field. A column with an empty field is skipped."""

    encoding: str
    delimiter: str
    columns: dict[str, str]


def read_header(
    file: BinaryIO,
    *,
    mapping: Mapping[str, str] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Header:
    """Returns how `read_prospects` would read the file, for a preview. Before you call `read_prospects`, rewind the
    file.
    """
    return _header(file.read(SAMPLE_BYTES), mapping or {}, encoding, delimiter)[0]


def read_prospects(
    file: BinaryIO,
    *,
    mapping: Mapping[str, str] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Iterator[ProspectLine | BadProspectLine]:
    """Yields the lines of a file, which may be a pipe. Raises UnreadableFile as soon as it is called, not only at the
    first line. `mapping` specifies the field for each column that is not named after its field; "" skips the column.
    """
    head = file.read(SAMPLE_BYTES)
    header, header_lines = _header(head, mapping or {}, encoding, delimiter)
    text = _decoded(io.BufferedReader(_Rejoined(head, file)), header.encoding)
    return _prospects(_Lines(text, skip=header_lines), header)


# ── bytes to text ─────────────────────────────────────────────────────────────────────────────────────────

_BROKEN = re.compile(r"[\ud800-\udfff]")
_MARKED = "fairpost.broken"


def _marked(error: UnicodeError) -> tuple[str, int]:
    """Replaces an undecodable byte with the character whose code is U+DC00 plus the byte's value. No file can contain
    these characters, so the affected line can be reported later.
    """
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_MARKED, _marked)


class _Rejoined(io.RawIOBase):
    """The whole file, including the beginning that was already read."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # that is what BufferedReader hands over
        data = self._head.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _decoded(file: io.BufferedReader | io.BytesIO, encoding: str) -> io.TextIOWrapper:
    if encoding == "utf-8":  # the built-in error handler produces the same marks and is faster
        return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    return io.TextIOWrapper(file, encoding=encoding, errors=_MARKED, newline="")


def _guessed(head: bytes) -> str:
    """Guesses the encoding. Text that is not UTF-8 is read as Windows-1252, unless it contains so few invalid bytes
    that it is probably damaged UTF-8.
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(head)
    beyond_ascii = re.sub(r"[\x00-\x7f]+", "", text)
    letters = len(_BROKEN.sub("", beyond_ascii))
    return "utf-8" if letters >= len(beyond_ascii) - letters else "cp1252"


# ── header ────────────────────────────────────────────────────────────────────────────────────────────────

# Names are compared by letters and digits only, without accents.
_SPELLINGS = {
    "email": "email emailaddress emailadresse emailadres mail mailaddress mailadresse adressemail adresseemail courriel correo correoelectronico recipient",
    "first_name": "firstname first givenname forename vorname prenom",
    "last_name": "lastname last surname familyname nachname familienname nomdefamille apellido apellidos",
    "name": "name fullname displayname contactname",
    "company": "company companyname firma firmenname organisation organization unternehmen entreprise empresa",
    "timezone": "timezone tz zeitzone",
    "external_id": "id externalid prospectid",
}
_KNOWN = {spelling: field for field, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_ADDRESS_MAYBE = {"address": "email", "adresse": "email"}  # an e-mail address if no other column is; otherwise, postal
_ADDRESS_NAMES = {*_SPELLINGS["email"].split(), *_ADDRESS_MAYBE}


def _header(head: bytes, mapping: Mapping[str, str], encoding: str | None, delimiter: str | None) -> tuple[Header, int]:
    """Returns the header and the number of its last line."""
    if delimiter is not None and delimiter not in tuple(DELIMITERS):
        raise UnreadableFile(f"delimiter must be one of {', '.join(map(repr, DELIMITERS))}; got {delimiter!r}")
    try:
        encoding = codecs.lookup(encoding).name if encoding else _guessed(head)
        firsts = [(each, *_first_row(_decoded(io.BytesIO(head), encoding), each)) for each in delimiter or DELIMITERS]
    except UnicodeError as error:
        raise UnreadableFile(f"the file is not {encoding}: {error}") from error
    except (LookupError, ValueError):
        raise UnreadableFile(f"{encoding!r} is not a known encoding; try utf-8 or cp1252") from None
    asked = {_slug(column) for column in mapping}

    def promise(first: tuple[str, list[str], int]) -> tuple[bool, int]:
        names = first[1][:COLUMNS_MAX]
        return any(_bare(name) in _ADDRESS_NAMES or _slug(name) in asked for name in names), len(names)

    sign, row, lines = max(firsts, key=promise)
    return Header(encoding=encoding, delimiter=sign, columns=_columns(row, mapping)), lines


def _first_row(text: io.TextIOWrapper, delimiter: str) -> tuple[list[str], int]:
    """Returns the first row that is neither empty nor Excel's `sep=` line, and the number of the row's last line."""
    rows = csv.reader(iter(partial(text.readline, RECORD_CHARS_MAX), ""), delimiter=delimiter, strict=True)
    try:
        for row in rows:
            if any(cell.strip() for cell in row) and not row[0].startswith("sep="):
                return row, rows.line_num
    except csv.Error:  # the file is unreadable with this delimiter, but another one may work
        return [], 0
    raise UnreadableFile('the file is empty. Its first line must name the columns, including "email".')


def _columns(row: list[str], mapping: Mapping[str, str]) -> dict[str, str]:
    if not row:
        raise UnreadableFile("the header has an unclosed quote or is too long. Is this a CSV file?")
    if any("\0" in cell for cell in row):
        raise UnreadableFile("the file is not text or is UTF-16 without a byte order mark. Save it as CSV in UTF-8.")
    if len(row) > COLUMNS_MAX or max(map(len, row)) > COLUMN_NAME_CHARS_MAX:
        raise UnreadableFile(
            f"the header can have at most {COLUMNS_MAX:,} columns, with names of at most {COLUMN_NAME_CHARS_MAX} characters. Is this a CSV file?"
        )
    names = [_shown(cell.strip()) or f"column {number}" for number, cell in enumerate(row, 1)]
    slugs = [_slug(name) or f"column_{number}" for number, name in enumerate(names, 1)]
    _refuse_twins(names, names)
    _refuse_twins(names, slugs)
    asked = {_slug(column): _field(wanted) for column, wanted in mapping.items()}
    if strangers := [column for column in mapping if _slug(column) not in slugs]:
        raise UnreadableFile(f"there is no column {_shown(strangers[0])!r}. The columns are: {_listed(names)}")
    fields = [asked.get(slug, field) for slug, field in zip(slugs, _guessed_fields(names, slugs, asked), strict=True)]
    if "email" not in fields:
        hint = (
            " The first line contains an address: add a line with the column names above it."
            if "@" in "".join(row)
            else ""
        )
        raise UnreadableFile(
            f'no column contains the e-mail address: name a column "email", or map one. The columns are: {_listed(names)}.{hint}'
        )
    _refuse_twins(names, fields)
    return dict(zip(names, fields, strict=True))


def _guessed_fields(names: list[str], slugs: list[str], asked: dict[str, str]) -> list[str]:
    """Guesses fields from column names. If the mapping assigns the guessed field to another column, the guess is
    dropped, and the field gets the column's own name.
    """
    guesses = [_KNOWN.get(_bare(name)) for name in names]
    if "email" not in guesses and "email" not in asked.values():
        guesses = [guess or _ADDRESS_MAYBE.get(_bare(name)) for guess, name in zip(guesses, names, strict=True)]
    taken = set(asked.values())
    return [guess if guess and guess not in taken else slug for guess, slug in zip(guesses, slugs, strict=True)]


def _field(wanted: str) -> str:
    return _KNOWN.get(_bare(wanted)) or _slug(wanted)


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name).lower()))


def _slug(name: str) -> str:
    """Returns a name for use in templates: words of letters and digits in any script, joined by underscores and not
    starting with a digit.
    """
    letters = unicodedata.normalize("NFKC", name).lower()
    slug = "_".join("".join(c if f"_{c}".isidentifier() and c != "_" else " " for c in letters).split())
    return f"_{slug}" if slug and not slug.isidentifier() else slug


def _refuse_twins(names: list[str], fields: list[str]) -> None:
    first: dict[str, int] = {}
    for place, field in enumerate(fields):
        if field and (other := first.setdefault(field, place)) != place:
            raise UnreadableFile(
                f"columns {other + 1} ({names[other]!r}) and {place + 1} ({names[place]!r}) are both {field!r}. "
                "Rename one of them or map it to a different field."
            )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - COLUMNS_SHOWN} more" if len(names) > COLUMNS_SHOWN else ""
    return ", ".join(names[:COLUMNS_SHOWN]) + more


# ── lines to records ──────────────────────────────────────────────────────────────────────────────────────


class _Lines:
    """The lines of a file, from which csv builds records. Keeps the lines of the current record so that they can be
    reread.
    """

    def __init__(self, text: io.TextIOWrapper, *, skip: int) -> None:
        self._text = text
        self._again: deque[str] = deque()
        self._reread_chars = 0
        self.record: list[str] = []
        self.last = skip  # the number of the record's last line
        self.doubtful = 0  # lines up to this one may belong to a quoted field, such as notes, and not be prospects
        for _ in range(skip):
            self._fresh()

    def __iter__(self) -> Iterator[str]:
        """Yields lines until the file ends or the record is too long."""
        size = 0
        while line := self._again.popleft() if self._again else self._fresh():
            size = size + len(line) if self.record else len(line)
            self.record.append(line)
            self.last += 1
            if size >= RECORD_CHARS_MAX:
                return
            yield line

    def _fresh(self) -> str:
        """Returns the next line. If the line is too long, returns only its beginning."""
        line = rest = self._text.readline(RECORD_CHARS_MAX)
        while len(rest) == RECORD_CHARS_MAX and rest[-1] not in "\r\n":
            rest = self._text.readline(RECORD_CHARS_MAX)
        return line

    def give_back(self, *, doubtful: int) -> None:
        """Puts back all lines of the record except the first so that they are reread. If too much has already been
        reread, skips those lines instead.
        """
        self.doubtful = max(self.doubtful, doubtful)
        others = self.record[1:]
        self._reread_chars += sum(map(len, others))
        if self._reread_chars <= REREAD_CHARS_MAX:
            self.last -= len(others)
            self._again.extendleft(reversed(others))


def _prospects(lines: _Lines, header: Header) -> Iterator[ProspectLine | BadProspectLine]:
    """Yields the prospects, and an error for each malformed record. A malformed record that spans several lines most
    likely has an unclosed quote. Therefore, only its first line is reported as invalid, and the other lines are read
    separately. Because it is unknown where the quoted field ends, all subsequent rows must be complete.
    """
    plan = _Plan.of(header)
    rows = csv.reader(lines, delimiter=header.delimiter, strict=True)
    while True:
        lines.record.clear()
        first = lines.last + 1
        try:
            row = next(rows, None)
        except csv.Error:
            row = None
        except UnicodeError as error:
            raise UnreadableFile(f"line {first} cannot be read as {header.encoding}: {error}") from error
        if not lines.record:
            return
        text = "".join(lines.record)
        if row is None:
            found: ProspectLine | str = _unparsed(text)
            # The old reader cannot continue after an error.
            rows = csv.reader(lines, delimiter=header.delimiter, strict=True)
            lines.give_back(doubtful=sys.maxsize)
        elif not any(map(str.strip, row)):
            continue
        elif len(row) != plan.width and (
            misfit := plan.misfit(row, whole=len(lines.record) > 1 or first <= lines.doubtful)
        ):
            found = misfit
            lines.give_back(doubtful=lines.last)
        else:
            found = _unstorable(text, row, header.encoding) or plan.prospect(row, first)
        if isinstance(found, str):
            reach = f" (lines {first} to {lines.last})" if lines.last > first else ""
            yield BadProspectLine(line=first, text=_shown(lines.record[0]), why=found + reach)
        else:
            yield found


def _unparsed(text: str) -> str:
    if len(text) >= RECORD_CHARS_MAX:
        return f"is longer than {RECORD_CHARS_MAX:,} characters or has an unclosed quote"
    if len(text) > FIELD_CHARS_MAX:
        return f"has a field longer than {FIELD_CHARS_MAX:,} characters or an unclosed quote"
    return 'has an unclosed quote, or a quote inside a field that is not doubled ("")'


def _unstorable(text: str, row: list[str], encoding: str) -> str | None:
    if len(text) > FIELD_CHARS_MAX and max(map(len, row)) > FIELD_CHARS_MAX:
        return f"has a field longer than {FIELD_CHARS_MAX:,} characters"
    if "\0" in text:
        return "contains a zero byte"
    if not text.isascii():
        try:
            text.encode()  # the fastest way to find the marker for an invalid byte
        except UnicodeEncodeError as error:
            byte = ord(text[error.start]) & 0xFF
            before = _shown(text[max(0, error.start - 20) : error.start])
            return f"is not {encoding}: byte 0x{byte:02x} after {before!r}. If the file has a different encoding, specify it"
    return None


def _shown(text: str) -> str:
    """Returns the text on one line, shortened, and safe for a terminal."""
    text = text.rstrip("\r\n")
    start = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text[:TEXT_CHARS_SHOWN])
    return f"{start}…" if len(text) > TEXT_CHARS_SHOWN else start


# ── records to prospects ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The position of each field in a row. A field without a column is given the position after the last column, where
    the cell is empty.
    """

    width: int
    email: int
    timezone: int
    external_id: int
    others: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, header: Header) -> "_Plan":
        places = {field: place for place, field in enumerate(header.columns.values()) if field}
        width = len(header.columns)
        email, timezone, external_id = (places.pop(field, width) for field in ("email", "timezone", "external_id"))
        others = tuple((place, field) for field, place in places.items())
        return cls(width=width, email=email, timezone=timezone, external_id=external_id, others=others)

    def misfit(self, row: list[str], *, whole: bool) -> str | None:
        """Returns why a row does not match the header. Missing cells or extra empty cells at the end are allowed,
        because spreadsheet programs produce them.

        Any other difference means that cells have shifted to other columns.
        """
        if any(row[self.width :]) or (whole and len(row) < self.width):
            return f"has {len(row):,} fields where the header has {self.width:,}; a delimiter or line break in a field needs quotes"
        return None

    def prospect(self, row: list[str], line: int) -> ProspectLine | str:
        if len(row) != self.width:
            row[self.width :] = [""] * (self.width - len(row))
        row.append("")
        mailbox = parse(row[self.email])
        if mailbox is None:
            written = row[self.email].strip()
            return f"{_shown(written)!r} is not an e-mail address" if written else "has no e-mail address"
        timezone = row[self.timezone].strip()
        if timezone and not is_timezone(timezone):
            return f"timezone must be a name such as Europe/Berlin; got {_shown(timezone)!r}"
        external_id = row[self.external_id].strip()
        if ":" in external_id or len(external_id) > EXTERNAL_ID_CHARS_MAX or not external_id.isprintable():
            return f'id must be a single line of at most {EXTERNAL_ID_CHARS_MAX} characters, without ":"; got {_shown(external_id)!r}'
        fields = {field: value for place, field in self.others if (value := row[place].strip())}
        if mailbox.name is not None:
            fields.setdefault("name", mailbox.name)
        return ProspectLine(
            line=line,
            address=mailbox.address,
            fields=fields,
            timezone=timezone or None,
            external_id=external_id or None,
        )


def is_timezone(name: str) -> bool:
    return name in _zones()


@cache
def _zones() -> set[str]:
    return available_timezones()
