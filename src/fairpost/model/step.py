"""A step of an account: settling its last e-mail, beginning the next one, or both in one commit. Requests and answers
are values, so one call can execute either a single account's step or the steps of many accounts. `number` is one more
than the number of the last acknowledged step. Repeated and late steps change nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal

from fairpost.model.account import Lease, Usage
from fairpost.model.ids import EmailId
from fairpost.model.quick import quick
from fairpost.model.reason import Reason
from fairpost.model.report import Report
from fairpost.model.verdict import Verdict

BeginVerdict = Literal[
    "begun",
    "stale",
    "unconfirmed",
    "late",
    "gone",
    "held",
    "blocked",
    "closed",
    "parked",
    "inactive",
    "changed",
    "suppressed",
    "expired",
]
SettleVerdict = Literal["settled", "stale", "late", "evidence", "gone"]


@quick(frozen=True, slots=True, kw_only=True)
class Settles:
    """The outcome of an e-mail.

    `reason` explains why the e-mail was not sent. `soft_bounced` lists the recipients whose mailbox did not accept the
    e-mail in any attempt.
    """

    email_id: EmailId
    verdict: Verdict
    report: Report | None = None
    reason: Reason | None = None
    soft_bounced: tuple[str, ...] = ()


@quick(frozen=True, slots=True, kw_only=True)
class Begins:
    """The start of an attempt to send an e-mail.

    `usage` shows how much of the account's limits has been used once the attempt has started. `evidence` identifies the
    e-mail in case Fairpost has to ask the provider about it later.
    """

    email_id: EmailId
    usage: Usage
    evidence: Mapping[str, str] | None = None


@quick(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """A step to execute. `meanwhile` is optional work to do while waiting for the answer."""

    lease: Lease
    number: int
    settles: Settles | None = None
    begins: Begins | None = None
    meanwhile: Callable[[], None] | None = field(default=None, compare=False)


@quick(frozen=True, slots=True, kw_only=True)
class Begun:
    """The answer to a request to start an attempt. `skip` lists recipients who must no longer receive the e-mail. `now`
    is the time on the database's clock.
    """

    verdict: BeginVerdict
    skip: tuple[str, ...]
    attempt: int | None
    now: datetime

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the lease must be resumed first."""
        return self.verdict in ("unconfirmed", "late")


@quick(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """The answer to a step. A part that was not requested is None."""

    settled: SettleVerdict | None = None
    begun: Begun | None = None

    @property
    def is_begun(self) -> bool:
        return self.begun is not None and self.begun.verdict == "begun"

    @property
    def is_taken(self) -> bool:
        """Whether the step was committed, in which case its number is used up."""
        return self.settled == "settled" or self.is_begun
