"""The account from the environment: created when an engine starts, kept up to date, and left alone if it is managed
elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairpost.dev.inbox.mails import Mail, list_mails
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Account, AccountStatus, Limits
from fairpost.model.errors import SettingsError, VaultError
from fairpost.model.reason import Reason
from fairpost.model.transport import ENVIRONMENT, Security
from fairpost.settings import Settings, read_settings
from fairpost.startup.environment import bring_in_line, given_account
from fairpost.startup.parts import vault_of
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings
from tests.chaos.driver import eventually
from tests.chaos.processes import Engine
from tests.regions.conftest import Regions
from tests.regions.conftest import regions as regions

SAID = {"SMTP_HOST": "mail.test", "SMTP_FROM_ADDRESS": "noreply@vetchium.test", "SMTP_FROM_NAME": "Vetchium"}
MINE = Reason("account.paused_by_hand", note="mine")
LOGIN = {"SMTP_USER": "ann", "SMTP_PASSWORD": "geheim ✓"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def settings_of(home: Path, said: dict[str, str]) -> Settings:
    return read_settings({"FAIRPOST_HOME": str(home), **said})


async def start(store: Store, home: Path, **said: str) -> str | None:
    """What an engine does with it when it starts."""
    return await start_with(store, settings_of(home, {**SAID, **said}))


async def start_with(store: Store, settings: Settings) -> str | None:
    given = given_account(settings)
    assert given is not None
    return await bring_in_line(store, given, vault_of(settings), home=settings.home)


async def only_account(store: Store) -> Account:
    (account,) = await store.accounts()
    return account


def server_of(account: Account) -> SmtpSettings:
    assert isinstance(account.transport, SmtpSettings)
    return account.transport


def password_of(account: Account, home: Path) -> str:
    secret = server_of(account).secret
    assert secret is not None
    return vault_of(settings_of(home, {})).open(secret, account_id=account.id, name=account.name)


async def revision(store: Store) -> int:
    count: int = await store.value("SELECT revision FROM fairpost.accounts")
    return count


# ── the variables ────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_host_there_is_no_account(home: Path) -> None:
    others = {**SAID, **LOGIN, "SMTP_HOST": "", "SMTP_PORT": "25"}
    assert given_account(settings_of(home, others)) is None


@pytest.mark.parametrize(
    ("said", "port", "security"),
    [
        ({}, 25, Security.OFFERED),
        ({"SMTP_PORT": "1025"}, 1025, Security.OFFERED),
        ({"SMTP_PORT": "465"}, 465, Security.IMPLICIT),
        ({"FAIRPOST_SMTP_TLS": "implicit"}, 465, Security.IMPLICIT),
        ({"FAIRPOST_SMTP_TLS": "none"}, 25, Security.NONE),
        (LOGIN, 587, Security.STARTTLS),
        ({**LOGIN, "SMTP_PORT": "465"}, 465, Security.IMPLICIT),
        ({**LOGIN, "SMTP_PORT": "2525"}, 2525, Security.STARTTLS),
        ({**LOGIN, "FAIRPOST_SMTP_TLS": "offered"}, 587, Security.OFFERED),
    ],
)
def test_port_and_encryption_go_by_what_is_said(
    home: Path, said: dict[str, str], port: int, security: Security
) -> None:
    given = given_account(settings_of(home, {**SAID, **said}))
    assert given is not None
    assert (given.server.port, given.server.security) == (port, security)


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ({"SMTP_FROM_ADDRESS": ""}, "FAIRPOST_SMTP_FROM_ADDRESS (or SMTP_FROM_ADDRESS)"),
        ({"SMTP_USER": "ann"}, "FAIRPOST_SMTP_PASSWORD (or SMTP_PASSWORD)"),
        ({"SMTP_PASSWORD": "geheim"}, "FAIRPOST_SMTP_USER (or SMTP_USER)"),
    ],
)
def test_missing_companion_variables_are_named(home: Path, said: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingsError) as error:
        given_account(settings_of(home, {**SAID, **said}))
    assert missing in str(error.value)
    assert "geheim" not in str(error.value)


def test_the_password_is_not_shown_with_the_rest(home: Path) -> None:
    settings = settings_of(home, {**SAID, **LOGIN})
    assert "geheim" not in f"{settings} {given_account(settings)}"


# ── create and update ────────────────────────────────────────────────────────────────────────────────────


async def test_it_is_made_in_the_default_pool_without_limits(store: Store, home: Path) -> None:
    said = await start(store, home, SMTP_PORT="1025", EMAIL_WORKER_BATCH_SIZE="10")
    assert said is not None
    assert all(fact in said for fact in ("env", "smtp://mail.test:1025", "noreply@vetchium.test"))
    account = await only_account(store)
    assert (account.name, account.pool, account.status) == ("env", "default", AccountStatus.ACTIVE)
    assert (account.address, account.display_name) == ("noreply@vetchium.test", "Vetchium")
    assert account.limits == Limits(batch_max=10)
    assert server_of(account) == SmtpSettings(
        host="mail.test", port=1025, security=Security.OFFERED, origin=ENVIRONMENT
    )


async def test_at_a_provider_that_is_known_it_begins_with_its_limits(store: Store, home: Path) -> None:
    await start(store, home, SMTP_FROM_ADDRESS="vetchium@gmail.com")
    account = await only_account(store)
    assert (account.provider, account.limits.daily_max) == ("gmail", 500)


async def test_unchanged_limits_follow_the_provider(store: Store, home: Path) -> None:
    await start(store, home)
    assert await start(store, home, SMTP_FROM_ADDRESS="vetchium@gmail.com")
    account = await only_account(store)
    assert (account.provider, account.limits.daily_max, account.limits.batch_max) == ("gmail", 500, 50)
    await store.change_account("env", {"daily_max": 400})
    await start(store, home)
    account = await only_account(store)
    assert (account.provider, account.limits.daily_max) == ("gmail", 400), "users have set them"


async def test_a_change_that_was_made_in_the_meantime_is_checked_first(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the server of one engine would be stored with the password of another."""
    await start(store, home, **LOGIN)
    others = iter([{**LOGIN, "SMTP_HOST": "second.test", "SMTP_PASSWORD": "second"}])
    change = Store.change_account

    async def late(self: Store, *given: Any, **more: Any) -> Any:
        if (before := next(others, None)) is not None:
            await start(store, home, **before)
        return await change(self, *given, **more)

    monkeypatch.setattr(Store, "change_account", late)
    await start(store, home, **{**LOGIN, "SMTP_HOST": "first.test"})
    account = await only_account(store)
    assert (server_of(account).host, password_of(account, home)) == ("first.test", LOGIN["SMTP_PASSWORD"])


