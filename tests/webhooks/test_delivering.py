"""Webhooks arrive signed, at least once, in order for each e-mail, whatever the receivers do."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook as Oracle

from fairpost.actions import webhooks as actions
from fairpost.actions.acting import Done
from fairpost.maintenance import webhooks as watching
from fairpost.model.account import Limits
from fairpost.model.ids import EmailId
from fairpost.model.webhook import WebhookState
from fairpost.observe.webhooks import request_of
from tests.webhooks.conftest import ACTOR, Hooks
from tests.webhooks.receivers import OK, Receiver, Request, answer


async def test_an_event_arrives_signed_with_its_own_id(hooks: Hooks) -> None:
    async with Receiver() as receiver:
        hook = await hooks.add(receiver.url)
        await hooks.write(1, 2)
        await hooks.deliver(hooks.watch())
        oracle = Oracle(hooks.secrets[hook.id])
        for request in receiver.seen:
            told = oracle.verify(request.body, request.headers)
            assert told["id"] == request.id
            assert told["type"] == "email.sent"
            assert told["data"]["workspace"] == "w1"
        assert len(set(receiver.ids)) == 2
        assert [(each.status, each.why, each.answer) for each in await hooks.log(hook)] == [(200, None, "ok")] * 2
        assert (await hooks.now(hook)).state is WebhookState.ACTIVE


async def test_it_gets_the_types_and_tags_that_it_asked_for_and_no_event_of_others(hooks: Hooks) -> None:
    async with Receiver() as one, Receiver() as all_of_them, Receiver() as tagged:
        await hooks.add(one.url, kinds=["email.bounced"])
        await hooks.add(all_of_them.url, None)
        await hooks.add(tagged.url, tags={"order": "17"})
        await hooks.store.value(
            "INSERT INTO fairpost.labels (email_id, workspace, tags) VALUES (5, 'w1', '{\"order\": \"17\"}'), (6, 'w1', '{\"order\": \"18\"}')"
        )
        await hooks.write(1, workspace="w2")
        await hooks.write(2)
        await hooks.write(3, kind="email.bounced")
        await hooks.write(5, 6)
        await hooks.deliver(hooks.watch())
        assert [each.event["type"] for each in one.seen] == ["email.bounced"]
        assert sorted(each.event["data"]["workspace"] for each in all_of_them.seen) == ["w1", "w1", "w1", "w1", "w2"]
        assert [each.event["data"]["tags"] for each in tagged.seen] == [{"order": "17"}]


async def test_the_operators_endpoint_is_told_the_names_of_accounts_and_a_workspaces_only_its_own(hooks: Hooks) -> None:
    async with Receiver() as theirs, Receiver() as ours:
        hook, _ = await hooks.add(ours.url, None), await hooks.add(theirs.url)
        account = await hooks.store.add_account("relay-7", address="x@relay.test", limits=Limits())
        await hooks.store.value(
            """INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, reason, params)
               VALUES (now(), 'email.failed', 'w1', 1, $1, 'email.refused', '{"account": "relay-7", "server": "relay-7"}')""",
            account,
        )
        await hooks.write(1)
        await hooks.deliver(hooks.watch())
        assert "relay-7" not in str([each.event for each in theirs.seen])
        (failed,) = [each for each in ours.seen if each.event["type"] == "email.failed"]
        assert failed.event["data"]["account"] == failed.event["data"]["params"]["server"] == "relay-7"
        logged = [
            await request_of(hooks.store, hook, each, await hooks.store.public_ids()) for each in await hooks.log(hook)
        ]
        assert failed.body.decode() in logged


async def test_both_secrets_sign_until_the_overlap_ends(hooks: Hooks) -> None:
    async with Receiver() as receiver:
        hook = await hooks.add(receiver.url)
        before = hooks.secrets[hook.id]
        request = actions.RotateWebhook(id=hook.id, called="it", vault=hooks.vault, overlap=timedelta(hours=1))
        rotated = await actions.rotate(ACTOR, request, hooks.store)
        assert isinstance(rotated, Done)
        await hooks.write(1)
        await hooks.deliver(hooks.watch())
        (both,) = receiver.seen
        for secret in (before, rotated.value.secret):
            Oracle(secret).verify(both.body, both.headers)
        await hooks.store.value("UPDATE fairpost.webhook_secrets SET expires_at = expires_at - interval '1 hour'")
        await hooks.write(2)
        await hooks.deliver(hooks.watch())
        last = receiver.seen[-1]
        Oracle(rotated.value.secret).verify(last.body, last.headers)
        with pytest.raises(Exception, match="signature"):
            Oracle(before).verify(last.body, last.headers)


async def test_what_follows_a_failed_event_of_an_e_mail_waits_for_it_and_others_do_not(hooks: Hooks) -> None:
    bad = {"left": 1}

    def behave(receiver: Receiver, request: Request) -> bytes:
        if request.event["data"]["email_id"] == first and bad["left"]:
            bad["left"] -= 1
            return answer(500, body="not now")
        return OK

    first = (await hooks.store.public_ids()).email(1)
    async with Receiver(behave) as receiver:
        hook = await hooks.add(receiver.url)
        await hooks.write(1, 2, kind="email.queued")
        await hooks.write(1, 2, kind="email.sent")
        watch = hooks.watch()
        await hooks.deliver(watch)
        assert _told(receiver, first) == ["email.queued"]
        assert len(receiver.seen) == 3
        await hooks.write(1, kind="email.bounced")
        await hooks.deliver(watch)
        assert _told(receiver, first) == ["email.queued"]
        await hooks.pass_time("1 minute")
        await hooks.deliver(watch)
        assert _told(receiver, first) == ["email.queued", "email.queued", "email.sent", "email.bounced"]
        tried = [each.id for each in receiver.seen if each.event["data"]["email_id"] == first]
        assert tried[0] == tried[1], "the same id on every attempt"
        (failure,) = [each for each in await hooks.log(hook) if each.why]
        assert (failure.why and failure.why.code, failure.status, failure.answer) == ("webhook.status", 500, "not now")


def _told(receiver: Receiver, email: str) -> list[str]:
    return [each.event["type"] for each in receiver.seen if each.event["data"]["email_id"] == email]


async def test_a_dead_endpoint_is_tried_with_growing_pauses_and_gets_everything_when_it_is_back(hooks: Hooks) -> None:
    state = {"is_up": False}
    async with Receiver(lambda receiver, request: OK if state["is_up"] else answer(503)) as receiver:
        hook = await hooks.add(receiver.url)
        await hooks.write(*range(100))
        watch = hooks.watch()
        await hooks.deliver(watch)
        tried = len(receiver.seen)
        assert tried == 16, "then the rest is not tried"
        pauses = []
        for _ in range(4):
            now = await hooks.now(hook)
            assert now.next_at is not None
            pauses.append(now.next_at - await hooks.store.now())
            await hooks.deliver(watch)
            assert len(receiver.seen) == tried, "not before its time"
            await hooks.pass_time("3 hours")
            await hooks.deliver(watch)
            tried += 1
            assert len(receiver.seen) == tried, "a single event, to test the endpoint"
        assert pauses == sorted(pauses)
        await hooks.write(*range(100, 120))
        state["is_up"] = True
        await hooks.pass_time("5 hours")
        await hooks.deliver(watch)
        good = receiver.seen[tried:]
        assert len(good) == 120
        assert len({each.id for each in good}) == 120
        assert (await hooks.now(hook)).state is WebhookState.ACTIVE


async def test_a_new_url_is_tried_at_once(hooks: Hooks) -> None:
    async with Receiver(lambda receiver, request: answer(503)) as wrong, Receiver() as right:
        hook = await hooks.add(wrong.url)
        await hooks.write(1)
        watch = hooks.watch()
        await hooks.deliver(watch)
        assert (await hooks.now(hook)).next_at is not None
        edit = actions.EditWebhook(id=hook.id, called="it", url=right.url, guard=hooks.guard)
        assert isinstance(await actions.edit(ACTOR, edit, hooks.store), Done)
        await hooks.deliver(watch)
        assert right.ids == wrong.ids
        assert (await hooks.now(hook)).state is WebhookState.ACTIVE


async def test_what_changes_during_a_request_counts_after_it(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint is paused, is resumed, gets another URL or is removed while a request to it is not answered yet."""
    monkeypatch.setattr(watching, "PAGE", 1)
    async with Receiver() as receiver, Receiver() as other:
        hook = await hooks.add(receiver.url)
        watch, it = hooks.watch(), actions.NamedWebhook(id=hook.id, called="it")

        async def during(status: int, change: Any, request: Any) -> int:
            """How many requests there were."""
            before, receiver.held = len(receiver.seen), asyncio.Event()
            receiver.behave = lambda *_: answer(status)
            await watch.step()
            await receiver.until(before + 1)
            assert isinstance(await change(ACTOR, request, hooks.store), Done)
            receiver.held.set()
            await watch.settle()
            return len(receiver.seen) - before

        await hooks.write(1, 2, 3)
        assert await during(200, actions.pause, it) == 1
        assert (await hooks.now(hook)).state is WebhookState.PAUSED
        await hooks.store.value("UPDATE fairpost.webhooks SET paused_at = NULL, failures = 7, failing_since = now()")
        assert await during(500, actions.resume, it) == 1
        now = await hooks.now(hook)
        assert (now.next_at, now.failures) == (None, 0), "not kept waiting for hours"
        edit = actions.EditWebhook(id=hook.id, called="it", url=other.url, guard=hooks.guard)
        assert await during(410, actions.edit, edit) == 1
        await hooks.deliver(watch)
        assert set(other.ids) | set(receiver.ids[:1]) == {each.id for each in [*other.seen, *receiver.seen]}
        assert (await hooks.now(hook)).state is WebhookState.ACTIVE, "the other URL did not ask to be disabled"
        await hooks.store.value("UPDATE fairpost.webhooks SET url = $1", receiver.url)
        await hooks.write(4, 5)
        assert await during(200, actions.remove, it) == 1


