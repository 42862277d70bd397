"""Senders as stored in the database: counters, decisions, and that a decision on outdated data changes nothing."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.simulation.world import draft

from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.sender import Counts, Sender, SenderId, SenderLevel, Throttle, Tier
from fairpost.model.verdict import Sent
from fairpost.store import senders
from fairpost.store.store import Store
from fairpost.system import clock

NOW = datetime(2030, 1, 10, 12, 30, tzinfo=UTC)
HOUR = datetime(2030, 1, 10, 12, tzinfo=UTC)
ANN = SenderId(workspace="w1", name="ann")


@pytest.fixture
async def account(store: Store) -> AccountId:
    return await store.add_account("anna", address="anna@post.test", limits=Limits())


async def stage(store: Store, now: datetime = NOW) -> None:
    await store.value("SELECT fairpost.absorb_arrivals('{default}', $1)", now)


async def active(store: Store, id_: SenderId = ANN, now: datetime = NOW) -> senders.Active:
    with clock.stopped_at(now):
        (found,) = await senders.with_activity(store, [id_])
    return found


async def test_volume_counts_when_it_is_due_and_once(store: Store, account: AccountId) -> None:
    now = [draft(user="ann") for _ in range(3)]
    later = [draft(user="ann", due_at=NOW + timedelta(hours=2, minutes=i)) for i in range(5)]
    await store.enqueue_many([*now, *later, draft(user="")], now=NOW)
    await stage(store)
    found = await active(store)
    assert found.hours == {HOUR: Counts(volume=3), HOUR + timedelta(hours=2): Counts(volume=5)}
    assert set((await senders.dirty_senders(store)).users) == {ANN}, "mail without a user is not scored"

    lease = await store.take_lease(account, owner="x", seconds=60, now=NOW)
    assert lease is not None
    claim = await store.claim(lease, limit=10, now=NOW)
    await store.give_back(lease, claim.ids)
    await stage(store)
    assert (await active(store)).hours[HOUR] == Counts(volume=3), "an e-mail that waits again is not new"


async def test_bookings_of_an_account_add_up(store: Store, account: AccountId) -> None:
    lease = await store.take_lease(account, owner="x", seconds=60, now=NOW)
    assert lease is not None
    one = {"workspace": "w1", "user": "ann", "handled": 3, "bounces": 1, "sent": 1, "bounced": 1, "rejected": 1}
    measure = {"kind": "wait", "tier": 1, "n": 2, "total_us": 10, "buckets": {"1": 1, "2": 1}}
    sql = "SELECT * FROM fairpost.book($1, $2, $3, $4, $5)"
    import json

    for _ in range(2):
        await store.fetch(sql, account, lease.epoch, json.dumps([one]), json.dumps([measure]), NOW)
    assert (await active(store)).hours == {HOUR: Counts(sent=2, bounced=2, rejected=2)}
    row = await store.row("SELECT n, total_us, buckets FROM fairpost.measures")
    assert (row["n"], row["total_us"], json.loads(row["buckets"])) == (4, 20, {"1": 2, "2": 2})
    dirty = await senders.dirty_senders(store)
    assert set(dirty.users) == {ANN}
    await senders.settled(store, dirty)
    assert (await senders.dirty_senders(store)).users == {}
    assert await store.fetch(sql, account, lease.epoch + 1, json.dumps([one]), "[]", NOW) == []
    assert (await active(store)).hours == {HOUR: Counts(sent=2, bounced=2, rejected=2)}, "a lost lease records nothing"


async def test_hours_become_days_when_none_of_the_day_counts_any_more(store: Store) -> None:
    async def put(moment: datetime, volume: int) -> None:
        await store.value(
            "INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume) VALUES ('w1', 'ann', $1, 'default', $2)",
            *(moment, volume),
        )

    await put(datetime(2030, 1, 8, 23, tzinfo=UTC), 7)
    await put(datetime(2030, 1, 8, 1, tzinfo=UTC), 2)
    await put(datetime(2030, 1, 9, 13, tzinfo=UTC), 5)
    before = await active(store)
    assert before.days == {date(2030, 1, 8): 9}, "also before they are merged"
    assert await senders.fold(store, now=NOW)
    found = await active(store)
    assert found == before
    assert found.hours == {datetime(2030, 1, 9, 13, tzinfo=UTC): Counts(volume=5)}
    assert await senders.fold(store, now=NOW + timedelta(days=40))
    assert (await active(store)).days == {}, "last month's volume no longer counts"


async def rule(store: Store) -> Any:
    return await store.row(
        "SELECT tier, throttled_until, throttle_reason FROM fairpost.sender_rules WHERE level = 'user' AND key = 'ann'"
    )


async def test_a_decision_counts_for_what_is_queued_and_for_what_comes(store: Store, account: AccountId) -> None:
    await store.enqueue_many([draft(user="ann"), draft(user="bob")], now=NOW)
    lease = await store.take_lease(account, owner="x", seconds=3600 * 48, now=NOW)
    assert lease is not None
    await stage(store)
    until = NOW + timedelta(hours=4)
    after = Sender(
        id=ANN,
        tier=Tier.THROTTLED,
        throttle=Throttle(NOW, until),
        is_enforced=True,
        reasons=(Reason("sender.too_many_bounces", bounced=3, total=9),),
        look_at=until,
    )
    assert await senders.decide(store, after, is_new=True, now=NOW)
    assert tuple(await rule(store)) == (-1, until, "sender.too_many_bounces")
    await store.enqueue_many([draft(user="ann", domain="other.test")], now=NOW)
    claim = await store.claim(lease, limit=10, now=NOW)
    assert [e.user for e in await store.load(claim.ids)] == ["bob"]
    assert not await senders.decide(store, after, is_new=True, now=NOW), "on the data before the first decision"

    (ann,) = await senders.known(store, throttled=True)
    assert ann.revision == 1
    assert [s.id for s in await senders.untold(store)] == [ANN]
    assert await senders.to_look_at(store, now=until) == [ANN]
    claim = await store.claim(lease, limit=10, now=until)
    assert [e.user for e in await store.load(claim.ids)] == ["ann", "ann"], "it ends without intervention"
    weights = await store.fetch("SELECT weight FROM fairpost.node_state WHERE key = 'ann'")
    assert {row["weight"] for row in weights} == {0.1}, "and the weight stays until the score has fallen"
    assert await senders.decide(store, replace(ann, tier=Tier.NORMAL, throttle=None, look_at=None), is_new=False)
    weights = await store.fetch("SELECT weight FROM fairpost.node_state WHERE key = 'ann'")
    assert {row["weight"] for row in weights} == {1.0}
    assert await senders.untold(store) == []


async def test_an_observed_throttle_stops_nothing(store: Store, account: AccountId) -> None:
    await store.enqueue_many([draft(user="ann")], now=NOW)
    after = Sender(
        id=ANN,
        throttle=Throttle(NOW, NOW + timedelta(hours=4)),
        is_enforced=False,
        reasons=(Reason("sender.too_many_bounces"),),
    )
    assert await senders.decide(store, after, is_new=True, now=NOW)
    assert await rule(store) is None
    lease = await store.take_lease(account, owner="x", seconds=60, now=NOW)
    assert lease is not None
    assert len((await store.claim(lease, limit=10, now=NOW)).ids) == 1


async def test_a_person_s_hold_and_a_throttle_do_not_end_each_other(store: Store, account: AccountId) -> None:
    await store.enqueue_many([draft(user="ann") for _ in range(4)], now=NOW)
    lease = await store.take_lease(account, owner="x", seconds=3600, now=NOW)
    assert lease is not None

    async def claimed() -> int:
        return len((await store.claim(lease, limit=1, now=NOW)).ids)

    async def throttle(until: datetime | None) -> None:
        await store.value(
            "SELECT fairpost.set_tier('w1', 'user', 'ann', $1, $2, 'throttle.by_hand', '{}', $3)",
            -1 if until else 1,
            until,
            NOW,
        )

    await throttle(NOW + timedelta(hours=1))
    await store.hold("w1", "user", "ann", reason="by a person", now=NOW)
    assert await claimed() == 0
    await throttle(None)
    assert await claimed() == 0
    (hold,) = await store.fetch("SELECT * FROM fairpost.holds(10, $1)", NOW)
    assert (hold["until"], hold["reason"], hold["waiting"]) == (None, "hold.by_hand", 4)
    await throttle(NOW + timedelta(hours=1))
    assert await store.release("w1", "user", "ann", now=NOW)
    assert await claimed() == 0
    (hold,) = await store.fetch("SELECT * FROM fairpost.holds(10, $1)", NOW)
    assert (hold["until"], hold["reason"]) == (NOW + timedelta(hours=1), "throttle.by_hand")
    await throttle(None)
    assert await claimed() == 1


async def test_a_sender_that_is_registered_is_to_be_looked_at_at_once(store: Store) -> None:
    await senders.set_sender(store, ANN, plan="team", since=NOW)
    await senders.set_sender(store, SenderId(workspace="w1", level=SenderLevel.WORKSPACE), plan="free", since=None)
    assert set(await senders.to_look_at(store, now=NOW)) == {
        ANN,
        SenderId(workspace="w1", level=SenderLevel.WORKSPACE),
    }
    (found,) = await senders.with_activity(store, [ANN])
    assert (found.sender.plan, found.sender.since) == ("team", NOW)


async def test_operators_are_notified_once_and_in_the_commit(store: Store) -> None:
    after = Sender(id=ANN, throttle=Throttle(NOW, NOW + timedelta(hours=4)), is_enforced=True, tier=Tier.THROTTLED)
    assert await senders.decide(store, after, is_new=True, now=NOW)
    mail = draft(workspace="operators", user="", to="ops@here.test")
    assert await senders.tell(store, [ANN], [mail], now=NOW)
    assert not await senders.tell(store, [ANN], [mail], now=NOW)
    assert await store.value("SELECT count(*) FROM fairpost.queue") == 1


async def test_an_outcome_leaves_the_counters_of_another_alone(store: Store, account: AccountId) -> None:
    """tests/engine covers the whole path with the runner's own statements; this only checks that settle writes no
    counter itself."""
    await store.enqueue_many([draft(user="ann")], now=NOW)
    lease = await store.take_lease(account, owner="x", seconds=60, now=NOW)
    assert lease is not None
    (email_id,) = (await store.claim(lease, limit=1, now=NOW)).ids
    from fairpost.model.account import Usage

    assert (await store.begin(lease, email_id, usage=Usage(), now=NOW)).verdict == "begun"
    assert await store.settle(lease, email_id, Sent(), now=NOW) == "settled"
    assert (await active(store)).hours == {HOUR: Counts(volume=1)}
