"""What is known of the queue, the accounts and the engines at one moment. Read in observe/status.py, judged in policy/conditions.py."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from fairpost.model.account import AccountRuntime
from fairpost.model.fault import Block
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class InHand:
    """`undecided`: those in doubt that a person must settle; the policy of the others sends them again."""

    claimed: int = 0
    sending: int = 0
    in_doubt: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What waits for one pool, or for one account (`@name`). `due`: some of it may go out now."""

    route: str
    waiting: int
    due: bool = True
    next_at: datetime | None = None

    @property
    def pinned_to(self) -> str | None:
        return self.route[1:] if self.route.startswith("@") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`until` None: until released. `kind`: held (by a person, or with its campaign), throttled, or closed (the window of a campaign).
    `campaign`: whose stream it is. `routes`: where the e-mails behind it would go."""

    workspace: str
    level: str
    key: str
    until: datetime | None
    reason: Reason | None
    waiting: int = 0
    kind: Literal["held", "throttled", "closed"] = "held"
    campaign: str | None = None
    campaign_state: str | None = None
    routes: Sequence[str] = ()

    @property
    def is_throttle(self) -> bool:
        return self.kind == "throttled"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedMail:
    """Nobody who serves this route may take this workspace's mail; `block` is the first that ends."""

    route: Route
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Of everything. `until` None: until resumed. `restored`: this database is not the one it was."""

    since: datetime
    until: datetime | None
    reason: Reason
    paused_by: str
    restored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`workspace`: whose they are; None: of everything. `engines`: those that are alive. `shut`: accounts that may send nothing of what is
    due, because of blocks."""

    now: datetime
    workspace: str | None = None
    pause: Pause | None = None
    engines: Collection[str] = ()
    accounts: Sequence[AccountRuntime] = ()
    routes: Sequence[Route] = ()
    holds: Sequence[Hold] = ()
    blocked: Sequence[BlockedMail] = ()
    shut: Collection[AccountId] = ()
    in_hand: Mapping[AccountId, InHand] = field(default_factory=dict)
    finished: Mapping[State, int] = field(default_factory=dict)  # in the last 24 hours

    def total(self) -> InHand:
        each = self.in_hand.values()
        return InHand(
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
        """By an engine that lives: the lease of one that was killed lasts for a while."""
        return runtime.is_driven(self.now) and runtime.owner in self.engines
