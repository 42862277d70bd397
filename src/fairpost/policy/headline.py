"""One plain sentence on what is happening now; and if nothing is sent, why, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fairpost.policy.diagnosis import Cause, Facts, Reason

Tone = Literal["good", "wait", "bad", "quiet"]

# Which cause is told first where several keep mail from going out, and how bad it is. What ends by itself is only to be waited for.
TONES: dict[Cause, Tone] = {
    Cause.PAUSED: "bad",
    Cause.NO_ACCOUNT: "bad",
    Cause.NO_WORKER: "bad",
    Cause.ACCOUNTS_OUT_OF_ACTION: "bad",
    Cause.NO_ACCOUNT_IN_POOL: "bad",
    Cause.NO_SUCH_ACCOUNT: "bad",
    Cause.LIMITS_REACHED: "wait",
    Cause.BLOCKED: "bad",
    Cause.HELD: "wait",
    Cause.SCHEDULED: "wait",
    Cause.STRANDED: "wait",
    Cause.IN_DOUBT: "wait",
}
_ORDER = list(TONES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    tone: Tone
    text: str
    until: datetime | None = None


def headline(facts: Facts, reasons: Sequence[Reason], *, per_s: float) -> Headline:
    """`per_s`: how many e-mails went out in the last seconds, each second."""
    total = facts.total()
    waiting = sum(route.waiting for route in facts.routes)
    first = min(reasons, key=lambda reason: _ORDER.index(reason.cause), default=None)
    if first is not None and first.cause is Cause.PAUSED:
        return Headline(tone="bad", text=first.text, until=first.until)
    if per_s > 0:
        behind = waiting + total.claimed
        rest = f"{behind:,} wait behind them" if behind else "nothing waits behind them"
        held = " Not everything goes out: see below." if reasons else ""
        return Headline(tone="good", text=f"Sending {_pace(per_s)}; {rest}.{held}")
    if first is not None:
        return Headline(tone=TONES[first.cause], text=_nothing_sent(first), until=first.until)
    if total.sending or total.claimed:
        return Headline(tone="good", text="The next e-mail is on its way.")
    if waiting:
        return Headline(tone="good", text=f"{_emails(waiting)} waiting, and nothing stands in the way.")
    return Headline(tone="quiet", text="Nothing is waiting: whatever was handed in has been dealt with.")


def _nothing_sent(reason: Reason) -> str:
    if reason.cause is Cause.IN_DOUBT:
        return f"Nothing is waiting to be sent. {reason.text}"
    return f"Nothing is being sent. {reason.text}"


def _pace(per_s: float) -> str:
    if per_s >= 1:
        return f"{per_s:,.0f} e-mail{'' if round(per_s) == 1 else 's'} a second"
    per_minute = max(1, round(per_s * 60))
    return f"{per_minute} e-mail{'' if per_minute == 1 else 's'} a minute"


def _emails(n: int) -> str:
    return "1 e-mail is" if n == 1 else f"{n:,} e-mails are"