async def test_after_a_day_it_is_disabled_with_a_notice_and_resumes_where_it_stopped(hooks: Hooks) -> None:
    state = {"is_up": False}
    async with Receiver(lambda receiver, request: OK if state["is_up"] else answer(500)) as receiver:
        hook = await hooks.add(receiver.url)
        await hooks.store.value(
            "INSERT INTO fairpost.people (workspace, address, folded, name, role, created_at) VALUES ('w1', 'boss@w1.test', 'boss@w1.test', 'Boss', 'manager', now())"
        )
        watch = hooks.watch()
        await hooks.write(1)
        await hooks.deliver(watch)
        await hooks.pass_time("25 hours")
        await hooks.deliver(watch)
        await hooks.deliver(watch)
        now = await hooks.now(hook)
        assert now.state is WebhookState.DISABLED
        assert [each.code for each in hooks.said] == ["webhook.disabled"]
        mails = await hooks.store.fetch(
            "SELECT recipients::text AS to FROM fairpost.queue WHERE workspace = 'fairpost'"
        )
        assert ["boss@w1.test" in each["to"] for each in mails] == [True]
        await hooks.write(2)
        await hooks.pass_time("5 hours")
        await hooks.deliver(watch)
        assert len(receiver.seen) == 2
        state["is_up"] = True
        resume = actions.NamedWebhook(id=hook.id, called="it")
        assert isinstance(await actions.resume(ACTOR, resume, hooks.store), Done)
        await hooks.deliver(watch)
        assert receiver.ids[2] == receiver.ids[0]
        assert len(receiver.seen) == 4


