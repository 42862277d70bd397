"""Facts about the queue, accounts and engines at one point in time.

observe/status.py reads them, and policy/conditions.py judges them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from fairpost.model.account import AccountRuntime
from fairpost.model.dkim import LockedKey
from fairpost.model.fault import Block
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Claimed e-mails.

    `undecided` counts the e-mails in doubt that must be settled manually. All other e-mails in doubt are sent again.
    """

    claimed: int = 0
    sending: int = 0
    in_doubt: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The e-mails that are waiting for a pool or for an account (`@name`). `due` means that some of these e-mails may
    be sent now.
    """

    route: str
    waiting: int
    due: bool = True
    next_at: datetime | None = None

    @property
    def pinned_to(self) -> str | None:
        return self.route[1:] if self.route.startswith("@") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A hold, throttle or closed window. No e-mail under this name is sent before `until` or, if `until` is None,
    before the stop is lifted.
    """

    workspace: str
    level: str
    key: str
    until: datetime | None
    reason: Reason | None
    kind: Literal["held", "throttled", "closed"] = "held"

    @property
    def is_throttle(self) -> bool:
        return self.kind == "throttled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(Stop):
    """A hold on part of the queue.

    If `until` is None, the hold lasts until it is released manually. `kind` is `held` (manually, or with its campaign),
    `throttled`, or `closed` (the window of a campaign). `campaign` is the campaign whose stream is held. `routes` are
    the routes of the held e-mails.
    """

    waiting: int = 0
    campaign: str | None = None
    campaign_state: str | None = None
    routes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedMail:
    """A workspace's mail that no account on this route may send. `block` is the block that ends first."""

    route: Route
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The global pause.

    If `until` is None, the pause must be ended manually. `restored` means that the database is a copy.
    """

    since: datetime
    until: datetime | None
    reason: Reason
    paused_by: str
    restored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about everything or about one `workspace`.

    `engines` lists the live engines. `shut` lists the accounts that are blocked from sending any of the due e-mails.
    `locked_keys` lists the DKIM keys that an engine could not unseal; mail that needs them is waiting.
    """

    now: datetime
    workspace: str | None = None
    pause: Pause | None = None
    engines: Collection[str] = ()
    accounts: Sequence[AccountRuntime] = ()
    routes: Sequence[Route] = ()
    holds: Sequence[Hold] = ()
    blocked: Sequence[BlockedMail] = ()
    shut: Collection[AccountId] = ()
    locked_keys: Sequence[LockedKey] = ()
    claimed: Mapping[AccountId, Claims] = field(default_factory=dict)
    finished: Mapping[State, int] = field(default_factory=dict)  # in the last 24 hours

    def total(self) -> Claims:
        each = self.claimed.values()
        return Claims(
            claimed=sum(e.claimed for e in each),
            sending=sum(e.sending for e in each),
            in_doubt=sum(e.in_doubt for e in each),
            undecided=sum(e.undecided for e in each),
        )

    def serving(self, route: Route) -> list[AccountRuntime]:
        if route.pinned_to is not None:
            return [each for each in self.accounts if each.account.name == route.pinned_to]
        return [each for each in self.accounts if each.account.pool == route.route]

    def is_driven(self, runtime: AccountRuntime) -> bool:
        """Return whether a live engine drives the account. The lease of a killed engine remains valid for a while."""
        return runtime.is_driven(self.now) and runtime.owner in self.engines
