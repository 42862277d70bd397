"""The log of a long-running command on stderr, one event per line.

On a terminal, it is formatted for people. Elsewhere, each line contains its time, level and event, as text or JSON.
Warnings from other libraries are included. Secrets in the settings are never logged.
"""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO, assert_never
from urllib.parse import unquote, urlsplit

from fairpost.model.reason import Log, Reason, Value
from fairpost.model.secrets import masked
from fairpost.reasons.events import Level, level, message
from fairpost.settings import LogFormat, Settings
from fairpost.system import clock

LEVELS = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}
NAMES = {number: name for name, number in LEVELS.items()}

Line = Callable[[Reason, Level, datetime], str]


def as_json(event: Reason, found: Level, at: datetime) -> str:
    told = {"time": _utc(at), "level": found, "event": event.code, "message": message(event), **event.params}
    return json.dumps(told, ensure_ascii=False, default=_plain)


def as_text(event: Reason, found: Level, at: datetime) -> str:
    return f"{_utc(at)} {found} {event.code} {message(event)}"


def for_people(event: Reason, found: Level, at: datetime) -> str:
    mark = "" if found is Level.INFO else f"{found}: "
    return f"{at.astimezone():%H:%M:%S} {mark}{message(event)}"


class EventFormatter(logging.Formatter):
    def __init__(self, line: Line, secrets: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._line = line
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        event: Reason | None = getattr(record, "event", None)
        if event is None:  # from another library
            event = Reason("server.message", message=super().format(record), logger=record.name)
        found = NAMES.get(record.levelno, Level.ERROR if record.levelno > logging.ERROR else Level.INFO)
        return self._line(self._masked(event), found, clock.now())

    def _masked(self, event: Reason) -> Reason:
        if not self._secrets:
            return event
        return Reason(event.code, **{name: self._shown(value) for name, value in event.params.items()})

    def _shown(self, value: Value) -> Value:
        match value:
            case str():
                return masked(value, *self._secrets)
            case Reason():
                return self._masked(value)
            case list() | tuple():
                return [self._shown(each) for each in value]
            case _:
                return value


def start_logging(settings: Settings, *, log_format: LogFormat | None = None, stream: TextIO | None = None) -> Log:
    """Sends everything that is logged in this process to `stream`, which defaults to stderr."""
    stream = stream or sys.stderr
    chosen = log_format or settings.log_format
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EventFormatter(_line_for(chosen, stream), _secrets_of(settings)))
    root = logging.getLogger()
    for former in list(root.handlers):
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logger = logging.getLogger("fairpost")
    logger.setLevel(logging.INFO)
    logging.raiseExceptions = False  # keep running if the log reader has exited
    return log_with(logger)


def _line_for(chosen: LogFormat | None, stream: TextIO) -> Line:
    match chosen:
        case LogFormat.JSON:
            return as_json
        case LogFormat.TEXT:
            return as_text
        case None:
            return for_people if stream.isatty() else as_text
        case _:
            assert_never(chosen)


def log_with(logger: logging.Logger) -> Log:
    def log(event: Reason) -> None:
        with suppress(OSError):
            logger.log(LEVELS[level(event)], event.code, extra={"event": event})

    return log


def _secrets_of(settings: Settings) -> tuple[str, ...]:
    regions = [region.url for region in settings.regions] if settings.regions is not None else []
    urls = [url for url in (settings.database_url, *regions) if url]
    return tuple(filter(None, (settings.smtp_password, *map(_password_of, urls))))


def _password_of(url: str) -> str | None:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return None


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    if isinstance(value, Reason):
        return {"code": value.code, "params": value.params}
    return _utc(value) if isinstance(value, datetime) else str(value)
