"""The fairness report: its counts match the queue, and reading them reads no e-mail."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.dev.bench.workload import empty, fill, stage_all
from fairpost.model.account import Limits
from fairpost.model.errors import FairpostError
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.sender import Fairness, Sender, SenderId, SenderLevel, Throttle, Tier
from fairpost.observe.fairness import TIERS, FairnessReport, Portion, read_fairness, read_hours
from fairpost.policy.inequality import gini, jain, largest_share
from fairpost.policy.ledger import Ledger, Measure
from fairpost.store import senders
from fairpost.store.store import Store
from tests.simulation.world import EMPTY, draft
from tests.thorough import times

NOW = datetime(2030, 1, 10, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
async def account(store: Store) -> AccountId:
    return await store.add_account("sales", address="sales@post.test", limits=Limits())


TOO_MANY = Reason("sender.too_many_bounces", bounced=3, total=9)


async def book(store: Store, account: AccountId, ledger: Ledger, at: datetime) -> None:
    lease = await store.take_lease(account, owner="x", seconds=60, now=at)
    assert lease is not None
    outcomes, measures = ledger.take()
    sql = "SELECT * FROM fairpost.book($1, $2, $3, $4, $5)"
    await store.fetch(sql, account, lease.epoch, json.dumps(outcomes), json.dumps(measures), at)
    await store.drop_lease(lease)


def sent(ledger: Ledger, workspace: str, user: str, n: int, *, is_fair: bool = True) -> None:
    for _ in range(n):
        ledger.count(workspace, user, is_handled=True, is_sent=True, is_fair=is_fair)


async def test_nothing_at_all_is_even_and_healthy(store: Store) -> None:
    report = await read_fairness(store, now=NOW)
    assert (report.waiting.emails, report.waiting.users.senders, report.waiting.users.gini) == (0, 0, 0.0)
    assert (report.served.emails, report.served.users.jain, report.served.per_hour) == (0, 1.0, 0.0)
    assert len(report.served.hours) == 25
    assert report.waits == {"fair": {}, "fifo": {}}
    assert report.durations == {}
    assert (report.queue.queued, report.queue.oldest_wait_s, report.queue.health) == (0, None, 1.5)
    assert report.throttling.latest == []
    assert report.engines == []


@pytest.mark.parametrize("window", [timedelta(minutes=59), timedelta(hours=25), timedelta()])
async def test_a_window_that_was_not_kept_is_refused(store: Store, window: timedelta) -> None:
    with pytest.raises(FairpostError, match=r"\b1\b.*\b24\b"):
        await read_fairness(store, window=window)


# ── the queue: a small world, counted in two ways ─────────────────────────────────────────────────────────

WORKSPACES = ("w1", "w2", "w3")
MODES = (
    Fairness(),
    Fairness(has_lanes=True),
    Fairness(share=50),
    Fairness(share=50, has_lanes=True),
    Fairness(share=0),
)

emails = st.fixed_dictionaries(
    {
        "workspace": st.sampled_from(WORKSPACES),
        "domain": st.sampled_from(("d1.test", "d2.test")),
        "user": st.sampled_from(("", "ann", "bob")),
        "stream": st.sampled_from(("", "news")),
        "pool": st.sampled_from(("default", "other")),
        "class": st.sampled_from(("urgent", "bulk")),
        "due_at": st.sampled_from((NOW - HOUR, NOW + HOUR)),
    }
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.lists(emails, min_size=1, max_size=8)),
        st.tuples(st.just("stage"), st.sampled_from(("default", "other"))),
        st.tuples(st.just("claim"), st.integers(1, 5)),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(
            st.just("tier"), st.tuples(st.sampled_from(WORKSPACES), st.sampled_from(("", "ann")), st.sampled_from(Tier))
        ),
        st.tuples(st.just("hold"), st.sampled_from(WORKSPACES)),
        st.tuples(st.just("mode"), st.sampled_from(MODES)),
    ),
    max_size=12,
)


@pytest.mark.thorough
@given(steps=steps)
@settings(max_examples=times(10))
def test_the_counts_are_those_of_the_queue(steps: list[tuple[str, Any]], url: str) -> None:
    async def play() -> None:
        async with Store.open(url) as store:
            await store.value(EMPTY)
            await senders.lay_fairness(store, Fairness())
            account = await store.add_account("sales", address="sales@post.test", limits=Limits())
            await store.add_account("other", address="other@post.test", pool="other", limits=Limits())
            for step in steps:
                await take(store, account, *step)
            await compare(store)

    asyncio.run(play())


async def take(store: Store, account: AccountId, step: str, what: Any) -> None:
    match step:
        case "enqueue":
            await store.enqueue_many([draft(**each) for each in what], now=NOW)
        case "stage":
            await store.value("SELECT fairpost.absorb_arrivals(ARRAY[$1], $2)", what, NOW)
        case "claim":
            lease = await store.take_lease(account, owner="x", seconds=60, now=NOW)
            assert lease is not None
            claim = await store.claim(lease, limit=what, now=NOW)
            await store.give_back(lease, claim.ids[::2])
            await store.drop_lease(lease)
        case "cancel":
            ids = [row["id"] for row in await store.fetch("SELECT id FROM fairpost.queue WHERE waiting ORDER BY id")]
            if ids:
                await store.cancel(ids[what % len(ids)], now=NOW)
        case "tier":
            workspace, user, tier = what
            level = "user" if user else "workspace"
            until = NOW + HOUR if tier is Tier.THROTTLED else None
            await store.value(
                "SELECT fairpost.set_tier($1, $2, $3, $4, $5, 'throttle.by_hand', '{}', $6)",
                workspace,
                level,
                user,
                tier,
                until,
                NOW,
            )
        case "hold":
            await store.hold(what, "workspace", "", reason="r", now=NOW)
        case "mode":
            await senders.lay_fairness(store, what)
        case _:
            raise AssertionError(step)


async def compare(store: Store) -> None:
    rows = await store.fetch(
        "SELECT workspace, domain, user_name, fairpost.tier_of(workspace, user_name) AS tier FROM fairpost.queue WHERE waiting"
    )
    report = await read_fairness(store, now=NOW)
    waiting = report.waiting
    users = Counter((row["workspace"], row["user_name"]) for row in rows)
    assert waiting.emails == report.queue.queued == len(rows)
    assert {(each.workspace, each.name): each.emails for each in waiting.top_users} == users
    assert by_name(waiting.top_domains) == Counter((row["workspace"], row["domain"]) for row in rows)
    assert by_name(waiting.top_workspaces) == Counter((row["workspace"], "") for row in rows)
    assert waiting.users.senders == len(users)
    assert waiting.users.gini == pytest.approx(gini(users.values()))
    assert waiting.users.jain == pytest.approx(jain(users.values()))
    assert waiting.users.largest_share == pytest.approx(largest_share(users.values()))
    tiers = Counter(row["tier"] for row in rows)
    assert {name: waiting.tiers[name].emails for name in TIERS.values()} == {n: tiers[t] for t, n in TIERS.items()}
    assert sum(tier.senders for tier in waiting.tiers.values()) == len(users)
    queued, _ = await senders.queue_now(store, now=NOW)
    assert queued == len(rows)
    for workspace in WORKSPACES:
        inside = (await read_fairness(store, now=NOW, workspace=workspace)).waiting
        own = [row for row in rows if row["workspace"] == workspace]
        assert inside.emails == len(own)
        assert by_name(inside.top_users) == {key: n for key, n in users.items() if key[0] == workspace}
        assert by_name(inside.top_domains) == Counter((row["workspace"], row["domain"]) for row in own)


def by_name(portions: Any) -> dict[tuple[str, str], int]:
    listed: list[Portion] = list(portions)
    assert [p.emails for p in listed] == sorted((p.emails for p in listed), reverse=True)
    return {(each.workspace, each.name): each.emails for each in listed}


# ── served mail ───────────────────────────────────────────────────────────────────────────────────────────


async def test_served_mail_is_counted_by_sender_and_hour(store: Store, account: AccountId) -> None:
    ledger = Ledger()
    sent(ledger, "w1", "ann", 30)
    sent(ledger, "w1", "bob", 10)
    await book(store, account, ledger, NOW - HOUR)
    sent(ledger, "w2", "eve", 20)
    ledger.count("w2", "eve", is_handled=True, bounces=1, is_bounced=True)
    ledger.count("w2", "eve", is_handled=True, is_rejected=True)
    await book(store, account, ledger, NOW)
    served = (report := await read_fairness(store, now=NOW)).served
    assert (served.emails, served.sent, served.bounced, served.rejected) == (62, 60, 1, 1)
    assert served.hours[-2:] == [40, 22]
    assert sum(served.hours[:-2]) == 0
    assert served.per_hour == 22 + 40 / 2, "at half past, half of the previous hour still counts"
    assert (served.users.senders, served.workspaces.senders) == (3, 2)
    assert served.users.gini == pytest.approx(gini([30, 10, 22]))
    assert served.workspaces.jain == pytest.approx(jain([40, 22]))
    assert [(p.workspace, p.name, p.emails) for p in report.top_users] == [
        ("w1", "ann", 30),
        ("w2", "eve", 22),
        ("w1", "bob", 10),
    ]
    assert report.top_workspaces[0].share == pytest.approx(40 / 62)
    inside = await read_fairness(store, now=NOW, workspace="w2")
    assert (inside.served.emails, inside.served.users.senders) == (22, 1)
    later = await read_fairness(store, now=NOW + HOUR, window=HOUR)
    assert later.served.emails == 22, "names without e-mails in the window are left out"


async def test_the_fair_queue_and_the_other_are_distinguished(store: Store, account: AccountId) -> None:
    await senders.lay_fairness(store, Fairness(share=50))
    names = [f"w{i}" for i in range(20)]
    sql = "SELECT fairpost.is_fair($1, 50::smallint)"
    fair = {name for name in names if await store.value(sql, name)}
    assert 0 < len(fair) < 20, "both have some"
    ledger = Ledger()
    for name in names:
        sent(ledger, name, "u", 3 if name in fair else 5, is_fair=name in fair)
    ledger.measure(Measure.WAIT, timedelta(seconds=1), Tier.HIGH)
    ledger.measure(Measure.WAIT_FIFO, timedelta(seconds=9), Tier.LOW)
    await book(store, account, ledger, NOW)
    report = await read_fairness(store, now=NOW)
    assert report.mode.queues == ("fair", "fifo")
    assert report.served_by["fair"].emails == 3 * len(fair)
    assert report.served_by["fifo"].emails == 5 * (20 - len(fair))
    assert report.served_by["fifo"].users.gini == 0
    assert report.served.users.gini > 0
    assert report.waits["fair"]["high"].p50_s == pytest.approx(1, rel=0.05)
    assert report.waits["fifo"]["low"].mean_s == 9
    assert "high" not in report.waits["fifo"]


async def test_served_mail_stays_counted_for_its_queue_when_the_setting_changes(
    store: Store, account: AccountId
) -> None:
    await senders.lay_fairness(store, Fairness(share=0))
    before = Ledger()
    sent(before, "w1", "ann", 30, is_fair=False)
    sent(before, "w2", "bob", 10, is_fair=False)
    await book(store, account, before, NOW - HOUR)
    await senders.lay_fairness(store, Fairness(share=100))
    after = Ledger()
    sent(after, "w1", "ann", 10)
    await book(store, account, after, NOW)
    report = await read_fairness(store, now=NOW)
    assert report.mode.queues == ("fair",)
    assert report.queues == ("fair", "fifo")
    by_queue = {queue: (served.emails, served.users.senders) for queue, served in report.served_by.items()}
    assert by_queue == {"fair": (10, 1), "fifo": (40, 2)}
    assert (report.served.emails, report.served.users.senders) == (50, 2), "a workspace served by both counts once"
    assert report.served.users.gini == pytest.approx(gini([40, 10]))
    assert [(p.name, p.emails) for p in report.top_users] == [("ann", 40), ("bob", 10)]
    assert await store.value("SELECT sum(sent) FROM fairpost.activity WHERE user_name = 'ann'") == 40


async def test_durations_of_all_accounts_are_added_up(store: Store, account: AccountId) -> None:
    other = await store.add_account("other", address="other@post.test", limits=Limits())
    for each, took in ((account, 1.0), (other, 3.0)):
        ledger = Ledger()
        for kind in (Measure.SEND, Measure.CLAIM, Measure.COMMIT):
            ledger.measure(kind, timedelta(seconds=took))
        await book(store, each, ledger, NOW)
    durations = (await read_fairness(store, now=NOW)).durations
    assert set(durations) == {"send", "claim", "commit"}
    assert (durations["send"].count, durations["send"].mean_s) == (2, 2.0)
    assert durations["send"].p99_s == pytest.approx(3, rel=0.05)


# ── throttles, health and engines ─────────────────────────────────────────────────────────────────────────


async def throttle(
    store: Store, user: str, *, enforced: bool, until: datetime, offended_at: datetime | None = None
) -> None:
    after = Sender(
        id=SenderId(workspace="w1", name=user),
        tier=Tier.THROTTLED if enforced else Tier.NORMAL,
        throttle=Throttle(NOW, until),
        is_enforced=enforced,
        score=70,
        reasons=(TOO_MANY,),
    )
    assert await senders.decide(store, after, is_new=True, offended_at=offended_at, now=NOW)


async def test_throttled_senders_are_counted_and_named(store: Store, account: AccountId) -> None:
    await throttle(store, "ann", enforced=True, until=NOW + HOUR, offended_at=NOW - timedelta(seconds=90))
    await throttle(store, "bob", enforced=True, until=NOW - HOUR)
    await throttle(store, "eve", enforced=False, until=NOW + HOUR)
    await store.hold("w2", "workspace", "", reason="r", now=NOW)
    await store.enqueue_many([draft(user="ann")], now=NOW)
    await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'], $1)", NOW)
    throttling = (await read_fairness(store, now=NOW)).throttling
    assert (throttling.throttled, throttling.stopped, throttling.observed, throttling.held) == (2, 1, 1, 1)
    by_user = {each.name: each for each in throttling.latest}
    assert (by_user["ann"].score, list(by_user["ann"].reasons), by_user["ann"].is_enforced) == (
        70,
        [TOO_MANY],
        True,
    )
    assert by_user["ann"].found_after_s == 90
    assert by_user["bob"].found_after_s is None, "the cause is unknown"
    assert by_user["eve"].until == NOW + HOUR
    assert (await read_fairness(store, now=NOW, workspace="w2")).throttling.throttled == 0


async def test_health_is_the_engines_or_looked_at_here(store: Store, account: AccountId) -> None:
    await store.enqueue_many([draft(due_at=NOW - HOUR)], now=NOW - HOUR)
    await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'], $1)", NOW)
    queue = (await read_fairness(store, now=NOW)).queue
    assert (queue.queued, queue.oldest_wait_s, queue.health) == (1, 3600, 0.75)
    assert queue.limits == {"high": 112, "normal": 75, "low": 37, "throttled": 7}
    await senders.set_health(store, queued=7, oldest_at=NOW - timedelta(seconds=9), multiplier=0.3, now=NOW)
    queue = (await read_fairness(store, now=NOW)).queue
    assert (queue.queued, queue.oldest_wait_s, queue.health) == (1, 9, 0.3)
    assert (await read_fairness(store, now=NOW, workspace="w1")).queue.queued == 7
    queue = (await read_fairness(store, now=NOW + timedelta(minutes=2))).queue
    assert queue.health == 0.75, "no engine has updated it for a while"


async def test_a_workspace_can_be_throttled_as_a_whole(store: Store) -> None:
    await store.enqueue_many([draft(workspace="w1", user="ann"), draft(workspace="w2", user="bob")], now=NOW)
    whole = SenderId(workspace="w1", level=SenderLevel.WORKSPACE)
    after = Sender(id=whole, tier=Tier.THROTTLED, throttle=Throttle(NOW, NOW + HOUR), is_enforced=True, is_by_hand=True)
    assert await senders.decide(store, after, is_new=True, now=NOW)
    report = await read_fairness(store, now=NOW)
    assert {tier: each.emails for tier, each in report.waiting.tiers.items() if each.emails} == {
        "throttled": 1,
        "normal": 1,
    }
    (listed,) = report.throttling.latest
    assert (listed.level, listed.name, listed.is_by_hand, listed.found_after_s) == ("workspace", "", True, None)


async def test_engines_say_what_they_use_where_they_do(store: Store) -> None:
    sql = "INSERT INTO fairpost.engines (id, seen_at, asleep, started_at, vitals) VALUES ($1, $2, false, $2, $3)"
    await store.value(sql, "one", NOW, json.dumps({"processes": 3, "cpu_s": 1.5, "rss_bytes": 2048}))
    await store.value(sql, "two", NOW, None)
    await store.value(sql, "dead", NOW - HOUR, None)
    one, two = (await read_fairness(store, now=NOW)).engines
    assert (one.id, one.processes, one.cpu_s, one.rss_bytes) == ("one", 3, 1.5, 2048)
    assert (two.id, two.processes, two.cpu_s, two.rss_bytes) == ("two", None, None, None)


# ── cost ──────────────────────────────────────────────────────────────────────────────────────────────────


class InTurn:
    """One connection for several reads at once."""

    def __init__(self, conn: "asyncpg.Connection") -> None:
        self._conn = conn
        self._turn = asyncio.Lock()

    async def fetch(self, sql: str, *args: Any) -> Any:
        async with self._turn:
            return await self._conn.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        async with self._turn:
            return await self._conn.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        async with self._turn:
            return await self._conn.fetchval(sql, *args)


async def rows_read(url: str, *tables: str, **options: Any) -> tuple[int, FairnessReport]:
    """Counted by the database itself, on a connection that has done nothing else."""
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            report = await read_fairness(Store(InTurn(conn)), **options)
            read = await conn.fetchval(
                """SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables
                   WHERE schemaname = 'fairpost' AND relname = ANY ($1)""",
                list(tables),
            )
        return int(read), report
    finally:
        await conn.close()


@pytest.fixture
async def laid(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        await empty(store)
        yield store


@pytest.mark.fresh
async def test_looking_reads_no_e_mail_however_many_wait(laid: Store, url: str) -> None:
    await fill(laid, [f"w{i}" for i in range(10)], 1_000)
    await stage_all(laid)
    await fill(laid, ["w3"], 5)
    read, report = await rows_read(url, "queue")
    assert report.waiting.emails == 10_005
    assert read <= 10, "without an engine, the oldest e-mail of each flow is read"
    await senders.set_health(laid, queued=1, oldest_at=None, multiplier=1, now=report.now)
    read, report = await rows_read(url, "queue", "emails", now=report.now)
    assert report.waiting.emails == 10_005
    assert read == 0


@pytest.mark.fresh
async def test_looking_inside_a_workspace_reads_nothing_of_the_others(laid: Store, url: str) -> None:
    await fill(laid, [f"w{i}" for i in range(400)], 1)
    await stage_all(laid)
    await senders.set_health(laid, queued=1, oldest_at=None, multiplier=1, now=NOW)
    read, report = await rows_read(url, "nodes", "node_state", workspace="w7", now=NOW)
    assert report.waiting.emails == 1
    assert read < 20


async def test_evenness_is_reported_for_each_hour_with_served_mail(store: Store, account: AccountId) -> None:
    for hours_ago, served in ((30, {"ann": 9}), (2, {"ann": 3, "bob": 1}), (0, {"ann": 2, "bob": 2})):
        ledger = Ledger()
        for user, n in served.items():
            sent(ledger, "w1", user, n)
        await book(store, account, ledger, NOW - hours_ago * HOUR)
    ledger = Ledger()
    sent(ledger, "w2", "ann", 6)
    await book(store, account, ledger, NOW)
    this = NOW.replace(minute=0)
    before, now = await read_hours(store, now=NOW)
    assert (before.hour, now.hour) == (this - 2 * HOUR, this)
    assert (before.users.gini, before.users.largest_share) == (gini([3, 1]), 0.75)
    assert (now.users.senders, now.users.jain, now.users.gini) == (3, jain([2, 2, 6]), gini([2, 2, 6]))
    _, of_one = await read_hours(store, now=NOW, workspace="w1")
    assert (of_one.users.senders, of_one.users.jain) == (2, 1.0)


async def test_bulk_mail_that_is_sent_as_urgent_is_shown(store: Store, account: AccountId) -> None:
    """E-mails that become due are counted when they are staged."""
    emails = [draft(workspace="loud", user="ann", stream="") for _ in range(1_000)]
    emails += [draft(workspace="loud", user="bob", stream="news") for _ in range(500)]
    emails += [draft(workspace="calm", user="eve", stream="") for _ in range(3)]
    await store.enqueue_many(emails, now=NOW)
    await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'], $1)", NOW)
    loud, calm = (await read_fairness(store, now=NOW)).urgent
    assert (loud.workspace, loud.emails, loud.urgent, loud.user, loud.user_urgent) == (
        "loud",
        1_500,
        1_000,
        "ann",
        1_000,
    )
    assert (loud.is_suspect, calm.is_suspect, calm.share) == (True, False, 1.0)
    assert [each.workspace for each in (await read_fairness(store, now=NOW, workspace="calm")).urgent] == ["calm"]
