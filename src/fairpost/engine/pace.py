"""Decide when the account may begin its next e-mail, and how many e-mails it may claim ahead.

Tracks how much of each limit the account has used, the account's troubles, the pause that the last e-mail asked for,
and how long an e-mail currently takes. It only decides. A send is charged before it begins, and refunded only if the
transport was never used. Only urgent mail interrupts a pause that an e-mail asked for.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from fairpost.model.account import Account, Rest, RestReason, Usage
from fairpost.model.campaign import Gap
from fairpost.model.email import Outgoing
from fairpost.model.quick import changed
from fairpost.model.reason import Reason
from fairpost.policy.limits import Barrier, Go, NotBefore, admit, batch_size, free_at, refund, widened
from fairpost.system import chance, clock

SHORT_REST = timedelta(minutes=10)  # a shorter rest is not worth a change of status


@dataclass(frozen=True, slots=True)
class Paced:
    """The pause that the last e-mail asked for. The next e-mail probably asks for the same pause."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The daily limit is reached. The account can send again at `until`."""

    until: datetime
    reason: Reason


class Pace:
    def __init__(self, account: Account, usage: Usage) -> None:
        self._limits = account.limits
        self.usage = usage
        self.troubles = account.troubles
        self._gap: Gap | None = None
        self._each_s: float | None = None
        self._since_s = 0.0  # when the work on the current e-mail began
        self._urgent_at: datetime | None = None  # when urgent mail becomes due during a pause that an e-mail asked for
        self._may_be_urgent = False

    # ── admission ─────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, now: datetime) -> Go | NotBefore | Paced:
        admitted = self._admit(now)
        if isinstance(admitted, NotBefore):
            return admitted
        until = self._paced_until(self._gap, now)
        if self._urgent_at is not None and now >= self._urgent_at:
            self._may_be_urgent, self._urgent_at = True, None
        return Paced(until) if until is not None and not self._may_be_urgent else admitted

    def ask_for(self, email: Outgoing, now: datetime) -> Paced | None:
        """Check whether the next e-mail may begin, given that its account may send. Return None if it may."""
        self._gap = email.gap
        until = self._paced_until(email.gap, now)
        return Paced(until) if until is not None else None

    def ask_for_follower(self, email: Outgoing, now: datetime) -> Go | None:
        """Admit the next e-mail. Return None if it may not begin as soon as the previous e-mail is settled."""
        admitted = self._admit(now)
        return admitted if isinstance(admitted, Go) and self._paced_until(email.gap, now) is None else None

    def _admit(self, now: datetime) -> Go | NotBefore:
        return admit(self._limits, self.usage, now=now, roll=chance.roll())

    def _paced_until(self, gap: Gap | None, now: datetime) -> datetime | None:
        """Return the end of the pause that an e-mail asks for in addition to the account's own pause, or None if the
        pause is over.
        """
        free = free_at(widened(self._limits, gap), self.usage) if gap is not None else None
        return free if free is not None and free > now else None

    def barred(self, why: NotBefore, now: datetime) -> NotBefore | Rest | Exhausted:
        """Return why the account must wait.

        When the daily limit is reached, the work ends, so that the account's status shows the limit. If the account can
        send again soon (because the oldest send is about to leave the sliding day), it merely rests.
        """
        if why.reason not in (Barrier.DAILY, Barrier.WARM_UP) or why.moment is None:
            return why
        if why.moment - now >= SHORT_REST:
            return Exhausted(why.moment, Reason(f"{why.reason}_reached", sent=self.usage.day_used))
        is_known = self.usage.rest is not None and self.usage.rest.until == why.moment
        return why if is_known else Rest(why.moment, RestReason.DAILY)

    # ── urgent mail ───────────────────────────────────────────────────────────────────────────────────────

    def look_for_urgent(self) -> None:
        self._may_be_urgent = True

    def await_urgent(self, at: datetime | None) -> None:
        self._urgent_at = at

    @property
    def may_be_urgent(self) -> bool:
        return self._may_be_urgent

    def has_looked_for_urgent(self) -> None:
        self._may_be_urgent = False

    # ── batch size ────────────────────────────────────────────────────────────────────────────────────────

    def batch_size(self, now: datetime) -> int:
        if not self.troubles.has_passed:
            return 2 if self.troubles.last is not None else 1  # one begins, preferably not `troubles.last`
        if self._gap is not None:  # nothing else can be sent before the pause is over
            return 1
        return batch_size(self._limits, self.usage, now=now, each_s=self._each_s)

    def start_measuring(self) -> None:
        self._since_s = clock.monotonic()

    def learn(self, *, is_whole: bool) -> None:
        """Update how long an e-mail takes.

        Messages are refused faster than they are accepted, so a quick refusal does not show how many messages can be
        sent soon.
        """
        now_s = clock.monotonic()
        took_s, self._since_s = now_s - self._since_s, now_s
        if is_whole or took_s > (self._each_s or 0.0):
            self._each_s = took_s if self._each_s is None else (self._each_s + took_s) / 2

    # ── usage ─────────────────────────────────────────────────────────────────────────────────────────────

    def begun(self, admitted: Go, now: datetime) -> None:
        self.usage = changed(admitted.usage, last_begun_at=now)  # the next pause is measured from the commit

    def refund(self) -> None:
        self.usage = refund(self.usage)

    def rest(self, rest: Rest) -> None:
        self.usage = changed(self.usage, rest=rest)

    def bounced(self, bounces: int) -> None:
        if bounces:
            self.usage = changed(self.usage, day_bounces=self.usage.day_bounces + bounces)
