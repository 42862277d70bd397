"""An account holds no stock: what it cannot send now is available to others, and their turns are given back."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from fairpost.engine.results import Handled, Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.model.account import Account, Limits, RestReason
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.reason import Reason
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from fairpost.transports.port import Permission, Transport
from fairpost.transports.scripted.send import OK, ScriptedTransport

TOO_FAST = Report(reached=Reached.REPLIED, step=Step.MAIL, reply=Reply(450, "4.7.0 too many messages, slow down"))
LATER = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(451, "4.3.0 try again later"))
HUNG = Report(reached=Reached.BEFORE_DOT, step=Step.RCPT, error="no answer to rcpt in time", is_silent=True)


@pytest.fixture
def hands() -> Iterator[ManualClock]:
    with clock.stopped_at(clock.now()) as stopped:
        yield stopped


async def enqueue(store: Store, *, n: int = 1, **more: Any) -> list[EmailId]:
    email = {"to": "ann@there.test", "subject": "s", "text": "t", **more}
    return [EmailId(row["id"]) for row in await store.enqueue_many([email] * n)]


async def start(store: Store, account: AccountId, transport: Transport) -> Runner:
    runner = await Runner.start(store, transport, account, owner="test")
    assert runner is not None
    return runner


async def held(store: Store) -> int:
    return int(await store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'claimed'"))


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        (Limits(delay_ms=100), 2),
        (Limits(delay_ms=200), 1),
        (Limits(delay_ms=1000), 0),
        (Limits(gap_max_ms=90_000), 0),
        (Limits(delay_ms=30_000, gap_max_ms=90_000), 0),
        (Limits(hourly_max=7), 6),
    ],
)
@pytest.mark.parametrize("stream", ["campaign", ""])
async def test_frequent_wake_ups_do_not_increase_the_claimed_work(
    store: Store, hands: ManualClock, limits: Limits, most: int, stream: str
) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=limits)
    await enqueue(store, n=150, workspace="whale", **({"stream": stream} if stream else {}))
    runner = await start(store, account, ScriptedTransport())
    stock, sent = [], 0
    for _ in range(60):
        runner.look_for_urgent()
        match await runner.step():
            case Handled():
                sent += 1
            case Rested(_, until) if until is not None:
                stock.append(await held(store))
                hands.move_to(min(until, hands.now + timedelta(milliseconds=30)))
        assert await held(store) <= most
    assert sent > 0
    assert stock
    if limits.delay_ms > 1000 or limits.gap_max_ms:
        assert max(stock) == 0, "nothing is held during a pause"


async def test_a_new_worker_begins_with_one(store: Store) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    await enqueue(store, n=20)
    runner = await start(store, account, ScriptedTransport())
    assert isinstance(await runner.step(), Handled)
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE NOT waiting") == 0


async def test_an_account_told_to_rest_gives_everything_back_at_once(store: Store, hands: ManualClock) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    await enqueue(store, n=20, stream="campaign")
    runner = await start(store, account, ScriptedTransport([OK, OK, TOO_FAST]))
    await runner.step()
    await runner.step()
    assert await held(store) > 0
    await runner.step()
    assert await held(store) == 0


async def test_quick_refusals_make_no_large_batch(store: Store, hands: ManualClock) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    emails = await enqueue(store, n=40, stream="campaign")
    refused = set(emails[1::2])

    class Mixed(ScriptedTransport):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            hands.advance(timedelta(milliseconds=1 if email.id in refused else 200))
            return LATER if email.id in refused else await super().send(account, email, permission=permission)

    runner = await start(store, account, Mixed())
    for _ in range(20):
        await runner.step()
        assert await held(store) <= 1


async def test_an_urgent_arrival_changes_places_with_what_is_held(store: Store, hands: ManualClock) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    await enqueue(store, n=30, workspace="whale", stream="campaign")
    transport = ScriptedTransport()
    runner = await start(store, account, transport)
    await runner.step()
    await runner.step()  # including the next one, which it has begun
    most = await held(store)
    assert most > 0
    for number in range(5):
        (code,) = await enqueue(store, workspace=f"newcomer{number}")
        runner.look_for_urgent()
        await runner.step()
        await runner.step()
        assert code in [d.email_id for d in transport.delivered]
        assert await held(store) <= most + 2


async def test_returned_emails_cost_their_sender_nothing(store: Store, hands: ManualClock) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    await enqueue(store, n=40, workspace="whale", stream="campaign")
    await enqueue(store, n=40, workspace="other", stream="campaign")
    served = {"whale": 0, "other": 0}
    for is_dropped in (False, True, False, True):
        lease = await store.take_lease(account, owner="test", seconds=60)
        assert lease is not None
        emails = await store.load((await store.claim(lease, limit=10)).ids)
        for email in emails:
            if email.workspace == "other":
                served["other"] += 1
                await store.fail_claimed(lease, email.id, Reason("email.fields_missing"))
        if not is_dropped:
            await store.give_back(lease, [email.id for email in emails if email.workspace == "whale"])
        await store.drop_lease(lease)
    lease = await store.take_lease(account, owner="test", seconds=60)
    assert lease is not None
    emails = await store.load((await store.claim(lease, limit=served["other"])).ids)
    assert {email.workspace for email in emails} == {"whale"}, "it is served until both have had the same share"


class Hanging:
    """Does not answer until it is told to."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        self.has_begun.set()
        await self.may_answer.wait()
        permission()
        return OK