async def test_its_password_is_sealed(store: Store, home: Path) -> None:
    await start(store, home, **LOGIN)
    account = await only_account(store)
    assert password_of(account, home) == "geheim ✓"
    stored = await store.value("SELECT transport::text FROM fairpost.accounts")
    assert "geheim" not in stored


async def test_where_nothing_has_changed_nothing_is_written(store: Store, home: Path) -> None:
    said = {**LOGIN, "SMTP_FROM_ADDRESS": "NoReply@Vetchium.TEST"}
    await start(store, home, **said)
    before = await store.value("SELECT to_jsonb(a)::text || a.xmin FROM fairpost.accounts a")
    assert await start(store, home, **said) is None
    assert await store.value("SELECT to_jsonb(a)::text || a.xmin FROM fairpost.accounts a") == before


@pytest.mark.parametrize(
    "change",
    [
        {"SMTP_HOST": "other.test"},
        {"SMTP_PORT": "2525"},
        {"SMTP_PASSWORD": "another"},
        {"SMTP_USER": "", "SMTP_PASSWORD": ""},
        {"SMTP_FROM_ADDRESS": "post@vetchium.test"},
        {"SMTP_FROM_NAME": ""},
        {"EMAIL_WORKER_BATCH_SIZE": "7"},
    ],
    ids=lambda change: " ".join(change),
)
async def test_only_changed_settings_are_updated(store: Store, home: Path, change: dict[str, str]) -> None:
    await start(store, home, **LOGIN)
    before, first = await revision(store), await only_account(store)
    assert await start(store, home, **{**LOGIN, **change})
    assert await revision(store) == before + 1, "its worker starts again"
    assert await start(store, home, **{**LOGIN, **change}) is None
    account = await only_account(store)
    wanted = {**SAID, **LOGIN, "SMTP_PORT": "587", **change}
    batch_max = int(change.get("EMAIL_WORKER_BATCH_SIZE", first.limits.batch_max))
    assert account.limits == replace(first.limits, batch_max=batch_max)
    assert (account.pool, account.status) == (first.pool, first.status)
    assert (account.address, account.display_name or "") == (wanted["SMTP_FROM_ADDRESS"], wanted["SMTP_FROM_NAME"])
    server = server_of(account)
    assert (server.host, server.user or "") == (wanted["SMTP_HOST"], wanted["SMTP_USER"])
    assert server.port == (int(wanted["SMTP_PORT"]) if server.user else 25)
    if wanted["SMTP_PASSWORD"]:
        assert password_of(account, home) == wanted["SMTP_PASSWORD"]
    else:
        assert server_of(account).secret is None


