"""Trouble with one account is visible in its state and its reason, and does not affect other accounts."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairpost.dev.emulate.mailbox import User
from fairpost.dev.emulate.server import GmailEmulator
from fairpost.dev.simulate.drive import Drive
from fairpost.model.account import Account, AccountStatus, Limits, RestReason
from fairpost.model.ids import AccountId
from fairpost.smtp.server import Security, Server
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.factory import transport_of
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.port import ClosableTransport
from fairpost.transports.smtp.send import SmtpTransport
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault

KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))
ANN, BOB = "ann@post.test", "bob@post.test"


@pytest.fixture
async def google() -> AsyncIterator[GmailEmulator]:
    async with GmailEmulator(users=[User(address=ANN), User(address=BOB)]) as google:
        yield google


async def add(store: Store, google: GmailEmulator, name: str, address: str) -> AccountId:
    settings = GmailSettings(oauth=OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), base_url=google.url)
    id_ = await store.next_account_id()
    sealed = VAULT.seal(json.dumps(google.service_account_info()), account_id=id_, key=KEY)
    transport = replace(settings, secret=sealed)
    return await store.add_account(name, address=address, limits=Limits(), transport=transport, id_=id_)


async def drive(
    store: Store, transports: dict[AccountId, ClosableTransport], *, minutes: float = 5
) -> dict[str, Account]:
    """Runs for some simulated minutes. Returns the accounts afterwards."""
    with clock.stopped_at(datetime.now(UTC)) as manual:
        await Drive(store, manual, transports).run(until=manual.now + timedelta(minutes=minutes))
    for transport in transports.values():
        await transport.close()
    return {account.name: account for account in await store.accounts()}


Trouble = Callable[[GmailEmulator], object]


@pytest.mark.parametrize(
    ("trouble", "status", "words"),
    [
        pytest.param(
            lambda google: google.faults.add(
                route="token", user=ANN, action="error", status=400, reason="invalid_grant"
            ),
            AccountStatus.SUSPENDED,
            "invalid_grant",
            id="revoked",
        ),
        pytest.param(
            lambda google: google.faults.add(
                route="drafts.create",
                user=ANN,
                action="error",
                status=400,
                reason="failedPrecondition",
                message="Mail service not enabled",
            ),
            AccountStatus.SUSPENDED,
            "Mail service not enabled",
            id="disabled",
        ),
        pytest.param(
            lambda google: google.faults.add(
                route="drafts.create", user=ANN, action="error", status=403, reason="insufficientPermissions"
            ),
            AccountStatus.SUSPENDED,
            "insufficientPermissions",
            id="scope",
        ),
        pytest.param(
            lambda google: google.faults.add(
                route="drafts.send", user=ANN, action="error", status=429, reason="rateLimitExceeded"
            ),
            AccountStatus.ACTIVE,
            RestReason.BACK_OFF,
            id="too fast",
        ),
        pytest.param(
            lambda google: google.faults.add(route="drafts.create", user=ANN, action="error", status=503),
            AccountStatus.ACTIVE,
            RestReason.UNREACHABLE,
            id="down",
        ),
    ],
)
async def test_google_has_something_against_one_account(
    store: Store, google: GmailEmulator, trouble: Trouble, status: AccountStatus, words: str
) -> None:
    ann, bob = await add(store, google, "ann", ANN), await add(store, google, "bob", BOB)
    trouble(google)
    email = {"to": "p@there.test", "subject": "s", "text": "t"}
    await store.enqueue_many([email] * 20)
    transports: dict[AccountId, ClosableTransport] = {
        id_: transport_of(await store.account(id_), VAULT) for id_ in (ann, bob)
    }
    accounts = await drive(store, transports)
    assert accounts["ann"].status is status, accounts["ann"]
    rest = accounts["ann"].usage.rest
    told = f"{accounts['ann'].status_reason} {rest.reason if rest else ''} {rest.detail if rest else ''}"
    assert words in told
    assert accounts["bob"].status is AccountStatus.ACTIVE
    assert len(google.sent(ANN)) == 0
    assert len(google.sent(BOB)) == await store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'") >= 19


async def test_a_server_that_is_down_for_an_hour_is_found_again_by_itself(store: Store, unused_tcp_port: int) -> None:
    from fairpost.dev.inbox.server import InboxServer, ServerOptions

    account = await store.add_account("ann", address=ANN, limits=Limits())
    server = Server(host="127.0.0.1", port=unused_tcp_port, security=Security.NONE)
    await store.enqueue_many([{"to": "p@there.test", "subject": "s", "text": "t"}] * 3)
    accounts = await drive(store, {account: SmtpTransport(server)}, minutes=60)
    rest = accounts["ann"].usage.rest
    assert rest is not None
    assert rest.reason is RestReason.UNREACHABLE
    assert rest.detail
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE waiting AND attempts = 0") == 3
    inbox = InboxServer(store, ServerOptions(port=unused_tcp_port))
    await inbox.start()
    with clock.stopped_at(rest.until) as manual:
        await Drive(store, manual, {account: SmtpTransport(server)}).run(until=manual.now + timedelta(minutes=2))
    await inbox.stop()
    assert await store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'") == 3
