"""Faults on request: their kinds, their notation, and the choice of those that apply. `app.py` applies them. A fault is
written as an object. `route`, `method` and `user` determine which calls match. `nth`, `times` and `percent` select some
of those calls. `action` and its details determine the effect. With `after`, the fault occurs after the request has been
carried out.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, assert_never

from fairpost.dev.emulate.answers import Answer, answer, google_error, phrase, rfc3339_ms

SECONDS_MAX = 86_400
FAULTS_MAX = 1_000
_FRAMING = {"content-length", "content-type", "transfer-encoding", "connection", "date"}
TOKEN = "token"  # noqa: S105 - this is the name of a route

# Google's status, message and error domain for each reason.
REASONS = {
    "invalidArgument": (400, "Invalid argument", "global"),
    "failedPrecondition": (400, "Precondition check failed.", "global"),
    "authError": (401, "Invalid Credentials", "global"),
    "dailyLimitExceeded": (403, "Daily Limit Exceeded", "usageLimits"),
    "userRateLimitExceeded": (403, "User Rate Limit Exceeded", "usageLimits"),
    "quotaExceeded": (403, "The quota of the project is exceeded.", "usageLimits"),
    "domainPolicy": (403, "The domain administrators have disabled Gmail apps.", "global"),
    "insufficientPermissions": (403, "Request had insufficient authentication scopes.", "global"),
    "accessNotConfigured": (
        403,
        "Gmail API has not been used in project 104729104729 before or it is disabled. Enable it, then retry.",
        "usageLimits",
    ),
    "notFound": (404, "Requested entity was not found.", "global"),
    "rateLimitExceeded": (429, "Resource has been exhausted (e.g. check quota).", "global"),
    "backendError": (500, "Backend Error", "global"),
}
REASON_OF_STATUS = {
    400: "invalidArgument",
    401: "authError",
    403: "userRateLimitExceeded",
    404: "notFound",
    429: "rateLimitExceeded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    status: int
    reason: str
    message: str
    domain: str
    name: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: float | None = None  # shown in the message, as in Gmail

    def answer(self, *, route: str, now: datetime) -> Answer:
        if route == TOKEN:
            body = {"error": self.reason, "error_description": self.message}
            return answer(body, status=self.status, headers=self.headers)
        message = self.message
        if self.retry_after_s is not None:
            until = rfc3339_ms(now + timedelta(seconds=self.retry_after_s))
            message = f"User-rate limit exceeded.  Retry after {until}"
        return google_error(self.status, self.reason, message, domain=self.domain, name=self.name, headers=self.headers)


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed without an answer."""


@dataclass(frozen=True, slots=True)
class Stall:
    """No answer is ever sent, but the connection stays open."""


@dataclass(frozen=True, slots=True)
class CutBody:
    """Half of the answer is sent, then the connection is closed."""


@dataclass(frozen=True, slots=True)
class StallBody:
    """Half of the answer is sent, then nothing more."""


@dataclass(frozen=True, slots=True)
class Garbage:
    status: int
    body: bytes
    content_type: str


class What(StrEnum):
    EXPIRE_TOKENS = "expire-tokens"
    REVOKE_TOKENS = "revoke-tokens"
    DISABLE_SERVICE_ACCOUNT = "disable-service-account"
    DISABLE_USER = "disable-user"
    DISABLE_MAIL = "disable-mail"
    SKEW_CLOCK = "skew-clock"


@dataclass(frozen=True, slots=True)
class Change:
    """A permanent change. The call then continues with the changed state."""

    what: What
    seconds: float = 0


Action = Error | Delay | Drop | Stall | CutBody | StallBody | Garbage | Change


class Kind(StrEnum):
    ERROR = "error"
    DELAY = "delay"
    DROP = "drop"
    STALL = "stall"
    CUT_BODY = "cut-body"
    STALL_BODY = "stall-body"
    GARBAGE = "garbage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    action: Action
    after: bool = False
    route: str = "*"
    method: str | None = None
    user: str | None = None
    nth: frozenset[int] = frozenset()  # numbers of the matching calls; empty for all
    times: int | None = None
    percent: float = 100

    def concerns(self, *, route: str, method: str, user: str | None) -> bool:
        return (
            fnmatchcase(route, self.route)
            and self.method in (None, method)
            and (self.user is None or self.user.lower() == (user or "").lower())
        )


