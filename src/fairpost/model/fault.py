"""Faults of senders and accounts, with their counts. They are stored as codes with parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, assert_never

from fairpost.model.ids import AccountId


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounces:
    """On the account's current day, this many of `sent` e-mails bounced, which exceeds `percent_max`."""

    sent: int
    bounced: int
    percent_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Consecutive refusals since `since`. `reply` is the last reply."""

    refused: int
    since: datetime | None
    reply: str


Fault = Bounces | Refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A sender with bounces or refusals that is not blocked.

    `sent` and `bounced` count e-mails on the account's current day. `refused` counts since one of its own e-mails was
    accepted, and `streak` since any sender's was. `is_unbroken` means that no e-mail was accepted since the first of
    `refused`. `since` and `accepted` say how long and how much it has sent through this account.
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
    """Figures of an account since it was last resumed.

    `others_sent` counts e-mails sent today by senders that are neither suspected nor blocked. `is_shared` means that
    more than one sender uses the account.
    """

    suspects: Sequence[Suspect]
    others_sent: int = 0
    is_shared: bool = False
    blocks: int = 0  # current number of blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A workspace that may not use an account. If `until` is None, it must be unblocked manually."""

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
    """Return the parameters of a fault as JSON values."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(fault).items()}


def read_fault(code: str, params: Mapping[str, Any]) -> Fault:
    if code == "bounces":
        return Bounces(**params)
    since = params["since"]
    return Refusals(**{**params, "since": datetime.fromisoformat(since) if since else None})
