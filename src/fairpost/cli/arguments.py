"""How ids, moments, spans of time and addresses to listen on are written on the command line. A wrong one is told at once."""

from datetime import datetime, timedelta
from typing import Annotated

import typer

from fairpost.model.durations import read_duration
from fairpost.model.public_ids import is_email_id
from fairpost.model.states import SequenceWord, State
from fairpost.settings import LogFormat

LogFormatOption = Annotated[
    LogFormat | None, typer.Option(help="How to write the log. [default: FAIRPOST_LOG_FORMAT, or text]")
]

LIMIT_MAX = 2**31 - 1  # an integer

_SPAN_MAX = timedelta(days=3650)


def email_id(text: str) -> str:
    """The number, or the public id. Which e-mail that is, the database says: see `meant` of `fairpost email`."""
    if not is_email_id(text):
        raise typer.BadParameter(f"{text!r} is no id of an e-mail; find it: fairpost email list")
    return text


def email_state(text: str) -> State | SequenceWord:
    known: dict[str, State | SequenceWord] = {str(each): each for each in (*State, *SequenceWord)}
    if text not in known:
        raise typer.BadParameter(f"{text!r} is no state; known are {', '.join(known)}")
    return known[text]


def limit(text: str) -> int:
    """0: none, which no limit can be."""
    if text == "none":
        return 0
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:20]) <= LIMIT_MAX:
        raise typer.BadParameter(f"{text!r} is no limit; write a number from 1 to {LIMIT_MAX}, or none")
    return int(text)


def moment(text: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time; write it like 2030-01-31T09:00:00Z") from None
    if parsed.utcoffset() is None:
        raise typer.BadParameter(f"{text!r} has no zone; write it like 2030-01-31T09:00:00Z or …+01:00")
    return parsed


def span(text: str) -> timedelta:
    length = read_duration(text)
    if length is None:
        raise typer.BadParameter(f"{text!r} is no span of time; write it like 30s, 15m, 1h, 2d or 1h30m")
    if not timedelta() < length <= _SPAN_MAX:
        raise typer.BadParameter(f"{text!r} is out of range: 1s to {_SPAN_MAX.days}d")
    return length


def host_and_port(text: str, *, default: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port[:6]) > 65_535:
        raise typer.BadParameter(f"{text!r} is no HOST:PORT; write it like {default}")
    return host, int(port)
