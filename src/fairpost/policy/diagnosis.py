"""Why is nothing sending? From what is known of the queue and the accounts to sentences, each with what to do.

Only causes that keep mail from going out *now*: an account that waits for its pace, or a hold with nothing below
it, is none. Reading the facts is the business of observe/status.py.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from fairpost.model.account import Account, AccountStatus, Rest
from fairpost.model.fault import Block
from fairpost.model.ids import AccountId
from fairpost.model.states import State
from fairpost.policy import limits
from fairpost.policy.blame import in_words
from fairpost.policy.limits import NotBefore, standing

PACE_WORTH_TELLING = timedelta(minutes=1)  # less is just an account at work
ACCOUNTS_NAMED_MAX = 5


class Cause(StrEnum):
    PAUSED = "paused"
    NO_ACCOUNT = "no account"
    NO_ACCOUNT_IN_POOL = "no account in pool"
    NO_SUCH_ACCOUNT = "no such account"
    ACCOUNTS_OUT_OF_ACTION = "accounts out of action"
    LIMITS_REACHED = "limits reached"
    HELD = "held"
    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    IN_DOUBT = "in doubt"
    STRANDED = "stranded"
    NO_WORKER = "no worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """`then` is what to type, or to do, next."""

    cause: Cause
    text: str
    then: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InHand:
    """`undecided`: those in doubt that a person must settle; the policy of the others sends them again."""

    claimed: int = 0
    sending: int = 0
    in_doubt: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """An account at its post: who drives it, until when, and what he has in hand."""

    account: Account
    owner: str | None = None
    until: datetime | None = None
    sent_total: int = 0

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
    """`shut`: accounts that may send nothing of what is due, because of blocks."""

    now: datetime
    pause: Pause | None = None
    posts: Sequence[Post] = ()
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


def diagnose(facts: Facts) -> list[Reason]:
    """Everything that keeps mail from going out now; empty when nothing does."""
    return [
        *([paused(facts.pause)] if facts.pause else []),
        *_no_account(facts),
        *(reason for route in facts.routes for reason in _of_route(route, facts)),
        *(_held(hold) for hold in facts.holds if hold.waiting > 0),
        *(_blocked_by(each) for each in facts.blocked),
        *_scheduled(facts),
        *_in_doubt(facts),
        *_stranded(facts),
        *_no_worker(facts),
    ]


def paused(pause: Pause) -> Reason:
    until = f"until {_moment(pause.until)}" if pause.until else "until resumed"
    return Reason(
        cause=Cause.PAUSED,
        text=f"Everything is paused since {_moment(pause.since)} by {pause.paused_by}, {until}: {pause.reason.rstrip('.')}.",
        then="fairpost resume --all",
        until=pause.until,
    )


def _no_account(facts: Facts) -> Iterable[Reason]:
    if facts.posts:
        return
    yield Reason(
        cause=Cause.NO_ACCOUNT,
        text="There is no sender account, so nothing can go out.",
        then="fairpost account add NAME --from ADDRESS",
    )


def _of_route(route: Route, facts: Facts) -> Iterable[Reason]:
    posts = _serving(route, facts)
    if not facts.posts:
        return
    if not posts:
        yield _nobody_serves(route)
    elif not _active(posts):
        yield _out_of_action(route, posts)
    elif blocked := _blocked(_active(posts), facts.now):
        yield _limits_reached(route, blocked)


def _nobody_serves(route: Route) -> Reason:
    if route.pinned_to is not None:
        return Reason(
            cause=Cause.NO_SUCH_ACCOUNT,
            text=f"{_emails(route.waiting)} pinned to the account {_quoted(route.pinned_to)}, which does not exist.",
            then=f"fairpost account add {shlex.quote(route.pinned_to)} --from ADDRESS",
        )
    return Reason(
        cause=Cause.NO_ACCOUNT_IN_POOL,
        text=f"{_emails(route.waiting)} waiting for the pool {_quoted(route.route)}, which has no account.",
        then=f"fairpost account add NAME --from ADDRESS --pool {shlex.quote(route.route)}",
    )


def _out_of_action(route: Route, posts: Sequence[Post]) -> Reason:
    named = [
        f"{post.account.name} is {_status(post.account.status)}"
        + (f" ({post.account.status_reason})" if post.account.status_reason else "")
        for post in posts[:ACCOUNTS_NAMED_MAX]
    ]
    more = f", and {len(posts) - len(named)} more" if len(posts) > len(named) else ""
    return Reason(
        cause=Cause.ACCOUNTS_OUT_OF_ACTION,
        text=f"{_emails(route.waiting)} waiting, but no account of {_name(route)} may send: {', '.join(named)}{more}."
        + _end_of_patience(route, posts),
        then=f"put right what the reason says, then: fairpost account resume {posts[0].account.name}",
    )


def _end_of_patience(route: Route, posts: Sequence[Post]) -> str:
    patience = posts[0].account.patience if route.pinned_to is not None else None
    if patience is None:
        return ""
    return f" Urgent ones fail from {_moment(patience.urgent)} on, bulk ones from {_moment(patience.bulk)} on."


def _limits_reached(route: Route, blocked: Mapping[str, NotBefore]) -> Reason:
    moments = {name: barrier.moment for name, barrier in blocked.items() if barrier.moment is not None}
    name = min(moments, key=lambda name: moments[name])
    first, moment = blocked[name], moments[name]
    why = f"{first.reason}: {first.detail}" if first.detail else first.reason
    return Reason(
        cause=Cause.LIMITS_REACHED,
        text=f"{_emails(route.waiting)} waiting, but no account of {_name(route)} may send now; the first that "
        f"may again is {name} ({why}), at {_moment(moment)}.",
        then="wait until then, or add an account: fairpost account add NAME --from ADDRESS",
        until=moment,
    )


def _held(hold: Hold) -> Reason:
    what = f"{hold.level} {_quoted(hold.key)} of workspace" if hold.key else "workspace"
    until = f"until {_moment(hold.until)}" if hold.until else "until released"
    kind = ("closed gate" if hold.level == "stream" else "throttle") if hold.is_throttle else "hold"
    return Reason(
        cause=Cause.HELD,
        text=f"{_emails(hold.waiting)} waiting behind a {kind} on {what} {_quoted(hold.workspace)}, {until}: "
        f"{hold.reason or 'no reason given'}.",
        then=how_to_end(hold.workspace, hold.level, hold.key, is_throttle=hold.is_throttle),
        until=hold.until,
    )


def _blocked_by(mail: BlockedMail) -> Reason:
    block = mail.block
    until = f"until {_moment(block.until)}" if block.until else "until it is unblocked"
    where = f"every account of {_name(mail.route)}" if mail.route.pinned_to is None else _name(mail.route)
    return Reason(
        cause=Cause.BLOCKED,
        text=f"{_emails(mail.route.waiting)} waiting, but workspace {_quoted(block.workspace)} is blocked on {where}, {until}: "
        f"{in_words(block.fault)}.",
        then=shlex.join(("fairpost", "account", "unblock", block.account, "--workspace", block.workspace)),
        until=block.until,
    )


def how_to_end(workspace: str, level: str, key: str, *, is_throttle: bool) -> str:
    """What to type to end a hold or a throttle; a campaign's gate opens by itself."""
    if is_throttle and level == "stream":
        return shlex.join(("fairpost", "schedule", "show", "--workspace", workspace))
    if is_throttle:
        return shlex.join(("fairpost", "user", "lift", workspace, *([key] if level == "user" else [])))
    return shlex.join(("fairpost", "release", workspace, *([f"--{level}", key] if level != "workspace" else [])))


