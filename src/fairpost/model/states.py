"""An e-mail's states and every allowed transition between them. The database stores `waiting` for both scheduled and
ready, which differ only in whether their due time has come. The schema's enum and CHECK constraints mirror these states
and transitions; a test compares them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal, assert_never


class State(StrEnum):
    SCHEDULED = "scheduled"
    READY = "ready"
    CLAIMED = "claimed"
    SENDING = "sending"
    IN_DOUBT = "in_doubt"
    SENT = "sent"
    FAILED = "failed"
    BOUNCED = "bounced"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"


class EmailClass(StrEnum):
    URGENT = "urgent"
    BULK = "bulk"


class DoubtPolicy(StrEnum):
    RESEND = "resend"
    HOLD = "hold"


Decision = Literal["sent", "failed", "resend"]  # what to do with an e-mail in doubt

MEANING: Mapping[State, str] = {
    State.SCHEDULED: "due later, for a first attempt or a retry",
    State.READY: "may be claimed",
    State.CLAIMED: "claimed by an account, not started",
    State.SENDING: "being sent",
    State.IN_DOUBT: "outcome unknown",
    State.SENT: "accepted by the next hop",
    State.FAILED: "failed; you can retry it",
    State.BOUNCED: "permanently rejected because of the recipient, or returned after it was accepted",
    State.SUPPRESSED: "never sent: every recipient is on the suppression list",
    State.CANCELLED: "never sent: cancelled or expired",
}

WAITING = (State.SCHEDULED, State.READY)
WITH_ACCOUNT = (State.CLAIMED, State.SENDING, State.IN_DOUBT)
NEVER_SENT = (State.SUPPRESSED, State.CANCELLED)
UNFINISHED = frozenset({*WAITING, *WITH_ACCOUNT})
FINAL = frozenset(State) - UNFINISHED
MISSED = tuple(state for state in State if state in FINAL and state is not State.SENT)

MOVES: Mapping[State, frozenset[State]] = {
    State.SCHEDULED: frozenset({State.READY, State.CANCELLED, State.SENT}),
    State.READY: frozenset({State.CLAIMED, State.SENT, State.FAILED, *NEVER_SENT}),
    State.CLAIMED: frozenset({State.SENDING, *WAITING, *NEVER_SENT}),
    State.SENDING: frozenset({State.SENT, State.FAILED, State.BOUNCED, State.IN_DOUBT, *WAITING}),
    State.IN_DOUBT: frozenset({State.SENT, State.FAILED, *WAITING}),
    State.SENT: frozenset({State.BOUNCED}),  # it bounced later
    State.FAILED: frozenset(WAITING),
    State.BOUNCED: frozenset(WAITING),
    State.SUPPRESSED: frozenset(),
    State.CANCELLED: frozenset(),
}
assert set(MOVES) == set(State) == set(MEANING)
RETRYABLE = tuple(state for state in State if state in FINAL and State.READY in MOVES[state])


def shown(stored: str, *, due_at: datetime, now: datetime) -> State:
    """Return the state shown to users."""
    if stored == "waiting":
        return State.READY if due_at <= now else State.SCHEDULED
    return State(stored)


OUTBOX_WORDS: Mapping[State, str] = {
    **dict.fromkeys(WAITING, "pending"),
    **dict.fromkeys(WITH_ACCOUNT, "processing"),
    State.SENT: "sent",
    **dict.fromkeys(RETRYABLE, "failed"),
    **dict.fromkeys(NEVER_SENT, "cancelled"),
}
"""The states in outbox terms: pending, processing, sent, failed, cancelled."""


class ReceiptState(StrEnum):
    """The state of a recipient's e-mail.

    `to_follow` means that the e-mail is waiting for the previous step. `parked` means that the prospect is paused.
    """

    SENT = "sent"
    READY = "ready"
    SCHEDULED = "scheduled"
    TO_FOLLOW = "to_follow"
    PARKED = "parked"
    CLAIMED = "claimed"
    SENDING = "sending"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    BOUNCED = "bounced"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"


assert {str(state) for state in State} == {str(state) for state in ReceiptState} - {"to_follow", "parked"}


class SequenceWord(StrEnum):
    """An e-mail's state, in the terms used by applications that schedule sequences."""

    SCHEDULED = "SCHEDULED"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    SENDING = "SENDING"
    SENT = "SENT"
    PERMANENTLY_FAILED = "PERMANENTLY_FAILED"
    CANCELLED = "CANCELLED"


def sequence_word(state: State, attempts: int) -> SequenceWord:
    """Return the state of an e-mail for which this many attempts have started. An e-mail that is waiting after an
    attempt is waiting to be retried.
    """
    match state:
        case State.SCHEDULED | State.READY | State.CLAIMED:
            return SequenceWord.RETRY_SCHEDULED if attempts else SequenceWord.SCHEDULED
        case State.SENDING | State.IN_DOUBT:
            return SequenceWord.SENDING
        case State.SENT:
            return SequenceWord.SENT
        case State.FAILED | State.BOUNCED:
            return SequenceWord.PERMANENTLY_FAILED
        case State.SUPPRESSED | State.CANCELLED:
            return SequenceWord.CANCELLED
        case _:
            assert_never(state)


def wanted_states(words: Iterable[State | SequenceWord]) -> list[str]:
    """Return the states as the database expects them.

    The suffix `:new` selects e-mails that have not been tried yet; `:retry` selects those that have.
    """
    return sorted({each for word in words for each in _wanted(word)})


def _wanted(word: State | SequenceWord) -> Iterable[str]:
    if isinstance(word, State):
        return [word]
    of_new, of_tried = ({s for s in State if sequence_word(s, n) is word} for n in (0, 1))
    return [
        *(of_new & of_tried),
        *(f"{s}:new" for s in of_new - of_tried),
        *(f"{s}:retry" for s in of_tried - of_new),
    ]
