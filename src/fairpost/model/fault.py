"""Faults of senders and accounts, with their counts. Faults are stored as codes with parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, assert_never

from fairpost.model.ids import AccountId


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounces:
    """Too many bounces on the account's current day: `bounced` of `sent` e-mails, which exceeds `percent_max`."""

    sent: int
    bounced: int
    percent_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """The consecutive refusals since `since`. `reply` is the last reply."""

    refused: int
    since: datetime | None
    reply: str


Fault = Bounces | Refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A sender that has bounces or refusals but is not blocked.

    `sent` and `bounced` count e-mails on the account's current day. `refused` counts refusals since one of the sender's
    own e-mails was last accepted. `streak` counts refusals since any sender's e-mail was last accepted. `is_unbroken`
    means that no e-mail has been accepted since the first refusal in `refused`. `since` is when the sender started
    using this account, and `accepted` is how many of the sender's e-mails were accepted on this account.
    """

    workspace: str
    sent: int = 0
    bounced: int = 0
    refused: int = 0
    refused_since: datetime | None = None
    is_unbroken: bool = False
    streak: int = 0
    refusal: str | None = None
    since: datetime
    accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An account's figures since it was last resumed.

    `others_sent` counts e-mails sent today by senders that are neither suspected nor blocked. `is_shared` means that
    more than one sender uses the account.
    """

    suspects: Sequence[Suspect]
    others_sent: int = 0
    is_shared: bool = False
    blocks: int = 0  # number of senders that are currently blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A workspace that is blocked from using an account. If `until` is None, the workspace must be unblocked manually."""

    account_id: AccountId
    account: str
    workspace: str
    since: datetime
    until: datetime | None
    fault: Fault


def fault_code(fault: Fault) -> str:
    match fault:
        case Bounces():
            return "bounces"
        case Refusals():
            return "refusals"
        case _:
            assert_never(fault)


def write_fault(fault: Fault) -> dict[str, Any]:
    """Return a fault's parameters as JSON values."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(fault).items()}


def read_fault(code: str, params: Mapping[str, Any]) -> Fault:
    if code == "bounces":
        return Bounces(**params)
    since = params["since"]
    return Refusals(**{**params, "since": datetime.fromisoformat(since) if since else None})
