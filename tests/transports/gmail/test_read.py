"""Reading through the Gmail API: from the history, around ids that are too old, gaps and repetitions."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from fairpost.dev.emulate.faults import Error, Fault
from fairpost.dev.emulate.server import GmailEmulator
from fairpost.transports.gmail.client import GmailClient
from fairpost.transports.gmail.read import GmailReader
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.oauth.sources import token_source
from fairpost.transports.reading import Found, Position, Unreadable
from tests.returns.mails import mail

SALES = "sales@post.test"


@asynccontextmanager
async def reading() -> AsyncIterator[tuple[GmailEmulator, GmailReader]]:
    async with GmailEmulator(users=[SALES, "other@post.test"]) as emulator:
        settings = OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT)
        tokens = token_source(settings, json.dumps(emulator.service_account_info()), mailbox=SALES)
        reader = GmailReader(GmailClient(tokens, base_url=emulator.url), mailbox=SALES)
        try:
            yield emulator, reader
        finally:
            await reader.close()


async def look(reader: GmailReader, position: Position | None, *, since: datetime | None = None) -> list[Found]:
    return [found async for found in reader.look(position, since=since or datetime.now(UTC) - timedelta(days=1))]


def subjects(found: list[Found]) -> list[str]:
    lines = [line for each in found if each.raw for line in each.raw.decode().splitlines()]
    return [line.removeprefix("Subject: ") for line in lines if line.startswith("Subject: ")]


def receive(emulator: GmailEmulator, *names: str) -> None:
    for name in names:
        emulator.mailboxes.receive(SALES, mail("hello", subject=name))
        emulator.mailboxes.receive("other@post.test", mail("hello"))  # ids in one mailbox have gaps


async def test_the_first_look_begins_at_the_present_and_later_ones_find_what_was_added() -> None:
    async with reading() as (emulator, reader):
        receive(emulator, "old")
        first = await look(reader, None)
        assert subjects(first) == []
        receive(emulator, "one", "two")
        second = await look(reader, first[-1].position)
        assert subjects(second) == ["one", "two"]
        assert subjects(await look(reader, second[-1].position)) == []


async def test_the_position_moves_when_the_look_is_at_its_end() -> None:
    async with reading() as (emulator, reader):
        begin = (await look(reader, None))[-1].position
        receive(emulator, "one", "two")
        *mails, last = await look(reader, begin)
        assert [each.position for each in mails] == [begin, begin]
        assert last.position != begin


async def test_own_mail_and_drafts_are_left_out_and_so_is_what_was_deleted() -> None:
    async with reading() as (emulator, reader):
        begin = (await look(reader, None))[-1].position
        raw = b"From: sales@post.test\r\nTo: ann@x.test\r\nSubject: ours\r\n\r\nhi\r\n"
        emulator.mailboxes.send(SALES, raw, thread_id=None)
        emulator.mailboxes.create_draft(SALES, raw, thread_id=None)
        receive(emulator, "gone", "kept")
        box = emulator.mailboxes.box(SALES)
        box.forget(next(each for each in box.messages.values() if b"Subject: gone" in each.raw))
        assert subjects(await look(reader, begin)) == ["kept"]


async def test_a_message_that_google_lists_twice_comes_once() -> None:
    async with reading() as (emulator, reader):
        begin = (await look(reader, None))[-1].position
        receive(emulator, "one", "two")
        emulator.mailboxes.repeat_history(SALES)
        assert subjects(await look(reader, begin)) == ["one", "two"]


async def test_a_long_history_is_read_page_by_page() -> None:
    async with reading() as (emulator, reader):
        begin = (await look(reader, None))[-1].position
        names = [f"mail {n}" for n in range(501)]
        for name in names:
            emulator.mailboxes.receive(SALES, f"Subject: {name}\r\n\r\nhi\r\n".encode())
        assert subjects(await look(reader, begin)) == names


async def test_an_id_that_is_too_old_leads_to_what_arrived_since_the_last_look() -> None:
    async with reading() as (emulator, reader):
        begin = (await look(reader, None))[-1].position
        receive(emulator, "one", "two")
        emulator.mailboxes.forget_history(SALES)
        found = await look(reader, begin)
        assert sorted(subjects(found)) == ["one", "two"]
        receive(emulator, "three")
        assert subjects(await look(reader, found[-1].position)) == ["three"]
        emulator.mailboxes.forget_history(SALES)
        later = datetime.now(UTC) + timedelta(days=1)
        assert subjects(await look(reader, found[-1].position, since=later)) == []


async def test_the_position_of_another_mailbox_does_not_count() -> None:
    async with reading() as (emulator, reader):
        receive(emulator, "one")
        assert subjects(await look(reader, {"where": "another", "history_id": "1"})) == []


async def test_a_message_that_google_never_delivers_can_be_left_out() -> None:
    async with reading() as (emulator, reader):
        begin = (await look(reader, None))[-1].position
        receive(emulator, "one", "two")
        broken = Error(status=500, reason="backendError", message="no", domain="global")
        emulator.faults.add(Fault(route="messages.get", times=1, action=broken))
        with pytest.raises(Unreadable) as told:
            await look(reader, begin)
        assert told.value.beyond is not None
        found = await look(reader, told.value.beyond)
        assert subjects(found) == ["two"]
        assert "without" not in found[-1].position


@pytest.mark.parametrize(("status", "code"), [(503, "account.read_unreachable"), (403, "account.read_refused")])
async def test_a_google_that_does_not_answer_is_a_condition(status: int, code: str) -> None:
    async with reading() as (emulator, reader):
        begin = (await look(reader, None))[-1].position
        emulator.faults.add(
            Fault(
                route="history.list",
                action=Error(
                    status=status,
                    reason="backendError" if status == 503 else "forbidden",
                    message="no",
                    domain="global",
                ),
            )
        )
        with pytest.raises(Unreadable) as unreadable:
            await look(reader, begin)
        assert unreadable.value.code == code
