"""Secrets of webhooks are sealed like passwords, and survive a key rotation."""

from pathlib import Path

from standardwebhooks import Webhook as Oracle

from fairpost.actions import webhooks as actions
from fairpost.actions.acting import Done
from fairpost.model.webhook import WebhookState
from fairpost.vault.keyring import Keyring
from fairpost.vault.rotation import rotate
from fairpost.vault.vault import Vault
from tests.webhooks.conftest import ACTOR, Hooks
from tests.webhooks.receivers import Receiver


async def test_it_signs_with_the_same_secret_after_the_key_was_changed(hooks: Hooks) -> None:
    async with Receiver() as receiver:
        hook = await hooks.add(receiver.url)
        sealed = await hooks.store.value("SELECT secret FROM fairpost.webhook_secrets")
        assert hooks.secrets[hook.id] not in sealed
        done = await rotate(hooks.store, hooks.vault)
        assert done is not None
        assert done.resealed == 1
        assert await hooks.store.value("SELECT secret FROM fairpost.webhook_secrets") != sealed
        await hooks.write(1)
        await hooks.deliver(hooks.watch())
        (request,) = receiver.seen
        Oracle(hooks.secrets[hook.id]).verify(request.body, request.headers)


async def test_without_a_readable_secret_nothing_is_posted_until_there_is_a_new_one(
    hooks: Hooks, tmp_path: Path
) -> None:
    async with Receiver() as receiver:
        hook = await hooks.add(receiver.url)
        hooks.vault = Vault(Keyring(tmp_path / "lost"))
        done = await rotate(hooks.store, hooks.vault, drop_unreadable=True)
        assert done is not None
        assert done.dropped_webhooks == (receiver.url,)
        await hooks.write(1)
        watch = hooks.watch()
        await hooks.deliver(watch)
        now = await hooks.now(hook)
        assert (now.state, now.why and now.why.code, receiver.seen) == (WebhookState.DISABLED, "webhook.no_secret", [])
        test = actions.TestWebhook(id=hook.id, called="it", guard=hooks.guard, vault=hooks.vault)
        tested = await actions.test(ACTOR, test, hooks.store)
        assert isinstance(tested, Done)
        why = tested.value.answered.why
        assert (why and why.code, receiver.seen) == ("webhook.no_secret", []), "nothing is posted unsigned"
        request = actions.RotateWebhook(id=hook.id, called="it", vault=hooks.vault)
        new = await actions.rotate(ACTOR, request, hooks.store)
        assert isinstance(new, Done)
        await actions.resume(ACTOR, actions.NamedWebhook(id=hook.id, called="it"), hooks.store)
        await hooks.deliver(watch)
        (posted,) = receiver.seen
        Oracle(new.value.secret).verify(posted.body, posted.headers)
