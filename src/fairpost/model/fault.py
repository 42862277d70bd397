"""What a sender or an account is blamed for, and by which counts. Faults are kept as a code with parameters; no sentence for people here."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, assert_never

from fairpost.model.ids import AccountId


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounces:
    """On the account's day: so many of `sent` e-mails bounced, and more than `percent_max` are too many."""

    sent: int
    bounced: int
    percent_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """In a row, since `since`; `reply` is what was said last."""

    refused: int
    since: datetime | None
    reply: str


Fault = Bounces | Refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A sender of whom something bounced or was refused, and who is not blocked.

    `sent` and `bounced` on the account's day. `refused` since one of its own was accepted, `streak` since anybody's was;
    `is_unbroken`: nobody's was since the first of `refused`. `since` and `accepted`: how long and how much through this account."""

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
    """Of an account, since it was last resumed. `others_sent`: today, by those who are neither suspects nor blocked. `is_shared`: by more
    than one sender."""

    suspects: Sequence[Suspect]
    others_sent: int = 0
    is_shared: bool = False
    blocks: int = 0  # that it has


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A workspace that may not use an account. `until` None: until a person ends it."""

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
    """Its parameters, as JSON has them."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(fault).items()}


def read_fault(code: str, params: Mapping[str, Any]) -> Fault:
    if code == "bounces":
        return Bounces(**params)
    since = params["since"]
    return Refusals(**{**params, "since": datetime.fromisoformat(since) if since else None})