async def test_limits_pool_and_pause_are_left_to_people(store: Store, home: Path) -> None:
    await start(store, home)
    mine: dict[str, Any] = {"daily_max": 7, "batch_max": 3, "pool": "news", "status": "paused", "status_reason": MINE}
    await store.change_account("env", mine)
    assert await start(store, home) is None
    await start(store, home, SMTP_PORT="2525")
    account = await only_account(store)
    assert (account.limits.daily_max, account.limits.batch_max, account.pool) == (7, 3, "news")
    assert (account.status, account.status_reason) == (AccountStatus.PAUSED, MINE)


async def test_one_that_was_suspended_is_active_again_when_its_login_has_changed(store: Store, home: Path) -> None:
    await start(store, home, **LOGIN)
    account_id = (await only_account(store)).id
    await store.worker_died(account_id, deaths_max=1)
    await start(store, home, **LOGIN, SMTP_FROM_NAME="Another")
    assert (await only_account(store)).status is AccountStatus.SUSPENDED
    await start(store, home, **{**LOGIN, "SMTP_PASSWORD": "the right one"})
    account = await only_account(store)
    assert (account.status, account.status_reason) == (AccountStatus.ACTIVE, None)


async def test_an_account_of_that_name_that_people_look_after_is_left_alone(store: Store, home: Path) -> None:
    await store.add_account("env", address="ann@post.test", limits=Limits())
    said = await start(store, home)
    assert said is not None
    assert "FAIRPOST_SMTP_ACCOUNT" in said
    assert (await only_account(store)).address == "ann@post.test"
    await start(store, home, FAIRPOST_SMTP_ACCOUNT="relay")
    assert [account.name for account in await store.accounts()] == ["env", "relay"]


async def test_another_master_key_changes_nothing(store: Store, home: Path, tmp_path: Path) -> None:
    await start(store, home, **LOGIN)
    before = await revision(store)
    with pytest.raises(VaultError):
        await start(store, tmp_path / "elsewhere", **{**LOGIN, "SMTP_PORT": "2525"})
    assert await revision(store) == before
    assert password_of(await only_account(store), home) == LOGIN["SMTP_PASSWORD"]


@pytest.mark.parametrize("login", [{}, LOGIN], ids=["without a login", "with one"])
async def test_engines_that_start_at_once_make_one(store: Store, url: str, home: Path, login: dict[str, str]) -> None:
    async def engine() -> str | None:
        async with Store.open(url, connections_max=1) as its:
            return await start(its, home, **login)

    said = await asyncio.gather(*(engine() for _ in range(8)))
    assert sum(words is not None for words in said) == 1
    assert (await only_account(store)).name == "env"
    assert await store.value("SELECT count(*) FROM fairpost.leases") == 1
    assert await revision(store) == 1, "created, and not changed since"


