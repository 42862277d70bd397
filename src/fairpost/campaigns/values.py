"""The values of each key of a campaign file. An invalid value raises ValueError with the rule and the value.

The message continues a sentence that begins with the key: `must be …, got …`. file.py checks whether values are
consistent.
"""

import json
import re
from datetime import UTC, date, datetime, time
from typing import Any

from fairpost.campaigns import parsers
from fairpost.campaigns.parsers import shown
from fairpost.model.campaign import Gap
from fairpost.model.email_fields import EMAIL_TYPE
from fairpost.model.mailbox import Mailbox
from fairpost.model.names import NAME_RULE, POOL_CHARS_MAX, is_name
from fairpost.model.window import RAMP_UP_DAYS

LISTS_MAX = 100
HOLIDAYS_MAX = 1_000
WHOLE_MAX = 1_000_000_000  # a larger number must be a typo
LINE_CHARS_MAX = 200
YEARS = range(1970, 2200)  # the same limit as for e-mails

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


_MAILBOX = re.compile(
    r'(?: *(?:"(?P<quoted>(?:[^"\\]|\\["\\])*)"|(?P<plain>[^"<>]*?)) *<(?=[^<>]*> *$))?(?P<address>[^<>\s]+)>? *'
)


def text(value: Any, like: str = "Hello") -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text in quotes, for example {shown(like)}, got {said(value)}")
    if "\0" in value:
        raise ValueError(r"must not contain \u0000")
    return value


def filled(value: Any) -> str:
    given = text(value)
    if not given.strip():
        raise ValueError("must not be empty: add a value or remove it")
    return given


def line(value: Any, chars_max: int = LINE_CHARS_MAX, like: str = "acme") -> str:
    given = text(value, like)
    if len(given) > chars_max or _CONTROLS.search(given):
        raise ValueError(f"must be one line of at most {chars_max:,} characters, got {shown(given)}")
    return given


def name(value: Any) -> str:
    given = text(value, "spring")
    if not is_name(given):
        raise ValueError(f"must be {NAME_RULE}, got {shown(given)}")
    return given


def workspace(value: Any) -> str:
    given = line(value)
    if given in ("", "*"):
        raise ValueError(f"must be a single workspace name, got {shown(given)}")
    return given


def user(value: Any) -> str:
    return line(value, like="ann")


def email_type(value: Any) -> str | None:
    given = text(value, "newsletter")
    if not re.fullmatch(EMAIL_TYPE, given):
        raise ValueError(
            f"must be 1 to 150 letters, digits and _.:- and start with a letter or digit, got {shown(given)}"
        )
    return given


def tags(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f'must map names to strings, for example {{ season = "spring" }}, got {said(value)}')
    return value


def headers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f'must map names to strings, for example {{ X-Team = "sales" }}, got {said(value)}')
    return value


def mailbox(value: Any) -> Mailbox:
    given = text(value, "Ann Lee <ann@example.com>")
    found = _MAILBOX.fullmatch(given)
    local, _, domain = (found["address"] if found else "").rpartition("@")
    if found is None or not local or not domain:
        raise ValueError(f"must be an address such as Ann Lee <ann@example.com>, got {shown(given)}")
    name = re.sub(r"\\(.)", r"\1", found["quoted"]) if found["quoted"] is not None else found["plain"]
    return Mailbox(address=f"{local}@{domain.lower()}", name=name or None)


def metadata(value: Any) -> dict[str, Any] | None:
    try:
        found = json.loads(value if isinstance(value, str) else json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("must be a table, or a JSON object as text")
    return found


def timezone(value: Any) -> str:
    return line(value, like="Europe/Berlin")


def pool(value: Any) -> str:
    given = line(value, POOL_CHARS_MAX, "default")
    if given == "" or given.startswith("@"):
        raise ValueError(f"must be a pool name, got {shown(given)}: for one account, write account = …")
    return given


def only_list(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        raise ValueError(f"must be a single name, got {said(value)}: for several lists, write lists = …")
    return (name(value),)


def list_names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= LISTS_MAX:
        raise ValueError(
            f'must be a list of 1 to {LISTS_MAX} names in brackets, for example ["customers"], got {said(value)}'
        )
    names = tuple(map(name, value))
    if twice := [each for number, each in enumerate(names) if each in names[:number]]:
        raise ValueError(f"must not contain the same name twice, got {shown(twice[0])} twice")
    return names


def moment(value: Any) -> datetime:
    like = "2027-03-01T09:00:00+01:00"
    if not isinstance(value, datetime):
        raise ValueError(f"must be a time such as {like}, without quotes, got {said(value)}")
    if value.tzinfo is None:
        raise ValueError(f"must have an offset from UTC, for example {like}, got {said(value)}")
    if value.year not in YEARS or value.astimezone(UTC).year not in YEARS:
        raise ValueError(f"must be between the years {YEARS[0]} and {YEARS[-1]}, got {said(value)}")
    return value.astimezone(UTC)


def gap(value: Any) -> Gap | None:
    return parsers.gap(text(value, "30-90"))


def delay(value: Any) -> int:
    return parsers.duration_s(text(value, "3d"))


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, without quotes, got {said(value)}")
    return value


def is_recipients(value: Any) -> bool:
    if value not in ("workspace", "recipient"):
        raise ValueError(f'must be "workspace" or "recipient", got {said(value)}')
    return bool(value == "recipient")


def days(value: Any) -> frozenset[int]:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return parsers.weekdays(",".join(value))
    return parsers.weekdays(text(value, "mon-fri"))


def hours(value: Any) -> parsers.Hours:
    return parsers.hours(text(value, "09:00-17:00"))


def holidays(value: Any) -> frozenset[date]:
    if not isinstance(value, list) or len(value) > HOLIDAYS_MAX:
        raise ValueError(
            f"must be a list of at most {HOLIDAYS_MAX:,} dates in brackets, for example [2027-04-05], got {said(value)}"
        )
    for each in value:
        if not isinstance(each, date) or isinstance(each, datetime):
            raise ValueError(f"must be dates such as 2027-04-05, without quotes, got {said(each)}")
    return frozenset(value)


def daily_max(value: Any) -> int | None:
    if value == "none":
        return None
    if not _is_whole(value):
        raise ValueError(f'must be a whole number of e-mails per day, 1..{WHOLE_MAX}, or "none", got {said(value)}')
    return int(value)


def ramp_up(value: Any) -> parsers.RampUp:
    if isinstance(value, bool):
        return (RAMP_UP_DAYS, ()) if value else parsers.NO_RAMP_UP
    if isinstance(value, str):
        return parsers.ramp_up(value)
    if _is_whole(value):
        return value, ()
    if isinstance(value, list) and value and all(map(_is_whole, value)):
        return 0, tuple(value)
    raise ValueError(f"must be true, a number of days, or percentages such as [10, 20, 50], got {said(value)}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= WHOLE_MAX


def said(value: Any) -> str:
    """Returns the value as it is written in the file. For a list or table, returns only its type."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return f"a list of {len(value):,}" if value else "an empty list"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > WHOLE_MAX:
        return "a huge number"  # Python refuses to format very long numbers
    return value.isoformat() if isinstance(value, date | time) else str(value)