class Faults:
    """The faults and the number of calls that each has matched."""

    def __init__(self, faults: Iterable[Fault] = (), *, roll: Callable[[], float]) -> None:
        self._entries = [_Entry(fault) for fault in faults]
        self._roll = roll

    def add(self, fault: Fault | None = None, **written: Any) -> None:
        """Adds a fault, given either as an object or as separate arguments, as in `add(route="drafts.send",
        action="drop", after=True, nth=1)`.
        """
        if len(self._entries) >= FAULTS_MAX:
            raise ValueError(f"there are already {FAULTS_MAX} faults")
        self._entries.append(_Entry(fault or parse(written)))

    def clear(self) -> None:
        self._entries.clear()

    def listed(self) -> list[tuple[Fault, int, int]]:
        """Returns each fault with the number of calls that it matched and the number of times that it was applied."""
        return [(entry.fault, entry.seen, entry.struck) for entry in self._entries]

    def striking(self, *, route: str, method: str, user: str | None) -> list[Fault]:
        return [
            entry.fault
            for entry in self._entries
            if entry.fault.concerns(route=route, method=method, user=user) and entry.strikes(self._roll)
        ]


@dataclass(slots=True)
class _Entry:
    fault: Fault
    seen: int = 0
    struck: int = 0

    def strikes(self, roll: Callable[[], float]) -> bool:
        self.seen += 1
        fault = self.fault
        if fault.nth and self.seen not in fault.nth:
            return False
        if fault.times is not None and self.struck >= fault.times:
            return False
        if fault.percent < 100 and roll() * 100 >= fault.percent:
            return False
        self.struck += 1
        return True


def parse_all(written: Any) -> list[Fault]:
    """Parses one fault or a list of faults. Raises ValueError with an explanation."""
    items = written if isinstance(written, list) else [written]
    if len(items) > FAULTS_MAX:
        raise ValueError(f"at most {FAULTS_MAX} faults are allowed, got {len(items)}")
    return [parse(item) for item in items]


def parse(written: Any) -> Fault:
    if not isinstance(written, Mapping):
        raise ValueError(f"a fault must be an object with an action, got {written!r:.80}")
    given = dict(written)
    route, method, user = _text(given, "route"), _text(given, "method"), _text(given, "user")
    fault = Fault(
        route=route or "*",
        method=method.upper() if method else None,
        user=user,
        nth=_ordinals(given.pop("nth", None)),
        times=_whole(given, "times", 1, 1_000_000),
        percent=100 if (percent := _number(given, "percent", 0, 100)) is None else percent,
        after=_flag(given, "after"),
        action=_action(given, is_token=route == TOKEN),
    )
    if given:
        raise ValueError(
            f"fault options that are unknown or that the action does not support: {', '.join(map(repr, given))}"
        )
    if fault.after and isinstance(fault.action, Change | CutBody | StallBody):
        raise ValueError("after can be used only with error, delay, drop, stall and garbage")
    return fault


_TAG = re.compile(r"(draft|send)-(error|delay|drop|stall)(?:-(\d{1,5})(ms|s)?)?(-after)?")
_STEPS = {"draft": ("drafts.create",), "send": ("drafts.send", "messages.send")}


def tagged(addresses: Iterable[str], *, route: str) -> list[Fault]:
    """Returns the faults specified in the plus tags of these addresses, as in `ann+send-error-503@…`."""
    found = []
    for address in addresses:
        for tag in address.rpartition("@")[0].strip('"').lower().split("+")[1:]:
            match = _TAG.fullmatch(tag)
            if match and route in _STEPS[match[1]]:
                found.append(_from_tag(match))
    return found


def _from_tag(match: re.Match[str]) -> Fault:
    _, kind, number, unit, after = match.groups()
    written: dict[str, Any] = {"action": kind, "after": bool(after)}
    if kind == Kind.ERROR:
        written["status"] = int(number or 503)
    elif kind == Kind.DELAY:
        written["seconds"] = int(number or 1) / (1_000 if unit == "ms" else 1)
    return parse(written)


