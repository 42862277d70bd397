"""Mail that only one account may send, while that account is suspended: it waits, fails, and can be retried."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from fairpost.actions import emails
from fairpost.actions.acting import Actor, Done
from fairpost.model.account import AccountStatus, Limits, Patience
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.reason import Reason
from fairpost.observe.emails import show_email
from fairpost.observe.life import life_of
from fairpost.observe.status import read_facts
from fairpost.policy.conditions import diagnose
from fairpost.store import pauses, pinned
from fairpost.store.store import Store
from tests.simulation.world import broken_promises, connect, draft

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


class Bench:
    """An account suspended at `at`, by the real clock, and e-mails that may or may not be pinned to it."""

    def __init__(self, store: Store, account: AccountId, at: datetime) -> None:
        self.store, self.account, self.at = store, account, at

    async def enqueue(self, email_class: str, n: int = 1, **more: Any) -> list[EmailId]:
        emails = [{**draft(to=f"p{i}@there.test", account="anna"), "class": email_class, **more} for i in range(n)]
        return [EmailId(row["id"]) for row in await self.store.enqueue_many(emails, now=self.at)]

    async def suspend(self) -> None:
        sql = "SELECT fairpost.set_status($1, NULL, 'suspended', 'account.authentication_failed', '{}', p_now => $2)"
        await self.store.value(sql, self.account, self.at)

    async def give_up(self, after: timedelta, most: int = 100) -> int:
        sql = "SELECT fairpost.give_up_pinned($1, $2)"
        return int(await self.store.value(sql, most, self.at + after))

    async def states(self, ids: list[EmailId]) -> list[str]:
        return [str((await show_email(self.store, id_)).state) for id_ in ids]

    async def retry(self, *, is_dry: bool = False, **more: Any) -> tuple[int, int]:
        wanted = emails.RetryFailed(reason="account_suspended", is_dry=is_dry, **more)
        done = await emails.retry_failed(Actor(who="a test"), wanted, self.store)
        assert isinstance(done, Done)
        return done.value.retried, done.value.still_suspended


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    store = await connect(url)
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    await store.add_account("bert", address="bert@post.test", limits=Limits())
    yield Bench(store, account, await store.now() - MINUTE)
    await store.close()


async def test_urgent_mail_waits_a_day_and_bulk_mail_a_week(bench: Bench) -> None:
    ids = [*await bench.enqueue("urgent"), *await bench.enqueue("bulk"), *await bench.enqueue("bulk", account=None)]
    await bench.suspend()
    assert await bench.give_up(DAY - MINUTE) == 0
    assert await bench.give_up(DAY) == 1
    assert await bench.states(ids) == ["failed", "ready", "ready"]
    assert await bench.give_up(7 * DAY - MINUTE) == 0
    assert await bench.give_up(7 * DAY) == 1
    assert await bench.states(ids) == ["failed", "failed", "ready"], "other accounts may send the rest"
    assert (await show_email(bench.store, ids[0])).reason == Reason("email.account_suspended")
    assert await broken_promises(bench.store) == {}


async def test_absorbed_and_unabsorbed_mail_is_given_up_alike(bench: Bench) -> None:
    await bench.enqueue("bulk", n=3)
    lease = await bench.store.take_lease(bench.account, owner="test", seconds=60)
    assert lease is not None
    await bench.store.claim(lease, limit=1)  # stages them
    await bench.store.drop_lease(lease)
    await bench.enqueue("bulk", n=2, stream="later")
    await bench.suspend()
    assert [await bench.give_up(8 * DAY, most=2) for _ in range(4)] == [2, 2, 1, 0]
    assert await broken_promises(bench.store) == {}


async def test_mail_that_is_not_due_waits_until_it_is(bench: Bench) -> None:
    (id_,) = await bench.enqueue("bulk", due_at=(bench.at + 9 * DAY).isoformat())
    await bench.suspend()
    assert await bench.give_up(8 * DAY) == 0
    assert await bench.give_up(9 * DAY) == 1
    assert await bench.states([id_]) == ["failed"]


async def test_a_resumed_account_loses_nothing_and_a_second_suspension_counts_from_zero(bench: Bench) -> None:
    ids = await bench.enqueue("urgent")
    await bench.suspend()
    await bench.store.change_account("anna", {"status": "active"})
    assert (await bench.store.account(bench.account)).patience is None
    assert await bench.give_up(9 * DAY) == 0
    bench.at += 9 * DAY
    await bench.suspend()
    assert (await bench.store.account(bench.account)).patience == Patience(bench.at + DAY, bench.at + 7 * DAY)
    assert await bench.give_up(DAY - MINUTE) == 0
    assert await bench.states(ids) == ["ready"]


async def test_an_account_that_a_person_paused_is_waited_for(bench: Bench) -> None:
    await bench.enqueue("urgent")
    await bench.store.change_account(
        "anna", {"status": "paused", "status_reason": Reason("account.paused_by_hand", note="holidays")}
    )
    assert await bench.give_up(30 * DAY) == 0


async def test_held_mail_is_not_given_up(bench: Bench) -> None:
    (held,), (free,) = await bench.enqueue("urgent"), await bench.enqueue("urgent", user="u2")
    await bench.suspend()
    await bench.store.hold("w1", "user", "u1", reason="on leave", now=bench.at)
    assert await bench.give_up(2 * DAY) == 1
    assert await bench.states([held, free]) == ["ready", "failed"]


async def test_nothing_is_given_up_while_everything_is_paused(bench: Bench) -> None:
    await bench.enqueue("urgent")
    await bench.suspend()
    await pauses.pause_everything(bench.store, reason="restored from a backup", by="test", until=None)
    assert await bench.give_up(2 * DAY) == 0


async def test_how_long_is_what_the_settings_say(bench: Bench) -> None:
    await bench.enqueue("urgent")
    await bench.enqueue("bulk")
    await bench.suspend()
    await pinned.set_patience(bench.store, urgent=2 * DAY, bulk=timedelta(hours=1))
    shown = await bench.store.account(bench.account)
    assert shown.patience == Patience(bench.at + 2 * DAY, bench.at + timedelta(hours=1))
    assert [await bench.give_up(at) for at in (timedelta(hours=1), 2 * DAY)] == [1, 1]


async def test_the_reason_is_known_beforehand(bench: Bench) -> None:
    (urgent,), (bulk,) = await bench.enqueue("urgent"), await bench.enqueue("bulk")
    await bench.suspend()
    told = {}
    for name, id_ in (("urgent", urgent), ("bulk", bulk)):
        life = await life_of(bench.store, await show_email(bench.store, id_), ids=await bench.store.public_ids())
        told[name] = {each.kind: each.until for each in life.stands_in_the_way}.get("patience")
    assert told == {"urgent": bench.at + DAY, "bulk": bench.at + 7 * DAY}
    (reason,) = [each for each in diagnose(await read_facts(bench.store)) if each.code == "account.suspended"]
    ends = (reason.reason.params["urgent_until"], reason.reason.params["bulk_until"])
    assert ends == (bench.at + DAY, bench.at + 7 * DAY)


async def test_all_that_was_given_up_comes_back_when_the_account_does(bench: Bench) -> None:
    ids = [*await bench.enqueue("urgent", n=3), *await bench.enqueue("bulk", n=2, workspace="w2")]
    other = (await bench.enqueue("urgent", account="bert"))[0]
    await bench.suspend()
    assert await bench.give_up(8 * DAY) == 5
    await bench.store.value("UPDATE fairpost.emails SET reason = 'another' WHERE id = $1", ids[0])
    assert await bench.retry() == (0, 4), "it would never be sent"
    await bench.store.change_account("anna", {"status": "active"})
    assert (await bench.store.account(bench.account)).status is AccountStatus.ACTIVE
    assert await bench.retry(is_dry=True) == (4, 0)
    assert await bench.retry(account="bert") == (0, 0)
    assert await bench.retry(workspace="w2") == (2, 0)
    assert await bench.retry() == (2, 0)
    assert await bench.retry() == (0, 0)
    assert await bench.states([*ids, other]) == ["failed", *["ready"] * 5]
    assert await broken_promises(bench.store) == {}