async def test_410_disables_it_at_once(hooks: Hooks) -> None:
    async with Receiver(lambda receiver, request: answer(410)) as receiver:
        hook = await hooks.add(receiver.url)
        await hooks.write(1)
        await hooks.deliver(hooks.watch())
        now = await hooks.now(hook)
        assert (now.state, now.why and now.why.code) == (WebhookState.DISABLED, "webhook.gone")


async def test_one_event_that_is_never_taken_is_given_up_after_a_day_and_the_endpoint_lives(hooks: Hooks) -> None:
    poison = (await hooks.store.public_ids()).email(1)
    async with Receiver(
        lambda _, request: answer(400) if request.event["data"]["email_id"] == poison else OK
    ) as receiver:
        hook = await hooks.add(receiver.url)
        watch = hooks.watch()
        await hooks.write(1, 2)
        await hooks.deliver(watch)
        await hooks.pass_time("25 hours")
        await hooks.write(3)
        await hooks.deliver(watch)
        assert (await hooks.now(hook)).state is WebhookState.ACTIVE
        assert await hooks.store.value("SELECT count(*) FROM fairpost.webhook_pending") == 0


async def test_two_engines_deliver_each_event_once(hooks: Hooks) -> None:
    async with Receiver() as receiver:
        await hooks.add(receiver.url)
        watches = [hooks.watch("a"), hooks.watch("b")]
        for start in range(0, 100, 20):
            await hooks.write(*range(start, start + 20))
            await asyncio.gather(*(hooks.deliver(each) for each in watches))
        assert len(receiver.ids) == len(set(receiver.ids)) == 100


