"""Checks rules that must hold for every provider. Observations are made from outside, in the database and in the
servers' records, and do not use the engine's own reports. The observations are made many times a second, both in
simulations and in real time.

The maximum wait of a newcomer is derived as follows. Each ready sender may be served once before the newcomer. The
newcomer must therefore be served after as many sends as there are ready senders. Each observation adds the number of
sends that the pool could have started since the previous observation (`_Newcomer`). For each account that may work,
this number is the elapsed time divided by the account's interval. If all accounts work, the wait is (ready senders ×
one interval ÷ accounts). If some accounts pause for a valid reason, the wait is longer.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from fairpost.dev.simulate.audit import violations as broken_limits
from fairpost.dev.simulate.visits import Visits
from fairpost.dev.simulate.zoo import POISON, Behaviour, Matter
from fairpost.model.account import Account, Limits
from fairpost.model.ids import AccountId
from fairpost.model.states import EmailClass
from fairpost.policy.limits import Barrier, NotBefore, availability
from fairpost.policy.retries import retry_delay
from fairpost.store.store import Store

STOCK_S = 0.25  # seconds of work that an account may hold, in addition to the e-mail being sent
LONG_SEND_S = 2.0  # duration of a send after which nothing may be held
LONG_PAUSE_S = 1.0  # duration of a pause during which nothing may be held
GRACE_S = 1.0  # tolerance for what must happen immediately
SLACK_S = 0.5  # tolerance beyond a limit, because observations are slightly delayed
BLIND_S = 1.0  # maximum time between two observations in real time for them to be comparable
SHARES = {EmailClass.URGENT: 0.9, EmailClass.BULK: 0.1}  # shares of the sends if both classes have mail

RESTING = (Barrier.BACK_OFF, Barrier.UNREACHABLE, Barrier.STATUS)


class Check(StrEnum):
    STOCK = "stock"  # too much was held
    NEWCOMER = "newcomer"  # served too late
    BLAME = "blame"  # an account paused or stopped because of one e-mail or sender
    IDLE = "idle"  # an account did not send, although it could have done so and its pool had mail due
    LOG = "log"  # the logged attempts differ from the conversations at the server
    LIMITS = "limits"  # an account exceeded one of its limits
    PLAN = "plan"  # an e-mail was still unfinished at the end of its retry plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """The worst violation of a check by an account or sender."""

    check: Check
    whose: str
    at_s: float  # seconds since the start
    worst: float  # e-mails or seconds, depending on the check
    times: int
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An account and its provider's behaviour."""

    account: str
    behaviour: Behaviour
    limits: Limits

    @property
    def interval_s(self) -> float:
        """The time from one send to the next."""
        return max(self.limits.delay_ms, self.limits.gap_max_ms or 0, 1000 * self.behaviour.takes_s) / 1000

    @property
    def stock_max(self) -> int:
        """The number of e-mails that the account may hold in addition to the one being sent.

        A random pause may be zero.
        """
        shortest_s = max(self.limits.delay_ms / 1000, self.behaviour.takes_s)
        return 0 if shortest_s > LONG_PAUSE_S else math.ceil(STOCK_S / shortest_s)


@dataclass(slots=True)
class _Newcomer:
    workspace: str
    email_class: EmailClass
    arrived_at: datetime
    ready: int = 1  # number of sends within which the newcomer must be served, including its own
    offered: float = 0.0  # number of sends that the pool could have started since the newcomer arrived
    late_s: float = 0.0  # how long the newcomer has been overdue while the pool could send


@dataclass(slots=True)
class _Idleness:
    since: datetime | None = None
    total_s: float = 0.0
    able_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Held:
    claimed: int = 0
    sending: int = 0
    begun_at: datetime | None = None


_HELD = """SELECT account_id, count(*) FILTER (WHERE state = 'claimed') AS claimed,
       count(*) FILTER (WHERE state = 'sending') AS sending, min(begun_at) FILTER (WHERE state = 'sending') AS begun_at
FROM fairpost.queue WHERE NOT waiting AND state IN ('claimed', 'sending') GROUP BY 1"""

