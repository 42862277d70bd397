"""The watch over senders, on the real database: a burst is caught, throttled, reported once, and released."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from fairpost.engine.runner import Runner
from fairpost.maintenance.senders import TELL_EVERY, SenderOptions, SenderWatch
from fairpost.model.account import Limits
from fairpost.model.email import Outgoing
from fairpost.model.reason import Reason
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.model.sender import AbuseMode, Fairness, SenderId, SenderLevel, Tier
from fairpost.policy.abuse import AbusePolicy
from fairpost.policy.senders import SenderPolicy, lift
from fairpost.policy.tiers import Plans
from fairpost.store import senders
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.scripted.send import ScriptedTransport
from tests.simulation.world import draft

START = datetime(2030, 1, 10, 12, 30, tzinfo=UTC)
BAD = SenderId(workspace="w1", name="bad")


def watch_of(store: Store, mode: AbuseMode = AbuseMode.ENFORCE, **fairness: Any) -> SenderWatch:
    return SenderWatch(
        store,
        SenderOptions(
            policy=SenderPolicy(abuse=AbusePolicy(mode=mode)),
            fairness=Fairness(**fairness),
            operators=("ops@here.test", "boss@here.test"),
        ),
        print,
    )


@pytest.fixture
def hands() -> Iterator[clock.ManualClock]:
    with clock.stopped_at(START) as hands:
        yield hands


def answer(email: Outgoing) -> Report:
    is_dead = email.envelope[0].startswith("bounce")
    reply = Reply(550, "5.1.1 no such user") if is_dead else Reply(250, "2.0.0 taken")
    return Report(reached=Reached.REPLIED, reply=reply, step=Step.RCPT if is_dead else None)


@pytest.fixture
async def runner(store: Store, hands: clock.ManualClock) -> AsyncIterator[Runner]:
    id_ = await store.add_account("anna", address="anna@post.test", limits=Limits(bounce_percent_max=None))
    runner = await Runner.start(store, ScriptedTransport(always=answer), id_, owner="test", lease_s=1e7)
    assert runner is not None
    yield runner
    await runner.stop()


async def tier_of(store: Store, id_: SenderId = BAD) -> Tier:
    return Tier(await store.value("SELECT fairpost.tier_of($1, $2)", id_.workspace, id_.name))


async def notices(store: Store) -> list[str]:
    rows = await store.fetch(
        """SELECT c.subject FROM (SELECT content_id, workspace FROM fairpost.queue UNION ALL SELECT content_id, workspace FROM fairpost.emails) e
           JOIN fairpost.contents c ON c.id = e.content_id WHERE e.workspace = 'fairpost'"""
    )
    return [row["subject"] for row in rows]


LOOK_EVERY = 5  # e-mails


async def a_burst(store: Store, n: int = 150, bounce_every: int = 5) -> None:
    """A new account with a list in which every fifth address does not exist."""
    await senders.set_sender(store, BAD, plan=None, since=clock.now())
    mail = [
        draft(user="bad", stream="blast", to=f"{'bounce' if i % bounce_every == 0 else 'ok'}{i}@there.test")
        for i in range(n)
    ]
    await store.enqueue_many(mail)


async def test_an_engine_brings_mail_to_the_home_that_was_given(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await store.enqueue_many(
        [draft(user="ann", domain=f"d{n}.test", due_at=START + timedelta(hours=1)) for n in range(3)]
    )
    await runner.step()
    await senders.set_sender(store, SenderId(workspace="w1", name="ann"), plan=None, since=None, home="given.test")
    await watch.step()
    assert await store.value("SELECT array_agg(DISTINCT key) FROM fairpost.nodes WHERE level = 'domain'") == [
        "given.test"
    ]


async def test_a_burst_is_caught_while_it_happens_and_let_go(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await watch.start()
    await watch.step()
    await a_burst(store)
    sent = 0
    while await tier_of(store) is not Tier.THROTTLED:
        await runner.step()
        sent += 1
        hands.advance(timedelta(milliseconds=20))
        await watch.step()
        assert sent <= 150, "the whole burst was sent"
    assert sent < 130, "15 bounces of 150 take 75 e-mails, and outcomes are written every second, which is 50 e-mails"
    await runner.run_until_idle()
    left = await store.value("SELECT count(*) FROM fairpost.queue WHERE user_name = 'bad'")
    assert left > 20, "no more of it is sent"

    (bad,) = await senders.known(store, throttled=True)
    assert bad.score == 70
    assert bad.throttle is not None
    assert bad.throttle.until == bad.throttle.since + timedelta(hours=8)
    assert len(await notices(store)) == 2, "one to each operator"
    hands.advance(TELL_EVERY)
    await watch.step()
    assert len(await notices(store)) == 2, "and not a second time"

    assert await senders.decide(store, lift(bad, policy=SenderPolicy(), now=clock.now()).after, is_new=False)
    await watch.step()
    assert await tier_of(store) is Tier.LOW, "young, as before"
    await runner.run_until_idle()
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE user_name = 'bad'") == 0


async def test_a_throttle_ends_by_itself_and_the_weight_when_the_score_has_fallen(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await watch.start()
    await a_burst(store)
    await runner.run_until_idle()
    await watch.step()
    assert await tier_of(store) is Tier.THROTTLED
    hands.advance(timedelta(seconds=8 * 3600 + 1))
    await watch.step()
    assert await tier_of(store) is Tier.THROTTLED, "the score is unchanged"
    await store.enqueue_many([draft(user="bad")])
    await runner.run_until_idle()
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE user_name = 'bad'") == 0, "but it is not held"
    for _ in range(30):
        hands.advance(timedelta(seconds=3600))
        await watch.step()
    assert await tier_of(store) is Tier.LOW
    hands.advance(timedelta(seconds=7 * 86400))
    await watch.step()
    assert await tier_of(store) is Tier.NORMAL, "and no longer young"


@pytest.mark.parametrize("mode", [AbuseMode.OBSERVE, AbuseMode.OFF])
async def test_an_observed_sender_is_reported_but_not_stopped(
    store: Store, runner: Runner, hands: clock.ManualClock, mode: AbuseMode
) -> None:
    watch = watch_of(store, mode)
    await watch.start()
    await a_burst(store)
    await runner.run_until_idle()
    await watch.step()
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE user_name = 'bad'") == 0
    assert await tier_of(store) is Tier.LOW
    assert len(await notices(store)) == (2 if mode is AbuseMode.OBSERVE else 0)


async def test_changing_the_mode_frees_throttled_senders(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await watch.start()
    await a_burst(store)
    await runner.run_until_idle()
    await watch.step()
    assert await tier_of(store) is Tier.THROTTLED
    watch = watch_of(store, AbuseMode.OFF)
    await watch.start()
    await watch.step()
    assert await tier_of(store) is Tier.LOW


async def found_after(store: Store) -> timedelta | None:
    found: timedelta | None = await store.value("SELECT found_after FROM fairpost.throttled(NULL, 1)")
    return found


async def test_time_to_detect_counts_from_the_bounce_and_not_from_when_an_engine_looked(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await watch.start()
    await watch.step()
    await a_burst(store, n=60)
    await runner.run_until_idle()
    await watch.step()
    assert await tier_of(store) is not Tier.THROTTLED, "60 e-mails are not many"
    hands.advance(timedelta(minutes=1))
    await a_burst(store, n=90)
    await runner.run_until_idle()
    hands.advance(timedelta(minutes=20))  # no check in between
    await watch.step()
    assert await tier_of(store) is Tier.THROTTLED
    assert await found_after(store) == timedelta(minutes=20)


async def test_time_to_detect_counts_from_when_mail_became_due_also_where_no_engine_ran(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    await senders.set_sender(store, BAD, plan=None, since=START)
    await store.enqueue_many([draft(user="bad", to=f"bounce{i}@there.test") for i in range(120)])
    hands.advance(timedelta(minutes=45))
    watch = watch_of(store)
    await watch.start()
    await runner.run_until_idle()
    await watch.step()
    assert await tier_of(store) is Tier.THROTTLED
    assert await found_after(store) == timedelta(minutes=45)


async def test_a_throttle_that_is_lifted_leaves_nothing_to_measure(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await watch.start()
    await a_burst(store)
    await runner.run_until_idle()
    await watch.step()
    assert await store.value("SELECT count(*) FROM fairpost.offences") == 1
    free = watch_of(store, AbuseMode.OFF)
    await free.start()
    await free.step()
    assert await store.value("SELECT count(*) FROM fairpost.offences") == 0


async def test_a_shorter_maximum_shortens_the_throttles_that_run(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await watch.start()
    await a_burst(store)
    await runner.run_until_idle()
    await watch.step()
    sql = "SELECT throttled_until - throttled_since FROM fairpost.senders WHERE name = 'bad'"
    assert await store.value(sql) == timedelta(hours=8)
    policy = SenderPolicy(abuse=AbusePolicy(throttle_max=timedelta(hours=2)))
    shorter = SenderWatch(store, SenderOptions(policy=policy, fairness=Fairness()), print)
    await shorter.start()
    await shorter.step()
    assert await store.value(sql) == timedelta(hours=2)
    held = "SELECT r.throttled_until - s.throttled_since FROM fairpost.sender_rules r JOIN fairpost.senders s ON s.name = r.key WHERE r.key = 'bad'"
    assert await store.value(held) == timedelta(hours=2), "its held mail is sent again"


async def test_planned_mail_counts_when_its_hour_begins(store: Store, runner: Runner, hands: clock.ManualClock) -> None:
    watch = watch_of(store)
    await watch.start()
    await senders.set_sender(store, BAD, plan=None, since=START)
    await store.enqueue_many([draft(user="bad", due_at=START + timedelta(hours=2)) for _ in range(120)])
    await runner.run_until_idle()
    await watch.step()
    (active,) = await senders.with_activity(store, [BAD])
    assert active.sender.score == 0
    hands.advance(timedelta(seconds=1.6 * 3600))
    await watch.step()
    (active,) = await senders.with_activity(store, [BAD])
    assert active.hours[START.replace(minute=0) + timedelta(hours=2)].volume == 120


async def test_health_is_seen_and_written(store: Store, runner: Runner, hands: clock.ManualClock) -> None:
    watch = watch_of(store, queue_max=100)
    await watch.start()
    await store.enqueue_many([draft(user="u", due_at=START - timedelta(hours=1)) for _ in range(90)])
    await store.value("SELECT fairpost.absorb_arrivals('{default}', $1)", START)
    await watch.step()
    row = await store.row("SELECT queued, oldest_at, multiplier FROM fairpost.fairness")
    assert tuple(row) == (90, START - timedelta(hours=1), pytest.approx(0.35))
    await store.hold("w1", "user", "u", reason="test")
    hands.advance(timedelta(seconds=11))
    await watch.step()
    row = await store.row("SELECT queued, oldest_at, multiplier FROM fairpost.fairness")
    assert tuple(row) == (90, None, pytest.approx(0.7)), "held mail does not count as waiting"


async def test_other_plans_are_checked_by_the_next_engine(store: Store, hands: clock.ManualClock) -> None:
    await senders.set_sender(store, BAD, plan="gold", since=START - timedelta(days=30))
    watch = watch_of(store, plans="before")
    await watch.start()
    await watch.step()
    assert await tier_of(store) is Tier.NORMAL
    policy = SenderPolicy(plans=Plans(paid=frozenset({"gold"})))
    watch = SenderWatch(store, SenderOptions(policy=policy, fairness=Fairness(plans="after")), print)
    await watch.start()
    await watch.step()
    assert await tier_of(store) is Tier.HIGH


async def test_a_look_that_fails_is_not_the_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Reason] = []
    watch = SenderWatch(store, SenderOptions(policy=SenderPolicy(), fairness=Fairness()), said.append)
    looks = 0
    twice = asyncio.Event()

    async def step() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            twice.set()
        raise ValueError("nonsense")

    monkeypatch.setattr(watch, "step", step)
    running = asyncio.create_task(watch.run())
    await asyncio.wait_for(twice.wait(), 60)
    running.cancel()
    assert said[0] == Reason("task.failed", task="sender watch", error="ValueError: nonsense")


async def test_a_sender_that_an_application_has_locked_is_checked_later(
    store: Store, url: str, hands: clock.ManualClock
) -> None:
    watch = watch_of(store)
    await watch.start()
    await senders.set_sender(store, BAD, plan="free", since=None)
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            await conn.execute("SELECT fairpost.set_sender('w1', 'bad', 'team', NULL)")
            await watch.step()
            await store.hold("w1", "user", "bad", reason="nobody waits for the application")
        await watch.step()
        assert await tier_of(store) is Tier.HIGH
    finally:
        await conn.close()


async def test_hours_in_which_no_engine_checked_are_checked(store: Store, hands: clock.ManualClock) -> None:
    await store.value(
        """INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume, bounced)
           VALUES ('w1', 'bad', fairpost.hour_of($1) - interval '3 hours', 'default', 500, 100)""",
        START,
    )
    await senders.set_sender(store, BAD, plan=None, since=START - timedelta(hours=5))
    await store.value("UPDATE fairpost.senders SET look_at = NULL")
    await senders.set_health(store, queued=0, oldest_at=None, multiplier=1, now=START - timedelta(hours=4))
    watch = watch_of(store)
    await watch.start()
    await watch.step()
    assert await tier_of(store) is Tier.THROTTLED


@pytest.mark.parametrize("since", ["infinity", "-infinity", "12000-01-01", "0001-01-01"])
async def test_an_impossible_age_is_refused(store: Store, since: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match=r"1970.*2200"):
        await store.value("SELECT fairpost.set_sender('w1', 'ann', NULL, $1::text::timestamptz)", since)


async def test_a_workspace_is_caught_whose_invented_users_each_keep_the_rules(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    """None of them breaks more than one rule; together they bounce too much, and send five times the usual volume."""
    yesterday = (START - timedelta(days=3)).date()
    await store.value(
        "INSERT INTO fairpost.activity_days (workspace, user_name, day, volume) VALUES ('w1', 'usual', $1, 10)",
        yesterday,
    )
    watch = watch_of(store)
    await watch.start()
    await store.enqueue_many(
        [draft(user=f"user{i}", to=f"{'bounce' if i % 5 == 0 else 'ok'}{i}@there.test") for i in range(200)]
    )
    await store.enqueue_many([draft(workspace="w2", user="ann", to=f"ok{i}@there.test") for i in range(5)])
    for n in range(120):
        await runner.step()
        hands.advance(timedelta(seconds=10))
        if n % LOOK_EVERY == 0:
            await watch.step()
    (caught,) = await senders.known(store, throttled=True)
    assert (caught.id.workspace, caught.id.level) == ("w1", SenderLevel.WORKSPACE)
    assert caught.throttle is not None
    await runner.run_until_idle()
    waiting = await store.fetch(
        "SELECT workspace, count(*) AS n FROM fairpost.queue WHERE workspace <> 'fairpost' GROUP BY 1"
    )
    assert {row["workspace"] for row in waiting} == {"w1"}
    assert len(await notices(store)) == 2


async def test_mail_that_names_no_user_counts_for_its_workspace_unless_that_is_the_operators(
    store: Store, runner: Runner, hands: clock.ManualClock
) -> None:
    policy = SenderPolicy(trusted=frozenset({"own"}))
    watch = SenderWatch(store, SenderOptions(policy=policy, fairness=Fairness()), print)
    await watch.start()
    for workspace in ("own", "w1"):
        await senders.set_sender(
            store, SenderId(workspace=workspace, level=SenderLevel.WORKSPACE), plan=None, since=START
        )
        await store.enqueue_many(
            [
                draft(workspace=workspace, user="", to=f"{'bounce' if i % 4 == 0 else 'ok'}{i}@there.test")
                for i in range(150)
            ]
        )
    for n in range(200):
        await runner.step()
        hands.advance(timedelta(seconds=10))
        if n % LOOK_EVERY == 0:
            await watch.step()
    caught = await senders.known(store, throttled=True)
    assert [(sender.id.workspace, sender.id.level) for sender in caught] == [("w1", SenderLevel.WORKSPACE)]


async def test_a_mark_with_a_low_number_that_commits_late_is_seen(store: Store, hands: clock.ManualClock) -> None:
    """Marks are numbered when they are made. Checks begin behind those that are settled, and now and then at the
    beginning."""
    watch = watch_of(store)
    mark = "INSERT INTO fairpost.dirty_senders (id, workspace, user_name, at) OVERRIDING SYSTEM VALUE VALUES ($1, 'w1', 'ann', $2)"
    left = "SELECT array_agg(id ORDER BY id) FROM fairpost.dirty_senders"
    await watch.step()  # at the beginning
    await store.value(mark, 20, START)
    await watch.step()
    await store.value(mark, 10, START)  # its transaction took two seconds
    hands.advance(timedelta(seconds=2))
    await watch.step()
    assert await store.value(left) is None
    hands.advance(timedelta(seconds=10))
    await store.value(mark, 11, START)  # twelve
    await store.value(mark, 21, START)
    await watch.step()
    assert await store.value(left) == [11]
    hands.advance(timedelta(minutes=1))
    await watch.step()
    assert await store.value(left) is None