async def test_an_engine_that_lost_its_lease_books_nothing(hooks: Hooks) -> None:
    async with Receiver() as receiver:
        hook = await hooks.add(receiver.url)
        await hooks.write(1)

        def stolen(receiver: Receiver, request: Request) -> bytes:
            return OK

        receiver.behave = stolen
        watch = hooks.watch("a")
        await hooks.store.value("SELECT 1")
        await watch.step()
        await hooks.store.value("UPDATE fairpost.webhooks SET epoch = epoch + 1")
        await watch.settle()
        assert await hooks.log(hook) == []
        await hooks.pass_time("2 minutes")
        await hooks.deliver(hooks.watch("b"))
        assert len(receiver.ids) == 2
        assert len(set(receiver.ids)) == 1


async def test_a_replay_sends_everything_after_a_moment_again_with_the_same_ids(hooks: Hooks) -> None:
    async with Receiver() as receiver:
        hook, ids = await hooks.add(receiver.url), await hooks.store.public_ids()
        await hooks.write(1)
        since = await hooks.store.now()
        await hooks.write(2, 3)
        watch = hooks.watch()
        await hooks.deliver(watch)
        request = actions.ReplayWebhook(id=hook.id, called="it", since=since)
        assert isinstance(await actions.replay(ACTOR, request, hooks.store), Done)
        await hooks.deliver(watch)
        late = [ids.email(EmailId(2)), ids.email(EmailId(3))]
        of_late = {each.id for each in receiver.seen[:3] if each.event["data"]["email_id"] in late}
        assert (len(receiver.seen), set(receiver.ids[3:])) == (5, of_late)


async def test_a_test_event_is_posted_at_once_and_logged(hooks: Hooks) -> None:
    async with Receiver() as receiver:
        hook = await hooks.add(receiver.url)
        request = actions.TestWebhook(id=hook.id, called="it", guard=hooks.guard, vault=hooks.vault)
        done = await actions.test(ACTOR, request, hooks.store)
        assert isinstance(done, Done)
        assert done.value.answered.is_delivered
        (seen,) = receiver.seen
        assert Oracle(hooks.secrets[hook.id]).verify(seen.body, seen.headers)["type"] == "webhook.test"
        assert [each.kind for each in await hooks.log(hook)] == ["webhook.test"]
