"""Every change writes one event of its kind."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from fairpost.model.account import AccountStatus, Limits
from fairpost.model.event import MEANING, Event, EventKind
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.suppression import SuppressionKind
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched
from fairpost.store import campaigns, returned, suppressions, workspaces
from fairpost.store.events import all_events, take_turn
from fairpost.system import clock
from tests.campaigns.world import MONDAY, WORKSPACE, World
from tests.settle.test_leases import LATER, NOW, Bench
from tests.simulation.world import MINUTE, connect, draft

REPLY = Report(reached=Reached.REPLIED, reply=Reply(450, "not now"))


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    store = await connect(url)
    yield Bench(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))
    await store.close()


async def told(bench: Bench, **which: Any) -> list[Event]:
    await take_turn(bench.store)
    return [event async for event in all_events(bench.store, **which)]


async def kinds_of(bench: Bench, id_: EmailId) -> list[str]:
    return [event.kind.removeprefix("email.") for event in await told(bench) if event.email_id == id_]


async def settled(bench: Bench, *verdicts: Any) -> EmailId:
    (id_,) = await bench.enqueue()
    now = NOW
    for verdict in verdicts:
        lease = await bench.lease(now=now)
        assert await bench.begun(lease, now) == id_
        assert await bench.store.settle(lease, id_, verdict, REPLY, now=now) == "settled"
        await bench.store.drop_lease(lease, now=now)
        now += MINUTE
    return id_


def test_every_name_has_a_meaning() -> None:
    assert set(MEANING) == set(EventKind)


@pytest.mark.parametrize(
    ("verdicts", "kinds"),
    [
        ((Sent(),), ["queued", "sent"]),
        ((Failed(),), ["queued", "failed"]),
        ((Bounced(("p0@there.test",)),), ["queued", "bounced"]),
        ((Retry(NOW, ("p0@there.test",)), Sent()), ["queued", "delivery_delayed", "sent"]),
        ((Deferred(NOW), Sent()), ["queued", "delivery_delayed", "sent"]),
        ((Untouched(), Sent()), ["queued", "sent"]),
        ((InDoubt(),), ["queued", "in_doubt"]),
    ],
)
async def test_each_outcome_of_an_attempt_has_its_event(bench: Bench, verdicts: Any, kinds: list[str]) -> None:
    id_ = await settled(bench, *verdicts)
    assert await kinds_of(bench, id_) == kinds


@pytest.mark.parametrize("decision", ["sent", "failed", "resend"])
async def test_a_doubt_that_is_resolved_shows_how(bench: Bench, decision: str) -> None:
    id_ = await settled(bench, InDoubt())
    await bench.store.value("SELECT fairpost.resolve($1, $2, 'me')", id_, decision)
    assert (await kinds_of(bench, id_))[2:] == ["delivery_delayed" if decision == "resend" else decision]


async def test_a_lost_lease_reports_the_doubt_and_a_proven_cut_of_the_delay(bench: Bench) -> None:
    await bench.enqueue()
    lease = await bench.lease()
    id_ = await bench.begun(lease)
    await bench.lease(now=LATER)
    assert await kinds_of(bench, id_) == ["queued", "in_doubt"]
    assert (
        await bench.store.value("SELECT fairpost.cut($1, $2, $3, 1, $4, $4)", bench.account, lease.epoch, id_, LATER)
        == "waiting"
    )
    assert await kinds_of(bench, id_) == ["queued", "in_doubt", "delivery_delayed"]


async def test_what_is_cancelled_and_retried_reports_both(bench: Bench) -> None:
    id_ = await settled(bench, Failed())
    assert await bench.store.retry(id_, now=LATER) == "waiting"
    assert await bench.store.cancel(id_, now=LATER) == "cancelled"
    assert await kinds_of(bench, id_) == ["queued", "failed", "queued", "cancelled"]


async def test_an_email_cancelled_before_an_engine_saw_it_was_never_queued(bench: Bench) -> None:
    gone, stays, late = await bench.enqueue(3)
    await bench.store.cancel(gone, now=NOW)
    await bench.store.claim(await bench.lease(), limit=1, now=NOW)
    assert await kinds_of(bench, gone) == ["cancelled"]
    assert await kinds_of(bench, stays) == await kinds_of(bench, late) == ["queued"]


async def test_all_of_a_bulk_are_queued_once_and_no_others(bench: Bench) -> None:
    bulks = [
        [draft(to=f"p{i}@there.test", stream="news", due_at=NOW + timedelta(hours=i % 3)) for i in range(60)]
        for _ in range(2)
    ]
    ids = [row["id"] for bulk in bulks for row in await bench.store.enqueue_many(bulk, now=NOW)]
    lease = await bench.lease()
    for _ in range(3):
        await bench.store.claim(lease, limit=5, now=NOW)
    queued = [event.email_id for event in await told(bench, kinds=["email.queued"])]
    assert sorted(filter(None, queued)) == sorted(ids)


async def test_large_bulks_are_absorbed_in_slices(bench: Bench) -> None:
    n = 3 * 2500
    for first in range(0, n, 2500):
        await bench.store.enqueue_many(
            [draft(to=f"p{i}@there.test", stream="news") for i in range(first, first + 2500)], now=NOW
        )
    lease = await bench.lease()
    counts = []
    for _ in range(3):
        await bench.store.claim(lease, limit=1, now=NOW)
        counts.append(len(await told(bench, kinds=["email.queued"])))
    assert counts[0] < n
    assert counts[-1] == n


async def test_a_suppressed_and_an_expired_one_tell_why(bench: Bench) -> None:
    await suppressions.suppress(
        bench.store, "w1", "P0@there.test", reason="asked", kind=SuppressionKind.MANUAL, now=NOW
    )
    (suppressed,) = await bench.enqueue()
    (expired,) = await bench.enqueue(user="u2", expires_at=NOW + MINUTE)
    assert (await bench.store.claim(await bench.lease(now=LATER), limit=2, now=LATER)).ids == ()
    events = await told(bench)
    created = [event for event in events if event.kind == "suppression.created"]
    assert [(event.address, event.workspace, event.reason) for event in created] == [
        ("p0@there.test", "w1", "suppression.manual")
    ]
    assert await kinds_of(bench, suppressed) == ["queued", "suppressed"]
    assert await kinds_of(bench, expired) == ["queued", "cancelled"]


@pytest.mark.parametrize(
    ("effect", "kind"),
    [
        ("bounced", "bounced"),
        ("unconfirmed", "bounced"),
        ("full", "bounced"),
        ("undelivered", "bounced"),
        ("delayed", "delivery_delayed"),
        ("complained", "complained"),
        ("replied", "replied"),
        ("away", "auto_replied"),
        ("unsubscribed", "unsubscribed"),
        ("delivered", None),
        ("feedback", None),
    ],
)
async def test_what_comes_back_writes_an_event_once(bench: Bench, effect: str, kind: str | None) -> None:
    id_ = await settled(bench, Sent())
    finding = {"address": "p0@there.test", "effect": effect, "reason": "email.replied", "params": {}}
    for source in ("a", "b"):
        await returned.take(
            bench.store,
            [finding],
            source=source,
            account_id=None,
            candidates=[id_],
            is_token=True,
            message_ids=[],
            now=LATER,
        )
    assert (await kinds_of(bench, id_))[2:] == ([kind] if kind else [])
    back = [event for event in await told(bench) if event.kind == f"email.{kind}"]
    assert [event.address for event in back] == (["p0@there.test"] if kind else [])


async def test_a_throttled_sender_and_a_verified_domain_are_reported_once(bench: Bench) -> None:
    for revision in range(2):  # the second changes nothing
        await bench.store.value(
            """SELECT fairpost.decide('w1', 'user', 'eve', $1, -1::smallint, NULL, $2::timestamptz, $2 + interval '4 hours', true, false, NULL, 55::smallint, 0.9,
                   '[{"code": "sender.too_many_bounces", "params": {"bounced": 3, "total": 9}}]', $2, true, $2)""",
            *(revision, NOW),
        )
    await workspaces.add_workspace(bench.store, "w1")
    await workspaces.add_domain(bench.store, "w1", "w1.test")
    for proven_by in (None, "dns", "dns", None):
        await workspaces.domain_checked(bench.store, "w1", "w1.test", proven_by=proven_by)
    assert [(event.kind, event.workspace, event.subject, event.reason) for event in await told(bench)] == [
        ("sender.throttled", "w1", "eve", "sender.too_many_bounces"),
        ("domain.verified", "w1", "w1.test", None),
    ]


async def test_a_campaign_reports_its_states_once(bench: Bench) -> None:
    with clock.stopped_at(MONDAY) as manual:
        world = World(bench.store, manual)
        await world.add_accounts("carl")
        await world.add_people(2)
        for name in ("ends", "fails"):
            await world.launch(await world.draft(name))
        ends, fails = [await campaigns.campaign_named(bench.store, WORKSPACE, name) for name in ("ends", "fails")]
        for _ in range(2):
            await campaigns.pause(bench.store, ends, reason="a typo", by="me")
        for _ in range(2):
            await campaigns.resume(bench.store, ends, by="me")
            await campaigns.fail_planning(bench.store, fails.id, "no room")
        await world.run(days=1)
    events = [event for event in await told(bench) if event.kind.startswith("campaign.")]
    assert [(event.campaign, event.kind, event.reason) for event in events] == [
        ("ends", "campaign.started", None),
        ("fails", "campaign.started", None),
        ("ends", "campaign.paused", "campaign.paused_by_hand"),
        ("ends", "campaign.started", None),
        ("fails", "campaign.failed", "campaign.planning_failed"),
        ("ends", "campaign.completed", None),
    ]


async def test_an_account_reports_its_status(bench: Bench) -> None:
    for status in (AccountStatus.PAUSED, AccountStatus.ACTIVE, AccountStatus.SUSPENDED, AccountStatus.ACTIVE):
        await bench.store.value(
            "UPDATE fairpost.accounts SET status = $1::text::fairpost.account_status RETURNING 1", status
        )
    events = await told(bench)
    assert [event.kind for event in events] == [
        "account.paused",
        "account.resumed",
        "account.suspended",
        "account.resumed",
    ]
    assert {event.account for event in events} == {"anna"}
