"""Those who share an installation, and what opens their doors."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

SERVICE_WORKSPACE = "fairpost"  # of the e-mails that the service itself sends


class Scope(StrEnum):
    """What a caller may do. No scope includes another."""

    READ = "read"
    SEND = "send"
    MANAGE = "manage"


PROVEN = "proven"  # in a loan: whatever the workspace has shown to be its own
ACCOUNT = "account"  # in a loan: mail without a From goes out with the account's own address


@dataclass(frozen=True, slots=True)
class Loan:
    """A pool of the operator's that a workspace may send through. `senders`: what may stand in From there, as addresses, domains, PROVEN and ACCOUNT."""

    pool: str
    senders: tuple[str, ...] = (PROVEN,)

    def __str__(self) -> str:
        return f"{self.pool}={','.join(self.senders)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    name: str
    pools: tuple[str, ...]  # of the operator's, that it may send through
    loans: tuple[Loan, ...]  # the same, with what may stand in From
    per_minute: int  # requests of all its keys together
    created_at: datetime
    suspended_at: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    id: str
    workspace: str
    name: str
    scopes: tuple[Scope, ...]
    per_minute: int
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def opens(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """`token`: what the DNS record has to say. `proven_by`: dns, or who granted it."""

    domain: str
    token: str
    created_at: datetime
    checked_at: datetime | None
    proven_at: datetime | None
    proven_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    id: int
    at: datetime
    workspace: str | None
    who: str
    action: str
    subject: str
    detail: dict[str, object] | None
    request_id: str | None
