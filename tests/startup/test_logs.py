"""One event per line, with its time, level, name and fields, and without secrets from the settings."""

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairpost.model.reason import Reason
from fairpost.reasons.events import EVENTS
from fairpost.settings import LogFormat, Settings, read_settings
from fairpost.startup.logs import start_logging

LIMIT = Reason("account.daily_limit", account="news", until=datetime(2030, 1, 8, 9, tzinfo=UTC), why=None)
SRC = Path(__file__).parents[2] / "src" / "fairpost"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, raises = logging.getLogger(), logging.raiseExceptions
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raises


def settings(**more: str) -> Settings:
    return read_settings({"FAIRPOST_HOME": "/nowhere", **more})


def test_json_has_the_event_and_its_fields() -> None:
    stream = io.StringIO()
    start_logging(settings(FAIRPOST_LOG_FORMAT="json"), stream=stream)(LIMIT)
    told = json.loads(stream.getvalue())
    assert datetime.fromisoformat(told.pop("time")).tzinfo is not None
    assert "news" in told.pop("message")
    assert told == {
        "level": "info",
        "event": "account.daily_limit",
        "account": "news",
        "until": "2030-01-08T09:00:00.000Z",
        "why": None,
    }


def test_text_has_time_level_and_event_and_a_terminal_only_what_people_read() -> None:
    stream, terminal = io.StringIO(), Terminal()
    start_logging(settings(), stream=stream)(Reason("database.away", why="No PostgreSQL answers"))
    start_logging(settings(), stream=terminal)(Reason("database.away", why="No PostgreSQL answers"))
    assert stream.getvalue().split()[1:3] == ["error", "database.away"]
    assert "database.away" not in terminal.getvalue()


def test_the_option_goes_before_the_setting_and_both_before_the_terminal() -> None:
    terminal = Terminal()
    start_logging(settings(FAIRPOST_LOG_FORMAT="json"), log_format=LogFormat.TEXT, stream=terminal)(LIMIT)
    assert terminal.getvalue().split()[2] == "account.daily_limit"


@pytest.mark.parametrize("log_format", LogFormat)
def test_passwords_of_the_settings_are_masked(log_format: LogFormat) -> None:
    stream = io.StringIO()
    given = settings(FAIRPOST_DATABASE_URL="postgresql://ann:s3cret%21@db.test/mail", FAIRPOST_SMTP_PASSWORD="geheim")
    log = start_logging(given, log_format=log_format, stream=stream)
    log(Reason("task.failed", task="retention", error="cannot log in with s3cret! or geheim"))
    assert "s3cret" not in stream.getvalue()
    assert "geheim" not in stream.getvalue()


def test_a_warning_of_another_library_goes_the_same_way() -> None:
    stream = io.StringIO()
    start_logging(settings(), log_format=LogFormat.JSON, stream=stream)
    logging.getLogger("uvicorn.error").warning("Exceeded concurrency limit.")
    told = json.loads(stream.getvalue())
    assert (told["event"], told["level"], told["logger"]) == ("server.message", "warning", "uvicorn.error")


def test_a_reader_that_is_gone_ends_nothing() -> None:
    stream = io.StringIO()
    log = start_logging(settings(), stream=stream)
    stream.close()
    log(LIMIT)


def test_every_event_of_the_table_is_logged_somewhere_and_none_has_a_field_of_the_line() -> None:
    text = "".join(file.read_text() for file in SRC.rglob("*.py") if file.name not in ("events.py", "catalogue.py"))
    made_of_parts = re.compile(r"(campaign|postgres|database)\.\w+")
    unused = [code for code in EVENTS if f'"{code}"' not in text and not made_of_parts.fullmatch(code)]
    assert unused == []
    fields = {name for event in EVENTS.values() for name in re.findall(r"\{(\w+)\}", event.sentence)}
    assert fields & {"time", "level", "event"} == set()
