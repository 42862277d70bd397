"""An outcome's consequences for the account, in order. The e-mail has already been settled."""

from dataclasses import dataclass
from typing import assert_never

from fairpost.model.account import Rest
from fairpost.model.dkim import LockedKey
from fairpost.model.ids import EmailId
from fairpost.model.quick import quick
from fairpost.model.reason import Reason
from fairpost.model.report import Report
from fairpost.model.troubles import Troubles
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched
from fairpost.policy.troubles import Weighed
from fairpost.policy.verdicts import account_rejection, is_rejected, suspend_reason


@dataclass(frozen=True, slots=True)
class Remember:
    """Store the troubles. `forgiven` lists the e-mails that regain one attempt."""

    troubles: Troubles
    forgiven: tuple[EmailId, ...]


@dataclass(frozen=True, slots=True)
class Suspend:
    reason: Reason


@dataclass(frozen=True, slots=True)
class Refund:
    """Refund the charge, because the transport was never used."""


@dataclass(frozen=True, slots=True)
class ClearDoubt:
    """Resolve the doubt, either by asking the provider later or according to the e-mail's own policy."""


@quick(frozen=True, slots=True, kw_only=True)
class Count:
    """Count an outcome. The fields are the arguments of `Ledger.count`."""

    is_handled: bool
    bounces: int = 0
    is_sent: bool = False
    is_bounced: bool = False
    is_rejected: bool = False
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Book:
    """Write the ledger at once, because the next e-mail may be refused for the same reason."""


Consequence = Remember | Suspend | Rest | Refund | LockedKey | ClearDoubt | Count | Book


def consequences(before: Troubles, weighed: Weighed, report: Report) -> list[Consequence]:
    verdict = weighed.verdict
    found: list[Consequence] = []
    if weighed.troubles is not before and weighed.troubles != before:
        found.append(Remember(weighed.troubles, weighed.forgiven))
    if isinstance(verdict, Untouched | Deferred) and (reason := suspend_reason(report)) is not None:
        found.append(Suspend(reason))
    if weighed.rest is not None:
        found.append(weighed.rest)
    match verdict:
        case Untouched():
            found.append(Refund())
            if report.locked_key is not None:
                found.append(report.locked_key)
        case Deferred():
            pass
        case InDoubt():
            found.append(ClearDoubt())
        case Sent(bounced) | Retry(_, _, bounced) | Bounced(bounced):
            found.append(
                Count(
                    is_handled=not isinstance(verdict, Retry),
                    bounces=len(bounced),
                    is_sent=isinstance(verdict, Sent),
                    is_bounced=isinstance(verdict, Bounced),
                )
            )
        case Failed():
            refusal = account_rejection(report)
            found.append(Count(is_handled=True, is_rejected=is_rejected(report), refusal=refusal))
            if (reason := suspend_reason(report)) is not None:
                found.append(Suspend(reason))
            elif refusal is not None:
                found.append(Book())
        case _:
            assert_never(verdict)
    return found
