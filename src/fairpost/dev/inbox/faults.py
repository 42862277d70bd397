"""Faults on request: their kinds, their notation, and the choice of those that apply. `server.py` applies them. Faults
are written as `STEP=ACTION[:DETAIL][%PERCENT]` in an option, and as `ann+STEP-ACTION[-DETAIL][%PERCENT]@…` in an
address.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from fairpost.model.durations import read_duration


class Step(StrEnum):
    CONNECT = "connect"
    EHLO = "ehlo"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    DOT = "dot"


class Kind(StrEnum):
    REJECT = "reject"
    TEMPFAIL = "tempfail"
    DELAY = "delay"
    CUT = "cut"
    CUT_AFTER = "cut-after"
    STALL = "stall"


@dataclass(frozen=True, slots=True)
class Answer:
    reply: str


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is closed before the reply, and nothing is stored."""


@dataclass(frozen=True, slots=True)
class CutAfter:
    """The connection is closed before the reply, but the message is stored."""


@dataclass(frozen=True, slots=True)
class Stall:
    """No reply is ever sent."""


Action = Answer | Delay | Cut | CutAfter | Stall


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The state of a session when the server is about to answer a step."""

    step: Step
    now: datetime
    sender: str = ""  # known from the MAIL command on
    recipient: str = ""  # at RCPT, the current recipient; afterwards, the first recipient
    messages: int = 0  # number of messages started earlier on this connection


Decide = Callable[[Heard], Sequence[Action]]
"""Decides the effects at a step, in order. If there are none, the server sends its usual reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    step: Step
    action: Action
    percent: int = 100


DELAY_S_MAX = 1_800
REPLY_CHARS_MAX = 400  # RFC 5321: a reply line is at most 512 bytes long

# The usual replies for each fault: code, enhanced code and text.
REPLIES = {
    (Step.CONNECT, Kind.REJECT): ("554", "5.3.2", "No service here"),
    (Step.EHLO, Kind.REJECT): ("550", "5.7.1", "Your name is refused"),
    (Step.AUTH, Kind.REJECT): ("535", "5.7.8", "Wrong user name or password"),
    (Step.MAIL, Kind.REJECT): ("550", "5.7.1", "Sender refused"),
    (Step.RCPT, Kind.REJECT): ("550", "5.1.1", "No such user"),
    (Step.DATA, Kind.REJECT): ("554", "5.7.1", "Transaction refused"),
    (Step.DOT, Kind.REJECT): ("554", "5.6.0", "Message refused"),
    (Step.CONNECT, Kind.TEMPFAIL): ("421", "4.3.2", "Closed for now, try again later"),
    (Step.EHLO, Kind.TEMPFAIL): ("421", "4.3.2", "Too busy, try again later"),
    (Step.AUTH, Kind.TEMPFAIL): ("454", "4.7.0", "Cannot check your password now"),
    (Step.MAIL, Kind.TEMPFAIL): ("451", "4.3.0", "Try again later"),
    (Step.RCPT, Kind.TEMPFAIL): ("450", "4.2.1", "Mailbox is busy, try again later"),
    (Step.DATA, Kind.TEMPFAIL): ("451", "4.3.0", "Try again later"),
    (Step.DOT, Kind.TEMPFAIL): ("451", "4.3.0", "Not stored, try again later"),
}

_FAULT = re.compile(r"([a-z]+)=([a-z-]+)(?::(.*?))?(?:%(\d{1,4}))?", re.DOTALL | re.ASCII)
_TAG = re.compile(rf"({'|'.join(Step)})-(cut-after|{'|'.join(Kind)})(?:-([^%]*))?(%\d{{1,4}})?", re.ASCII)
_REPLY = re.compile(r"([45][0-5]\d)(?: (.+))?", re.ASCII)


def parse(text: str) -> Fault:
    """Parses a fault. Raises ValueError with an explanation."""
    match = _FAULT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!a} is not a fault; use STEP=ACTION, for example rcpt=reject or dot=cut%10")
    step, kind, detail, percent = match.groups()
    if step not in set(Step):
        raise ValueError(f"{text!a}: there is no step {step}; use one of {', '.join(Step)}")
    if kind not in set(Kind):
        raise ValueError(f"{text!a}: there is no action {kind}; use one of {', '.join(Kind)}")
    if percent is not None and not 1 <= int(percent) <= 100:
        raise ValueError(f"{text!a}: the percentage must be 1..100, got {percent}")
    return Fault(step=Step(step), action=_action(Step(step), Kind(kind), detail), percent=int(percent or 100))


def tagged(address: str, *, steps: Collection[Step]) -> list[Fault]:
    """Returns the faults in the plus tags of an address.

    Raises ValueError if a tag is misspelt or its step is already over. Otherwise, the fault would silently never occur,
    and a test that uses it would prove nothing.
    """
    local = address.rpartition("@")[0] or address
    tags = local.strip('"').lower().split("+")[1:]
    faults = [_from_tag(match) for tag in tags if (match := _TAG.fullmatch(tag))]
    for fault in faults:
        if fault.step not in steps:
            raise ValueError(f"this address's tag cannot affect {fault.step}, only {', '.join(steps)}")
    return faults


def striking(faults: Iterable[Fault], step: Step, *, roll: Callable[[], float]) -> Iterator[Action]:
    """Yields the effects at this step, in order. Uses a random number only for faults with a percentage."""
    for fault in faults:
        if fault.step is step and (fault.percent == 100 or roll() * 100 < fault.percent):
            yield fault.action


def _from_tag(match: re.Match[str]) -> Fault:
    step, kind, detail, percent = match.groups(default="")
    return parse(f"{step}={kind}{':' if detail else ''}{detail}{percent}")


def _action(step: Step, kind: Kind, detail: str | None) -> Action:
    if kind in (Kind.CUT, Kind.CUT_AFTER, Kind.STALL) and detail is not None:
        raise ValueError(f"{kind} does not accept a detail, got {detail!a}")
    match kind:
        case Kind.REJECT | Kind.TEMPFAIL:
            return Answer(_reply(step, kind, detail))
        case Kind.DELAY:
            return Delay(_seconds(detail or ""))
        case Kind.CUT:
            return Cut()
        case Kind.CUT_AFTER:
            if step is not Step.DOT:
                raise ValueError(
                    f"cut-after works only at the dot step, because nothing is stored before that step; got {step}"
                )
            return CutAfter()
        case Kind.STALL:
            return Stall()
        case _:
            assert_never(kind)


def _reply(step: Step, kind: Kind, detail: str | None) -> str:
    code, enhanced, text = REPLIES[step, kind]
    if detail is None:
        return f"{code} {enhanced} {text}"
    match = _REPLY.fullmatch(detail)
    if match is None or len(detail) > REPLY_CHARS_MAX or not detail.isprintable():
        raise ValueError(f"{kind} needs a code and a text, for example {kind}:{code} {enhanced} {text}; got {detail!a}")
    if match[1][0] != code[0]:
        raise ValueError(f"{kind} needs a code in the range {code[0]}00..{code[0]}59, got {match[1]}")
    return detail if match[2] else f"{match[1]} {enhanced} {text}"


def _seconds(detail: str) -> float:
    length = read_duration(detail, is_fine=True)
    seconds = length.total_seconds() if length is not None else 0
    if not 0 < seconds <= DELAY_S_MAX:
        raise ValueError(
            f"delay needs a time from 1ms to {DELAY_S_MAX // 60}m, for example 500ms or 5s; got {detail!a}"
        )
    return seconds
