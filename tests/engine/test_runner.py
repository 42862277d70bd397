"""The complete path of an e-mail on a real database: accepted, claimed, begun, sent by a script, settled."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from fairpost.compose.message import message_id_of
from fairpost.engine.claims import ClaimGroup
from fairpost.engine.group import StepGroup
from fairpost.engine.lease import LEASE_S, MARGIN
from fairpost.engine.results import Handled, Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.engine.together import Together
from fairpost.model.account import Account, Lease, Limits
from fairpost.model.email import Earlier, Outgoing
from fairpost.model.engine import Claim
from fairpost.model.errors import Unknown
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.reason import Reason
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.report import Step as Stage
from fairpost.model.step import StepAnswer, StepRequest
from fairpost.observe.emails import show_email
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.port import Permission, Transport
from fairpost.transports.scripted.send import OK, ScriptedTransport

NO_SUCH_USER = Report(reached=Reached.REPLIED, reply=Reply(550, "5.1.1 no such user"))
TRY_LATER = Report(reached=Reached.REPLIED, reply=Reply(451, "4.3.0 try later"))
REFUSED = Report(reached=Reached.REPLIED, reply=Reply(554, "5.7.1 we do not want this"))
CUT_BEFORE_DOT = Report(reached=Reached.BEFORE_DOT, error="connection lost")
CUT_AFTER_DOT = Report(reached=Reached.AFTER_DOT, error="connection lost after the dot")
UNTOUCHED = Report(reached=Reached.UNTOUCHED, error="connection refused")

FIRST_RETRY_S = 67.0  # a minute plus jitter


@pytest.fixture
async def account(store: Store) -> AccountId:
    return await store.add_account("anna", address="anna@post.test", limits=Limits())


async def enqueue(store: Store, *, n: int = 1, **more: Any) -> list[EmailId]:
    email = {"to": "ann@there.test", "subject": "s", "text": "t", **more}
    rows = await store.enqueue_many([email] * n)
    assert [row["error"] for row in rows] == [None] * n
    return [EmailId(row["id"]) for row in rows]


async def start(store: Store, account: AccountId, transport: Transport) -> Runner:
    runner = await Runner.start(store, transport, account, owner="test")
    assert runner is not None
    return runner


async def start_at_pace(
    store: Store, account: AccountId, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """Returns one that knows how fast it is; a new one claims a single e-mail."""
    now_s = clock.monotonic()
    with monkeypatch.context() as stopped:
        stopped.setattr(clock, "monotonic", lambda: now_s)
        (first,) = await enqueue(store)
        runner = await start(store, account, transport)
        assert await runner.step() == Handled(first, "sent")
    if isinstance(transport, ScriptedTransport):
        transport.delivered.clear()
    return runner


async def deliver(store: Store, account: AccountId, *script: Report, **more: Any) -> ScriptedTransport:
    """Runs the account until it has nothing to do, as one worker from start to stop."""
    transport = ScriptedTransport(script, **more)
    runner = await start(store, account, transport)
    await runner.run_until_idle()
    await runner.stop()
    return transport


async def pass_time(store: Store, seconds: float) -> None:
    """Moves everything that waits for a time closer to it."""
    for table, columns in {
        "queue": ("due_at", "expires_at"),
        "arrivals": ("due_at",),
        "node_state": ("wake_at", "head_due"),
        "routes": ("woken_until",),
    }.items():
        changes = ", ".join(f"{c} = {c} - make_interval(secs => $1)" for c in columns)
        await store.value(f"UPDATE fairpost.{table} SET {changes}", seconds)


async def expire_lease(store: Store) -> None:
    await store.value("UPDATE fairpost.leases SET until = clock_timestamp() - interval '1 second'")


async def outcomes(store: Store, email: EmailId) -> list[str]:
    return [attempt.outcome for attempt in (await show_email(store, email)).log]


async def state(store: Store, email: EmailId) -> str:
    return (await show_email(store, email)).state


async def suppressed(store: Store) -> list[str]:
    return [row["address"] for row in await store.fetch("SELECT address FROM fairpost.suppressions ORDER BY 1")]


async def test_an_accepted_e_mail_is_sent_and_its_reply_is_kept(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store)
    transport = await deliver(store, account)
    shown = await show_email(store, email)
    assert [d.email_id for d in transport.delivered] == [email]
    assert (shown.state, shown.attempts, shown.account) == ("sent", 1, "anna")
    (attempt,) = shown.log
    assert (attempt.outcome, attempt.code, attempt.reply) == ("sent", 250, "2.0.0 taken")


class SlowTransport:
    """Answers after a while, and can report how long it took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, takes_s: float = 0.25, says_ms: int | None = None) -> None:
        self._at_s = clock.monotonic()
        self._takes_s = takes_s
        self._report = replace(OK, response_ms=says_ms)
        monkeypatch.setattr(clock, "monotonic", lambda: self._at_s)

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        self._at_s += self._takes_s
        return self._report


