"""Loans of pools. A loan lets a workspace use one of the operator's pools with certain From addresses.

The pool for the service's own e-mails (`FAIRPOST_SERVICE_POOL`) can only be lent to the operator's own workspace,
because accounts that send sign-in codes must not send anything else.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.model.errors import Refusal
from fairpost.model.names import LENT_POOL
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan
from fairpost.providers.domain_proof import WrongDomain, provable_domain

SENDERS_MAX = 100  # maximum per loan
_ADDRESS = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The operator's own workspace, and the pool that sends the service's e-mails."""

    workspace: str
    service_pool: str


@dataclass(frozen=True, slots=True)
class Lent:
    """A loan as requested."""

    pool: str
    senders: Sequence[str] = (PROVEN,)


def loans_of(written: Sequence[Lent], *, workspace: str, operator: Operator, before: Sequence[Loan] = ()) -> list[Loan]:
    """Checks loans. If a pool is listed twice, the last loan applies. Existing loans, given in `before`, are always
    allowed. Raises Refusal.
    """
    loans: dict[str, Loan] = {}
    for number, each in enumerate(written):
        loan = _loan(each, number)
        is_service_pool = loan.pool == operator.service_pool and workspace != operator.workspace
        if is_service_pool and loan not in before:
            raise Refusal("loan.service_pool", number=number, pool=loan.pool)
        loans[loan.pool] = loan
    return list(loans.values())


def first_loans(workspace: str, operator: Operator) -> list[Loan]:
    """Returns the default loans of a new workspace: none, except that the operator's own workspace gets the pool
    `default`.
    """
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