async def test_every_region_has_its_own_and_all_together_send_what_one_may(regions: Regions) -> None:
    said = {**SAID, "SMTP_FROM_ADDRESS": "vetchium@gmail.com"}
    for region, url in regions.urls.items():
        async with Store.open(url) as store:
            await start_with(store, read_settings({**regions.environment(region), **said}))
            account = await only_account(store)
            assert account.limits.daily_max == 500 * 33 // 100
            assert await store.value("SELECT percent FROM fairpost.shares") == 33
            assert await start_with(store, read_settings({**regions.environment(region), **said})) is None
    async with Store.open(regions.home_url) as store:
        assert await store.accounts() == []


# ── with a real engine and a real server ─────────────────────────────────────────────────────────────────


@pytest.fixture
async def inbox(store: Store) -> AsyncIterator[InboxServer]:
    server = InboxServer(store, ServerOptions(port=0))
    await server.start()
    yield server
    await server.stop()


def variables(inbox: InboxServer, **more: str) -> dict[str, str]:
    return {**SAID, "SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(inbox.port), **more}


@contextmanager
def engine(url: str, folder: Path, said: dict[str, str]) -> Iterator[Engine]:
    running = Engine.start(url, None, folder, env={"SMTP_HOST": "", **said})
    try:
        yield running
    finally:
        running.end()


async def enqueue(store: Store, to: str) -> None:
    await store.value(
        "SELECT id FROM fairpost.enqueue(jsonb_build_object('to', $1::text, 'subject', 'Hello', 'text', 'Hi'))", to
    )


async def arrived(store: Store, to: str) -> Mail:
    found: list[Mail] = []

    async def is_there() -> bool:
        found[:] = [mail for mail in await list_mails(store) if mail.recipients == (to,)]
        return bool(found)

    await eventually(is_there, f"the e-mail to {to} has arrived", s_max=60)
    return found[0]


@pytest.mark.slow
async def test_mail_enqueued_by_sql_is_sent_without_another_command(
    store: Store, url: str, tmp_path: Path, inbox: InboxServer
) -> None:
    await enqueue(store, "ann@there.test")
    with engine(url, tmp_path, variables(inbox, **LOGIN, FAIRPOST_SMTP_TLS="none")) as running:
        mail = await arrived(store, "ann@there.test")
        assert (mail.sender, mail.from_header) == ("noreply@vetchium.test", "Vetchium <noreply@vetchium.test>")
        assert mail.auth_user == "ann"
        assert running.said("account env:") == 1
        assert running.said("geheim") == 0


@pytest.mark.slow
async def test_an_account_that_cannot_be_brought_in_line_keeps_no_other_from_sending_and_from_being_changed(
    store: Store, url: str, tmp_path: Path, inbox: InboxServer
) -> None:
    """One password is sealed with another key; the other belongs to an engine whose environment changes."""
    await start_with(store, settings_of(tmp_path / "elsewhere", {**SAID, **LOGIN}))
    await store.change_account("env", {"pool": "broken"})
    relay = variables(inbox, FAIRPOST_SMTP_ACCOUNT="relay")
    await start_with(store, settings_of(tmp_path, relay))
    with engine(url, tmp_path, variables(inbox, **LOGIN)) as running:
        await enqueue(store, "ann@there.test")
        assert (await arrived(store, "ann@there.test")).sender == "noreply@vetchium.test"
        assert server_of(await store.account_named("env")).host == "mail.test", "it is not changed"
        assert running.said('"env"') == 1
        await start_with(store, settings_of(tmp_path, {**relay, "SMTP_FROM_ADDRESS": "post@vetchium.test"}))
        await enqueue(store, "ben@there.test")
        assert (await arrived(store, "ben@there.test")).sender == "post@vetchium.test"
