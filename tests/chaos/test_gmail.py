"""A worker that sends through Gmail, killed at every step: Google's records tell what became of each e-mail.

There are no duplicates, no losses, and no manual decisions.
"""

import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fairpost.dev.emulate.server import GmailEmulator
from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.transports.gmail.evidence import WAITS_S
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.vault.rotation import write_sealed
from tests.chaos.driver import eventually, until
from tests.chaos.processes import Engine
from tests.chaos.test_failpoints import POINTS as OVER_SMTP
from tests.chaos.test_failpoints import let_time_pass, points_of_the_engine
from tests.chaos.victims import drive, ended, fork, run_account, vault_at
from tests.simulation.world import draft
from tests.transports.gmail.sending import client_to

EMAILS = 4
SALES = "sales@post.test"

POINTS = {
    "after_lease": 1,
    "after_claim": 1,
    "after_load": 1,
    "after_draft": 3,
    "after_begin": 3,
    "before_send": 3,
    "before_dot": 3,
    "after_send": 3,
    "after_group": 3,
    "after_settle": 3,
    "after_book": 1,
}
"""At which pass it dies."""
POINTS_IN_DOUBT = ("after_asking", "after_sending_a_doubt")
NOT_PASSED = {
    "after_take_up",
    "after_troubles",
    "after_give_back",
    "after_suspend",
    "after_status",
    "after_rest",
    "after_settle_and_begin",
}


@pytest.fixture
async def google() -> AsyncIterator[GmailEmulator]:
    async with GmailEmulator(users=[SALES]) as google:
        yield google


@pytest.fixture
async def account(store: Store, google: GmailEmulator, tmp_path: Path) -> AccountId:
    """Adds waiting e-mails."""
    settings = GmailSettings(oauth=OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), base_url=google.url)
    id_ = await store.next_account_id()

    async def write(sealed: str, keys: object) -> None:
        transport = replace(settings, secret=sealed)
        await store.add_account("sales", address=SALES, limits=Limits(), transport=transport, id_=id_)

    key = json.dumps(google.service_account_info())
    await write_sealed(store, vault_at(tmp_path), key, account_id=id_, write=write)
    await store.enqueue_many([draft(to=f"p{i}@x.test", subject=f"n{i}") for i in range(EMAILS)])
    return id_


async def go_on(store: Store, account: AccountId, home: Path) -> None:
    """Runs the next worker, without waiting."""
    await let_time_pass(store)
    client = client_to(await store.account(account), vault_at(home))
    await run_account(store, account, GmailTransport(client, pause=at_once))


async def at_once(_: float) -> None:
    pass


async def check(store: Store, google: GmailEmulator) -> None:
    rows = await store.fetch("SELECT state::text, count(*) AS n FROM fairpost.emails GROUP BY 1")
    assert [tuple(row) for row in rows] == [("sent", EMAILS)]
    sent = Counter(dict(message.headers)["Subject"] for message in google.sent(SALES))
    assert sent == Counter({f"n{i}": 1 for i in range(EMAILS)})


@pytest.mark.parametrize("point", POINTS)
async def test_wherever_a_worker_is_killed_every_email_is_sent_once_without_a_manual_decision(
    url: str, store: Store, google: GmailEmulator, account: AccountId, tmp_path: Path, point: str
) -> None:
    assert await ended(fork(drive, url, account, tmp_path, f"{point}:{POINTS[point]}")) == -signal.SIGKILL
    await go_on(store, account, tmp_path)
    await check(store, google)


@pytest.mark.parametrize("point", POINTS_IN_DOUBT)
async def test_one_that_asks_google_about_an_e_mail_in_doubt_may_be_killed_as_well(
    url: str, store: Store, google: GmailEmulator, account: AccountId, tmp_path: Path, point: str
) -> None:
    google.faults.add(route="drafts.send", action="drop", times=len(WAITS_S) + 1)
    await go_on(store, account, tmp_path)
    assert await store.value("SELECT state::text FROM fairpost.queue") == "in_doubt"
    assert await ended(fork(drive, url, account, tmp_path, point)) == -signal.SIGKILL
    await go_on(store, account, tmp_path)
    await check(store, google)


@pytest.mark.slow
async def test_an_engine_continues_without_help_after_a_worker_was_killed(
    url: str, store: Store, google: GmailEmulator, account: AccountId, tmp_path: Path
) -> None:
    file = tmp_path / "alive"
    file.touch()
    env = {"FAIRPOST_FAILPOINT": "after_send:3", "FAIRPOST_FAILPOINT_FILE": str(file)}
    engine = Engine.start(url, None, tmp_path, "--lease-s", "60", env=env)
    try:
        await until(lambda: engine.is_ready() and not file.exists(), "a worker dies")
        await eventually(lambda: store.value("SELECT count(*) = 0 FROM fairpost.queue"), "all is sent")
    finally:
        engine.end()
    await check(store, google)


def test_every_point_on_the_way_is_tried() -> None:
    assert points_of_the_engine() == {*POINTS, *POINTS_IN_DOUBT, *NOT_PASSED}
    assert {*OVER_SMTP, "after_take_up"} >= NOT_PASSED, "anything that Gmail does not accept is tried over SMTP"
