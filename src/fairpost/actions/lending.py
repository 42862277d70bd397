"""What makes a loan: a pool of the operator's, and what may stand in From of mail that a workspace sends through it.

The pool of the service's own e-mails (FAIRPOST_SERVICE_POOL) is lent to no workspace but the operator's own: mail from the accounts that
send sign-in codes must be the service's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.model.errors import Refusal
from fairpost.model.names import LENT_POOL
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan
from fairpost.providers.domain_proof import WrongDomain, provable_domain

SENDERS_MAX = 100  # of one loan
_ADDRESS = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What is the operator's own: a workspace, and the pool that sends the service's e-mails."""

    workspace: str
    service_pool: str


@dataclass(frozen=True, slots=True)
class Lent:
    """A loan as somebody wrote it."""

    pool: str
    senders: Sequence[str] = (PROVEN,)


def loans_of(written: Sequence[Lent], *, workspace: str, operator: Operator, before: Sequence[Loan] = ()) -> list[Loan]:
    """The last of each pool counts. What was lent `before` may stay as it was. Raises Refusal."""
    loans: dict[str, Loan] = {}
    for number, each in enumerate(written):
        loan = _loan(each, number)
        is_service_pool = loan.pool == operator.service_pool and workspace != operator.workspace
        if is_service_pool and loan not in before:
            raise Refusal("loan.service_pool", number=number, pool=loan.pool)
        loans[loan.pool] = loan
    return list(loans.values())


def first_loans(workspace: str, operator: Operator) -> list[Loan]:
    """What a new workspace is lent where nobody says: nothing. The operator's own sends through the default pool as the operator does."""
    return [Loan("default", (PROVEN, ACCOUNT))] if workspace == operator.workspace else []


def _loan(written: Lent, number: int) -> Loan:
    if not LENT_POOL.fullmatch(written.pool):
        raise Refusal("loan.bad_pool", number=number, pool=written.pool)
    if not 1 <= len(written.senders) <= SENDERS_MAX:
        raise Refusal("loan.bad_count", number=number, most=SENDERS_MAX, count=len(written.senders))
    return Loan(written.pool, tuple(dict.fromkeys(_sender(each, number) for each in written.senders)))


def _sender(text: str, number: int) -> str:
    if text in (PROVEN, ACCOUNT):
        return text
    local, at, domain = text.rpartition("@")
    try:
        if at and _ADDRESS.fullmatch(text):
            return f"{local}@{provable_domain(domain)}"
        return provable_domain(text)
    except WrongDomain:
        raise Refusal("loan.bad_sender", number=number, sender=text[:100]) from None
