"""What is known of the queue, the accounts and the engines at one moment. Read in observe/status.py, judged in policy/conditions.py."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fairpost.model.account import Account, Rest
from fairpost.model.fault import Block
from fairpost.model.ids import AccountId
from fairpost.model.states import State
from fairpost.policy import limits
from fairpost.policy.limits import NotBefore, standing


@dataclass(frozen=True, slots=True, kw_only=True)
class InHand:
    """`undecided`: those in doubt that a person must settle; the policy of the others sends them again."""

    claimed: int = 0
    sending: int = 0
    in_doubt: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRuntime:
    """An account and the engine that drives it: under whose lease, and until when. `begun_at`: since when an e-mail is on the wire."""

    account: Account
    owner: str | None = None
    until: datetime | None = None
    sent_total: int = 0
    begun_at: datetime | None = None

    def is_driven(self, now: datetime) -> bool:
        return self.until is not None and self.until > now

    def used(self, now: datetime) -> tuple[int, int]:
        """Of this hour and of this day."""
        usage = limits.roll_windows(self.account.limits, self.account.usage, now=now)
        return usage.hour_used, usage.day_used

    def rest(self, now: datetime) -> Rest | None:
        """What its server asked for, or its silence, as long as that lasts."""
        rest = self.account.usage.rest
        return rest if rest is not None and rest.until > now else None

    def day_errors(self, now: datetime) -> int:
        return limits.roll_windows(self.account.limits, self.account.usage, now=now).day_errors

    def day_max(self, now: datetime) -> int | None:
        """As the warm-up has it today."""
        usage = limits.roll_windows(self.account.limits, self.account.usage, now=now)
        return limits.daily_limit(self.account.limits, usage)[0]

    def may_send(self, now: datetime) -> tuple[datetime | None, str | None]:
        """The next moment at which it may, and what it waits for; None when it is now, or when nobody knows."""
        admitted = standing(self.account, now=now)
        if not isinstance(admitted, NotBefore):
            return None, None
        return admitted.moment, f"{admitted.reason}: {admitted.detail}" if admitted.detail else admitted.reason


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
    """`until` None: until released. `is_throttle`: not a person's hold, but a throttle of a workspace or user, or the gate of a campaign."""

    workspace: str
    level: str
    key: str
    until: datetime | None
    reason: str | None
    waiting: int
    is_throttle: bool = False


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
    reason: str
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
