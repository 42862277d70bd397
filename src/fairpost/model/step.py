"""A step of an account: the outcome of its last e-mail, the beginning of its next, or both, in one commit.

A request and its answer are values, so that one call can take the step of one account or of many. `number` is the step
after the last one acknowledged: the same step twice, or too late, changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fairpost.model.account import Lease, Usage
from fairpost.model.ids import EmailId
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settles:
    """`reason`: why it was not sent. `soft_bounced`: recipients given up because their mailbox took nothing."""

    email_id: EmailId
    verdict: Verdict
    report: Report | None = None
    reason: Reason | None = None
    soft_bounced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins:
    """`usage`: of the account's limits, once it has begun. `evidence`: by what the provider can be asked about it later."""

    email_id: EmailId
    usage: Usage
    evidence: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    lease: Lease
    number: int
    settles: Settles | None = None
    begins: Begins | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """`skip`: recipients who must not get it any more. `now`: by the database's clock."""

    verdict: BeginVerdict
    skip: tuple[str, ...]
    attempt: int | None
    now: datetime

    @property
    def is_unconfirmed(self) -> bool:
        """The lease has to be taken up first."""
        return self.verdict in ("unconfirmed", "late")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """None: it was not asked for."""

    settled: SettleVerdict | None = None
    begun: Begun | None = None

    @property
    def is_begun(self) -> bool:
        return self.begun is not None and self.begun.verdict == "begun"

    @property
    def is_taken(self) -> bool:
        """The step is committed, and its number used."""
        return self.settled == "settled" or self.is_begun