def _scheduled(facts: Facts) -> Iterable[Reason]:
    moments = [route.next_at for route in facts.routes if route.next_at]
    if not moments or any(route.due for route in facts.routes):
        return
    yield Reason(
        cause=Cause.SCHEDULED,
        text=f"Nothing that may go out is due yet; the next e-mail is due at {_moment(min(moments))}.",
        then="fairpost email list --state scheduled",
        until=min(moments),
    )


def _in_doubt(facts: Facts) -> Iterable[Reason]:
    total = facts.total()
    if not total.in_doubt:
        return
    by_policy = total.in_doubt - total.undecided
    parts = [f"{total.undecided} for your decision"] if total.undecided else []
    parts += [f"{by_policy} for the next worker, who sends again by policy"] if by_policy else []
    were = "it was" if total.in_doubt == 1 else "they were"
    yield Reason(
        cause=Cause.IN_DOUBT,
        text=f"{_emails(total.in_doubt)} in doubt: nobody knows whether {were} sent. Waiting {' and '.join(parts)}.",
        then="fairpost email list --state in_doubt, then for each: fairpost email resolve ID --as sent|failed|resend",
    )


def _stranded(facts: Facts) -> Iterable[Reason]:
    driven = {post.account.id for post in facts.posts if post.is_driven(facts.now)}
    left = sum(hand.claimed + hand.sending for id_, hand in facts.in_hand.items() if id_ not in driven)
    if left:
        yield Reason(
            cause=Cause.STRANDED,
            text=f"{_emails(left)} held by a worker that is gone; the next one to take the account frees them.",
            then=_NO_WORK_COMMAND,
        )


