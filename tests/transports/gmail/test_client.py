"""The client against a server on a raw socket: its requests, and what it knows after any failure."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairpost.transports.gmail.answers import Draft, Failure, Mail, NoAnswer, NoToken, Refusal, Withheld
from fairpost.transports.gmail.client import ANSWER_BYTES_MAX, JSON_BYTES_MAX, GmailClient, Timeouts
from fairpost.transports.oauth.errors import Refused, Unreachable
from tests.transports.gmail.google import Done, Fault, Google, Tokens, answer_of, error, google, http
from tests.transports.gmail.sending import KnowingClient

RAW = b"From: sales@post.test\r\nTo: ann@there.test\r\nX-Fairpost-Id: 7\r\n\r\nHello\r\n"


@asynccontextmanager
async def client_of(
    server: Google, tokens: Tokens | None = None, times: Timeouts | None = None
) -> AsyncIterator[GmailClient]:
    client = KnowingClient(tokens or Tokens(), server, timeouts=times)
    try:
        yield client
    finally:
        await client.close()


def yes() -> bool:
    return True


async def test_a_draft_is_made_asked_for_sent_and_read_over_one_connection() -> None:
    async with google() as server, client_of(server) as client:
        draft = await client.create_draft(RAW, thread_id=None)
        assert isinstance(draft, Draft)
        assert server.drafts[draft.id][0] == RAW
        assert await client.get_draft(draft.id) == draft
        sent = await client.send_draft(draft.id, permission=yes)
        assert isinstance(sent, Mail)
        assert sent.is_sent
        read = await client.get_message(sent.id, ["Message-ID"])
        assert isinstance(read, Mail)
        assert read.values("message-id") == []  # the message had none
        thread = await client.get_thread(draft.thread_id or "", ["X-Fairpost-Id", "Message-ID"])
        assert isinstance(thread, tuple)
        assert thread[0].values("X-Fairpost-Id") == ["7"]
        assert server.requests[-1].query == {"format": ["metadata"], "metadataHeaders": ["X-Fairpost-Id", "Message-ID"]}
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer token-0"}
        assert server.connections == 1


async def test_a_follower_names_its_thread() -> None:
    async with google() as server, client_of(server) as client:
        assert await client.create_draft(RAW, thread_id="t9") == Draft(id="r101", thread_id="t9")


async def test_a_deleted_draft_is_gone() -> None:
    async with google() as server, client_of(server) as client:
        draft = await client.create_draft(RAW)
        assert isinstance(draft, Draft)
        assert await client.delete_draft(draft.id) is None
        for gone in (await client.get_draft(draft.id), await client.delete_draft(draft.id)):
            assert isinstance(gone, Refusal)
            assert (gone.status, gone.reason) == (404, "notFound")
        assert isinstance(await client.send_draft(draft.id, permission=yes), Refusal)


async def test_a_message_too_long_for_json_is_uploaded_with_its_thread() -> None:
    raw = RAW + b"x" * JSON_BYTES_MAX
    async with google() as server, client_of(server) as client:
        server.fail("drafts", Fault(says=http(200, {"id": "r1", "message": {"threadId": "t1"}}), done=Done.NEVER))
        assert await client.create_draft(raw, thread_id="t1") == Draft(id="r1", thread_id="t1")
        (request,) = server.requests
        assert request.path == "/upload/gmail/v1/users/me/drafts"
        assert request.query == {"uploadType": ["multipart"]}
        kind, _, boundary = request.headers["content-type"].partition("; boundary=")
        assert kind == "multipart/related"
        _, metadata, message, end = request.body.split(f"--{boundary}".encode())
        assert json.loads(metadata.partition(b"\r\n\r\n")[2]) == {"message": {"threadId": "t1"}}
        assert message == b"\r\nContent-Type: message/rfc822\r\n\r\n" + raw + b"\r\n"
        assert end == b"--\r\n"


async def test_a_closed_client_opens_again() -> None:
    async with google() as server, client_of(server) as client:
        await client.profile()
        await client.close()
        assert await client.profile() == "sales@post.test"
        assert await client.aliases() == ("sales@post.test",)
        assert server.connections == 2


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────

EXPIRED = http(401, error(401, "authError", "Invalid Credentials"))


async def test_a_refused_token_is_forgotten_and_the_call_made_once_more() -> None:
    tokens = Tokens()
    async with google() as server, client_of(server, tokens) as client:
        draft = await client.create_draft(RAW)
        assert isinstance(draft, Draft)
        server.fail("send", Fault(done=Done.NEVER, says=EXPIRED))
        assert isinstance(await client.send_draft(draft.id, permission=yes), Mail)
        assert tokens.forgotten == 1
        assert [request.headers["authorization"] for request in server.requests[1:]] == [
            "Bearer token-0",
            "Bearer token-1",
        ]
        assert len(server.sent) == 1


async def test_a_second_refusal_is_the_answer() -> None:
    tokens = Tokens()
    async with google() as server, client_of(server, tokens) as client:
        server.fail("profile", *[Fault(done=Done.NEVER, says=EXPIRED)] * 3)
        refused = await client.profile()
        assert isinstance(refused, Refusal)
        assert refused.reply == (401, "authError: Invalid Credentials")
        assert (tokens.forgotten, len(server.requests)) == (1, 2)


async def test_permission_is_asked_again_before_the_call_is_made_again() -> None:
    async with google() as server, client_of(server) as client:
        draft = await client.create_draft(RAW)
        assert isinstance(draft, Draft)
        server.fail("send", Fault(done=Done.NEVER, says=EXPIRED))
        answers = iter([True, False])
        assert await client.send_draft(draft.id, permission=lambda: next(answers)) == Withheld()
        assert server.sent == []


@pytest.mark.parametrize(
    ("error_", "found"),
    [
        (
            Refused("invalid_grant", "No token.", "Ask."),
            NoToken(reason="invalid_grant", message="No token.", advice="Ask."),
        ),
        (Unreachable("The token server is away."), NoAnswer(error="The token server is away.", has_left=False)),
    ],
)
async def test_without_a_token_nothing_is_asked(error_: Refused | Unreachable, found: Failure) -> None:
    async with google() as server, client_of(server, Tokens(error_)) as client:
        assert await client.send_draft("r1", permission=yes) == found
        assert server.requests == []


# ── permission and failures ──────────────────────────────────────────────────────────────────────────────────────────


async def test_without_permission_the_request_is_never_complete() -> None:
    async with google() as server, client_of(server) as client:
        draft = await client.create_draft(RAW)
        assert isinstance(draft, Draft)
        assert await client.send_draft(draft.id, permission=lambda: False) == Withheld()
        await asyncio.sleep(0.05)
        assert server.sent == []
        assert isinstance(await client.send_draft(draft.id, permission=yes), Mail)


async def test_permission_is_asked_after_the_connection_is_there() -> None:
    async with google() as server, client_of(server) as client:
        seen = []

        def permission() -> bool:
            seen.append(server.connections)
            return True

        await client.send_draft("r1", permission=permission)
        assert seen == [1]


async def test_an_unreachable_server_got_nothing() -> None:
    async with google() as server:
        pass
    async with client_of(server) as client:
        found = await client.send_draft("r1", permission=yes)
        assert isinstance(found, NoAnswer)
        assert not found.has_left


async def test_after_the_last_byte_the_outcome_is_unknown() -> None:
    async with google() as server, client_of(server) as client:
        for fault in (Fault(cut_at=0), Fault(stalls=True), Fault(cut_at=20), Fault(cut_at=40, stalls=True)):
            server.fail("send", fault)
            found = await client.send_draft("r1", permission=yes)
            assert isinstance(found, NoAnswer), fault
            assert found.has_left
            assert found.error


async def test_a_drip_of_bytes_does_not_keep_us_forever() -> None:
    async with google() as server, client_of(server, times=Timeouts(total_s=0.3)) as client:
        server.fail("profile", Fault(says=b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", drips=True))
        found = await client.profile()
        assert isinstance(found, NoAnswer)
        assert found.has_left


GARBAGE = [
    b"",
    b"\r\n",
    b"HELLO\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 999 \xff\xfe\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"A" * 200_000,
    b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 200_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00",
    answer_of(200, b"null"),
    answer_of(200, b'{"id": 7, "labelIds": 3}'),
    answer_of(200, b'{"id": "", "message": []}'),
    answer_of(502, b"<html><title>502 Bad Gateway</title>"),
    answer_of(403, b'{"error": "forbidden"}'),
    answer_of(400, b'{"error": {"errors": [[]], "message": 3}}'),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_no_garbage_is_an_error_of_ours(garbage: bytes) -> None:
    async with google() as server, client_of(server) as client:
        server.fail("*", *[Fault(says=garbage, done=Done.NEVER)] * 7)
        for outcome in (
            await client.send_draft("r1", permission=yes),
            await client.create_draft(RAW),
            await client.get_draft("r1"),
            await client.get_message("m1", ["Message-ID"]),
            await client.profile(),
        ):
            assert isinstance(outcome, NoAnswer | Refusal)
            assert not (isinstance(outcome, Refusal) and outcome.is_settled)
            assert not isinstance(outcome, NoAnswer) or outcome.has_left


async def test_an_answer_without_end_is_not_read_forever() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * 9_000_000
    async with google() as server, client_of(server) as client:
        server.fail("profile", Fault(says=endless))
        found = await client.profile()
        assert isinstance(found, NoAnswer)
        assert str(ANSWER_BYTES_MAX) in found.error


async def test_no_token_is_ever_in_words() -> None:
    tokens = Tokens("geheim")
    async with google() as server, client_of(server, tokens) as client:
        server.fail("*", Fault(cut_at=0), Fault(says=b"geh"))
        shown = f"{await client.profile()!r} {await client.profile()!r} {client!r} {await tokens.token()!r}"
        assert "geheim" not in shown
