"""Lends the operator's pools to workspaces: how a loan is written, and what may be lent at all.

A loan names what may stand in From. The accounts of the service's own e-mails (FAIRPOST_SERVICE_POOL) never lend their address: a workspace could
write in the operator's name.
"""

import re
from collections.abc import Sequence

from fairpost.model.errors import FairpostError
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan
from fairpost.providers.domain_proof import WrongDomain, provable_domain
from fairpost.settings import Settings

SENDERS_MAX = 100  # of one loan
_POOL = re.compile(r"[^@\x00-\x1f=,;/][^\x00-\x1f=,;/]{0,99}")
_ADDRESS = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s]+")


class WrongLoan(FairpostError):
    """What was given is no loan, or is not to be lent."""


def read_loan(text: str) -> Loan:
    """`fast` or `fast=acme.com,news@acme.org`. Without an =, what the workspace has proven may stand in From. Raises WrongLoan."""
    pool, equals, senders = text.partition("=")
    return loan_of(pool.strip(), [each.strip() for each in senders.split(",")] if equals else [PROVEN])


def loan_of(pool: str, senders: Sequence[str]) -> Loan:
    """Raises WrongLoan."""
    if not _POOL.fullmatch(pool):
        raise WrongLoan(
            f"{pool!r} is no name of a pool of yours: 1 to 100 characters, without = , ; / and no @ at its beginning"
        )
    if not 1 <= len(senders) <= SENDERS_MAX:
        raise WrongLoan(
            f"A loan names 1 to {SENDERS_MAX} senders, got {len(senders)}. Write for example: {pool}={PROVEN}"
        )
    return Loan(pool, tuple(dict.fromkeys(_sender(each) for each in senders)))


def require_lendable(loan: Loan, workspace: str, settings: Settings, *, before: Sequence[Loan] = ()) -> None:
    """Raises WrongLoan for the service's own address. What was lent before may stay as it was."""
    is_ours = loan.pool == settings.service_pool and workspace != settings.workspace
    if is_ours and ACCOUNT in loan.senders and loan not in before:
        raise WrongLoan(
            f"The pool {loan.pool} sends the service's own e-mails, such as sign-in codes: no workspace writes with its address. "
            f"Lend another pool, or name what may stand in From: {loan.pool}={PROVEN}. Nothing was changed."
        )


def first_loans(workspace: str, settings: Settings) -> list[Loan]:
    """What a new workspace is lent where nobody says: nothing; your own (FAIRPOST_WORKSPACE) sends through your pool as you do."""
    return [Loan("default", (PROVEN, ACCOUNT))] if workspace == settings.workspace else []


def _sender(text: str) -> str:
    if text in (PROVEN, ACCOUNT):
        return text
    local, at, domain = text.rpartition("@")
    try:
        if at and _ADDRESS.fullmatch(text):
            return f"{local}@{provable_domain(domain)}"
        return provable_domain(text)
    except WrongDomain:
        raise WrongLoan(
            f"{text[:100]!r} cannot stand in From: name an address, a domain, {PROVEN} or {ACCOUNT}"
        ) from None
