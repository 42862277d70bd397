"""Parsers for IDs, times, durations, labels and listen addresses on the command line."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from fairpost.model.durations import read_duration
from fairpost.model.email_fields import tags_of
from fairpost.model.public_ids import is_email_id
from fairpost.model.states import SequenceWord, State
from fairpost.settings import LogFormat

LogFormatOption = Annotated[LogFormat | None, typer.Option(help="Log format. [default: FAIRPOST_LOG_FORMAT, or text]")]

LIMIT_MAX = 2**31 - 1  # the maximum of PostgreSQL's `integer`

_SPAN_MAX = timedelta(days=3650)


def email_id(text: str) -> str:
    """Parse a number or a public ID. The database resolves it; see `_meant` in email.py."""
    if not is_email_id(text):
        raise typer.BadParameter(f"{text!r} is not an e-mail ID. To list e-mails, run: fairpost email list")
    return text


def email_state(text: str) -> State | SequenceWord:
    known: dict[str, State | SequenceWord] = {str(each): each for each in (*State, *SequenceWord)}
    if text not in known:
        raise typer.BadParameter(f"{text!r} is not a state. Use one of: {', '.join(known)}")
    return known[text]


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise typer.BadParameter("must be a JSON object, for example '{\"order\": 7}'")
    return found


Tag = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="E-mail tag. Repeatable.")]
Metadata = Annotated[
    dict[str, Any] | None,
    typer.Option(parser=_object, metavar="JSON", help="Your own data to store with the e-mail, as a JSON object."),
]


def tag_values(written: Sequence[str] | None) -> dict[str, str] | None:
    try:
        return tags_of(written) if written else None
    except ValueError:
        raise typer.BadParameter(
            "--tag must be NAME=VALUE, for example order=7, with each name given only once"
        ) from None


def limit(text: str) -> int:
    """Parse a limit. 0 means no limit, because no real limit is 0."""
    if text == "none":
        return 0
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:20]) <= LIMIT_MAX:
        raise typer.BadParameter(f"{text!r} is not a limit. Use a number from 1 to {LIMIT_MAX}, or `none`")
    return int(text)


def moment(text: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time. Use a format such as 2030-01-31T09:00:00Z") from None
    if parsed.utcoffset() is None:
        raise typer.BadParameter(f"{text!r} has no time zone. Use a format such as 2030-01-31T09:00:00Z or …+01:00")
    return parsed


def span(text: str) -> timedelta:
    length = read_duration(text)
    if length is None:
        raise typer.BadParameter(f"{text!r} is not a duration. Use a format such as 30s, 15m, 1h, 2d or 1h30m")
    if not timedelta() < length <= _SPAN_MAX:
        raise typer.BadParameter(f"{text!r} is out of range: 1s to {_SPAN_MAX.days}d")
    return length


def host_and_port(text: str, *, default: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port[:6]) > 65_535:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT. Use a format such as {default}")
    return host, int(port)
