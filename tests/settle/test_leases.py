"""The guarantees of lease, begin and settle, one sentence each. The property tests combine them in any order."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from fairpost.model.account import AccountStatus, Lease, Limits, Rest, RestReason, Usage
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.reason import Reason
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.verdict import Bounced, InDoubt, Retry, Sent, Untouched
from fairpost.policy.limits import charge
from fairpost.store.store import Store
from tests.simulation.world import MINUTE, START, broken_promises, connect, draft

NOW = START
LATER = START + 10 * MINUTE


class Bench:
    """One account of an empty database, and e-mails for it."""

    def __init__(self, store: Store, account: AccountId) -> None:
        self.store = store
        self.account = account

    async def lease(self, now: Any = NOW) -> Lease:
        lease = await self.store.take_lease(self.account, owner="test", seconds=60, now=now)
        assert lease is not None
        return lease

    async def enqueue(self, n: int = 1, **more: Any) -> list[EmailId]:
        emails = [draft(to=f"p{i}@there.test", **more) for i in range(n)]
        return [EmailId(row["id"]) for row in await self.store.enqueue_many(emails, now=NOW)]

    async def begun(self, lease: Lease, now: Any = NOW) -> EmailId:
        """Claims and begins the next e-mail."""
        (id_,) = (await self.store.claim(lease, limit=1, now=now)).ids
        assert (await self.begin(lease, id_, now)).verdict == "begun"
        return id_

    async def begin(self, lease: Lease, id_: EmailId, now: Any = NOW) -> Any:
        return await self.store.begin(lease, id_, usage=charge(Limits(), Usage(), now=now), now=now)

    async def state(self, id_: EmailId) -> str:
        sql = "SELECT state::text FROM fairpost.queue WHERE id = $1 UNION ALL SELECT state::text FROM fairpost.emails WHERE id = $1"
        state: str = await self.store.value(sql, id_)
        return state


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    store = await connect(url)
    yield Bench(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))
    await store.close()


async def test_a_held_lease_cannot_be_taken_and_an_expired_one_can(bench: Bench) -> None:
    first = await bench.lease()
    assert await bench.store.take_lease(bench.account, owner="other", seconds=60, now=NOW) is None
    second = await bench.lease(now=LATER)
    assert second.epoch > first.epoch


async def test_a_frozen_worker_that_wakes_up_can_change_nothing(bench: Bench) -> None:
    await bench.enqueue(3)
    frozen = await bench.lease()
    begun = await bench.begun(frozen)
    (untouched,) = (await bench.store.claim(frozen, limit=1, now=NOW)).ids
    await bench.lease(now=LATER)
    assert (await bench.store.claim(frozen, limit=1, now=LATER)).verdict == "stale"
    assert (await bench.begin(frozen, untouched, LATER)).verdict == "stale"
    assert await bench.store.renew_lease(frozen, seconds=60, now=LATER) is None
    assert await bench.store.give_back(frozen, [untouched]) == ()
    for verdict in (Retry(LATER, ("x@y.test",)), InDoubt(), Untouched(), Bounced(("x@y.test",))):
        assert await bench.store.settle(frozen, begun, verdict, now=LATER) == "stale"
    assert await bench.state(begun) == "in_doubt"
    assert await bench.state(untouched) == "waiting"


async def test_a_worker_that_lost_its_lease_can_neither_rest_nor_pause_the_account(bench: Bench) -> None:
    lost = await bench.lease()
    await bench.lease(now=LATER)
    assert not await bench.store.rest(lost, Rest(LATER + MINUTE, RestReason.BACK_OFF, "421 slow down"))
    assert not await bench.store.set_status(lost, AccountStatus.PAUSED, reason=Reason("account.worker_died"))
    account = await bench.store.account(bench.account)
    assert (account.usage.rest, account.status) == (None, AccountStatus.ACTIVE)


async def test_only_a_claimed_e_mail_can_be_begun(bench: Bench) -> None:
    await bench.enqueue(2)
    lease = await bench.lease()
    id_ = await bench.begun(lease)
    assert (await bench.begin(lease, id_)).verdict == "gone", "it is being sent"
    await bench.store.settle(lease, id_, InDoubt(), now=NOW)
    assert (await bench.begin(lease, id_)).verdict == "gone", "it may have arrived"
    (given_back,) = (await bench.store.claim(lease, limit=1, now=NOW)).ids
    await bench.store.give_back(lease, [given_back])
    assert (await bench.begin(lease, given_back)).verdict == "gone", "another account may have it"
    assert [await bench.state(id_), await bench.state(given_back)] == ["in_doubt", "waiting"]


async def test_proof_from_the_worker_that_began_it_clears_the_doubt(bench: Bench) -> None:
    await bench.enqueue()
    frozen = await bench.lease()
    id_ = await bench.begun(frozen)
    await bench.lease(now=LATER)
    assert await bench.store.settle(frozen, id_, Sent(), now=LATER) == "evidence"
    assert await bench.state(id_) == "sent"


async def test_late_proof_counts_as_sent_however_it_comes(bench: Bench) -> None:
    await bench.enqueue(3)
    frozen = await bench.lease()
    own_word, with_the_next, by_hand = [await bench.begun(frozen) for _ in range(3)]
    await bench.lease(now=LATER)
    assert await bench.store.settle(frozen, own_word, Sent(), now=LATER) == "evidence"
    usage = charge(Limits(), Usage(), now=LATER)
    settled, _ = await bench.store.settle_and_begin(
        frozen, with_the_next, Sent(), None, follower=by_hand, usage=usage, now=LATER
    )
    assert settled == "evidence"
    await bench.store.resolve(by_hand, "sent", by="anna", now=LATER)
    assert await bench.store.value("SELECT sent_total FROM fairpost.leases WHERE account_id = $1", bench.account) == 3


async def test_proof_stops_a_resend_that_still_waits(bench: Bench) -> None:
    await bench.enqueue()
    frozen = await bench.lease()
    id_ = await bench.begun(frozen)
    newer = await bench.lease(now=LATER)
    await bench.store.resolve(id_, "resend", by="policy", due_at=LATER, now=LATER)
    assert await bench.store.settle(frozen, id_, Sent(), now=LATER) == "evidence"
    assert (await bench.store.claim(newer, limit=1, now=LATER)).ids == ()


async def test_a_crash_leaves_one_in_doubt_and_gives_the_rest_back(bench: Bench) -> None:
    ids = await bench.enqueue(5)
    crashed = await bench.lease()
    begun = await bench.begun(crashed)
    await bench.store.claim(crashed, limit=10, now=NOW)
    after = await bench.lease(now=LATER)
    claimed = await bench.store.claim(after, limit=10, now=LATER)
    assert set(claimed.ids) == set(ids) - {begun}
    assert [email.id for email in await bench.store.doubts(bench.account)] == [begun]


async def test_a_dead_accounts_mail_goes_to_the_others_of_its_pool(bench: Bench) -> None:
    ids = await bench.enqueue(2)
    dead = await bench.lease()
    await bench.store.claim(dead, limit=10, now=NOW)
    assert await bench.store.reap_leases(now=NOW) == 0
    assert await bench.store.reap_leases(now=LATER) == 1
    other = await bench.store.add_account("bert", address="bert@post.test", limits=Limits())
    lease = await bench.store.take_lease(other, owner="test", seconds=60, now=LATER)
    assert lease is not None
    assert set((await bench.store.claim(lease, limit=10, now=LATER)).ids) == set(ids)


async def test_a_charge_is_committed_with_the_intent_and_only_untouched_gives_it_back(bench: Bench) -> None:
    await bench.enqueue(3)
    lease = await bench.lease()
    for verdict, used in ((Sent(), 1), (Untouched(), 0), (InDoubt(), 1)):
        id_ = await bench.begun(lease)
        assert (await bench.store.account(bench.account)).usage.day_used == 1
        await bench.store.settle(lease, id_, verdict, now=NOW)
        assert (await bench.store.account(bench.account)).usage.day_used == used


async def test_an_address_suppressed_after_the_claim_gets_nothing(bench: Bench) -> None:
    (id_,) = await bench.enqueue()
    lease = await bench.lease()
    await bench.store.claim(lease, limit=1, now=NOW)
    await bench.store.suppress("*", "P0@There.Test", reason="unsubscribed", now=NOW)
    assert (await bench.begin(lease, id_)).verdict == "suppressed"
    assert await bench.state(id_) == "suppressed"
    assert (await bench.store.account(bench.account)).usage.day_used == 0


async def test_only_suppressed_recipients_among_several_are_left_out(bench: Bench) -> None:
    (id_,) = await bench.enqueue(cc=["b@there.test", "c@there.test"])
    await bench.store.suppress("w1", "b@there.test", reason="unsubscribed", now=NOW)
    lease = await bench.lease()
    await bench.store.claim(lease, limit=1, now=NOW)
    assert (await bench.begin(lease, id_)).skip == ("b@there.test",)


async def test_a_code_that_expired_is_never_sent(bench: Bench) -> None:
    early, late = await bench.enqueue(2, expires_at=NOW + 5 * MINUTE)
    lease = await bench.lease()
    await bench.store.claim(lease, limit=1, now=NOW)
    await bench.store.renew_lease(lease, seconds=3600, now=NOW)
    assert (await bench.begin(lease, early, LATER)).verdict == "expired"
    assert (await bench.store.claim(lease, limit=1, now=LATER)).ids == ()
    assert [await bench.state(early), await bench.state(late)] == ["cancelled", "cancelled"]


async def test_a_hold_stops_what_is_already_claimed(bench: Bench) -> None:
    (id_,) = await bench.enqueue()
    lease = await bench.lease()
    await bench.store.claim(lease, limit=1, now=NOW)
    await bench.store.hold("w1", "user", "u1", reason="throttled", now=NOW)
    assert (await bench.begin(lease, id_)).verdict == "held"
    await bench.store.give_back(lease, [id_])
    assert (await bench.store.claim(lease, limit=1, now=NOW)).ids == ()
    await bench.store.release("w1", "user", "u1", now=NOW)
    assert (await bench.store.claim(lease, limit=1, now=NOW)).ids == (id_,)


async def test_a_future_retry_does_not_block_its_senders_other_mail(bench: Bench) -> None:
    first, second = await bench.enqueue(2)
    lease = await bench.lease()
    assert await bench.begun(lease) == first
    await bench.store.settle(lease, first, Retry(NOW + 30 * timedelta(seconds=1), ("p0@there.test",)), now=NOW)
    claim = await bench.store.claim(lease, limit=5, now=NOW)
    assert claim.ids == (second,)
    assert (await bench.store.claim(lease, limit=5, now=NOW)).next_at == NOW + timedelta(seconds=30)
    assert (await bench.store.claim(lease, limit=5, now=NOW + timedelta(seconds=30))).ids == (first,)


async def test_every_attempt_is_logged_with_its_reply(bench: Bench) -> None:
    await bench.enqueue(cc="b@there.test")
    lease = await bench.lease()
    id_ = await bench.begun(lease)
    each = {"p0@there.test": Reply(250, "ok"), "b@there.test": Reply(451, "4.7.1 later")}
    report = Report(reached=Reached.REPLIED, reply=Reply(250, "2.0.0 ok"), recipients=each, response_ms=12)
    await bench.store.settle(lease, id_, Retry(NOW, ("b@there.test",)), report, now=NOW)
    (email,) = await bench.store.load([id_])
    assert email.envelope == ("b@there.test",), "its holder does not get it again"
    assert await bench.begun(lease) == id_
    await bench.store.settle(lease, id_, Sent(), Report(reached=Reached.REPLIED, reply=Reply(250, "fine")), now=NOW)
    rows = await bench.store.fetch(
        "SELECT n, outcome, code, reply, response_ms FROM fairpost.attempts WHERE email_id = $1 ORDER BY n", id_
    )
    assert [tuple(row) for row in rows] == [(1, "retry", 250, "2.0.0 ok", 12), (2, "sent", 250, "fine", None)]


async def test_a_bounce_is_remembered_for_the_workspace(bench: Bench) -> None:
    await bench.enqueue(2, workspace="w1")
    lease = await bench.lease()
    id_ = await bench.begun(lease)
    await bench.store.settle(lease, id_, Bounced(("p0@there.test",)), now=NOW)
    assert await bench.state(id_) == "bounced"
    assert await bench.store.value(
        "SELECT reason FROM fairpost.suppressions WHERE address = 'p0@there.test' AND workspace = 'w1'"
    )


async def test_an_email_given_up_can_be_retried_manually_and_a_sent_one_cannot(bench: Bench) -> None:
    await bench.enqueue(2)
    lease = await bench.lease()
    id_ = await bench.begun(lease)
    await bench.store.settle(lease, id_, Bounced(()), now=NOW)
    assert await bench.store.retry(id_, now=NOW) == "waiting"
    sent = await bench.begun(lease)
    await bench.store.settle(lease, sent, Sent(), now=NOW)
    assert await bench.store.retry(sent, now=NOW) == "sent"
    assert await bench.store.cancel(sent, now=NOW) == "sent"


async def test_a_claim_whose_answer_was_lost_is_asked_for_again(bench: Bench) -> None:
    ids = await bench.enqueue(3)
    lease = await bench.lease()
    await bench.store.claim(lease, limit=10, now=NOW)
    assert set(await bench.store.held(lease, now=NOW) or ()) == set(ids)


async def test_an_open_cancellation_delays_no_other_mail(bench: Bench) -> None:
    """It does not block the claim, its current worker, or other e-mails of its sender."""
    claimed, waiting, other = await bench.enqueue(3)
    lease = await bench.lease()
    await bench.store.claim(lease, limit=1, now=NOW)
    async with bench.store.connection() as conn:
        cancelling = conn.transaction()
        await cancelling.start()
        for id_ in (claimed, waiting):
            assert await Store(conn).cancel(id_, now=NOW) == "cancelled"
        assert (await bench.begin(lease, claimed)).verdict == "gone"
        assert await bench.store.give_back(lease, [claimed]) == ()
        assert (await bench.store.claim(lease, limit=10, now=NOW)).ids == (other,)
        await cancelling.rollback()
    assert set(await bench.store.held(lease, now=NOW) or ()) == {claimed, other}
    assert (await bench.store.claim(lease, limit=10, now=NOW)).ids == (waiting,)


async def test_an_arrival_is_not_forgotten_when_it_is_noted_together_with_a_cancellation(bench: Bench) -> None:
    """Staging while the workspace is locked puts the arrivals back, several as one."""
    (first,) = await bench.enqueue()
    lease = await bench.lease()
    assert (await bench.store.claim(lease, limit=1, now=NOW)).ids == (first,)
    (cancelled,) = await bench.enqueue(due_at=LATER)
    await bench.store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'], $1)", NOW)
    await bench.store.cancel(cancelled, now=NOW)
    (kept,) = await bench.enqueue()
    async with bench.store.connection() as conn, conn.transaction():
        await conn.execute("SELECT FROM fairpost.node_state WHERE key = 'w1' FOR UPDATE")
        assert await bench.store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'], $1)", NOW) is True
    assert await bench.store.value("SELECT n FROM fairpost.arrivals") == 0, "one was added, one was removed"
    assert await broken_promises(bench.store) == {}
    assert (await bench.store.claim(lease, limit=5, now=NOW)).ids == (kept,)
