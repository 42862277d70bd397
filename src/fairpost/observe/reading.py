"""Whether an account's mailbox is read, the reason if it is not, and what goes undetected as a result.

Only this module answers these questions. Commands, pages, the API and the doctor render the answers.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from fairpost.model.account import AccountRuntime
from fairpost.model.reason import Reason
from fairpost.model.transport import ServerSettings
from fairpost.policy.conditions import Condition, Tone
from fairpost.reasons.rendering import coded
from fairpost.transports.registry import kind_of

OVERDUE = timedelta(hours=1)  # a mailbox is read every half hour, even if the server reports no changes


class ReadingState(StrEnum):
    OFF = "off"
    WAITING = "waiting"  # waiting for an engine to start reading
    READING = "reading"
    FAILING = "failing"


class Unknown(StrEnum):
    """What cannot be known about an account's sent mail without reading its mailbox."""

    BOUNCES = "late_bounces"
    COMPLAINTS = "complaints"
    REPLIES = "replies"


_TONES = {
    ReadingState.OFF: Tone.IDLE,
    ReadingState.WAITING: Tone.WAITING,
    ReadingState.READING: Tone.WORKING,
    ReadingState.FAILING: Tone.FAULT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`read_at` is the time of the last successful read. `unknown` applies to all mail returned after that time."""

    state: ReadingState
    condition: Condition
    read_at: datetime | None
    unknown: tuple[Unknown, ...] = ()

    @property
    def is_troubled(self) -> bool:
        """Whether reading is on but failing or overdue."""
        return self.state is ReadingState.FAILING or self.condition.code == "account.read_overdue"


def reading_of(runtime: AccountRuntime, now: datetime) -> Reading | None:
    """Return the state of mailbox reading for the account, or None if the account has no server."""
    account, mailbox = runtime.account, runtime.mailbox
    settings = account.transport
    if not isinstance(settings, ServerSettings):
        return None
    kind = kind_of(settings)
    has_bounce_address = kind.bounce_domain(settings) is not None
    unknown = (Unknown.REPLIES,) if has_bounce_address else tuple(Unknown)
    read_at = mailbox.looked_at if mailbox else None
    about = {"account": account.name}
    if not kind.reads(settings):
        code = "account.replies_unknown" if has_bounce_address else "account.no_way_back"
        return _reading(ReadingState.OFF, Reason(code, **about, option=kind.read_option), unknown=unknown)
    if mailbox is not None and mailbox.reason is not None:
        return _reading(ReadingState.FAILING, mailbox.reason, read_at, unknown)
    if read_at is None:
        return _reading(ReadingState.WAITING, Reason("account.read_soon", **about), unknown=unknown)
    if now - read_at > OVERDUE:
        return _reading(
            ReadingState.WAITING, Reason("account.read_overdue", **about, read_at=read_at), read_at, unknown
        )
    return _reading(ReadingState.READING, Reason("account.read", **about, looked_at=read_at), read_at)


def reading_facts(reading: Reading | None) -> dict[str, Any]:
    """Return the reading state as response fields."""
    return {
        "reading_state": reading.state if reading else None,
        **coded(reading.condition.reason if reading else None, "reading"),
        "last_read_at": reading.read_at if reading else None,
        "unknown": list(reading.unknown) if reading else [],
    }


def unknown_in_words(reading: Reading) -> str:
    return ", ".join(each.replace("_", " ") for each in reading.unknown)


def _reading(
    state: ReadingState, reason: Reason, read_at: datetime | None = None, unknown: tuple[Unknown, ...] = ()
) -> Reading:
    return Reading(
        state=state, condition=Condition(reason=reason, tone=_TONES[state]), read_at=read_at, unknown=unknown
    )