def _action(given: dict[str, Any], *, is_token: bool) -> Action:
    name = _text(given, "action") or ""
    if name in set(What):
        seconds = _number(given, "seconds", -SECONDS_MAX * 366, SECONDS_MAX * 366)
        return Change(What(name), seconds or 0)
    if name not in set(Kind):
        raise ValueError(f"there is no action {name!r}; use one of {', '.join([*Kind, *What])}")
    kind = Kind(name)
    match kind:
        case Kind.ERROR:
            return _token_error(given) if is_token else _error(given)
        case Kind.DELAY:
            seconds = _number(given, "seconds", 0, SECONDS_MAX)
            if seconds is None:
                raise ValueError("delay must be a number of seconds")
            return Delay(seconds)
        case Kind.DROP:
            return Drop()
        case Kind.STALL:
            return Stall()
        case Kind.CUT_BODY:
            return CutBody()
        case Kind.STALL_BODY:
            return StallBody()
        case Kind.GARBAGE:
            return _garbage(given)
        case _:
            assert_never(kind)


def _garbage(given: dict[str, Any]) -> Garbage:
    status = _whole(given, "status", 200, 599) or 200
    if status in (204, 304):
        raise ValueError(f"a response with status {status} cannot have a body")
    body, content_type = _text(given, "body"), _text(given, "content_type") or "application/json"
    if not content_type.isascii() or not content_type.isprintable():
        raise ValueError(f"content_type must be a media type, got {content_type!r:.80}")
    return Garbage(status, b"<html>\x00\xff{" if body is None else body.encode(), content_type)


def _error(given: dict[str, Any]) -> Error:
    status, reason = _whole(given, "status", 400, 599), _text(given, "reason")
    if reason is None:
        status = status or 503
        reason = REASON_OF_STATUS.get(status, "backendError")
    usual_status, usual_message, domain = REASONS.get(reason, (status or 400, reason, "global"))
    status = status or usual_status
    if status > 500 and reason == "backendError":
        usual_message = "The service is currently unavailable." if status == 503 else phrase(status)
    return Error(
        status=status,
        reason=reason,
        message=_text(given, "message") or usual_message,
        domain=_text(given, "domain") or domain,
        name="FAILED_PRECONDITION" if reason == "failedPrecondition" else None,
        headers=_headers(given.pop("headers", None)),
        retry_after_s=_number(given, "retry_after_s", 0, SECONDS_MAX * 30),
    )


def _token_error(given: dict[str, Any]) -> Error:
    status = _whole(given, "status", 400, 599) or 400
    usual = ("internal_failure", "Backend Error") if status >= 500 else ("invalid_grant", "Bad Request")
    return Error(
        status=status,
        reason=_text(given, "reason") or usual[0],
        message=_text(given, "message") or usual[1],
        domain="",
        headers=_headers(given.pop("headers", None)),
    )


def _text(given: dict[str, Any], name: str) -> str | None:
    value = given.pop(name, None)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {value!r:.80}")
    return value


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.pop(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r:.80}")
    return value


def _number(given: dict[str, Any], name: str, least: float, most: float) -> float | None:
    value = given.pop(name, None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name} must be {least}..{most}, got {value!r:.80}")
    return value


def _whole(given: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = _number(given, name, least, most)
    if value is not None and value != int(value):
        raise ValueError(f"{name} must be a whole number, got {value}")
    return None if value is None else int(value)


def _ordinals(value: Any) -> frozenset[int]:
    if value is None:
        return frozenset()
    numbers = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    if not numbers or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in numbers):
        raise ValueError(f"nth must be a number (1 or higher) or a list of such numbers, got {value!r:.80}")
    return frozenset(numbers)


def _headers(value: Any) -> dict[str, str]:
    given = {} if value is None else value
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) and re.fullmatch(r"[!-9;-~]+", str(name)) and text.isascii() and text.isprintable()
        for name, text in given.items()
    ):
        raise ValueError(f"headers must be an object that maps names to strings, got {value!r:.80}")
    if forbidden := _FRAMING & {str(name).lower() for name in given}:
        raise ValueError(f"headers cannot include those that the emulator itself sets: {', '.join(sorted(forbidden))}")
    return {str(name): text for name, text in given.items()}
