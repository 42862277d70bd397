"""Workspaces, the tenants of an installation, and their keys."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

SERVICE_WORKSPACE = "fairpost"  # the workspace for the service's own e-mails


class Scope(StrEnum):
    """A permission that a caller can have. No scope includes another."""

    READ = "read"
    SEND = "send"
    MANAGE = "manage"


PROVEN = "proven"  # in a loan: any address that the workspace has proven to own
ACCOUNT = "account"  # in a loan: mail without a From is sent from the account's own address


@dataclass(frozen=True, slots=True)
class Loan:
    """One of the operator's pools through which a workspace may send.

    `senders` lists the allowed From addresses: addresses, domains, PROVEN or ACCOUNT.
    """

    pool: str
    senders: tuple[str, ...] = (PROVEN,)

    def __str__(self) -> str:
        return f"{self.pool}={','.join(self.senders)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    name: str
    pools: tuple[str, ...]  # the operator's pools that the workspace may send through
    loans: tuple[Loan, ...]  # the same pools with the allowed From addresses
    per_minute: int  # maximum number of requests per minute, with all keys combined
    created_at: datetime
    suspended_at: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSettings:
    """Settings that a workspace chooses itself: its appearance on pages that recipients see, and its rules for
    launching campaigns.
    """

    title: str | None = None  # None: the workspace's name
    accent: str | None = None  # a colour like #1d5fd1
    logo_url: str | None = None
    refuses_bad_domains: bool = (
        False  # whether launches from a domain that failed a check are refused instead of only causing a warning
    )


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
    """A sending domain.

    `token` is the required content of the DNS record. `proven_by` is `dns`, or the name of the operator who granted the
    domain.
    """

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
