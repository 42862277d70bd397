"""The suppression list: addresses on it get no mail, and bounces put addresses on it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from fairpost.model.account import Lease, Limits
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.suppression import SuppressionKind
from fairpost.model.verdict import Bounced, Failed, InDoubt, Retry, Sent, Verdict
from fairpost.store.migrations import migrate
from fairpost.store.store import Store
from tests.facts import missing
from tests.settle.test_leases import Bench
from tests.simulation.world import MINUTE, START, connect, draft

NOW = START
DAY = timedelta(days=1)
FULL = Report(reached=Reached.REPLIED, reply=Reply(452, "4.2.2 mailbox full"))


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    store = await connect(url)
    yield Bench(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))
    await store.close()


async def kinds(store: Store) -> dict[tuple[str, str], str]:
    rows = await store.fetch("SELECT workspace, address, kind::text FROM fairpost.suppressions")
    return {(row["workspace"], row["address"]): row["kind"] for row in rows}


async def counts(store: Store) -> dict[tuple[str, str], int]:
    rows = await store.fetch("SELECT workspace, address, count FROM fairpost.soft_bounces")
    return {(row["workspace"], row["address"]): row["count"] for row in rows}


class Post:
    """Sends one e-mail after another, each with the given outcome."""

    def __init__(self, bench: Bench) -> None:
        self.store = bench.store
        self.bench = bench

    async def outcome(
        self,
        verdict: Verdict,
        *to: str,
        soft: tuple[str, ...] = (),
        report: Report | None = None,
        workspace: str = "w1",
        at: datetime = NOW,
    ) -> EmailId:
        to = to or ("ann@there.test",)
        await self.store.enqueue_many([draft(workspace=workspace, to=list(to))], now=at)  # type: ignore[arg-type]
        lease = await self.bench.lease(now=at)
        id_ = await self.bench.begun(lease, at)
        assert await self.store.settle(lease, id_, verdict, report, soft_bounced=soft, now=at) == "settled"
        await self.store.drop_lease(lease, now=at)
        return id_

    async def soft(self, times: int = 1, to: str = "ann@there.test", **more: Any) -> None:
        for _ in range(times):
            await self.outcome(Failed(), to, soft=(to,), report=FULL, **more)


@pytest.fixture
def post(bench: Bench) -> Post:
    return Post(bench)


async def claimed(bench: Bench, to: str) -> tuple[Lease, EmailId]:
    await bench.store.enqueue_many([draft(to=to)], now=NOW)
    lease = await bench.lease()
    (id_,) = (await bench.store.claim(lease, limit=1, now=NOW)).ids
    return lease, id_


# ── which address ─────────────────────────────────────────────────────────────────────────────────────────

SAME = [
    ("ann@müller.example", "ann@xn--mller-kva.example"),
    ("ann@xn--mller-kva.example", "ANN@MÜLLER.example"),
    ("JÖRG@there.test", "jörg@there.test"),
    ("ΟΔΟΣ@there.test", "οδος@there.test"),
    ("İSMAİL@there.test", "ismail@there.test"),
]


@pytest.mark.parametrize(("suppressed", "to"), SAME)
async def test_before_the_claim_in_any_writing(bench: Bench, suppressed: str, to: str) -> None:
    await bench.store.suppress("w1", suppressed, reason="asked us to stop", now=NOW)
    (row,) = await bench.store.enqueue_many([draft(to=to)], now=NOW)
    assert (await bench.store.claim(await bench.lease(), limit=1, now=NOW)).ids == ()
    assert await bench.state(row["id"]) == "suppressed"


@pytest.mark.parametrize(("suppressed", "to"), SAME)
async def test_between_claim_and_begin_in_any_writing(bench: Bench, suppressed: str, to: str) -> None:
    lease, id_ = await claimed(bench, to)
    await bench.store.suppress("*", suppressed, reason="asked us to stop", now=NOW)
    assert (await bench.begin(lease, id_)).verdict == "suppressed"
    assert await bench.state(id_) == "suppressed"


async def test_another_workspace_may_write_to_it(bench: Bench) -> None:
    lease, id_ = await claimed(bench, "ann@there.test")
    await bench.store.suppress("w2", "ann@there.test", reason="asked us to stop", now=NOW)
    assert (await bench.begin(lease, id_)).verdict == "begun"


async def test_a_recipient_with_two_spellings_gets_one_copy(bench: Bench) -> None:
    (row,) = await bench.store.enqueue_many([draft(to=["ann@müller.example", "ann@xn--mller-kva.example"])], now=NOW)  # type: ignore[arg-type]
    assert len(await bench.store.value("SELECT addresses FROM fairpost.queue WHERE id = $1", row["id"])) == 1


async def test_removing_a_suppression_accepts_any_spelling(bench: Bench) -> None:
    await bench.store.suppress("w1", "ann@müller.example", reason="r", now=NOW)
    assert await bench.store.value("SELECT fairpost.unsuppress('w1', 'ANN@xn--mller-kva.example')") is True
    assert await kinds(bench.store) == {}


# ── the reason ────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_kinds_are_those_of_the_schema_in_the_same_order(store: Store) -> None:
    assert await store.value("SELECT enum_range(NULL::fairpost.suppression_kind)::text[]") == [*SuppressionKind]


async def test_it_is_manual_unless_another_kind_is_named(store: Store) -> None:
    await store.value("SELECT fairpost.suppress('w1', 'a@there.test', 'r')")
    await store.value("SELECT fairpost.suppress('w1', 'b@there.test', 'r', now(), 'complaint')")
    await store.value("SELECT fairpost.suppress('w1', 'c@there.test', 'r', p_kind => 'unsubscribe')")
    assert list((await kinds(store)).values()) == ["manual", "complaint", "unsubscribe"]


async def test_the_more_serious_of_two_reasons_and_the_first_time_are_kept(store: Store) -> None:
    for reason, kind, at in (("full", "soft_bounces", NOW), ("stop", "unsubscribe", NOW + DAY), ("x", "manual", NOW)):
        await store.value("SELECT fairpost.suppress('w1', 'Ann@there.test', $1, $2, $3)", reason, at, kind)
    row = await store.row("SELECT kind::text, reason, created_at FROM fairpost.suppressions")
    assert tuple(row) == ("unsubscribe", "stop", NOW)


async def test_a_hard_bounce_is_remembered_with_what_was_said_to_that_recipient(post: Post) -> None:
    said = {"ann@there.test": Reply(250, "ok"), "bob@there.test": Reply(550, "5.1.1 no such user")}
    report = Report(reached=Reached.REPLIED, reply=Reply(250, "queued"), recipients=said)
    await post.outcome(Sent(("bob@there.test",)), "ann@there.test", "bob@there.test", report=report)
    row = await post.store.row("SELECT address, kind::text, reason FROM fairpost.suppressions")
    assert (row["address"], row["kind"]) == ("bob@there.test", "hard_bounce")
    assert row["reason"].endswith(": 5.1.1 no such user")


async def test_a_list_from_before_there_were_kinds_is_taken_over(blank_url: str) -> None:
    conn = await asyncpg.connect(blank_url)
    await migrate(conn, up_to=6)
    await conn.execute(
        """INSERT INTO fairpost.suppressions (workspace, address, reason, created_at) VALUES
           ('w1', 'a@there.test', 'hard bounce: 550 no such user', '2030-01-01Z'),
           ('w1', 'b@there.test', 'asked us to stop', '2030-01-02Z'),
           ('w1', 'c@müller.example', 'folded by the old rule', '2030-01-03Z'),
           ('w1', 'd@müller.example', 'there in both forms', '2030-01-04Z'),
           ('w1', 'd@xn--mller-kva.example', 'there in both forms', '2030-01-04Z')"""
    )
    await migrate(conn)
    rows = await conn.fetch(
        "SELECT address, kind::text, extract(day FROM created_at)::integer FROM fairpost.suppressions ORDER BY 1"
    )
    await conn.close()
    assert [tuple(row) for row in rows] == [
        ("a@there.test", "hard_bounce", 1),
        ("b@there.test", "manual", 2),
        ("c@xn--mller-kva.example", "manual", 3),
        ("d@xn--mller-kva.example", "manual", 4),
    ]


# ── what it stops ─────────────────────────────────────────────────────────────────────────────────────────


async def fates(bench: Bench) -> dict[str, str]:
    """Returns what happens to an urgent and a bulk e-mail to the same address: claimed, begun, or suppressed before
    that."""
    ids = {}
    for email_class in ("urgent", "bulk"):
        (row,) = await bench.store.enqueue_many([{**draft(to="ann@there.test"), "class": email_class}], now=NOW)
        ids[email_class] = EmailId(row["id"])
    lease = await bench.lease()
    await bench.store.claim(lease, limit=10, now=NOW)
    return {email_class: await bench.state(id_) for email_class, id_ in ids.items()}


async def put_on_the_list(bench: Bench, *kinds: str, workspace: str = "w1") -> None:
    for kind in kinds:
        await bench.store.value("SELECT fairpost.suppress($1, 'ann@there.test', 'r', $2, $3)", workspace, NOW, kind)


@pytest.mark.parametrize("workspace", ["w1", "*"])
async def test_an_unsubscribe_stops_bulk_mail_alone(bench: Bench, workspace: str) -> None:
    await put_on_the_list(bench, "unsubscribe", workspace=workspace)
    assert await fates(bench) == {"urgent": "claimed", "bulk": "suppressed"}


@pytest.mark.parametrize("kind", [kind for kind in SuppressionKind if kind != "unsubscribe"])
async def test_every_other_kind_stops_urgent_mail_too_before_and_after_an_unsubscribe(bench: Bench, kind: str) -> None:
    for kinds_ in ((kind,), (kind, "unsubscribe"), ("unsubscribe", kind)):
        await put_on_the_list(bench, *kinds_)
        assert await bench.store.value("SELECT fairpost.suppressed('w1', '{ann@there.test}', 'urgent')") != [], kinds_
        await bench.store.value("SELECT fairpost.unsuppress('w1', 'ann@there.test')")
    await put_on_the_list(bench, "unsubscribe", kind)
    assert await fates(bench) == {"urgent": "suppressed", "bulk": "suppressed"}


async def test_right_before_it_is_sent_only_bulk_mail_meets_an_unsubscribe(bench: Bench) -> None:
    verdicts = {}
    for email_class in ("urgent", "bulk"):
        await bench.store.enqueue_many([{**draft(to=f"{email_class}@there.test"), "class": email_class}], now=NOW)
    lease = await bench.lease()
    ids = (await bench.store.claim(lease, limit=2, now=NOW)).ids
    for email_class in ("urgent", "bulk"):
        await bench.store.value(
            "SELECT fairpost.suppress('w1', $1, 'r', p_kind => 'unsubscribe')", f"{email_class}@there.test"
        )
    for id_ in ids:
        row = await bench.store.row("SELECT class::text FROM fairpost.queue WHERE id = $1", id_)
        verdicts[row["class"]] = (await bench.begin(lease, id_)).verdict
    assert verdicts == {"urgent": "begun", "bulk": "suppressed"}


async def test_an_email_in_doubt_is_judged_by_its_class_too(bench: Bench) -> None:
    await bench.store.enqueue_many([{**draft(to="ann@there.test"), "class": "urgent"}], now=NOW)
    lease = await bench.lease()
    id_ = await bench.begun(lease)
    await bench.store.settle(lease, id_, InDoubt(), now=NOW)
    await put_on_the_list(bench, "unsubscribe")
    assert await bench.store.value("SELECT verdict FROM fairpost.recheck($1, $2)", id_, NOW) == "begun"
    await put_on_the_list(bench, "hard_bounce")
    assert await bench.store.value("SELECT verdict FROM fairpost.recheck($1, $2)", id_, NOW) == "suppressed"


@pytest.mark.parametrize(("keep", "stopped"), [(False, ["bulk", "urgent"]), (True, ["bulk"])])
async def test_an_erased_persons_unsubscribe_is_kept(bench: Bench, keep: bool, stopped: list[str]) -> None:
    await put_on_the_list(bench, "unsubscribe")
    await bench.store.value("SELECT address_hash FROM fairpost.erase_entries('w1', 'ann@there.test', $1)", keep)
    classes = await bench.store.fetch(
        """SELECT c::text FROM unnest(enum_range(NULL::fairpost.email_class)) c
           WHERE fairpost.suppressed('w1', '{ann@there.test}', c) <> '{}' ORDER BY 1"""
    )
    assert [row["c"] for row in classes] == stopped


# ── soft bounces ──────────────────────────────────────────────────────────────────────────────────────────


async def test_five_in_a_row_suppress_and_four_do_not(post: Post) -> None:
    await post.soft(4)
    assert await kinds(post.store) == {}
    await post.soft()
    assert await kinds(post.store) == {("w1", "ann@there.test"): "soft_bounces"}
    reason = await post.store.value("SELECT reason FROM fairpost.suppressions")
    assert missing(reason, "5 ", "4.2.2 mailbox full") == []


async def test_each_workspace_counts_for_itself_and_each_writing_for_one(post: Post) -> None:
    await post.soft(2, to="ann@müller.example")
    await post.soft(2, to="ANN@xn--mller-kva.example")
    await post.soft(1, to="ann@müller.example", workspace="w2")
    name = "ann@xn--mller-kva.example"
    assert await counts(post.store) == {("w1", name): 4, ("w2", name): 1}


async def test_a_success_in_between_resets_the_count(post: Post) -> None:
    await post.soft(4)
    await post.soft(1, to="bob@there.test")
    await post.outcome(Sent(), "ANN@there.test")
    assert await counts(post.store) == {("w1", "bob@there.test"): 1}
    await post.soft(4)
    assert await kinds(post.store) == {}


async def test_a_success_elsewhere_changes_nothing(post: Post) -> None:
    await post.soft(4)
    await post.outcome(Sent(), "ann@there.test", workspace="w2")
    await post.outcome(Sent(), "bob@there.test")
    assert await counts(post.store) == {("w1", "ann@there.test"): 4}


async def test_only_recipients_who_got_it_are_cleared(post: Post) -> None:
    people = ("ann@there.test", "bob@there.test", "cid@there.test", "dan@there.test")
    for person in people:
        await post.soft(1, to=person)
    said = {person: Reply(250, "ok") for person in people} | {"dan@there.test": Reply(550, "5.7.1 not you")}
    report = Report(reached=Reached.REPLIED, reply=Reply(250, "queued"), recipients=said)
    await post.outcome(Sent(("bob@there.test",)), *people, soft=("cid@there.test",), report=report)
    assert await counts(post.store) == {
        ("w1", "bob@there.test"): 1,
        ("w1", "cid@there.test"): 2,
        ("w1", "dan@there.test"): 1,
    }
    assert await kinds(post.store) == {("w1", "bob@there.test"): "hard_bounce"}


async def test_recipients_who_got_it_are_cleared_while_others_are_retried(post: Post) -> None:
    for person in ("ann@there.test", "bob@there.test"):
        await post.soft(1, to=person)
    said = {"ann@there.test": Reply(250, "ok"), "bob@there.test": Reply(452, "4.2.2 full")}
    report = Report(reached=Reached.REPLIED, reply=Reply(250, "queued"), recipients=said)
    await post.outcome(Retry(NOW + MINUTE, ("bob@there.test",)), "ann@there.test", "bob@there.test", report=report)
    assert await counts(post.store) == {("w1", "bob@there.test"): 1}


async def test_a_retry_after_a_refusal_resets_no_count(post: Post) -> None:
    await post.soft()
    await post.outcome(Retry(NOW + MINUTE, ("ann@there.test",)), report=FULL)
    assert await counts(post.store) == {("w1", "ann@there.test"): 1}


async def test_only_thirty_days_count(post: Post) -> None:
    await post.soft(4)
    await post.soft(1, at=NOW + 30 * DAY)
    assert await kinds(post.store) == {}
    assert await counts(post.store) == {("w1", "ann@there.test"): 1}
    await post.soft(4, at=NOW + 59 * DAY)
    assert await kinds(post.store) == {("w1", "ann@there.test"): "soft_bounces"}


async def test_old_counts_are_forgotten_on_the_way(post: Post) -> None:
    for person in ("ann@there.test", "bob@there.test"):
        await post.soft(1, to=person)
    await post.soft(1, to="cid@there.test", at=NOW + 31 * DAY)
    assert await counts(post.store) == {("w1", "cid@there.test"): 1}


@pytest.mark.parametrize(("most", "is_suppressed"), [(0, False), (1, True), (6, False)])
async def test_how_many_is_a_setting_of_the_installation(post: Post, most: int, is_suppressed: bool) -> None:
    await post.store.value("UPDATE fairpost.suppression_rule SET soft_bounces_max = $1", most)
    await post.soft(1 if is_suppressed else 5)
    assert bool(await kinds(post.store)) == is_suppressed


async def test_an_address_removed_from_the_list_starts_from_zero(post: Post) -> None:
    await post.soft(5)
    await post.store.value("SELECT fairpost.unsuppress('w1', 'ann@there.test')")
    assert await counts(post.store) == {}
    await post.soft(4)
    assert await kinds(post.store) == {}


async def test_hard_beats_soft(post: Post) -> None:
    await post.soft(4)
    await post.outcome(Bounced(("ann@there.test",)), report=FULL)
    assert await kinds(post.store) == {("w1", "ann@there.test"): "hard_bounce"}


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────
# Two settlements for the same people must lock them in the same order, or each would wait for the other.

COUNT_AGAIN = "UPDATE fairpost.soft_bounces SET count = count WHERE address = $1"
PUT_ON_THE_LIST = "INSERT INTO fairpost.suppressions VALUES ('w1', $1, 'r', now())"


async def until_it_waits(conn: Any) -> None:
    sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(60):
        while not await conn.fetchval(sql):  # noqa: ASYNC110 - the database cannot notify us
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("touch", "verdict", "soft"),
    [
        (COUNT_AGAIN, Failed(), ("Zoe@there.test", "ann@there.test")),
        (COUNT_AGAIN, Sent(), ("Zoe@there.test",)),
        (COUNT_AGAIN, Sent(), ("ann@there.test",)),
        (PUT_ON_THE_LIST, Bounced(("Zoe@there.test", "ann@there.test")), ()),
    ],
    ids=["both bounce", "the last bounces", "the first bounces", "both are gone"],
)
async def test_waiting_for_the_first_row_blocks_no_holder_of_the_last(
    url: str, post: Post, touch: str, verdict: Verdict, soft: tuple[str, ...]
) -> None:
    for person in ("ann@there.test", "zoe@there.test"):
        await post.soft(1, to=person)
    first, last = await asyncpg.connect(url), await asyncpg.connect(url)
    async with asyncio.TaskGroup() as tasks:
        transaction = first.transaction()
        await transaction.start()
        await first.execute(touch, "ann@there.test")
        tasks.create_task(post.outcome(verdict, "Zoe@there.test", "ann@there.test", soft=soft, report=FULL))
        await until_it_waits(last)
        await last.execute("SET lock_timeout = '30s'")
        await last.execute(touch, "zoe@there.test")
        await transaction.rollback()
    await first.close()
    await last.close()
