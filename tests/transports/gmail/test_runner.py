"""The complete path through Gmail, with only Google faked: accepted by PostgreSQL, claimed, drafted, begun, sent,
settled."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairpost.dev.emulate.server import GmailEmulator
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.model.ids import AccountId, EmailId
from fairpost.observe.emails import show_email
from fairpost.store.store import Store
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.transports.gmail.sending import client_to

SALES = "sales@post.test"
KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))


@pytest.fixture
async def google() -> AsyncIterator[GmailEmulator]:
    async with GmailEmulator(users=[SALES]) as emulator:
        yield emulator


@pytest.fixture
async def account(store: Store, google: GmailEmulator) -> AccountId:
    settings = GmailSettings(oauth=OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), base_url=google.url)
    id_ = await store.next_account_id()
    sealed = VAULT.seal(json.dumps(google.service_account_info()), account_id=id_, key=KEY)
    return await store.add_account(
        "sales",
        address=SALES,
        limits=Limits(),
        transport=replace(settings, secret=sealed),
        id_=id_,
        keys=[],
    )


@asynccontextmanager
async def transport_to(store: Store, account: AccountId) -> AsyncIterator[GmailTransport]:
    client = client_to(await store.account(account), VAULT)
    transport = GmailTransport(client, pause=lambda _: asyncio.sleep(0))
    try:
        yield transport
    finally:
        await transport.close()


async def enqueue(store: Store, **email: Any) -> EmailId:
    [row] = await store.enqueue_many([{"to": "ann@there.test", "subject": "Hello", "text": "Hi", **email}])
    assert row["error"] is None
    return EmailId(row["id"])


async def suppress(store: Store, address: str) -> None:
    sql = (
        "INSERT INTO fairpost.suppressions (workspace, address, reason, created_at) VALUES ('default', $1, 'x', now())"
    )
    await store.value(sql, address)


async def drive(store: Store, account: AccountId) -> None:
    """Runs until there is nothing to do."""
    async with transport_to(store, account) as transport:
        runner = await Runner.start(store, transport, account, owner="test")
        assert runner is not None
        await runner.run_until_idle()
        await runner.stop()


async def test_an_e_mail_goes_out_with_the_ids_of_gmail(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    id_ = await enqueue(store)
    await drive(store, account)
    (sent,) = google.sent()
    assert (await show_email(store, id_)).state == "sent"
    assert dict(sent.headers)["X-Fairpost-Id"] == (await store.public_ids()).email(id_)
    kept = await store.row("SELECT message_id, thread_id FROM fairpost.emails")
    assert (kept["message_id"], kept["thread_id"]) == (sent.message_id, sent.thread_id)
    assert google.drafts(SALES) == []


async def test_many_go_out_once_each(store: Store, account: AccountId, google: GmailEmulator) -> None:
    for n in range(20):
        await enqueue(store, to=f"ann{n}@there.test")
    google.faults.add(route="drafts.send", action="drop", after=True, nth=[2, 7])
    google.faults.add(route="drafts.send", action="drop", nth=[4, 12])
    google.faults.add(route="drafts.send", action="error", status=503, after=True, nth=15)
    await drive(store, account)
    assert sorted(sent.to[0] for sent in google.sent()) == sorted(f"ann{n}@there.test" for n in range(20))
    assert await store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'") == 20


async def test_an_unsubscribe_after_queueing_stops_the_email(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    await enqueue(store, to=["ann@there.test", "bob@there.test"])
    await suppress(store, "bob@there.test")
    await drive(store, account)
    (sent,) = google.sent()
    assert sent.recipients == ("ann@there.test",)


async def test_a_limit_lets_the_account_rest_and_the_e_mail_wait(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    id_ = await enqueue(store)
    google.faults.add(route="drafts.send", action="error", status=429, reason="rateLimitExceeded", retry_after_s=3600)
    await drive(store, account)
    assert google.sent() == []
    assert google.drafts(SALES) == []
    assert (await show_email(store, id_)).state in ("scheduled", "ready")


async def test_a_key_that_was_revoked_suspends_the_account(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    id_ = await enqueue(store)
    google.faults.add(route="token", action="error", reason="invalid_grant")
    await drive(store, account)
    kept = await store.account(account)
    assert kept.status == "suspended"
    assert kept.status_reason is not None
    assert kept.status_reason.code == "account.authentication_failed"
    assert "invalid_grant" in str(kept.status_reason.params["reply"])
    assert (await show_email(store, id_)).state == "ready"


async def test_a_worker_that_died_in_the_middle_is_followed_by_one_who_asks(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    ids = [await enqueue(store, to=f"{name}@there.test", on_doubt="hold") for name in ("ann", "bob")]
    google.faults.add(route="drafts.send", action="stall", after=True, nth=1)
    async with transport_to(store, account) as transport:
        runner = await Runner.start(store, transport, account, owner="first")
        assert runner is not None
        sending = asyncio.create_task(runner.run_until_idle())
        while not google.sent():  # noqa: ASYNC110 - the emulator has no event for it
            await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    await store.value("UPDATE fairpost.leases SET until = clock_timestamp() - interval '1 second'")
    google.faults.clear()
    await drive(store, account)
    assert sorted(sent.to[0] for sent in google.sent()) == ["ann@there.test", "bob@there.test"]
    assert [(await show_email(store, id_)).state for id_ in ids] == ["sent", "sent"]


async def test_an_unsubscribe_during_doubt_stops_the_email(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    await enqueue(store, to=["ann@there.test", "bob@there.test"], on_doubt="hold")
    google.faults.add(route="drafts.send", action="drop", times=3)
    await drive(store, account)
    assert google.sent() == []
    assert len(google.drafts(SALES)) == 1
    await suppress(store, "bob@there.test")
    await drive(store, account)
    (sent,) = google.sent()
    assert sent.recipients == ("ann@there.test",)


async def test_a_draft_that_is_still_there_is_never_given_up(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    id_ = await enqueue(store, on_doubt="hold")
    google.faults.add(route="drafts.send", action="drop", times=6)
    await drive(store, account)
    await drive(store, account)
    assert google.sent() == []
    await drive(store, account)
    assert len(google.sent()) == 1
    assert (await show_email(store, id_)).state == "sent"


async def test_an_email_that_google_can_be_asked_about_is_not_begun_again(
    store: Store, account: AccountId, google: GmailEmulator
) -> None:
    id_ = await enqueue(store, on_doubt="resend")
    google.faults.add(route="drafts.send", action="drop", times=6)
    for _ in range(2):
        await drive(store, account)
        assert (await show_email(store, id_)).state == "in_doubt"
    await drive(store, account)
    assert len(google.sent()) == 1
    assert (await show_email(store, id_)).attempts == 1
