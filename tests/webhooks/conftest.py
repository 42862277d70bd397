"""A database with a vault, an engine's watch over its webhooks, and events written as in production."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from fairpost.actions import webhooks as actions
from fairpost.actions.acting import Actor, Done
from fairpost.maintenance.webhooks import WebhookOptions, WebhookWatch
from fairpost.model.reason import Reason
from fairpost.model.webhook import Delivery, Webhook
from fairpost.smtp.guard import NetworkGuard
from fairpost.store import events, webhooks, workspaces
from fairpost.store.store import Store
from fairpost.vault.keyring import Keyring
from fairpost.vault.vault import Vault

HERE = NetworkGuard(allowed=(ip_network("127.0.0.0/8"),))
TURNS_MAX = 200
ACTOR = Actor(who="a test", is_operator=True)


@dataclass
class Hooks:
    store: Store
    vault: Vault
    said: list[Reason] = field(default_factory=list)
    guard: NetworkGuard = HERE
    secrets: dict[int, str] = field(default_factory=dict)
    _watches: list[WebhookWatch] = field(default_factory=list)

    def watch(self, engine: str = "engine", **options: Any) -> WebhookWatch:
        given = WebhookOptions(engine=engine, open_secret=self.vault.open_secret, guard=self.guard, **options)
        watch = WebhookWatch(self.store, given, self.said.append)
        self._watches.append(watch)
        return watch

    async def add(self, url: str, workspace: str | None = "w1", **options: Any) -> Webhook:
        if workspace is not None and await workspaces.find_workspace(self.store, workspace) is None:
            await workspaces.add_workspace(self.store, workspace)
        request = actions.AddWebhook(workspace=workspace, url=url, guard=self.guard, vault=self.vault, **options)
        done = await actions.add(ACTOR, request, self.store)
        assert isinstance(done, Done), done
        self.secrets[done.value.webhook.id] = done.value.secret
        return done.value.webhook

    async def write(self, *emails: int, workspace: str = "w1", kind: str = "email.sent") -> None:
        """Writes an event for each e-mail in one commit, and takes the turn."""
        await self.store.value(
            """INSERT INTO fairpost.outbox (at, kind, workspace, email_id)
               SELECT clock_timestamp(), $1, $2, g FROM unnest($3::bigint[]) g""",
            *(kind, workspace, list(emails)),
        )
        while await events.take_turn(self.store):
            pass

    async def deliver(self, watch: WebhookWatch) -> None:
        """Delivers everything that is due."""
        turns = 0
        while await watch.step():
            await watch.settle()
            turns += 1
            assert turns < TURNS_MAX, "an endpoint is leased again and again for nothing"

    async def now(self, webhook: Webhook) -> Webhook:
        found = await webhooks.find(self.store, webhook.id)
        assert found is not None
        return found

    async def log(self, webhook: Webhook) -> Sequence[Delivery]:
        """Returns them oldest first."""
        return (await webhooks.deliveries(self.store, webhook, before=2**62, most=1000))[::-1]

    async def pass_time(self, interval: str) -> None:
        """Makes everything that was stored older by this time."""
        await self.store.value(
            """UPDATE fairpost.webhooks SET failing_since = failing_since - $1::text::interval, next_at = next_at - $1::text::interval, delivered_at = delivered_at - $1::text::interval,
               leased_until = leased_until - $1::text::interval""",
            interval,
        )
        await self.store.value(
            "UPDATE fairpost.webhook_pending SET since = since - $1::text::interval, next_at = next_at - $1::text::interval",
            interval,
        )

    @asynccontextmanager
    async def running(self, watch: WebhookWatch) -> AsyncIterator[None]:
        """As in an engine."""
        task = asyncio.create_task(watch.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def stop(self) -> None:
        for each in self._watches:
            await each.stop()


@pytest.fixture
async def hooks(url: str, tmp_path: Path) -> AsyncIterator[Hooks]:
    async with Store.open(url) as store:
        hooks = Hooks(store, Vault(Keyring(tmp_path)))
        yield hooks
        await hooks.stop()
