"""An account's activity since its last write: outcomes by sender and durations.

It is kept in memory and written from time to time, because a commit per e-mail would cost as much as sending the
e-mail.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from fairpost.model.sender import Tier
from fairpost.policy.inequality import Waits


class Measure(StrEnum):
    WAIT = "wait"  # from due time to start of sending, in the fair queue
    WAIT_FIFO = "wait_fifo"  # from due time to start of sending, outside the fair queue
    SEND = "send"  # the transport
    CLAIM = "claim"  # the database
    COMMIT = "commit"  # time that the database takes to store an outcome and record the start of the next send


@dataclass(slots=True)
class Outcomes:
    """One user's counts in one queue. All fields count e-mails, except `bounces`, which counts addresses.

    The account's bounce rate is relative to `handled`. `refused` counts refusals because of who we are or how we send;
    `refusal` is the reply. `offended_at` is the time of the first bounce or rejection.
    """

    handled: int = 0
    bounces: int = 0
    refused: int = 0
    refusal: str | None = None
    sent: int = 0
    bounced: int = 0
    rejected: int = 0
    offended_at: datetime | None = None


OUTCOMES = tuple(each.name for each in fields(Outcomes))


@dataclass(slots=True)
class Ledger:
    outcomes: dict[tuple[str, str, bool], Outcomes] = field(default_factory=dict)
    measures: dict[tuple[Measure, Tier], Waits] = field(default_factory=dict)
    handled: int = 0  # since the last write

    def count(
        self,
        workspace: str,
        user: str,
        *,
        is_fair: bool = True,
        is_handled: bool,
        bounces: int = 0,
        is_sent: bool = False,
        is_bounced: bool = False,
        is_rejected: bool = False,
        refusal: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Count an attempt that led to a verdict on the e-mail. `is_fair` means that the fair queue released the
        e-mail. An attempt that only defers the e-mail does not count as `handled`, but may include bounces.
        """
        of_user = self.outcomes.get((workspace, user, is_fair))
        if of_user is None:
            of_user = self.outcomes[workspace, user, is_fair] = Outcomes()
        of_user.handled += is_handled
        of_user.bounces += bounces
        of_user.sent += is_sent
        of_user.bounced += is_bounced
        of_user.rejected += is_rejected
        of_user.refused += refusal is not None
        of_user.refusal = refusal or of_user.refusal
        if is_bounced or is_rejected:
            of_user.offended_at = of_user.offended_at or at
        self.handled += 1

    def measure(self, kind: Measure, took: timedelta, tier: Tier = Tier.NORMAL) -> None:
        waits = self.measures.get((kind, tier))
        if waits is None:
            waits = self.measures[kind, tier] = Waits()
        waits.add(took)

    def take(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the outcomes and measures in the database's format, and clear them."""
        outcomes = [
            {"workspace": workspace, "user": user, "is_fair": is_fair, **_written(each)}
            for (workspace, user, is_fair), each in self.outcomes.items()
        ]
        measures = list(_measured(self.measures.items()))
        self.outcomes, self.measures, self.handled = {}, {}, 0
        return outcomes, measures


def _written(outcomes: Outcomes) -> dict[str, Any]:
    """Convert the outcomes to a dictionary.

    `asdict` would make a deep copy, which is too slow because this function runs about once per e-mail.
    """
    at = outcomes.offended_at
    written = {name: getattr(outcomes, name) for name in OUTCOMES}
    return {**written, "offended_at": at.isoformat() if at is not None else None}


def _measured(measures: Iterable[tuple[tuple[Measure, Tier], Waits]]) -> Iterable[dict[str, Any]]:
    for (kind, tier), waits in measures:
        yield {"kind": kind, "tier": int(tier), "n": waits.count, **waits.to_json()}
