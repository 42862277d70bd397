"""Any interleaving of events in campaigns, on the real SQL and the real worker.

No prospect gets a step twice, too early, from another account, outside the window, beyond the quota, or after a pause;
and in the end, all have received everything. Each begin is judged immediately, by the settings at that moment; an
e-mail counts as sent if the transport says so.
"""

import asyncio
import os
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fairpost.campaigns import launching
from fairpost.engine.lease import LEASE_S
from fairpost.engine.results import Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.model.account import Account, Limits
from fairpost.model.campaign import Campaign, Gap, Schedule
from fairpost.model.email import Outgoing
from fairpost.model.errors import NotFound
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.prospect import Prospect
from fairpost.model.report import Reached, Report
from fairpost.model.window import Quota
from fairpost.policy.quotas import allowed_on, day_number
from fairpost.policy.windows import is_open, local_day
from fairpost.store import campaigns, prospects
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.port import Permission
from fairpost.transports.scripted.send import OK
from tests.campaigns.answers import LATER, LOST, NO_SUCH_USER
from tests.campaigns.world import BERLIN, MONDAY, WORKSPACE, World, office_hours
from tests.simulation.world import EMPTY, broken_promises, connect
from tests.thorough import times

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

LIMITS = (
    Limits(),
    Limits(delay_ms=1000),
    Limits(delay_ms=60_000, hourly_max=2),
    Limits(hourly_max=1),
    Limits(daily_max=2),
    Limits(delay_ms=500, hourly_max=3, daily_max=4, batch_max=2),
)
DELAYS = ((), (timedelta(),), (HOUR,), (DAY, HOUR), (timedelta(), DAY), (3 * DAY, 2 * DAY))
SCHEDULES = (
    Schedule(),
    Schedule(quota=Quota(daily_max=1)),
    Schedule(timezone=BERLIN, quota=Quota(daily_max=3)),
    Schedule(timezone="Asia/Tokyo", quota=Quota(daily_max=2)),
    Schedule(timezone="America/New_York", quota=Quota(daily_max=4, ramp_up_days=3)),
    office_hours(),
    office_hours(days=(2, 6), start=time(22), end=time(3), quota=Quota(daily_max=2)),
    office_hours("America/New_York", days=range(1, 8), start=time(0), end=time(0), quota=Quota(daily_max=2, ramp_up_percents=(50,))),
    office_hours("Asia/Kolkata", start=time(9), end=time(9, 30), holidays=[date(2030, 1, 8)]),
)  # fmt: skip

BEGUN = """
    SELECT b.*, q.campaign, q.workspace, q.step, q.prospect_id, q.address, a.name AS account FROM (
        SELECT id, attempts AS n, begun_at, account_id FROM fairpost.queue WHERE state IN ('sending', 'in_doubt')
        UNION SELECT email_id, n, begun_at, account_id FROM fairpost.attempts) b
    JOIN (SELECT x.id, x.workspace, x.step, x.prospect_id, x.addresses[1] AS address, c.name AS campaign FROM (
              SELECT id, workspace, step, prospect_id, addresses, campaign_id FROM fairpost.queue
              UNION ALL SELECT id, workspace, step, prospect_id, addresses, campaign_id FROM fairpost.emails) x
          JOIN fairpost.campaigns c ON c.id = x.campaign_id) q USING (id)
    JOIN fairpost.accounts a ON a.id = b.account_id ORDER BY b.begun_at, b.id"""

EMAILS = """
    SELECT x.id, x.address, x.step, x.state, x.follows, x.finished_at, a.name AS account, c.name AS campaign, x.reason FROM (
        SELECT id, addresses[1] AS address, step, state::text, follows, finished_at, account_id, campaign_id, reason FROM fairpost.emails
        UNION ALL SELECT id, addresses[1], step, state::text, follows, NULL, account_id, campaign_id, last_error FROM fairpost.queue) x
    JOIN fairpost.campaigns c ON c.id = x.campaign_id LEFT JOIN fairpost.accounts a ON a.id = x.account_id"""

