"""Mail whose DKIM key cannot be opened waits at no cost, while the same account sends mail of other domains."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from fairpost.actions.acting import Actor, Done
from fairpost.actions.domains import AddKey, add_key
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.model.dkim import LOCKED_FOR, Algorithm
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.states import State
from fairpost.model.transport import Security
from fairpost.model.troubles import Troubles
from fairpost.observe.emails import show_email
from fairpost.observe.status import read_facts
from fairpost.policy.conditions import Tone, diagnose
from fairpost.store import workspaces
from fairpost.store.store import Store
from fairpost.transports.factory import transport_of
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.engine.test_runner import pass_time
from tests.smtp.scripted_server import Script, scripted

RIGHT, WRONG = (Vault(Keyring(Path("/nonexistent"), given=new_key())) for _ in range(2))


@pytest.fixture
async def server() -> AsyncIterator[tuple[Script, int]]:
    script = Script()
    async with scripted(script) as port:
        yield script, port


@pytest.fixture
async def account(store: Store, server: tuple[Script, int]) -> AccountId:
    settings = SmtpSettings(host="127.0.0.1", port=server[1], security=Security.NONE)
    await workspaces.add_workspace(store, "acme")
    for domain in ("locked.test", "open.test"):
        await workspaces.add_domain(store, "acme", domain)
    asked = AddKey(workspace="acme", domain="locked.test", algorithm=Algorithm.ED25519, vault=RIGHT)
    assert isinstance(await add_key(Actor(who="test"), asked, store), Done)
    await store.value("UPDATE fairpost.dkim_keys SET active_at = created_at")
    return await store.add_account("shop", address="a@open.test", limits=Limits(hourly_max=100), transport=settings)


async def enqueue(store: Store, *senders: str) -> list[EmailId]:
    mail = [{"workspace": "acme", "from": each, "to": "x@there.test", "subject": "s", "text": "t"} for each in senders]
    rows = await store.enqueue_many(mail)
    assert [row["error"] for row in rows] == [None] * len(senders)
    return [EmailId(row["id"]) for row in rows]


async def work(store: Store, account: AccountId, vault: Vault) -> None:
    transport = transport_of(await store.account(account), vault)
    runner = await Runner.start(store, transport, account, owner="test")
    assert runner is not None
    await runner.run_until_idle()
    await runner.stop()
    await transport.close()


async def locked(store: Store) -> list[Tone]:
    return [each.tone for each in diagnose(await read_facts(store)) if each.code == "domain.key_locked"]


async def test_only_the_mail_of_the_locked_domain_waits_and_nothing_is_blamed(
    store: Store, account: AccountId, server: tuple[Script, int]
) -> None:
    waiting = await enqueue(store, *["a@locked.test"] * 5)
    (sent,) = await enqueue(store, "b@open.test")
    before = await store.now()
    await work(store, account, WRONG)

    assert len(server[0].taken) == 1
    assert (await show_email(store, sent)).state is State.SENT
    for email_id in waiting:
        email = await show_email(store, email_id)
        assert (email.attempts, email.state, email.reason and email.reason.code) == (
            *(0, State.SCHEDULED, "domain.key_locked"),
        )
        assert email.due_at is not None
        assert email.due_at > before + timedelta(minutes=4)
    assert await store.value("SELECT count(*) FROM fairpost.attempts a WHERE a.email_id <> $1", sent) == 0
    known = await store.account(account)
    assert (known.troubles, known.usage.rest, known.usage.hour_used) == (Troubles(), None, 1)
    assert await locked(store) == [Tone.FAULT]


async def test_the_mail_goes_out_signed_once_the_key_opens_and_the_condition_ends(
    store: Store, account: AccountId, server: tuple[Script, int]
) -> None:
    (email_id,) = await enqueue(store, "a@locked.test")
    await work(store, account, WRONG)
    await pass_time(store, LOCKED_FOR.total_seconds())
    await work(store, account, RIGHT)
    assert (await show_email(store, email_id)).state is State.SENT
    assert server[0].taken[0].startswith(b"DKIM-Signature: ")
    await store.value("UPDATE fairpost.dkim_keys SET locked_at = locked_at - $1::interval", LOCKED_FOR)
    assert await locked(store) == []