async def given_back(store: Store) -> None:
    """Waits until nothing is held."""
    async with asyncio.timeout(60):
        while await held(store):  # noqa: ASYNC110 (it is the database that changes)
            await asyncio.sleep(0.05)


async def test_while_a_send_takes_long_what_is_held_goes_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    now_s = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now_s)  # makes it consider itself fast
    transport = Hanging()
    runner = await start(store, account, transport)
    await enqueue(store, n=8)
    transport.may_answer.set()
    await runner.step()
    transport.may_answer.clear()
    transport.has_begun.clear()
    step = asyncio.create_task(runner.step())
    await transport.has_begun.wait()
    assert await held(store) > 0
    await given_back(store)
    assert not step.done()
    transport.may_answer.set()
    assert isinstance(await step, Handled)
    assert len(await runner.run_until_idle()) == 6


def about(poison: EmailId, report: Report) -> Any:
    return lambda email: report if email.id == poison else OK


async def drive(store: Store, account: AccountId, transport: Transport, hands: ManualClock, *, minutes: int) -> None:
    """A worker that ends at each rest."""
    until = hands.now + timedelta(minutes=minutes)
    while hands.now < until:
        runner = await start(store, account, transport)
        while isinstance(rested := await runner.step(), Handled):
            hands.advance(timedelta(milliseconds=20))
        await runner.stop()
        moment = rested.until if rested.why is not Idle.EMPTY or rested.until else until
        hands.move_to(max(hands.now + timedelta(seconds=1), min(moment or until, until)))


async def log_of(store: Store, email: EmailId) -> list[str]:
    rows = await store.fetch("SELECT outcome FROM fairpost.attempts WHERE email_id = $1 ORDER BY n", email)
    return [row["outcome"] for row in rows]


async def state(store: Store, email: EmailId) -> str:
    return str(
        await store.value(
            "SELECT coalesce((SELECT state FROM fairpost.queue WHERE id = $1), (SELECT state FROM fairpost.emails WHERE id = $1))",
            email,
        )
    )


class Counting(ScriptedTransport):
    def __init__(self, always: Any) -> None:
        super().__init__(always=always)
        self.conversations: list[EmailId] = []

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        self.conversations.append(email.id)
        return await super().send(account, email, permission=permission)


async def test_an_e_mail_that_is_always_put_off_ends_on_its_plan_and_the_others_pass(
    store: Store, hands: ManualClock
) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits(daily_max=1000))
    (poison,) = await enqueue(store, stream="campaign")
    others = await enqueue(store, n=40, stream="campaign")
    transport = Counting(about(poison, TOO_FAST))
    await drive(store, account, transport, hands, minutes=6)
    assert {await state(store, email) for email in others} == {"sent"}
    (late,) = await enqueue(store, stream="campaign")
    await drive(store, account, transport, hands, minutes=120)
    assert await state(store, late) == "sent"
    assert await state(store, poison) == "failed"
    log = await log_of(store, poison)
    assert log == ["deferred"] * 2 + ["retry"] * 3 + ["failed"]
    assert len(log) == transport.conversations.count(poison), "each one is logged"
    assert (await store.account(account)).usage.day_used == len(transport.conversations), "and charged"


async def test_a_throttled_account_rests_longer_each_time_even_with_another_worker(
    store: Store, hands: ManualClock
) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    emails = await enqueue(store, n=3)
    transport = Counting(lambda _: TOO_FAST)
    rests = []
    for _ in range(4):
        runner = await start(store, account, transport)
        await runner.run_until_idle()
        await runner.stop()
        rest = (await store.account(account)).usage.rest
        assert rest is not None
        assert rest.reason is RestReason.BACK_OFF
        rests.append((rest.until - hands.now) // timedelta(minutes=1))
        hands.move_to(rest.until)
    assert rests == [1, 2, 4, 8]
    assert len(set(transport.conversations)) > 1, "it resumes with a different one"
    assert await store.value("SELECT max(attempts) FROM fairpost.queue") == 0, "no attempt is used up"
    assert [outcome for email in emails for outcome in await log_of(store, email)] == ["deferred"] * 4
    await store.change_account("anna", {"delay_ms": 1})
    assert (await store.account(account)).troubles.throttle_count == 0, "examined again"


async def test_attempts_lost_to_consecutive_refusals_are_given_back(store: Store, hands: ManualClock) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    emails = await enqueue(store, n=3, attempts_max=1)
    runner = await start(store, account, ScriptedTransport(always=LATER))
    await runner.run_until_idle()
    assert {await state(store, email) for email in emails} == {"waiting"}, (
        "two had failed, and their attempts are given back"
    )
    rest = (await store.account(account)).usage.rest
    assert rest is not None
    hands.move_to(rest.until)
    await runner.stop()
    await drive(store, account, ScriptedTransport(), hands, minutes=10)
    assert {await state(store, email) for email in emails} == {"sent"}


async def test_after_a_silence_it_comes_back_with_another_e_mail(store: Store, hands: ManualClock) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    poison, *others = await enqueue(store, n=4)
    transport = Counting(about(poison, HUNG))
    await drive(store, account, transport, hands, minutes=1)
    assert transport.conversations[0] == poison
    assert transport.conversations[1] in others
    assert {await state(store, email) for email in others} == {"sent"}