@pytest.mark.parametrize(("says_ms", "kept_ms"), [(None, 250), (7, 7)])
async def test_the_response_time_is_measured_where_the_transport_gives_none(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch, says_ms: int | None, kept_ms: int
) -> None:
    (email,) = await enqueue(store)
    runner = await start(store, account, SlowTransport(monkeypatch, says_ms=says_ms))
    await runner.run_until_idle()
    assert [attempt.response_ms for attempt in (await show_email(store, email)).log] == [kept_ms]


async def test_a_slow_account_claims_no_more_than_it_can_send_soon(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = await store.add_account("slow", address="slow@post.test", limits=Limits())
    emails = await enqueue(store, n=6)
    runner = await start(store, account, SlowTransport(monkeypatch, takes_s=0.26))
    for n, email in enumerate(emails, 1):
        assert await runner.step() == Handled(email, "sent")
        assert {await state(store, email) for email in emails[n:]} <= {"ready"}, "others may send them"


async def test_an_e_mail_that_follows_another_knows_what_was_sent_before(store: Store, account: AccountId) -> None:
    def sent_as(n: int) -> Report:
        return replace(OK, message_id=f"<{n}@gmail.test>", thread_id="t1")

    (first,) = await enqueue(store)
    await deliver(store, account, sent_as(1))
    (second,) = await enqueue(store, follows=str(first))
    await deliver(store, account, sent_as(2))
    (third,) = await enqueue(store, follows=second, pool="other")
    other = await store.add_account("bert", address="bert@post.test", pool="other", limits=Limits())
    seen: list[Earlier | None] = []

    def answer(email: Outgoing) -> Report:
        seen.append(email.follows)
        return OK

    await deliver(store, other, always=answer)
    known = Earlier(message_id="<2@gmail.test>", references=("<1@gmail.test>",))
    assert seen == [known], "threads are an account's own"
    rows = await store.enqueue_many(
        [{"to": "a@b.test", "subject": "s", "text": "t", "workspace": "w2", "follows": first}]
    )
    assert rows[0]["id"] is None
    assert "follows" in rows[0]["error"]
    (fourth,) = await enqueue(store, follows=third)
    (email,) = await store.load([fourth])
    assert email.follows is None, "without an id from its transport, it cannot be answered"


async def test_an_e_mail_from_before_public_ids_keeps_its_message_id_and_its_thread(
    store: Store, account: AccountId
) -> None:
    (old,) = await enqueue(store)
    await store.value("UPDATE fairpost.public_ids SET since = fairpost.new_id()")  # as if it had just been upgraded
    seen: list[str] = []

    def answer(email: Outgoing) -> Report:
        seen.append(message_id_of(email, domain="post.test"))
        return TRY_LATER if len(seen) == 1 else replace(OK, message_id=seen[-1])

    for _ in range(2):
        await deliver(store, account, always=answer)
        await pass_time(store, FIRST_RETRY_S)
    assert seen[0] == seen[1]
    assert seen[0].startswith(f"<{old:x}.")
    (new,) = await enqueue(store, follows=old)
    (email,) = await store.load([new])
    assert email.follows == Earlier(message_id=seen[0])
    assert message_id_of(email, domain="post.test").startswith(f"<{(await store.public_ids()).email(new)}.")


async def test_a_temporary_refusal_is_tried_again_later_and_then_sent(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store)
    await deliver(store, account, TRY_LATER)
    assert await state(store, email) == "scheduled"
    assert (await deliver(store, account)).delivered == []  # not before it is due
    await pass_time(store, FIRST_RETRY_S)
    await deliver(store, account)
    assert await state(store, email) == "sent"
    assert await outcomes(store, email) == ["retry", "sent"]


async def test_an_address_that_does_not_exist_bounces_and_is_never_written_to_again(
    store: Store, account: AccountId
) -> None:
    first, second = await enqueue(store, n=2)
    await deliver(store, account, NO_SUCH_USER)
    assert await state(store, first) == "bounced"
    assert await suppressed(store) == ["ann@there.test"]
    assert await state(store, second) == "suppressed"
    assert await outcomes(store, second) == []


async def test_a_permanent_refusal_that_is_not_about_the_recipient_suppresses_no_address(
    store: Store, account: AccountId
) -> None:
    (email,) = await enqueue(store)
    await deliver(store, account, REFUSED)
    assert await state(store, email) == "failed"
    assert await suppressed(store) == []


async def test_after_the_last_attempt_an_e_mail_has_failed(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, attempts_max=2)
    await deliver(store, account, TRY_LATER)
    await pass_time(store, FIRST_RETRY_S)
    await deliver(store, account, TRY_LATER)
    shown = await show_email(store, email)
    assert (shown.state, shown.attempts) == ("failed", 2)
    assert shown.reason == Reason("email.server_busy", code=451, reply="4.3.0 try later")


async def test_a_connection_cut_before_the_dot_is_safely_tried_again(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store)
    assert (await deliver(store, account, CUT_BEFORE_DOT)).delivered == []
    await pass_time(store, FIRST_RETRY_S)
    assert len((await deliver(store, account)).delivered) == 1
    assert await outcomes(store, email) == ["retry", "sent"]


async def test_a_connection_cut_after_the_dot_leaves_the_e_mail_in_doubt(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, on_doubt="hold")
    runner = await start(store, account, ScriptedTransport([CUT_AFTER_DOT]))
    await runner.run_until_idle()
    assert await state(store, email) == "in_doubt"


async def test_the_policy_resend_sends_what_is_in_doubt_again(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, on_doubt="resend")
    await deliver(store, account, CUT_AFTER_DOT)
    assert await state(store, email) == "scheduled"
    await pass_time(store, FIRST_RETRY_S)
    await deliver(store, account)
    assert await outcomes(store, email) == ["in_doubt", "sent"]


async def test_on_a_restart_the_policy_hold_leaves_what_is_in_doubt_to_people(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, on_doubt="hold")
    await deliver(store, account, CUT_AFTER_DOT)
    assert (await deliver(store, account)).delivered == []
    assert await state(store, email) == "in_doubt"


async def test_doubt_about_the_last_attempt_is_left_to_people(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, on_doubt="resend", attempts_max=1)
    await deliver(store, account, CUT_AFTER_DOT)
    await deliver(store, account)
    assert await state(store, email) == "in_doubt"


@pytest.fixture
def still() -> Iterator[None]:
    """No time passes: a rest of one second lasts for the whole test."""
    with clock.stopped_at(clock.now()):
        yield


async def test_a_transport_that_was_never_touched_costs_nothing(store: Store, still: None) -> None:
    account = await store.add_account("slow", address="slow@post.test", limits=Limits(hourly_max=1))
    (email,) = await enqueue(store)
    transport = ScriptedTransport([UNTOUCHED])
    runner = await start(store, account, transport)
    assert await runner.step() == Handled(email, "untouched")
    assert (await store.account(account)).usage.hour_used == 0
    assert (await show_email(store, email)).attempts == 0
    rested = await runner.step()
    assert isinstance(rested, Rested)
    assert rested.why is Idle.NOT_YET, "the account waits before it tries its server again"
    await runner.stop()
    other = await start(store, account, transport)
    assert await other.step() == rested, "and so does the next worker"
    await store.value("UPDATE fairpost.leases SET rest_until = NULL")
    await other.stop()
    other = await start(store, account, transport)
    assert await other.step() == Handled(email, "sent")  # the only send of this hour was still available
    assert (await store.account(account)).usage.hour_used == 1


async def test_an_account_that_cannot_reach_its_server_gives_its_batch_to_the_others(
    store: Store, account: AccountId, still: None
) -> None:
    emails = await enqueue(store, n=3)
    runner = await start(store, account, ScriptedTransport(always=UNTOUCHED))
    assert await runner.run_until_idle() == [Handled(emails[0], "untouched")]
    other = await store.add_account("other", address="other@post.test", limits=Limits())
    assert len((await deliver(store, other)).delivered) == 3


async def test_a_limit_is_charged_when_a_send_begins_and_then_holds(store: Store) -> None:
    account = await store.add_account("slow", address="slow@post.test", limits=Limits(hourly_max=2))
    await enqueue(store, n=3)
    transport = await deliver(store, account)
    assert len(transport.delivered) == 2
    runner = await start(store, account, transport)  # a restart forgets nothing
    rested = await runner.step()
    assert isinstance(rested, Rested)
    assert rested.why is Idle.NOT_YET
    assert rested.until is not None


async def test_an_address_suppressed_after_the_claim_gets_nothing(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = ScriptedTransport()
    runner = await start_at_pace(store, account, transport, monkeypatch)
    first, second = await enqueue(store, n=2, to="ann@there.test")
    (third,) = await enqueue(store, to="bob@there.test")
    assert await runner.step() == Handled(first, "sent")
    assert [await state(store, email) for email in (second, third)] == ["sending", "claimed"]
    await store.suppress("default", "BOB@there.test", reason="asked us to stop")
    assert await runner.step() == Handled(second, "sent")
    assert await runner.step() == Handled(third, "suppressed")
    assert [d.email_id for d in transport.delivered] == [first, second]
    assert (await store.account(account)).usage.hour_used == 3


async def test_only_the_suppressed_recipient_among_several_is_left_out(store: Store, account: AccountId) -> None:
    await enqueue(store, to=["ann@there.test", "bob@there.test"])
    await store.suppress("default", "bob@there.test", reason="asked us to stop")
    transport = await deliver(store, account)
    assert [d.to for d in transport.delivered] == [("ann@there.test",)]


async def test_recipients_who_could_not_get_it_yet_are_tried_again_alone(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, to=["ann@there.test", "bob@there.test", "eve@there.test"])
    replies = {"bob@there.test": Reply(450, "4.2.0 busy"), "eve@there.test": Reply(550, "5.1.1 no such user")}
    await deliver(store, account, replace(OK, recipients=replies))
    shown = await show_email(store, email)
    assert shown.remaining == ("bob@there.test",)
    assert len(shown.recipients) == 3  # the headers still name all recipients
    assert await suppressed(store) == ["eve@there.test"]
    await pass_time(store, FIRST_RETRY_S)
    transport = await deliver(store, account)
    assert [d.to for d in transport.delivered] == [("bob@there.test",)]
    assert await state(store, email) == "sent"


async def test_an_e_mail_past_its_time_is_not_begun(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = ScriptedTransport()
    runner = await start_at_pace(store, account, transport, monkeypatch)
    first, second, third = await enqueue(store, n=3)
    await runner.step()
    await store.value("UPDATE fairpost.queue SET expires_at = clock_timestamp() WHERE id = $1", third)
    await runner.step()
    assert await runner.step() == Handled(third, "expired")
    assert await state(store, third) == "cancelled"
    assert [d.email_id for d in transport.delivered] == [first, second]


async def test_an_e_mail_cancelled_after_the_claim_is_not_sent(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = ScriptedTransport()
    runner = await start_at_pace(store, account, transport, monkeypatch)
    first, second, third = await enqueue(store, n=3)
    await runner.step()
    assert await store.cancel(third) == "cancelled"
    assert await store.cancel(second) == "sending", "too late: its intent is committed"
    await runner.step()
    assert await runner.step() == Handled(third, "gone")
    assert [d.email_id for d in transport.delivered] == [first, second]


async def test_a_sender_held_after_the_claim_gets_its_e_mail_back(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = ScriptedTransport()
    runner = await start_at_pace(store, account, transport, monkeypatch)
    *_, third = await enqueue(store, n=3)
    await runner.step()
    await store.hold("default", "workspace", reason="too many bounces")
    await runner.step()
    assert await runner.step() == Handled(third, "held")
    assert await state(store, third) == "ready"
    assert await runner.run_until_idle() == []
    await store.release("default", "workspace")
    assert await runner.run_until_idle() == [Handled(third, "sent")]


async def test_a_paused_account_gives_back_all_it_holds(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await start_at_pace(store, account, ScriptedTransport(), monkeypatch)
    emails = await enqueue(store, n=4)
    await runner.step()
    await store.value("UPDATE fairpost.accounts SET status = 'paused' WHERE id = $1", account)
    assert await runner.step() == Handled(emails[1], "sent"), "its intent was already committed"
    assert await runner.step() == Rested(Idle.INACTIVE)
    assert [await state(store, email) for email in emails[2:]] == ["ready"] * 2
    other = await store.add_account("bert", address="bert@post.test", limits=Limits())
    assert len((await deliver(store, other)).delivered) == 2


@pytest.mark.parametrize("midway", [True, False])
async def test_changed_settings_act_before_the_next_send(
    store: Store, account: AccountId, midway: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = ScriptedTransport()
    runner = await start_at_pace(store, account, transport, monkeypatch)
    await enqueue(store, n=3)
    if midway:
        assert isinstance(await runner.step(), Handled)  # the second is begun in the same commit
    await store.change_account("anna", {"daily_max": 3})
    if midway:
        assert isinstance(await runner.step(), Handled)
    assert await runner.step() == Rested(Idle.CHANGED)
    await runner.stop()
    assert len(transport.delivered) == (2 if midway else 0)
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE waiting") == 3 - len(transport.delivered)
    runner = await start(store, account, transport)
    await runner.run_until_idle()
    await runner.stop()
    assert len(transport.delivered) == 2


async def test_stopping_gives_back_what_was_begun_and_never_sent(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await start_at_pace(store, account, ScriptedTransport(), monkeypatch)
    emails = await enqueue(store, n=3)
    await runner.step()
    assert await state(store, emails[1]) == "sending"
    await runner.stop()
    assert [await state(store, email) for email in emails] == ["sent", "ready", "ready"]
    usage = (await store.account(account)).usage
    assert (usage.hour_used, usage.day_used) == (2, 2)
    assert len((await deliver(store, account)).delivered) == 2


async def test_after_finish_nothing_new_is_begun(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await start_at_pace(store, account, ScriptedTransport(), monkeypatch)
    emails = await enqueue(store, n=3)
    runner.finish()
    assert await runner.step() == Handled(emails[0], "sent")
    assert await state(store, emails[1]) == "claimed"


async def test_urgent_mail_goes_before_the_rest_of_a_batch(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = ScriptedTransport()
    runner = await start_at_pace(store, account, transport, monkeypatch)
    bulk = await enqueue(store, n=5, stream="campaign")
    await runner.step()
    (urgent,) = await enqueue(store)
    runner.look_for_urgent()
    await runner.run_until_idle()
    assert [d.email_id for d in transport.delivered] == [*bulk[:2], urgent, *bulk[2:]]


async def test_one_commit_settles_one_and_begins_the_next(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await start_at_pace(store, account, ScriptedTransport(), monkeypatch)
    first, second, _ = await enqueue(store, n=3)
    await runner.step()
    settled = await store.value("SELECT xmin::text FROM fairpost.attempts WHERE email_id = $1", first)
    assert settled == await store.value("SELECT xmin::text FROM fairpost.queue WHERE id = $1", second)


async def test_a_refused_login_suspends_the_account_and_costs_the_e_mails_nothing(
    store: Store, account: AccountId
) -> None:
    emails = await enqueue(store, n=3)
    refused = Report(reached=Reached.UNTOUCHED, step=Stage.AUTH, reply=Reply(535, "5.7.8 wrong password"))
    runner = await start(store, account, ScriptedTransport([refused]))
    assert await runner.step() == Handled(emails[0], "untouched")
    shown = await store.account(account)
    assert (shown.status, shown.usage.day_used) == ("suspended", 0)
    assert shown.status_reason == Reason("account.authentication_failed", reply="535 5.7.8 wrong password")
    assert [await state(store, email) for email in emails] == ["ready"] * 3
    assert [(await show_email(store, email)).attempts for email in emails] == [0, 0, 0]


async def test_a_refused_login_fails_nothing_that_only_this_account_may_send(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, account="anna")
    refused = Report(reached=Reached.REPLIED, step=Stage.MAIL, reply=Reply(530, "5.7.0 Authentication required"))
    runner = await start(store, account, ScriptedTransport([refused]))
    assert await runner.step() == Handled(email, "deferred")
    assert (await store.account(account)).status == "suspended"
    assert await state(store, email) == "ready"
    assert (await show_email(store, email)).attempts == 0


async def test_a_long_send_keeps_its_lease(store: Store, account: AccountId) -> None:
    await enqueue(store)

    class Slow(ScriptedTransport):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            before = await store.value("SELECT until FROM fairpost.leases")
            while await store.value("SELECT until FROM fairpost.leases") <= before:  # noqa: ASYNC110 - a row sends no event
                await asyncio.sleep(0.01)
            return await super().send(account, email, permission=permission)

    runner = await Runner.start(store, Slow(), account, owner="test", lease_s=6)
    assert runner is not None
    step = await asyncio.wait_for(runner.step(), 120)
    assert isinstance(step, Handled)
    assert step.outcome == "sent"


async def test_two_workers_never_drive_one_account(store: Store, account: AccountId) -> None:
    await start(store, account, ScriptedTransport())
    assert await Runner.start(store, ScriptedTransport(), account, owner="other") is None


async def test_a_worker_whose_account_was_taken_over_sends_nothing_more(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, heir = ScriptedTransport(), ScriptedTransport()
    old = await start_at_pace(store, account, lost, monkeypatch)
    emails = await enqueue(store, n=3)
    await old.step()
    await expire_lease(store)
    new = await start(store, account, heir)
    assert await old.step() == Handled(emails[1], "evidence"), "the begun one, whose fate is known"
    assert await old.step() == Rested(Idle.LOST)
    assert await old.run_until_idle() == []
    assert [d.email_id for d in lost.delivered] == emails[:2]
    await new.run_until_idle()
    assert [d.email_id for d in heir.delivered] == emails[2:]


class FreezingTransport(ScriptedTransport):
    """The process stands still before the message is complete, for longer than its lease; another worker takes over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
        super().__init__()
        self._monkeypatch = monkeypatch
        self._meanwhile = meanwhile

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        now_s = clock.monotonic()
        self._monkeypatch.setattr(clock, "monotonic", lambda: now_s + LEASE_S)
        await self._meanwhile()
        return await super().send(account, email, permission=permission)


async def test_a_frozen_worker_that_wakes_up_does_not_complete_its_message(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    (email,) = await enqueue(store, on_doubt="hold")

    async def take_over() -> None:
        await expire_lease(store)
        await start(store, account, ScriptedTransport())

    transport = FreezingTransport(monkeypatch, take_over)
    old = await start(store, account, transport)
    assert await old.step() == Handled(email, "stale")
    assert transport.delivered == []
    assert await state(store, email) == "in_doubt"  # the new worker cannot know that nothing was sent
    assert await old.step() == Rested(Idle.LOST)


async def test_a_frozen_worker_that_was_not_replaced_continues_at_once_and_blames_no_server(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    (email,) = await enqueue(store)
    freezes = [True, False]

    class FreezingOnce(ScriptedTransport):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            with monkeypatch.context() as frozen:
                if freezes.pop(0):
                    now_s = clock.monotonic()
                    frozen.setattr(clock, "monotonic", lambda: now_s + LEASE_S)
                return await super().send(account, email, permission=permission)

    runner = await start(store, account, FreezingOnce())
    assert await runner.run_until_idle() == [Handled(email, "untouched"), Handled(email, "sent")]
    assert await store.value("SELECT rest_until FROM fairpost.leases") is None


async def test_in_the_last_moments_of_its_lease_a_worker_completes_no_message(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    (email,) = await enqueue(store)

    class Late(ScriptedTransport):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            now_s = clock.monotonic()
            with monkeypatch.context() as late:
                late.setattr(clock, "monotonic", lambda: now_s + LEASE_S * (1 - MARGIN / 2))
                return await super().send(account, email, permission=permission)

    runner = await start(store, account, transport := Late())
    assert await runner.step() == Handled(email, "untouched")
    assert transport.delivered == []
    assert await state(store, email) == "ready"


async def test_a_late_answer_still_proves_that_an_e_mail_in_doubt_was_sent(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, on_doubt="hold")

    class LateTransport(ScriptedTransport):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            report = await super().send(account, email, permission=permission)
            await expire_lease(store)
            assert account.id is not None
            await start(store, account.id, ScriptedTransport())
            return report

    runner = await start(store, account, LateTransport())
    assert await runner.step() == Handled(email, "evidence")
    assert await state(store, email) == "sent"


async def test_stopping_gives_back_what_was_claimed(store: Store, account: AccountId) -> None:
    emails = await enqueue(store, n=3)
    runner = await start(store, account, ScriptedTransport())
    await runner.step()
    await runner.stop()
    assert [await state(store, email) for email in emails[1:]] == ["ready", "ready"]
    assert len((await deliver(store, account)).delivered) == 2


async def test_nothing_is_sent_before_it_is_due(store: Store, account: AccountId) -> None:
    await enqueue(store, due_at="2099-01-01T00:00:00Z")
    runner = await start(store, account, ScriptedTransport())
    assert await runner.step() == Rested(Idle.EMPTY, datetime.fromisoformat("2099-01-01T00:00:00Z"))


async def test_an_unknown_e_mail_is_not_found(store: Store) -> None:
    with pytest.raises(Unknown) as unknown:
        await show_email(store, EmailId(7))
    assert unknown.value.reason.code == "email.unknown"


class Hasty(Store):
    """A cancellation always comes first: claimed e-mails are cancelled before they are loaded."""

    is_quick = True

    async def claim(self, lease: Lease, *, limit: int, now: datetime | None = None) -> Claim:
        claimed = await super().claim(lease, limit=limit, now=now)
        for id_ in claimed.ids if self.is_quick else ():
            assert await self.cancel(id_) == "cancelled"
        return claimed


async def test_an_email_cancelled_between_claim_and_load_costs_nothing(
    url: str, store: Store, account: AccountId
) -> None:
    gone, sent = await enqueue(store, n=2)
    await store.cancel(sent)
    async with Hasty.open(url) as hasty:
        runner = await start(hasty, account, ScriptedTransport())
        assert await runner.step() == Rested(Idle.BUSY)
        hasty.is_quick = False
        (later,) = await enqueue(store)
        await runner.run_until_idle()
        await runner.stop()
    assert [(await show_email(store, id_)).state for id_ in (gone, later)] == ["cancelled", "sent"]


async def test_every_step_of_an_account_is_one_request_that_another_may_commit(
    store: Store, account: AccountId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lets the steps of many accounts share a commit."""
    requests: list[StepRequest] = []

    async def take_step(request: StepRequest) -> StepAnswer:
        requests.append(request)
        return await store.take_step(request)

    async def none_together(requests: Sequence[StepRequest]) -> list[StepAnswer | None]:
        return [None for _ in requests]

    emails = await enqueue(store, n=3)
    now_s = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now_s)
    together = Together(ClaimGroup(store), StepGroup(none_together, take_step))
    runner = await Runner.start(store, ScriptedTransport(()), account, owner="test", together=together)
    assert runner is not None
    assert [handled.email_id for handled in await runner.run_until_idle()] == emails
    first, second, third = emails
    asked = [(r.settles and r.settles.email_id, r.begins and r.begins.email_id) for r in requests]
    assert asked == [(None, first), (first, None), (None, second), (second, third), (third, None)]
    assert [r.number for r in requests] == [1, 2, 3, 4, 5]


# ── e-mails claimed ahead ─────────────────────────────────────────────────────────────────────────────────


async def test_emails_of_a_claim_whose_answer_was_lost_are_found(store: Store, account: AccountId) -> None:
    emails = await enqueue(store, n=3)
    transport = ScriptedTransport(always=OK)
    runner = await start(store, account, transport)
    assert len((await store.claim(runner.lease, limit=3)).ids) == 3
    runner.lose_ahead()
    assert {handled.email_id for handled in await runner.run_until_idle()} == {*emails}


async def test_emails_claimed_ahead_go_back_if_the_account_rests_in_the_meantime(
    store: Store, account: AccountId
) -> None:
    runner = await start(store, account, ScriptedTransport(always=OK))
    assert isinstance(await runner.step(), Rested)
    emails = await enqueue(store, n=3)
    claim = await store.claim(runner.lease, limit=3)
    runner.take_ahead(runner.lease, await store.load(claim.ids))
    async with asyncio.timeout(60):
        while {await state(store, email) for email in emails} != {"ready"}:
            pass
    assert runner.room_ahead() == 0


async def test_emails_claimed_ahead_for_a_lease_that_was_dropped_are_not_sent(store: Store, account: AccountId) -> None:
    transport = ScriptedTransport(always=OK)
    runner = await start(store, account, transport)
    emails = await enqueue(store, n=3)
    claim = await store.claim(runner.lease, limit=3)
    lease, loaded = runner.lease, await store.load(claim.ids)
    await runner.stop()
    runner.take_ahead(lease, loaded)
    assert transport.delivered == []
    assert {await state(store, email) for email in emails} == {"ready"}
