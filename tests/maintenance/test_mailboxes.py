"""Mailboxes are read once, by one engine, and each finding counts once, whatever dies in between."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from fairpost.engine.doubts import resolve_doubts
from fairpost.maintenance.mailboxes import TIMES_STUCK_MAX, MailboxWatch, ReaderOptions
from fairpost.maintenance.returns import take_in
from fairpost.model.account import Account, AccountStatus, Limits, MailboxState
from fairpost.model.email import Outgoing
from fairpost.model.ids import EmailId
from fairpost.model.transport import Security
from fairpost.model.verdict import InDoubt
from fairpost.store import mailbox_reads
from fairpost.store.mailbox_reads import NoLongerOurs
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.failpoints import arm
from fairpost.transports.reading import MailboxReader
from fairpost.transports.smtp.imap_urls import parse_imap_url
from fairpost.transports.smtp.read import imap_reader
from fairpost.transports.smtp.settings import SmtpSettings
from tests.chaos.victims import ended, fork
from tests.imap.scripted_server import Mailboxes, imap_server
from tests.returns.mails import mail, report
from tests.settle.test_returned import ANN, DEAD, NOW, Post
from tests.simulation.world import connect

ADDRESS = "anna@post.test"


def settings(port: int, *, folder: str = "INBOX") -> SmtpSettings:
    return SmtpSettings(
        host="127.0.0.1",
        port=25,
        security=Security.NONE,
        user="ann",
        read=True,
        imap=f"imap://127.0.0.1:{port}?folder={folder}",
    )


def reader(account: Account) -> MailboxReader:
    assert isinstance(account.transport, SmtpSettings)
    return imap_reader(account.transport, "secret", account=account.name, guard=None)


class Reads(Post):
    """An account, its mailbox on a server, and engines that read it."""

    def __init__(self, store: Store, account: int, server: Mailboxes, port: int) -> None:
        super().__init__(store, account)  # type: ignore[arg-type]
        self.server, self.port = server, port
        self.watches: list[MailboxWatch] = []

    async def engine(self, name: str = "one") -> MailboxWatch:
        await self.store.engine_here(name, asleep=False)
        watch = MailboxWatch(self.store, reader, ReaderOptions(owner=name), print)
        self.watches.append(watch)
        return watch

    async def state_of_mailbox(self) -> MailboxState:
        return (await mailbox_reads.states(self.store, [self.account]))[self.account]

    async def until(self, happened: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(60):
            while not await happened():  # noqa: ASYNC110 - the database tells of nothing
                await asyncio.sleep(0.01)

    async def idles(self, times: int = 1) -> None:
        await self.server.until(lambda: self.server.idling == times)

    async def dead(self, id_: int) -> bytes:
        return report(DEAD.split()[1], DEAD, recipient=ANN, message_id=await self.message_id(id_))  # type: ignore[arg-type]

    async def has_bounced(self, id_: int) -> None:
        async def happened() -> bool:
            return await self.state(id_) == "bounced"  # type: ignore[arg-type]

        await self.until(happened)

    async def findings(self) -> int:
        return int(await self.store.value("SELECT count(*) FROM fairpost.returned"))


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Reads]:
    store = await connect(url)
    server = Mailboxes()
    async with imap_server(server) as port:
        id_ = await store.add_account("anna", address=ADDRESS, limits=Limits(), transport=settings(port))
        reads = Reads(store, id_, server, port)
        try:
            yield reads
        finally:
            for watch in reads.watches:
                await watch.stop()
    await store.close()


@pytest.fixture
async def reads(url: str) -> AsyncIterator[Reads]:
    async with reading(url) as made:
        yield made


async def test_a_bounce_in_the_mailbox_takes_effect_and_the_mailbox_stays_unchanged(reads: Reads) -> None:
    id_ = await reads.sent()
    await (await reads.engine()).step()
    await reads.idles()
    reads.server.inbox.add(mail("A newsletter", subject="News", sender="news@shop.example", answers=False))
    reads.server.inbox.add(await reads.dead(id_))
    await reads.has_bounced(id_)
    assert await reads.suppressed() == {f"w1 {ANN}": "hard_bounce"}
    assert {each.split()[0] for each in reads.server.commands} <= {
        "AUTHENTICATE",
        "CAPABILITY",
        "EXAMINE",
        "UID",
        "IDLE",
    }


async def test_the_first_look_begins_at_the_present(reads: Reads) -> None:
    id_ = await reads.sent()
    reads.server.inbox.add(await reads.dead(id_))
    await (await reads.engine()).step()
    await reads.idles()
    assert await reads.findings() == 0
    assert not any("FETCH" in each for each in reads.server.commands)


async def test_a_server_that_does_not_say_which_number_is_next_is_read_anyway(reads: Reads) -> None:
    reads.server.has_uid_next = False
    id_ = await reads.sent()
    reads.server.inbox.add(await reads.dead(id_))
    await (await reads.engine()).step()
    await reads.idles()
    assert await reads.findings() == 0
    reads.server.inbox.add(await reads.dead(id_))
    await reads.has_bounced(id_)


async def test_what_arrives_while_no_engine_runs_is_found_later(reads: Reads) -> None:
    id_ = await reads.sent()
    watch = await reads.engine()
    await watch.step()
    await reads.idles()
    await watch.stop()
    reads.server.inbox.add(await reads.dead(id_))
    await (await reads.engine("two")).step()
    await reads.has_bounced(id_)


async def test_own_mail_is_no_reply(reads: Reads) -> None:
    id_ = await reads.sent()
    await (await reads.engine()).step()
    await reads.idles()
    named = await reads.message_id(id_)
    reads.server.inbox.add(mail("yes", sender=ADDRESS, headers={"In-Reply-To": named}, answers=False))
    reads.server.inbox.add(mail("yes", sender=ANN, headers={"In-Reply-To": named}, answers=False))
    await reads.until(reads.findings)
    rows = await reads.store.fetch("SELECT address, effect FROM fairpost.returned")
    assert [(row["address"], row["effect"]) for row in rows] == [(ANN, "replied")]


async def test_numbers_that_are_no_longer_valid_are_read_again_and_count_once(reads: Reads) -> None:
    first, second = await reads.sent(), await reads.sent("bob@people.example")
    watch = await reads.engine()
    await watch.step()
    await reads.idles()
    reads.server.inbox.add(await reads.dead(first))
    await reads.has_bounced(first)
    await watch.stop()
    inbox = reads.server.inbox
    old = list(inbox.messages.values())
    inbox.uid_validity, inbox.uid_next = 8, 100
    inbox.messages.clear()
    for raw in [
        *old,
        report(DEAD.split()[1], DEAD, recipient="bob@people.example", message_id=await reads.message_id(second)),
    ]:
        inbox.add(raw)
    await (await reads.engine("two")).step()
    await reads.has_bounced(second)
    assert await reads.findings() == 2
    assert (await reads.day_bounces())[0] == 2


async def test_a_server_whose_numbers_went_back_is_read_again(reads: Reads) -> None:
    id_ = await reads.sent()
    watch = await reads.engine()
    reads.server.inbox.uid_next = 100
    await watch.step()
    await reads.idles()
    await watch.stop()
    reads.server.inbox.uid_next = 50  # restored from a backup
    reads.server.inbox.add(await reads.dead(id_))
    await (await reads.engine("two")).step()
    await reads.has_bounced(id_)


async def test_a_message_that_the_server_never_delivers_is_passed_over(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpost.maintenance.mailboxes.FIRST_S", 0.001)
    id_ = await reads.sent()
    await (await reads.engine()).step()
    await reads.idles()
    connections = reads.server.connections
    reads.server.inbox.broken.add(reads.server.inbox.add(b"Subject: broken\r\n\r\n"))
    reads.server.inbox.add(await reads.dead(id_))
    await reads.has_bounced(id_)
    assert reads.server.connections == connections + TIMES_STUCK_MAX


async def test_another_mailbox_begins_at_its_own_present(reads: Reads) -> None:
    id_ = await reads.sent()
    watch = await reads.engine()
    await watch.step()
    await reads.idles()
    reads.server.box("ann")["Entwürfe"].add(await reads.dead(id_))
    await reads.store.change_account("anna", {"transport": _stored(settings(reads.port, folder="Entw%C3%BCrfe"))})
    await watch.step()
    await reads.server.until(lambda: any("Entw" in each for each in reads.server.commands))
    await reads.idles()
    assert await reads.findings() == 0


async def test_one_engine_reads_a_mailbox_and_another_takes_over_when_it_is_silent(reads: Reads) -> None:
    one, two = await reads.engine("one"), await reads.engine("two")
    await one.step()
    await reads.idles()
    await two.step()
    assert reads.server.connections == 1
    await reads.store.value("UPDATE fairpost.engines SET seen_at = seen_at - interval '2 minutes' WHERE id = 'one'")
    await two.step()
    await reads.server.until(lambda: reads.server.connections == 2)
    await one.step()  # it releases the mailbox
    await reads.idles(1)


async def test_a_former_owner_can_commit_nothing(reads: Reads) -> None:
    await reads.store.engine_here("one", asleep=False)
    (held,) = await mailbox_reads.take(reads.store, "one", most=10)
    await reads.store.engine_gone("one")
    await mailbox_reads.take(reads.store, "two", most=10)
    with pytest.raises(NoLongerOurs):
        await mailbox_reads.advance(reads.store, held, {"uid": 1})
    with pytest.raises(NoLongerOurs):
        await mailbox_reads.looked(reads.store, held, {"uid": 1}, begun_at=clock.now())


async def test_a_wrong_password_is_a_condition_and_sending_continues(reads: Reads) -> None:
    reads.server.passwords = {"ann": "another"}
    watch = await reads.engine()
    await watch.step()

    async def failed() -> bool:
        return (await reads.state_of_mailbox()).reason is not None

    await reads.until(failed)
    state = await reads.state_of_mailbox()
    assert state.reason is not None
    assert (state.reason.code, state.reason.params["account"]) == ("account.read_login_refused", "anna")
    assert (await reads.store.account(reads.account)).status is AccountStatus.ACTIVE
    connections = reads.server.connections
    await watch.step()
    assert reads.server.connections == connections  # it waits before it tries again
    reads.server.passwords = {}
    await reads.store.change_account("anna", {"transport": _stored(settings(reads.port, folder="inbox".upper()))})
    await reads.store.change_account("anna", {"address": "anna@other.test"})
    await watch.step()  # other settings are tried at once
    await reads.idles()
    assert (await reads.state_of_mailbox()).reason is None


@pytest.mark.parametrize("command", ["EXAMINE", "UID SEARCH", "UID FETCH"])
async def test_a_connection_that_breaks_in_the_middle_misses_nothing(
    reads: Reads, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpost.maintenance.mailboxes.FIRST_S", 0.01)
    id_ = await reads.sent()
    await (await reads.engine()).step()
    await reads.idles()
    reads.server.misdeeds[command] = None
    reads.server.inbox.add(await reads.dead(id_))
    await reads.has_bounced(id_)
    assert await reads.findings() == 1


async def test_a_mailbox_with_much_to_read_takes_turns_over_one_connection(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpost.maintenance.mailboxes.TURN", timedelta(0))
    ids = [await reads.sent() for _ in range(3)]
    await (await reads.engine()).step()
    await reads.idles()
    connections, commands = reads.server.connections, len(reads.server.commands)
    for id_ in ids:
        reads.server.inbox.add(await reads.dead(id_))
    for id_ in ids:
        await reads.has_bounced(id_)
    await reads.idles()
    assert reads.server.connections == connections
    looks = [each for each in reads.server.commands[commands:] if each.startswith("EXAMINE")]
    assert len(looks) >= len(ids)
    assert await reads.findings() == len(ids)


async def test_a_message_that_cannot_be_stored_does_not_keep_the_next_one_from_being_read(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(store: Store, raw: bytes, **more: Any) -> object:
        if b"unstorable" in raw:
            raise asyncpg.ProgramLimitExceededError("index row size exceeds the maximum")
        return await take_in(store, raw, **more)

    monkeypatch.setattr("fairpost.maintenance.mailboxes.take_in", refusing)
    id_ = await reads.sent()
    await (await reads.engine()).step()
    await reads.idles()
    reads.server.inbox.add(b"Subject: unstorable\r\n\r\nhi")
    reads.server.inbox.add(await reads.dead(id_))
    await reads.has_bounced(id_)


async def test_reading_ends_when_it_is_switched_off(reads: Reads) -> None:
    watch = await reads.engine()
    await watch.step()
    await reads.idles()
    await reads.store.change_account("anna", {"transport": {**_stored(settings(reads.port)), "read": False}})
    await watch.step()
    await reads.idles(0)


async def test_an_email_in_doubt_that_is_among_the_sent_mail_was_sent(reads: Reads) -> None:
    id_ = await reads.sent(settle=False)
    assert await reads.store.settle(reads.lease_held, id_, InDoubt(), now=NOW) == "settled"
    watch = await reads.engine()
    await watch.step()
    await reads.idles()
    await watch.ask_about_doubts()
    assert await reads.state(id_) == "in_doubt"
    clock_later = clock.now() + timedelta(seconds=20)
    with clock.stopped_at(clock_later):
        await watch.ask_about_doubts()
    assert await reads.state(id_) == "in_doubt"  # it is not there, which proves nothing
    (email,) = await reads.store.doubts(reads.account)
    reads.server.box("ann")["Gesendete Objekte"].add(f"Message-ID: {_message_id(email)}\r\n\r\nhi".encode())
    with clock.stopped_at(clock_later + timedelta(minutes=5)):
        await watch.ask_about_doubts()
    assert await reads.state(id_) == "sent"


async def in_doubt_to_resend(reads: Reads) -> EmailId:
    id_ = await reads.sent(settle=False)
    await reads.store.value("UPDATE fairpost.queue SET on_doubt = 'resend' WHERE id = $1", id_)
    assert await reads.store.settle(reads.lease_held, id_, InDoubt(), now=NOW) == "settled"
    return id_


async def test_an_email_that_is_to_be_sent_again_waits_for_two_looks_into_the_sent_mail(reads: Reads) -> None:
    watch = await reads.engine()
    await watch.step()
    await reads.idles()
    await reads.until(lambda: reads.store.value("SELECT looked_at FROM fairpost.mailbox_reads"))
    id_ = await in_doubt_to_resend(reads)
    await watch.ask_about_doubts()
    (email,) = await reads.store.doubts(reads.account)
    reads.server.box("ann")["Gesendete Objekte"].add(f"Message-ID: {_message_id(email)}\r\n\r\nhi".encode())
    await resolve_doubts(reads.store)
    assert await reads.state(id_) == "in_doubt"
    with clock.stopped_at(clock.now() + timedelta(seconds=65)):
        await watch.ask_about_doubts()
    assert await reads.state(id_) == "sent"


@pytest.mark.parametrize("hindrance", ["the reader is dead", "the mailbox cannot be read", "it was never read"])
async def test_an_email_does_not_wait_for_a_look_that_never_comes(reads: Reads, hindrance: str) -> None:
    columns = "looked_at, reason" if hindrance == "the mailbox cannot be read" else "looked_at"
    values = "now(), 'account.read_refused'" if hindrance == "the mailbox cannot be read" else "now()"
    if hindrance != "it was never read":
        await reads.store.value(
            f"INSERT INTO fairpost.mailbox_reads (account_id, {columns}) VALUES ($1, {values})", reads.account
        )
    id_ = await in_doubt_to_resend(reads)
    if hindrance == "the reader is dead":
        await resolve_doubts(reads.store)
        assert await reads.state(id_) == "in_doubt"
        await reads.store.value("UPDATE fairpost.doubtful SET since = since - interval '90 seconds'")
    await resolve_doubts(reads.store)
    assert await reads.state(id_) == "waiting"


# ── killed at every step ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "point", ["mail_fetched", "mail_fetched:2", "before_commit", "before_commit:2", "after_commit"]
)
async def test_a_reader_killed_at_any_step_misses_nothing_and_counts_once(reads: Reads, url: str, point: str) -> None:
    people = [ANN, "bob@people.example"]
    ids = [await reads.sent(each) for each in people]
    watch = await reads.engine()
    await watch.step()
    await reads.idles()
    await watch.stop()
    for id_, person in zip(ids, people, strict=True):
        raw = report(DEAD.split()[1], DEAD, recipient=person, message_id=await reads.message_id(id_))
        reads.server.inbox.add(raw)
    assert await ended(fork(_read_until_killed, url, point)) == -signal.SIGKILL
    await reads.store.engine_gone("killed")
    # PostgreSQL may still hold the killed process's locks, and an engine skips locked mailboxes until its next look.
    await reads.store.value("SELECT count(*) FROM (SELECT FROM fairpost.mailbox_reads FOR UPDATE) f")
    await (await reads.engine("next")).step()
    for id_ in ids:
        await reads.has_bounced(id_)
    assert await reads.findings() == 2
    assert await reads.day_bounces() == (2, 2, 2)


def _read_until_killed(url: str, point: str) -> None:
    async def work() -> None:
        async with Store.open(url) as store:
            await store.engine_here("killed", asleep=False)
            watch = MailboxWatch(store, reader, ReaderOptions(owner="killed"), print)
            arm(point)
            await watch.step()
            await asyncio.sleep(60)

    asyncio.run(work())


def _stored(given: SmtpSettings) -> dict[str, object]:
    from fairpost.transports.registry import write_transport

    return write_transport(given)


def _message_id(email: Outgoing) -> str:
    from fairpost.compose.message import message_id_of

    assert email.sender is not None
    return message_id_of(email, domain=email.sender.address.rpartition("@")[2])


def test_urls_of_mailboxes() -> None:
    box = parse_imap_url("imap+starttls://ann%40x.de@imap.example.com?folder=Entw%C3%BCrfe")
    assert (box.host, box.port, box.security, box.user, box.folder) == (
        "imap.example.com",
        143,
        Security.STARTTLS,
        "ann@x.de",
        "Entwürfe",
    )
