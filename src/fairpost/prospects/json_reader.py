"""Reads prospects from JSON: a list of objects, or one object per line. Returns the content of each entry, or the error
in it.

An object has an `address` and may have an `id`, a `timezone` and `fields`, which maps the names that templates use to
text or numbers.
"""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from fairpost.model.prospect import BadProspectLine, ProspectLine
from fairpost.prospects.addresses import parse
from fairpost.prospects.csv_reader import (
    COLUMN_NAME_CHARS_MAX,
    COLUMNS_MAX,
    EXTERNAL_ID_CHARS_MAX,
    FIELD_CHARS_MAX,
    TEXT_CHARS_SHOWN,
    UnreadableFile,
    is_timezone,
)

LINE_BYTES_MAX = 1_048_576
LIST_MAX = 100_000  # maximum number of entries in a list, which is read as a whole
LIST_BYTES_MAX = 4_194_304  # maximum size of a list, which is read as a whole; longer data must be sent as lines
KEYS = {"address", "id", "timezone", "fields"}
# Names that would be misunderstood as something other than a field.
MEANT_OTHERWISE = {"email", "timezone", "external_id"}


def read_json_lines(file: BinaryIO) -> Iterator[ProspectLine | BadProspectLine]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            _skip_rest(file)
            yield _bad(
                number, line[:TEXT_CHARS_SHOWN].decode(errors="replace"), f"is {LINE_BYTES_MAX:,} bytes or longer"
            )
        elif line.strip():
            try:
                value = _parsed(line)
            except ValueError as error:
                yield _bad(number, line[:TEXT_CHARS_SHOWN].decode(errors="replace"), f"is not JSON: {error}")
            else:
                yield _prospect(value, number)


def read_json_list(file: BinaryIO) -> Iterator[ProspectLine | BadProspectLine]:
    """Yields the entries of a list, numbered from 1. Raises UnreadableFile as soon as it is called."""
    data = file.read(LIST_BYTES_MAX + 1)
    if len(data) > LIST_BYTES_MAX:
        raise UnreadableFile(f"a list can be at most {LIST_BYTES_MAX:,} bytes. Send one object per line, or CSV.")
    try:
        found = _parsed(data)
    except ValueError as error:
        raise UnreadableFile(f"it is not JSON: {error}") from None
    if not isinstance(found, list):
        raise UnreadableFile("it must be a list of objects")
    if len(found) > LIST_MAX:
        raise UnreadableFile(f"a list can contain at most {LIST_MAX:,} objects. Send one object per line, or CSV.")
    return (_prospect(value, number) for number, value in enumerate(found, 1))


def _skip_rest(file: BinaryIO) -> None:
    while (rest := file.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
        pass


def _parsed(data: bytes) -> Any:
    """Parses JSON. Raises ValueError if the data is not JSON."""
    try:
        return json.loads(data.decode(), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _prospect(value: Any, number: int) -> ProspectLine | BadProspectLine:
    shown = json.dumps(value)[:TEXT_CHARS_SHOWN]
    if not isinstance(value, dict):
        return _bad(number, shown, "must be an object")
    if strangers := set(value) - KEYS:
        return _bad(number, shown, f"has {_quoted(min(strangers))}, which is not one of {', '.join(sorted(KEYS))}")
    mailbox = parse(value["address"]) if isinstance(value.get("address"), str) else None
    if mailbox is None:
        return _bad(number, shown, "has no e-mail address in `address`")
    timezone, external_id = value.get("timezone"), value.get("id")
    if type(external_id) is int:
        external_id = str(external_id)
    wrong = _wrong_timezone(timezone) or _wrong_id(external_id) or wrong_fields(value.get("fields"))
    if wrong is not None:
        return _bad(number, shown, wrong)
    fields = {name: text_of(each) for name, each in (value.get("fields") or {}).items() if each not in (None, "")}
    if mailbox.name is not None:
        fields.setdefault("name", mailbox.name)
    return ProspectLine(
        line=number, address=mailbox.address, fields=fields, timezone=timezone or None, external_id=external_id or None
    )


def _wrong_timezone(timezone: Any) -> str | None:
    if timezone is None or (isinstance(timezone, str) and (not timezone or is_timezone(timezone))):
        return None
    return "timezone must be a name such as Europe/Berlin"


def _wrong_id(external_id: Any) -> str | None:
    fits = external_id is None or (
        isinstance(external_id, str)
        and len(external_id) <= EXTERNAL_ID_CHARS_MAX
        and external_id.isprintable()
        and ":" not in external_id
    )
    return None if fits else f'id must be a single line of at most {EXTERNAL_ID_CHARS_MAX} characters, without ":"'


def wrong_fields(fields: Any) -> str | None:
    """Returns the problem with the fields, or None if they are valid. Null means no value."""
    if fields is None:
        return None
    if not isinstance(fields, dict) or len(fields) > COLUMNS_MAX:
        return f"fields must be an object with at most {COLUMNS_MAX:,} names"
    for name, value in fields.items():
        if len(name) > COLUMN_NAME_CHARS_MAX or not name.isidentifier() or name in MEANT_OTHERWISE:
            return f"fields: {_quoted(name)} is not a valid name. Names consist of letters, digits and underscores, and do not start with a digit"
        if not isinstance(value, str | int | float | None):
            return f"fields: the value of {_quoted(name)} must be text or a number"
        if isinstance(value, str) and not _is_storable(value):
            return f"fields: the value of {_quoted(name)} must be text of at most {FIELD_CHARS_MAX:,} characters and contain no zero byte"
    return None


def text_of(value: str | float | bool) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # the text has a lone surrogate
        return False
    return len(text) <= FIELD_CHARS_MAX and "\0" not in text


def _quoted(name: str) -> str:
    return json.dumps(name[:TEXT_CHARS_SHOWN])


def _bad(number: int, text: str, why: str) -> BadProspectLine:
    shown = "".join(c if c.isprintable() else " " for c in text.rstrip("\r\n"))
    return BadProspectLine(line=number, text=shown, why=why)
