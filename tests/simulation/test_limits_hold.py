"""Whatever happens to workers and clocks, no account exceeds a limit, and none that may send is idle."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from fairpost.engine.lease import LEASE_S
from fairpost.engine.results import Handled, Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.model.account import Account, DailyMode, Limits, WarmUp
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached, Report
from fairpost.policy.limits import DAY, HOUR, MINUTE
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from fairpost.transports.port import Permission
from fairpost.transports.scripted.send import OK
from tests.thorough import times

START = datetime(2030, 3, 30, 21, 17, tzinfo=UTC)
SLICES = [timedelta(seconds=s) for s in (0, 1, 7, 59, 61, 900, 3599, 3600, 7 * 3600, 86_399, 86_400)]

LIMITS = {
    "anchored": Limits(hourly_max=4, daily_max=9),
    "calendar": Limits(delay_ms=2000, daily_max=7, daily_mode=DailyMode.CALENDAR),
    "sliding": Limits(delay_ms=1000, gap_max_ms=90_000, daily_max=8, daily_mode=DailyMode.SLIDING, hourly_max=5),
    "units": Limits(units_per_minute=350, units_per_send=100, daily_max=30, daily_mode=DailyMode.SLIDING),
    "warming": Limits(daily_max=12, warm_up=WarmUp(start=2, step=3), delay_ms=500),
}


class Died(BaseException):
    """The process ends in the middle."""


class Wire:
    """Records every message that was sent. Sometimes the process dies before or after, or the server is away."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.sent: list[datetime] = []

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        fate = self._dice.random()
        if fate < 0.05:
            raise Died
        if fate < 0.12:
            return Report(reached=Reached.UNTOUCHED, error="connection refused")
        if not permission():
            return Report(reached=Reached.UNTOUCHED, error="no permission")
        self.sent.append(clock.now())
        if fate < 0.17:
            raise Died
        return OK


@pytest.fixture
def manual() -> Iterator[ManualClock]:
    with clock.stopped_at(START) as manual:
        yield manual


class Walk:
    """One account, driven by successive workers."""

    def __init__(self, store: Store, manual: ManualClock, account: AccountId, seed: int) -> None:
        self.store, self.clock, self.account = store, manual, account
        self.dice = random.Random(seed)
        self.wire = Wire(self.dice)
        self.runner: Runner | None = None
        self.free_at = START  # when an abandoned lease has expired
        self.idle_from: tuple[datetime, datetime] | None = None

    async def act(self) -> None:
        match self.dice.choices(["work", "stop", "crash", "wait", "wait as told"], [60, 4, 4, 20, 30])[0]:
            case "work":
                await self._work()
            case "stop":
                await self.stop()
            case "crash":
                self._crash()
            case "wait":
                self.clock.advance(self.dice.choice(SLICES))
            case "wait as told":
                if self.idle_from is not None and self.idle_from[1] > self.clock.now:
                    self.clock.move_to(self.idle_from[1])

    async def _work(self) -> None:
        if self.runner is None:
            self.runner = await Runner.start(self.store, self.wire, self.account, owner="walk")
            if self.runner is None:
                assert self.clock.now < self.free_at, "the lease is free, but cannot be taken"
                return
        try:
            step = await self.runner.step()
        except Died:
            self._crash()
            return
        match step:
            case Handled():
                self.idle_from = None
            case Rested(Idle.LOST):
                self.runner = None
            case Rested(Idle.EXHAUSTED | Idle.NOT_YET, until):
                assert until is not None
                assert until > self.clock.now
                self._is_told_to_wait(until)
                if step.why is Idle.EXHAUSTED:
                    await self.stop()
            case Rested(Idle.INACTIVE):
                account = await self.store.account(self.account)
                assert account.status_until is not None, account
                self._is_told_to_wait(account.status_until)
                await self.stop()
            case Rested(why, _):
                assert why in (Idle.EMPTY, Idle.BUSY), step

    def _is_told_to_wait(self, until: datetime) -> None:
        """An announced time is kept: the account may send at that moment."""
        if self.idle_from is not None and self.clock.now >= self.idle_from[1] > self.idle_from[0]:
            raise AssertionError(f"was told to wait until {self.idle_from[1]}, and then again until {until}")
        self.idle_from = (self.clock.now, until)

    async def stop(self) -> None:
        runner, self.runner = self.runner, None
        if runner is not None:
            await runner.stop()

    def _crash(self) -> None:
        self.runner = None
        self.idle_from = None
        self.free_at = self.clock.now + timedelta(seconds=LEASE_S)


def holds(limits: Limits, sent: list[datetime]) -> None:
    """Checks by brute force everything that was really sent."""

    def any_window(length: timedelta, most: int | None) -> None:
        for end in sent:
            assert most is None or sum(end - length < at <= end for at in sent) <= most

    # Windows begin with their first send, so two adjacent ones cover any span of that length.
    any_window(HOUR, 2 * limits.hourly_max if limits.hourly_max else None)
    match limits.daily_mode:
        case DailyMode.SLIDING:
            any_window(DAY, limits.daily_max)
        case DailyMode.CALENDAR:
            for day in {at.date() for at in sent}:
                assert sum(at.date() == day for at in sent) <= (limits.daily_max or 0)
        case DailyMode.ANCHORED:
            any_window(DAY, 2 * limits.daily_max if limits.daily_max else None)
    if limits.units_per_minute:
        any_window(MINUTE, limits.units_per_minute // limits.units_per_send)
    assert all(b - a >= timedelta(milliseconds=limits.delay_ms) for a, b in pairwise(sent))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 1 + times(1)))
@pytest.mark.parametrize("name", LIMITS)
async def test_any_walk_stays_within_the_limits_and_loses_no_capacity(
    store: Store, manual: ManualClock, name: str, seed: int
) -> None:
    limits = LIMITS[name]
    account = await store.add_account("a", address="a@post.test", limits=limits)
    email = {"to": "b@there.test", "subject": "s", "text": "t", "class": "bulk", "attempts_max": 50}
    await store.enqueue_many([email] * 300)
    walk = Walk(store, manual, account, seed)
    for _ in range(300):
        await walk.act()
    await walk.stop()
    holds(limits, walk.wire.sent)
    used = (await store.account(account)).usage
    assert used.day_used >= 0
    in_doubt = await store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'in_doubt'")
    recorded = await store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'")
    assert recorded <= len(walk.wire.sent) <= recorded + in_doubt + 1  # the last crash may not have been found yet
    assert len(walk.wire.sent) > 15, "it made no progress, so this run proves nothing"