def _no_worker(facts: Facts) -> Iterable[Reason]:
    idle = [route for route in facts.routes if route.due and _nobody_works(route, facts)]
    if idle:
        yield Reason(
            cause=Cause.NO_WORKER,
            text=f"No worker is running for {', '.join(map(_name, idle))}, although e-mails are ready there.",
            then=_NO_WORK_COMMAND,
        )


_NO_WORK_COMMAND = "fairpost work"


def _nobody_works(route: Route, facts: Facts) -> bool:
    """There are accounts that could send, and nobody drives one of them."""
    may = [post for post in _active(_serving(route, facts)) if post.account.id not in facts.shut]
    able = [post for post in may if not _barrier(post, facts.now)]
    return bool(able) and not any(post.is_driven(facts.now) for post in able)


def _serving(route: Route, facts: Facts) -> list[Post]:
    if route.pinned_to is not None:
        return [post for post in facts.posts if post.account.name == route.pinned_to]
    return [post for post in facts.posts if post.account.pool == route.route]


def _active(posts: Iterable[Post]) -> list[Post]:
    """Those that send now, or will again by themselves."""
    return [p for p in posts if p.account.status is AccountStatus.ACTIVE or p.account.status_until is not None]


def _blocked(posts: Sequence[Post], now: datetime) -> dict[str, NotBefore]:
    """What each of them waits for; empty as soon as one of them may send."""
    barriers = {post.account.name: _barrier(post, now) for post in posts}
    return {name: barrier for name, barrier in barriers.items() if barrier} if all(barriers.values()) else {}


def _barrier(post: Post, now: datetime) -> NotBefore | None:
    admitted = standing(post.account, now=now)
    if not isinstance(admitted, NotBefore) or admitted.moment is None:
        return None
    is_pace = admitted.reason is limits.Reason.DELAY and admitted.moment - now < PACE_WORTH_TELLING
    return None if is_pace else admitted


def _emails(n: int) -> str:
    return "1 e-mail is" if n == 1 else f"{n:,} e-mails are"


def _name(route: Route) -> str:
    if route.pinned_to is not None:
        return f"the account {_quoted(route.pinned_to)}"
    return f"the pool {_quoted(route.route)}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _status(status: AccountStatus) -> str:
    return status.replace("_", " ")


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
