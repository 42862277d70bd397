"""The complete path to an emulated Google: a signed key, a real token, drafts, threads, limits, and faults of every
kind."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from typing import Any

import pytest

from fairpost.dev.emulate.faults import Delay, Stall, StallBody
from fairpost.dev.emulate.mailbox import User
from fairpost.dev.emulate.server import GmailEmulator
from fairpost.model.email import Attachment, Earlier, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Report, Step
from fairpost.transports.gmail.client import JSON_BYTES_MAX
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.oauth.secrets import RefreshSecret, write_refresh_secret
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.oauth.sources import token_source
from fairpost.transports.port import Evidence, Fate
from tests.compose.strategies import content_of
from tests.transports.gmail.sending import ACCOUNT, ANN, EMAIL, transport_to, yes

SALES = "sales@post.test"


@dataclass(frozen=True)
class Emulated:
    emulator: GmailEmulator

    @property
    def url(self) -> str:
        return self.emulator.url

    def is_silent(self, path: str) -> bool:
        return path.endswith("/drafts/send") and any(
            isinstance(fault.action, Stall | StallBody | Delay) and (fault.times is None or struck < fault.times)
            for fault, _, struck in self.emulator.faults.listed()
        )


@asynccontextmanager
async def gmail(**options: Any) -> AsyncIterator[tuple[GmailEmulator, GmailTransport]]:
    users = options.pop("users", [SALES])
    async with GmailEmulator(users=users, **options) as emulator:
        settings = OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT)
        tokens = token_source(settings, json.dumps(emulator.service_account_info()), mailbox=SALES)
        async with transport_to(Emulated(emulator), tokens, silence_s=0.5) as transport:
            yield emulator, transport


async def drafted(transport: GmailTransport) -> Evidence:
    evidence = await transport.draft(ACCOUNT, EMAIL)
    assert not isinstance(evidence, Report), evidence
    return evidence


def is_sent(report: Report) -> bool:
    return report.reached is Reached.REPLIED and report.reply is not None and report.reply.code == 200


async def test_it_goes_out_and_comes_back_with_the_ids_of_gmail() -> None:
    async with gmail() as (emulator, transport):
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        (sent,) = emulator.sent()
        assert is_sent(report)
        assert report.message_id == sent.message_id
        assert report.message_id != sent.original_message_id
        assert report.thread_id == sent.thread_id
        assert sent.to == ("ann@there.test",)
        assert dict(sent.headers)["X-Fairpost-Id"] == "1234abcd"
        assert emulator.drafts(SALES) == []


async def test_a_persons_refresh_token_will_do() -> None:
    async with GmailEmulator(users=[SALES]) as emulator:
        given = emulator.refresh_token(SALES)
        settings = OauthSettings(
            kind=OauthKind.GOOGLE_PERSON, client_id=given["client_id"], token_uri=given["token_uri"]
        )
        secret = write_refresh_secret(
            RefreshSecret(refresh_token=given["refresh_token"], client_secret=given["client_secret"])
        )
        async with transport_to(Emulated(emulator), token_source(settings, secret, mailbox=SALES)) as transport:
            assert is_sent(await transport.send(ACCOUNT, EMAIL, permission=yes))


async def test_hidden_recipients_get_it_and_are_not_shown() -> None:
    people = (ANN, Recipient(kind="cc", address="bob@there.test"), Recipient(kind="bcc", address="cem@there.test"))
    mail = replace(EMAIL, recipients=people, envelope=tuple(person.address for person in people))
    async with gmail() as (emulator, transport):
        assert is_sent(await transport.send(ACCOUNT, mail, permission=yes))
        assert is_sent(await transport.send(ACCOUNT, replace(mail, envelope=("cem@there.test",)), permission=yes))
        first, second = emulator.sent()
        assert (first.to, first.cc, first.bcc) == (("ann@there.test",), ("bob@there.test",), ("cem@there.test",))
        assert second.recipients == ("cem@there.test",)


async def test_a_conversation_stays_one_thread() -> None:
    async with gmail() as (emulator, transport):
        first = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert first.message_id is not None
        follows = Earlier(message_id=first.message_id, thread_id=first.thread_id)
        second = await transport.send(ACCOUNT, replace(EMAIL, id=EmailId(8), follows=follows), permission=yes)
        assert second.message_id is not None
        follows = Earlier(message_id=second.message_id, thread_id=second.thread_id, references=(first.message_id,))
        again = replace(EMAIL, id=EmailId(9), follows=follows, content=replace(content_of("Re: Hello"), id=2))
        third = await transport.send(ACCOUNT, again, permission=yes)
        assert {sent.thread_id for sent in emulator.sent()} == {first.thread_id}
        assert third.thread_id == first.thread_id
        assert dict(emulator.sent()[2].headers)["References"] == f"{first.message_id} {second.message_id}"


async def test_a_conversation_that_was_deleted_is_followed_anyway() -> None:
    follows = Earlier(message_id="<gone@mail.gmail.com>", thread_id="00000000deadbeef")
    async with gmail() as (_, transport):
        assert is_sent(await transport.send(ACCOUNT, replace(EMAIL, follows=follows), permission=yes))
        follows = replace(follows, thread_id="not one of Gmail's")
        assert is_sent(await transport.send(ACCOUNT, replace(EMAIL, follows=follows), permission=yes))


async def test_a_large_message_is_uploaded_byte_for_byte() -> None:
    data = bytes(range(256)) * (JSON_BYTES_MAX // 200)
    file = Attachment(filename="a.bin", content_type="application/octet-stream", data=data)
    mail = replace(EMAIL, content=replace(content_of(attachments=(file,)), id=5))
    async with gmail() as (emulator, transport):
        assert is_sent(await transport.send(ACCOUNT, mail, permission=yes))
        (sent,) = emulator.sent()
        received = message_from_bytes(sent.raw)
        assert [part.get_payload(decode=True) for part in received.walk() if part.get_filename()] == [data]
        assert received.defects == []


async def test_an_expired_token_is_renewed_by_the_way() -> None:
    async with gmail() as (emulator, transport):
        emulator.faults.add(route="drafts.send", action="expire-tokens", nth=1)
        assert is_sent(await transport.send(ACCOUNT, EMAIL, permission=yes))
        assert len(emulator.sent()) == 1


async def test_a_revoked_mailbox_is_about_the_account() -> None:
    async with gmail(users=[User(address=SALES, delegated=False)]) as (_, transport):
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
        assert report.reply is not None
        assert report.reply.code == 401
        assert report.reply.text.startswith("unauthorized_client: ")
        assert "Domain-wide delegation" not in report.reply.text, "a stored reply contains no advice"


async def test_a_mailbox_without_gmail_is_reported_in_googles_words() -> None:
    async with gmail(users=[User(address=SALES, mail_enabled=False)]) as (_, transport):
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert report.reply == (400, "failedPrecondition: Mail service not enabled")


async def test_at_the_limit_of_the_day_it_is_said_when_to_come_again() -> None:
    async with gmail(messages_per_day=1) as (emulator, transport):
        assert is_sent(await transport.send(ACCOUNT, EMAIL, permission=yes))
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert report.reply is not None
        assert report.reply.code == 429
        assert report.retry_at is not None
        assert report.retry_at > datetime.now(UTC) + timedelta(hours=20)
        assert emulator.drafts(SALES) == []


ACCIDENTS = [
    {"action": "drop"},
    {"action": "drop", "after": True},
    {"action": "stall"},
    {"action": "stall", "after": True},
    {"action": "cut-body"},
    {"action": "stall-body"},
    {"action": "garbage"},
    {"action": "garbage", "after": True},
    {"action": "error", "status": 503},
    {"action": "error", "status": 503, "after": True},
    {"action": "error", "status": 502, "after": True},
    {"action": "error", "status": 429},
    {"action": "error", "status": 400},
    {"action": "delay", "seconds": 0.6},
    {"action": "delay", "seconds": 0.6, "after": True},
]


@pytest.mark.parametrize("times", [1, 2, 9])
@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: "-".join(map(str, accident.values())))
async def test_after_any_accident_it_is_sent_once_or_known_to_be_unsent_or_in_doubt(
    accident: dict[str, Any], times: int
) -> None:
    async with gmail() as (emulator, transport):
        emulator.faults.add(route="drafts.send", times=times, **accident)
        evidence = await drafted(transport)
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        if accident["action"] == "delay":
            await asyncio.sleep(0.7)  # the late request takes effect
        assert len(emulator.sent()) <= 1
        if report.reached is Reached.AFTER_DOT:
            emulator.faults.clear()
            answer = await transport.ask(ACCOUNT, EMAIL, evidence)
            assert answer.fate is (Fate.SENT if emulator.sent() else Fate.UNSENT)
        else:
            assert is_sent(report) == (len(emulator.sent()) == 1)
            assert emulator.drafts(SALES) == []


@pytest.mark.parametrize("after", [True, False])
async def test_a_recipient_suppressed_late_is_removed_from_the_draft(after: bool) -> None:
    bob = Recipient(kind="to", address="bob@there.test")
    both = replace(EMAIL, recipients=(ANN, bob), envelope=(ANN.address, bob.address))
    async with gmail() as (emulator, transport):
        emulator.faults.add(route="drafts.send", action="drop", after=after, nth=1)
        evidence = await transport.draft(ACCOUNT, both)
        assert not isinstance(evidence, Report)
        report = await transport.send_draft(ACCOUNT, replace(both, envelope=(ANN.address,)), evidence, permission=yes)
        assert is_sent(report)
        (sent,) = emulator.sent()
        assert sent.recipients == (ANN.address,)
        assert sent.thread_id == report.thread_id