ON_ITS_WAY = """
    SELECT q.id, q.route, q.due_at FROM fairpost.queue q JOIN fairpost.campaigns c ON c.id = q.campaign_id
    WHERE c.state IN ('running', 'scheduled') AND q.waiting AND q.due_at < 'infinity'"""


class Crash(BaseException):
    """The worker disappears in the middle of a send."""


@dataclass(slots=True)
class Server:
    """The transport of every account. `answer` is for the next e-mail; `taken` is everything delivered, whatever the
    answer."""

    answer: str = "ok"
    taken: list[tuple[EmailId, str, datetime]] = field(default_factory=list)  # e-mail, account, time

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        answer, self.answer = self.answer, "ok"
        if answer == "later":
            return LATER
        if answer == "bounce":
            return NO_SUCH_USER
        if answer == "crash":
            raise Crash
        if not permission():
            return Report(reached=Reached.UNTOUCHED, error="no permission")
        if answer != "lost":
            self.taken.append((email.id, account.name, clock.now()))
        if answer == "taken, then crash":
            raise Crash
        return LOST if answer in ("lost", "taken, then lost") else OK

    def has(self, email_id: EmailId) -> bool:
        return any(id_ == email_id for id_, _, _ in self.taken)


class CampaignMachine(RuleBasedStateMachine):
    store: Store
    loop: asyncio.AbstractEventLoop

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @initialize(
        people=st.integers(2, 4),
        limits=st.lists(st.sampled_from(LIMITS), min_size=1, max_size=3),
        delays=st.sampled_from(DELAYS),
        campaigns=st.sampled_from(["one", "two", "two of one sequence"]),
        schedule=st.none() | st.sampled_from(SCHEDULES),
        gap=st.sampled_from([None, None, Gap(min_s=30, max_s=90)]),
        starts_in=st.sampled_from([None, None, 2 * HOUR]),
        planned=st.sampled_from([1, 5, 5]),
    )
    def begin_world(self, people: int, limits: list[Limits], delays: tuple[timedelta, ...], campaigns: str,
                    schedule: Schedule | None, gap: Gap | None, starts_in: timedelta | None, planned: int) -> None:  # fmt: skip
        self.stack = ExitStack()
        self.clock = self.stack.enter_context(clock.stopped_at(MONDAY))
        self.world = World(self.store, self.clock)
        self.server = Server()
        self.watch = CampaignWatch(self.store, log=lambda words: None)
        self.runners: dict[str, Runner] = {}
        self.wakes: dict[str, datetime | None] = {}
        self.people = people
        self.limits = {f"a{n}": each for n, each in enumerate(limits)}
        self.delays = (timedelta(), *delays)
        self.schedule = Schedule()
        self.paused: set[str] = set()  # campaigns
        self.cancelled: set[str] = set()
        self.resting: set[str] = set()  # paused people
        self.stopped: set[tuple[str, str | None]] = set()
        self.excused: set[str] = set()  # people who may miss e-mails: stopped, suppressed, removed, bounced
        self.silenced: set[str] = set()  # of these, people who must not get anything that was not in progress
        self.known: set[tuple[int, int]] = set()  # begins
        self.gap = gap
        self.run(self._lay(campaigns, starts_in, gap))
        if schedule is not None:
            self.set_schedule(schedule)
        for name in self.drafts:
            self.launch(name)
            self.plan(name, most=planned)

    async def _lay(self, kind: str, starts_in: timedelta | None, gap: Gap | None) -> None:
        await self.store.value(EMPTY)
        self.ids: dict[str, AccountId] = {}
        for name, limits in self.limits.items():
            self.ids[name] = await self.store.add_account(name, address=f"{name}@post.test", limits=limits)
        await self.world.add_people(self.people)
        self.drafts: dict[str, Campaign] = {}
        for name in ("one",) if kind == "one" else ("one", "two"):
            self.drafts[name] = await self.world.draft(
                name,
                sequence="same" if kind == "two of one sequence" else name,
                delays=self.delays[1:],
                gap=gap,
                starts_at=MONDAY + starts_in if starts_in else None,
            )

    @property
    def now(self) -> datetime:
        return self.clock.now

    # ── campaigns ─────────────────────────────────────────────────────────────────────────────────────────

    any_campaign = st.sampled_from(["one", "two"])

    @rule(name=any_campaign)
    def launch(self, name: str) -> None:
        if name in self.drafts:
            draft = self.run(self.world.again(self.drafts[name]))
            self.run(launching.launch(self.store, draft, skip_incomplete=False, by="test", now=self.now))

    @rule(name=any_campaign, most=st.sampled_from([1, 2, 2, 5]))
    def plan(self, name: str, most: int) -> None:
        if name in self.drafts:
            self.run(campaigns.plan_batch(self.store, self.drafts[name].id, most=most))

    @rule(name=any_campaign)
    def replan(self, name: str) -> None:
        if name in self.drafts:
            self.run(campaigns.replan(self.store, self.drafts[name].id))

    @rule(name=any_campaign)
    def pause(self, name: str) -> None:
        if name in self.drafts and self.run(campaigns.pause(self.store, self.drafts[name], reason=None, by="test")):
            self.paused.add(name)

    @rule(name=any_campaign)
    def resume(self, name: str) -> None:
        if name in self.drafts:
            assert self.run(campaigns.resume(self.store, self.drafts[name], by="test")) is (name in self.paused)
            self.paused.discard(name)

    @rule(name=any_campaign, really=st.sampled_from([True, False, False]))
    def cancel(self, name: str, really: bool) -> None:
        if (
            really
            and name in self.drafts
            and self.run(campaigns.cancel(self.store, self.drafts[name], reason=None, by="test"))
        ):
            self.cancelled.add(name)
            self.paused.discard(name)

    @rule(schedule=st.sampled_from(SCHEDULES))
    def set_schedule(self, schedule: Schedule) -> None:
        self.run(self.world.set_schedule(schedule))
        self.schedule = schedule

    # ── people ────────────────────────────────────────────────────────────────────────────────────────────

    who = st.integers(0, 3)

    def _person(self, n: int) -> Prospect | None:
        with suppress(NotFound):
            found: Prospect = self.run(prospects.known_by(self.store, WORKSPACE, self._address(n)))
            return found
        return None

    def _address(self, n: int) -> str:
        return f"p{n % self.people}@there.test"

    @rule(n=who, is_paused=st.booleans())
    def pause_person(self, n: int, is_paused: bool) -> None:
        if person := self._person(n):
            self.run(prospects.pause(self.store, person, is_paused=is_paused))
            (self.resting.add if is_paused else self.resting.discard)(person.address)

    @rule(n=who, name=st.none() | any_campaign)
    def stop_person(self, n: int, name: str | None) -> None:
        """E-mails in progress may still arrive, but no others are begun for this prospect."""
        person = self._person(n)
        if person and (name is None or name in self.drafts):
            self.run(campaigns.stop(self.store, person.id, self.drafts[name] if name else None, reason="replied"))
            self.excused.add(person.address)
            self.stopped.add((person.address, name))

    @rule(n=who, really=st.sampled_from([True, False, False]))
    def remove_person(self, n: int, really: bool) -> None:
        person = self._person(n) if really else None
        if person:
            self.run(prospects.remove(self.store, [person]))
            self.excused.add(person.address)
            self.silenced.add(person.address)

    @rule(n=who, kind=st.sampled_from(["unsubscribe", "complaint", "manual", "hard_bounce"]), where=st.sampled_from([WORKSPACE, "*"]),
          really=st.sampled_from([True, False]))  # fmt: skip
    def suppress(self, n: int, kind: str, where: str, really: bool) -> None:
        if really:
            sql = "SELECT fairpost.suppress($1, $2, 'asked', $3, $4)"
            self.run(self.store.value(sql, where, self._address(n), clock.stated(), kind))
            self.excused.add(self._address(n))
            self.silenced.add(self._address(n))

    # ── accounts ──────────────────────────────────────────────────────────────────────────────────────────

    answers = st.sampled_from(
        ["ok", "ok", "ok", "ok", "ok", "later", "later", "bounce", "lost", "taken, then lost", "crash", "taken, then crash"]
    )  # fmt: skip

    @rule(account=st.integers(0, 2), answer=answers, steps=st.sampled_from([1, 1, 2, 6]))
    def work(self, account: int, answer: str, steps: int) -> None:
        name = list(self.limits)[account % len(self.limits)]
        self.server.answer = answer
        for _ in range(steps):
            if self._step(name) is None:
                break
        self.server.answer = "ok"

    @rule(account=st.integers(0, 2))
    def work_well(self, account: int) -> None:
        self.work(account, answer="ok", steps=3)

    @rule(account=st.integers(0, 2), by=st.sampled_from([MINUTE, HOUR, DAY]))
    def work_after_a_while(self, account: int, by: timedelta) -> None:
        self.clock.advance(by)
        self.work(account, answer="ok", steps=3)

    def _step(self, name: str) -> object | None:
        """None: there is nothing to do for it now."""
        self.wakes[name] = None
        done: object | None
        try:
            done = self.run(self._work(name))
        except Crash:
            self.runners.pop(name)
            done = None
        self._judge_begins()
        if isinstance(done, Rested):
            self.wakes[name] = done.until
            if done.why in (Idle.INACTIVE, Idle.CHANGED, Idle.EXHAUSTED, Idle.LOST):
                self.run(self.runners.pop(name).stop())
            return None
        return done

    async def _work(self, name: str) -> object | None:
        if name not in self.runners:
            runner = await Runner.start(self.store, self.server, self.ids[name], owner=name)
            if runner is None:
                return None
            self.runners[name] = runner
        return await self.runners[name].step()

    @rule(account=st.integers(0, 2))
    def crash(self, account: int) -> None:
        self.runners.pop(list(self.limits)[account % len(self.limits)], None)

    @rule(account=st.integers(0, 2))
    def end_worker(self, account: int) -> None:
        runner = self.runners.pop(list(self.limits)[account % len(self.limits)], None)
        if runner is not None:
            self.run(runner.stop())

    @rule()
    def reap(self) -> None:
        self.run(self.store.reap_leases())

    @rule(decision=st.sampled_from(["resend", "failed"]))
    @precondition(lambda self: self._doubts())
    def resolve(self, decision: Any) -> None:
        """A person decides after asking the recipient."""
        email_id = self._doubts()[0]
        if self.server.has(email_id):
            decision = "sent"
        assert self.run(self.store.resolve(email_id, decision, by="test")) is not None
        if decision == "failed":
            self.excused.add(self._known(email_id)["address"])

    def _doubts(self) -> list[EmailId]:
        rows = self.run(self.store.fetch("SELECT id FROM fairpost.queue WHERE state = 'in_doubt' ORDER BY id"))
        return [EmailId(row["id"]) for row in rows]

    @rule(pick=st.integers(0, 5))
    def retry(self, pick: int) -> None:
        rows = [
            r
            for r in self._emails()
            if r["state"] in ("failed", "bounced")
            and r["campaign"] not in self.cancelled
            and r["address"] not in self.silenced
        ]
        if rows:
            self.run(campaigns.retry(self.store, [rows[pick % len(rows)]["id"]]))

    # ── time, and the orchestrator ────────────────────────────────────────────────────────────────────────

    @rule(by=st.sampled_from([SECOND, 2 * SECOND, 31 * SECOND, 61 * SECOND, 2 * MINUTE, HOUR, 7 * HOUR, DAY, 3 * DAY]))
    def time_passes(self, by: timedelta) -> None:
        self.clock.advance(by)

    @rule()
    def to_the_next_moment(self) -> None:
        moments = [each for each in self.wakes.values() if each is not None and each > self.now]
        if moments:
            self.clock.move_to(min(moments))

    @rule()
    def look(self) -> None:
        self.run(self.watch.step())
        self._judge_waiting()

    # ── invariants ────────────────────────────────────────────────────────────────────────────────────────

    def _emails(self) -> list[Any]:
        found: list[Any] = self.run(self.store.fetch(EMAILS))
        return found

    def _known(self, email_id: int) -> Any:
        return next(row for row in self._emails() if row["id"] == email_id)

    def _judge_begins(self) -> None:
        begun = self.run(self.store.fetch(BEGUN))
        for row in begun:
            if (row["id"], row["n"]) not in self.known:
                self.known.add((row["id"], row["n"]))
                self._judge_begin(row, begun)

    def _judge_begin(self, row: Any, begun: list[Any]) -> None:
        at = row["begun_at"]
        assert at == self.now
        assert row["campaign"] not in self.paused | self.cancelled, "begun after a pause"
        assert row["address"] not in self.resting, "begun for a paused person"
        assert row["address"] not in self.silenced, "begun for a person who must get no more mail"
        assert not {(row["address"], row["campaign"]), (row["address"], None)} & self.stopped, "begun after a stop"
        if self.schedule.window is not None:
            assert is_open(self.schedule.window, at), f"begun at {at}, outside the window"
        self._judge_quota(at)
        self._judge_limits(row["account"], [each["begun_at"] for each in begun if each["account"] == row["account"]])
        if row["step"] > 1:
            me = self._known(row["id"])
            before = self._known(me["follows"])
            assert before["state"] == "sent", "the step before it was not sent"
            assert at >= before["finished_at"] + self.delays[row["step"] - 1], "too soon after the step before it"
            assert before["account"] == row["account"], "from another account than the step before it"

    def _judge_quota(self, at: datetime) -> None:
        quota, zone = self.schedule.quota, self.schedule.timezone
        if quota.daily_max is None:
            return
        first = self.run(self.store.value("SELECT first_day FROM fairpost.schedules"))
        today = local_day(zone, at)
        rows = self.run(
            self.store.fetch(
                """SELECT begun_at FROM fairpost.attempts WHERE outcome = 'sent'
                   UNION ALL SELECT begun_at FROM fairpost.queue WHERE state IN ('sending', 'in_doubt')"""
            )
        )
        used = sum(local_day(zone, row["begun_at"]) == today for row in rows)
        allowed = allowed_on(quota, day_number(first, today, self.schedule.window))
        assert allowed is not None
        assert used <= allowed, f"{used} of {allowed} on {today}"
        booked = self.run(
            self.store.value("SELECT used FROM fairpost.quotas WHERE starts_at <= $1 AND ends_at > $1", at)
        )
        assert booked >= used, "fewer are counted than were sent"

    def _judge_limits(self, account: str, begins: list[datetime]) -> None:
        limits = self.limits[account]
        for before, after in pairwise(begins):
            assert after - before >= timedelta(milliseconds=limits.delay_ms)
            if self.gap is not None:
                assert after - before >= timedelta(seconds=self.gap.min_s)
        for length, most in ((HOUR, limits.hourly_max), (DAY, limits.daily_max)):
            start, used = None, 0
            for at in begins:
                if start is None or at >= start + length:
                    start, used = at, 0
                used += 1
                assert most is None or used <= most, f"{used} in {length} from {start}"

    def _judge_waiting(self) -> None:
        """Everything that is waiting has a time at which it is checked again."""
        rows = self.run(self.store.fetch("SELECT * FROM fairpost.routes_with_work($1)", self.now))
        routes = {row["route"]: row for row in rows}
        for email in self.run(self.store.fetch(ON_ITS_WAY)):
            assert email["route"] in routes, (
                f"e-mail {email['id']} waits, due {email['due_at']}, but no worker will look"
            )
            route = routes[email["route"]]
            assert route["due"] or route["next_at"] is not None

    @invariant()
    def no_one_gets_a_step_twice(self) -> None:
        if not hasattr(self, "server"):
            return
        assert max(Counter(id_ for id_, _, _ in self.server.taken).values(), default=1) == 1
        keys = Counter(
            self.run(
                self.store.fetch(
                    "SELECT e.addresses[1], e.idempotency_key FROM fairpost.emails e WHERE e.id = ANY ($1)",
                    [id_ for id_, _, _ in self.server.taken],
                )
            )
        )
        assert max(keys.values(), default=1) == 1

    @invariant()
    def the_books_are_right(self) -> None:
        if hasattr(self, "server"):
            assert self.run(broken_promises(self.store)) == {}

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────

    def teardown(self) -> None:
        if not hasattr(self, "server"):
            return
        try:
            self._drain()
            self._judge_end()
        finally:
            self.runners.clear()
            self.stack.close()

    def _drain(self) -> None:
        for name in self.drafts:
            self.resume(name)
        for n in range(self.people):
            self.pause_person(n, is_paused=False)
        self.set_schedule(Schedule())
        for _ in range(400):
            while self._doubts():
                self.resolve("resend")
            self.look()
            for name in self.limits:
                while self._step(name) is not None:
                    pass
            self.the_books_are_right()
            self.no_one_gets_a_step_twice()
            self.look()
            if not self.run(self.store.value("SELECT count(*) FROM fairpost.queue")):
                return
            moments = [each for each in self.wakes.values() if each is not None]
            moments += [
                r["next_at"] for r in self.run(self.store.fetch("SELECT * FROM fairpost.routes_with_work($1)", self.now)) if r["next_at"]
            ]  # fmt: skip
            later = [each for each in moments if each > self.now]
            self.clock.move_to(min(later, default=self.now + timedelta(seconds=LEASE_S)))
        raise AssertionError(f"does not come to an end: {[dict(row) for row in self._emails() if row['finished_at'] is None]}")  # fmt: skip

    def _judge_end(self) -> None:
        self.clock.advance(DAY)  # past the start of one that has nothing to send
        self.look()
        self.look()
        for name, draft in self.drafts.items():
            state = self.run(self.world.again(draft)).state
            assert state == ("cancelled" if name in self.cancelled else "completed"), f"{name} is {state}"
        sent = {id_ for id_, _, _ in self.server.taken}
        rows = self._emails()
        assert {row["id"] for row in rows if row["state"] == "sent"} <= sent, "every e-mail marked as sent was sent"
        gave_up = {row["address"] for row in rows if row["state"] in ("failed", "bounced", "suppressed")}
        got = Counter((row["address"], row["campaign"], row["step"]) for row in rows if row["id"] in sent)
        for n in range(self.people):
            address = self._address(n)
            if address in self.excused | gave_up:
                continue
            for name in self.drafts:
                mine = {row["step"] for row in rows if row["address"] == address and row["campaign"] == name}
                if name not in self.cancelled and mine:
                    assert mine == set(range(1, len(self.delays) + 1))
                    assert all(got[address, name, step] == 1 for step in mine), f"{address} lacks a step of {name}"


@pytest.mark.slow
@pytest.mark.thorough
def test_any_interleaving_keeps_every_promise_of_a_campaign(url: str) -> None:
    """FAIRPOST_EXAMPLES and FAIRPOST_STEPS increase the number and length of runs."""
    loop = asyncio.new_event_loop()
    try:
        CampaignMachine.loop = loop
        CampaignMachine.store = loop.run_until_complete(connect(url))
        examples, steps = times(6, own="FAIRPOST_EXAMPLES"), int(os.environ.get("FAIRPOST_STEPS", "40"))
        run_state_machine_as_test(CampaignMachine, settings=settings(max_examples=examples, stateful_step_count=steps))
        loop.run_until_complete(CampaignMachine.store.close())
    finally:
        loop.close()