_DUE = """SELECT DISTINCT workspace, class::text AS class FROM fairpost.queue WHERE waiting AND due_at <= $1"""

_LEASE = """SELECT l.epoch, (SELECT count(*) FROM fairpost.queue q WHERE q.account_id = l.account_id AND NOT q.waiting AND q.state = 'claimed') AS claimed
FROM fairpost.leases l WHERE l.account_id = $1"""

_LEFT = """SELECT workspace, class::text AS class, addresses[1] AS address, attempts, attempts_max, state::text AS state
FROM fairpost.queue WHERE state <> 'in_doubt'"""


class Watch:
    """Observes one pool of accounts from start to end."""

    def __init__(
        self,
        store: Store,
        watched: Iterable[Watched],
        visits: Visits,
        *,
        start: datetime,
        guilty: Iterable[str] = (),
        slack_s: float | None = None,
    ) -> None:
        """Creates the watch.

        `guilty` are workspaces that a provider refuses. No account is required to send for these workspaces.

        `slack_s` is how late an observation in real time may be, or None if time stands still during observations.
        """
        self._store = store
        self._watched = {each.account: each for each in watched}
        self._visits = visits
        self._start = start
        self._guilty = frozenset(guilty)
        self._is_exact = slack_s is None
        self._slack_s = SLACK_S if slack_s is None else slack_s
        self._last: datetime | None = None
        self._newcomers: dict[str, _Newcomer] = {}
        self._waits_s: dict[str, float] = {}
        self._idleness: dict[str, _Idleness] = defaultdict(_Idleness)
        self._epochs: dict[AccountId, int] = {}
        self._found: dict[tuple[Check, str], Violation] = {}

    # ── results ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def violations(self) -> list[Violation]:
        return sorted(self._found.values(), key=lambda found: (found.check, found.whose))

    @property
    def worst_wait_s(self) -> float | None:
        return max(self._waits_s.values(), default=None)

    @property
    def idle_share(self) -> float:
        able_s = sum(each.able_s for each in self._idleness.values())
        return sum(each.total_s for each in self._idleness.values()) / able_s if able_s else 0.0

    # ── events ────────────────────────────────────────────────────────────────────────────────────────────

    def arrived(self, workspace: str, email_class: EmailClass, at: datetime) -> None:
        """Records that a newcomer has mail due."""
        self._newcomers[workspace] = _Newcomer(workspace, email_class, at)

    async def begun(self, account: Account, now: datetime) -> None:
        """Checks which other e-mails an account holds while it is sending an e-mail."""
        row = await self._store.row(_LEASE, account.id)
        is_new = self._epochs.get(account.id) != row["epoch"]
        self._epochs[account.id] = row["epoch"]
        most = 0 if is_new else self._watched[account.name].stock_max
        if row["claimed"] > most:
            about = f"held {row['claimed']} in addition to the {'first ' if is_new else ''}e-mail being sent; {most} allowed"
            self._find(Check.STOCK, account.name, now, row["claimed"], about)

    async def look(self, now: datetime) -> None:
        held = {
            row["account_id"]: _Held(row["claimed"], row["sending"], row["begun_at"])
            for row in await self._store.fetch(_HELD)
        }
        due = {(row["workspace"], EmailClass(row["class"])) for row in await self._store.fetch(_DUE, now)}
        due = {(workspace, class_) for workspace, class_ in due if workspace not in self._guilty}
        passed_s = (now - self._last).total_seconds() if self._last else 0.0
        self._last = now
        if passed_s > BLIND_S and not self._is_exact:
            self._start_again()
        offered = 0.0
        for account in await self._store.accounts():
            watched = self._watched.get(account.name)
            if watched is not None:
                if account.limits.needs_charges:
                    charges = await self._store.charges(account.id)
                    account = replace(account, usage=replace(account.usage, charges=charges))
                holds = held.get(account.id, _Held())
                self._look_at_stock(watched, account, holds, now)
                if self._look_at_use(watched, account, holds, now, passed_s=passed_s, is_due=bool(due)):
                    offered += passed_s / watched.interval_s
        self._look_at_newcomers(due, offered, now, passed_s=passed_s)

    def _start_again(self) -> None:
        """Discards earlier observations, because a machine that is too busy to observe is also too busy to send."""
        for idleness in self._idleness.values():
            idleness.since = None
        for newcomer in self._newcomers.values():
            newcomer.late_s = 0.0

    def _look_at_stock(self, watched: Watched, account: Account, holds: _Held, now: datetime) -> None:
        if not holds.claimed:
            return
        waits_s = _waits_s(account, now)
        sends_s = (now - holds.begun_at).total_seconds() if holds.begun_at else 0.0
        if waits_s > LONG_PAUSE_S + self._slack_s:
            about = f"held {holds.claimed} with {waits_s:.1f} s to wait"
            self._find(Check.STOCK, account.name, now, holds.claimed, about)
        elif sends_s > LONG_SEND_S + self._slack_s:
            about = f"held {holds.claimed} during a send of {sends_s:.1f} s"
            self._find(Check.STOCK, account.name, now, holds.claimed, about)
        elif holds.claimed > watched.stock_max + (1 if not holds.sending else 0) + (0 if self._is_exact else 1):
            about = f"held {holds.claimed}; {watched.stock_max} allowed in addition to the e-mail being sent"
            self._find(Check.STOCK, account.name, now, holds.claimed, about)

    def _look_at_use(
        self, watched: Watched, account: Account, holds: _Held, now: datetime, *, passed_s: float, is_due: bool
    ) -> bool:
        """Returns whether the account could work, which its limits or a justified pause may prevent."""
        barrier = availability(account, now=now)
        reason = barrier.reason if isinstance(barrier, NotBefore) else None
        is_resting = reason in RESTING
        if is_resting and watched.behaviour.matter is not Matter.ACCOUNT:
            about = f"{account.status} {account.usage.rest.reason if account.usage.rest else ''}".strip()
            self._find(Check.BLAME, account.name, now, _waits_s(account, now), about)
        is_excused = (is_resting and watched.behaviour.matter is Matter.ACCOUNT) or watched.behaviour.is_closing
        is_limited = reason is not None and reason not in (*RESTING, Barrier.DELAY)
        sends_s = (now - holds.begun_at).total_seconds() if holds.begun_at else 0.0
        is_able = not (is_excused or is_limited or sends_s > watched.interval_s)
        idleness = self._idleness[account.name]
        is_idle = is_able and is_due and reason is not Barrier.DELAY and not holds.sending
        if is_able:
            idleness.able_s += passed_s
        if not is_idle:
            idleness.since = None
        elif idleness.since is None:
            idleness.since = now
        else:
            idleness.total_s += passed_s
            stretch_s = (now - idleness.since).total_seconds()
            if stretch_s > GRACE_S + self._slack_s:
                self._find(Check.IDLE, account.name, now, stretch_s, f"idle for {stretch_s:.1f} s with mail due")
        return is_able

    def _look_at_newcomers(
        self, due: set[tuple[str, EmailClass]], offered: float, now: datetime, *, passed_s: float
    ) -> None:
        served = {visit.workspace: visit.began_at for visit in reversed(self._visits.all)}
        for newcomer in list(self._newcomers.values()):
            began_at = served.get(newcomer.workspace)
            self._waits_s[newcomer.workspace] = ((began_at or now) - newcomer.arrived_at).total_seconds()
            if began_at is not None:
                del self._newcomers[newcomer.workspace]
                continue
            of_class = sum(class_ is newcomer.email_class for _, class_ in due)
            is_shared = of_class < len(due)
            newcomer.ready = max(newcomer.ready, of_class + is_shared)
            newcomer.offered += offered * (SHARES[newcomer.email_class] if is_shared else 1)
            if newcomer.offered < newcomer.ready:
                newcomer.late_s = 0.0
            elif offered:
                newcomer.late_s += passed_s
                if newcomer.late_s > GRACE_S + self._slack_s:
                    waited_s = self._waits_s[newcomer.workspace]
                    about = f"waited for {waited_s:.1f} s; its turn ({newcomer.ready}) was {newcomer.late_s:.1f} s ago"
                    self._find(Check.NEWCOMER, newcomer.workspace, now, waited_s, about)

    # ── end ───────────────────────────────────────────────────────────────────────────────────────────────

    async def finish(self, now: datetime, *, drains: bool) -> None:
        """Checks the state after all work is done. `drains` means that all e-mails should have been sent by now."""
        ids = {account.name: account.id for account in await self._store.accounts()}
        logged = await self._logged()
        for watched in self._watched.values():
            seen = [visit for visit in self._visits.all if visit.account == watched.account]
            if watched.behaviour.is_gmail and not self._is_exact:
                continue  # over HTTP, a server cannot detect which of its answers belong to the same attempt
            cut, in_log = sum(visit.was_cut for visit in seen), logged.get(ids[watched.account], 0)
            # A conversation that was cut off may or may not be an attempt.
            if not len(seen) - cut <= in_log <= len(seen):
                about = f"{in_log} attempts logged, {len(seen)} conversations at the server"
                self._find(Check.LOG, watched.account, now, abs(len(seen) - in_log), about)
            for words in self._broken_limits(watched.limits, [visit.left_at or visit.began_at for visit in seen]):
                self._find(Check.LIMITS, watched.account, now, 1, words)
        senders = {visit.workspace for visit in self._visits.all}
        turn = timedelta(seconds=len(senders) * max(each.interval_s for each in self._watched.values()))
        first_tries = {visit.recipient: visit.began_at for visit in reversed(self._visits.all)}
        for row in await self._store.fetch(_LEFT):
            tried_at = first_tries.get(row["address"])
            plan = _plan(EmailClass(row["class"]), row["attempts_max"]) + turn * row["attempts_max"]
            over = now - tried_at - plan if tried_at else timedelta()
            if row["address"].startswith(POISON) and over > timedelta():
                over_s = over.total_seconds()
                about = f"still {row['state']} {over_s:.0f} s after its last try was due, {row['attempts']} tries used"
                self._find(Check.PLAN, row["workspace"], now, over_s, about)
            elif drains and row["workspace"] not in self._guilty:
                self._find(Check.PLAN, row["workspace"], now, 1, f"still {row['state']} at the end")

    async def _logged(self) -> Mapping[AccountId, int]:
        """Returns the logged attempts. E-mails in doubt are not logged until they are resolved, so they are added here."""
        rows = await self._store.fetch(
            """SELECT account_id, count(*) AS n FROM (
                   SELECT account_id FROM fairpost.attempts
                   UNION ALL SELECT account_id FROM fairpost.queue WHERE NOT waiting AND state = 'in_doubt') a GROUP BY 1"""
        )
        return {AccountId(row["account_id"]): row["n"] for row in rows}

    def _broken_limits(self, limits: Limits, moments: Sequence[datetime]) -> list[str]:
        """Returns the limits that were exceeded. On a real socket, delivery times vary, so pauses are checked ten at a
        time.
        """
        if self._is_exact:
            return broken_limits(limits, moments)
        ten = Limits(delay_ms=max(0, 10 * limits.delay_ms - round(1000 * self._slack_s)))
        return [*broken_limits(replace(limits, delay_ms=0), moments), *broken_limits(ten, moments[::10])]

    def _find(self, check: Check, whose: str, now: datetime, worst: float, about: str) -> None:
        before = self._found.get((check, whose))
        if before is None or worst > before.worst:
            self._found[check, whose] = Violation(
                check=check,
                whose=whose,
                at_s=(now - self._start).total_seconds(),
                worst=worst,
                times=(before.times if before else 0) + 1,
                about=about,
            )
        else:
            self._found[check, whose] = replace(before, times=before.times + 1)


def _waits_s(account: Account, now: datetime) -> float:
    """Returns the time until the account may send, in seconds, or infinity if manual action is needed."""
    barrier = availability(account, now=now)
    if not isinstance(barrier, NotBefore):
        return 0.0
    return (barrier.moment - now).total_seconds() if barrier.moment else math.inf


def _plan(email_class: EmailClass, attempts_max: int) -> timedelta:
    """Returns the time by which the last attempt must be over, plus half a minute."""
    delays = (retry_delay(email_class, attempts=n, roll=1.0) for n in range(1, attempts_max))
    return sum(delays, timedelta(seconds=30))
