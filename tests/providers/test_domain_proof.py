"""Proof of domain ownership, looked up on a local DNS server that answers, refuses, stays silent, or sends garbage."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import dns.asyncresolver
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.policy.domain_health import SHOWN_CHARS_MAX
from fairpost.providers.domain_proof import (
    LIMIT_S,
    SEEN_MAX,
    Found,
    Proof,
    WrongDomain,
    find_proof,
    proof_record,
    provable_domain,
)
from tests.facts import missing

TOKEN = "k3yB9xQ2mW7_fH-aZ0cD"
VALUE = f"fairpost-domain={TOKEN}"
NAME = "_fairpost.acme.test."
SHORT_S = 0.4  # if no usable answer arrives
HANG_S = 30

Reply = Callable[[dns.message.Message], bytes | None]
"""What the server sends back, as bytes; None: nothing."""


@dataclass
class Nameserver(asyncio.DatagramProtocol):
    reply: Reply
    asked: list[str] = field(default_factory=list)
    resolver: dns.asyncresolver.Resolver = field(default_factory=lambda: dns.asyncresolver.Resolver(configure=False))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.resolver.nameservers = ["127.0.0.1"]
        self.resolver.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self._answered(data)
        if answer is not None:
            self._transport.sendto(answer, addr)

    def _answered(self, data: bytes) -> bytes | None:
        query = dns.message.from_wire(data)
        self.asked.append(f"{query.question[0].name} {query.question[0].rdtype.name}")
        return self.reply(query)


@asynccontextmanager
async def nameserver(reply: Reply, port: int = 0) -> AsyncIterator[Nameserver]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Nameserver(reply), local_addr=("127.0.0.1", port)
    )
    try:
        yield server
    finally:
        transport.close()


def texts(*records: str, at: str = NAME) -> Callable[[dns.message.Message], bytes]:
    """Records as in a zone file: each is one or more quoted strings."""

    def reply(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        answer.answer.append(dns.rrset.from_text(at, 300, "IN", "TXT", *records))
        return answer.to_wire()

    return reply


def rcode(code: dns.rcode.Rcode) -> Reply:
    def reply(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        answer.set_rcode(code)
        return answer.to_wire()

    return reply


def truncated(query: dns.message.Message) -> bytes:
    answer = dns.message.make_response(query)
    answer.flags |= dns.flags.TC
    return answer.to_wire()


async def proof(reply: Reply, domain: str = "acme.test", *, limit_s: float = HANG_S) -> Proof:
    async with nameserver(reply) as server:
        found = await find_proof(domain, TOKEN, resolver=server.resolver, limit_s=limit_s)
        assert server.asked, "this server sent the answer"
        return found


# ── verified or not ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "records",
    [
        [f'"{VALUE}"'],
        ['"v=spf1 -all"', f'"{VALUE}"', '"other"'],
        [f'"{VALUE[:7]}" "{VALUE[7:20]}" "{VALUE[20:]}"'],
    ],
    ids=["alone", "among others", "in pieces"],
)
async def test_the_record_proves_the_domain(records: list[str]) -> None:
    found = await proof(texts(*records))
    assert found.found is Found.PROVEN
    assert found.is_proven
    assert found.words == "acme.test is verified"


async def test_one_name_is_asked_for_and_no_other() -> None:
    async with nameserver(texts(f'"{VALUE}"')) as server:
        server.resolver.search = [dns.name.from_text("evil.test")]
        assert (await find_proof("ACME.test.", TOKEN, resolver=server.resolver)).is_proven
        assert server.asked == [f"{NAME} TXT"]


@pytest.mark.parametrize(
    "text",
    [
        VALUE.lower(),
        VALUE.upper(),
        VALUE[:-1],
        f"{VALUE}x",
        f" {VALUE}",
        f"{VALUE} ",
        TOKEN,
        "fairpost-domain=",
        f"fairpost-domain= {TOKEN}",
        f"x {VALUE}",
        "",
    ],
)
async def test_the_token_must_be_the_very_same(text: str) -> None:
    found = await proof(texts(f'"{text}"'))
    assert (found.found, found.seen) == (Found.NOT_FOUND, (text,))
    assert missing(found.words, f'"{text}"', f'_fairpost.acme.test TXT "{VALUE}"') == []


async def test_two_records_do_not_make_one() -> None:
    found = await proof(texts(f'"{VALUE[:20]}"', f'"{VALUE[20:]}"'))
    assert found.found is Found.NOT_FOUND


async def test_an_answer_about_another_name_proves_nothing() -> None:
    assert not (await proof(texts(f'"{VALUE}"', at="_fairpost.other.test."))).is_proven


@pytest.mark.parametrize("reply", [rcode(dns.rcode.NXDOMAIN), rcode(dns.rcode.NOERROR)], ids=["no name", "no record"])
async def test_where_nothing_is_the_record_to_publish_is_reported(reply: Reply) -> None:
    found = await proof(reply)
    assert (found.found, found.seen) == (Found.NOT_FOUND, ())
    assert f'_fairpost.acme.test TXT "{VALUE}"' in found.words


async def test_an_alias_of_the_owners_is_followed() -> None:
    def reply(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        answer.answer.append(dns.rrset.from_text(NAME, 300, "IN", "CNAME", "proofs.acme.test."))
        answer.answer.append(dns.rrset.from_text("proofs.acme.test.", 300, "IN", "TXT", f'"{VALUE}"'))
        return answer.to_wire()

    assert (await proof(reply)).is_proven


async def test_text_from_strangers_is_shortened_and_harmless() -> None:
    long = await proof(texts(f'"\\027[31m\\010\\255{"x" * 240}" "{"y" * 200}"'))
    assert [len(text) for text in long.seen] == [SHOWN_CHARS_MAX + 1]
    assert long.words.isprintable()
    short = await proof(texts(*[f'"{each:02}"' for each in range(20)]))
    assert short.seen == ("00", "01", "02", "03", "04")
    assert len(short.seen) == SEEN_MAX


# ── DNS in trouble ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "reply",
    [
        rcode(dns.rcode.SERVFAIL),
        rcode(dns.rcode.REFUSED),
        lambda query: None,
        lambda query: b"\x00",
        lambda query: b"\xff" * 512,
        lambda query: query.id.to_bytes(2, "big") + b"\x81\x80" + b"\xff" * 40,
        lambda query: texts(f'"{VALUE}"')(query)[:-8],
        lambda query: (query.id ^ 1).to_bytes(2, "big") + texts(f'"{VALUE}"')(query)[2:],
        truncated,
    ],
    ids=[
        "SERVFAIL",
        "REFUSED",
        "silence",
        "a byte",
        "noise",
        "noise with our id",
        "cut off",
        "another domain's id",
        "truncated, and no TCP",
    ],
)
async def test_a_dns_in_trouble_proves_nothing_and_disproves_nothing(reply: Reply) -> None:
    async with asyncio.timeout(HANG_S):
        found = await proof(reply, limit_s=SHORT_S)
    assert found.found is Found.DNS_ERROR
    assert found.error
    assert "_fairpost.acme.test" in found.words
    assert "127.0.0.1" not in found.words  # the operator's DNS servers are not revealed


async def test_a_truncated_answer_is_asked_for_over_tcp() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(2), "big")
        answer = texts(f'"{VALUE}"')(dns.message.from_wire(await reader.readexactly(size)))
        writer.write(len(answer).to_bytes(2, "big") + answer)
        await writer.drain()
        writer.close()

    async with AsyncExitStack() as stack:
        for _ in range(20):
            tcp = await stack.enter_async_context(await asyncio.start_server(serve, "127.0.0.1", 0))
            try:
                server = await stack.enter_async_context(nameserver(truncated, tcp.sockets[0].getsockname()[1]))
                break
            except OSError:  # the port is in use for UDP
                continue
        assert (await find_proof("acme.test", TOKEN, resolver=server.resolver)).is_proven


async def test_the_check_never_exceeds_its_time_limit() -> None:
    """Several silent servers share the time of one."""
    async with nameserver(lambda query: None) as server, asyncio.timeout(HANG_S):
        server.resolver.nameservers = ["127.0.0.1"] * 5
        server.resolver.timeout = 60
        found = await find_proof("acme.test", TOKEN, resolver=server.resolver, limit_s=SHORT_S)
    assert f"{SHORT_S} s" in (found.error or "")
    assert LIMIT_S == 5


# ── valid domains ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("domain", "written"),
    [
        ("example.com", "example.com"),
        ("Example.COM.", "example.com"),
        ("mail.example.co.uk", "mail.example.co.uk"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("bücher。example", "xn--bcher-kva.example"),
        ("r3---sn.example", "r3---sn.example"),
        ("1.example", "1.example"),
    ],
)
def test_a_domain_is_written_as_the_dns_does(domain: str, written: str) -> None:
    assert provable_domain(domain) == written
    assert proof_record(domain, TOKEN).name == f"_fairpost.{written}"


async def test_a_domain_in_another_script_is_asked_for_in_ascii() -> None:
    found = await proof(texts(f'"{VALUE}"', at="_fairpost.xn--bcher-kva.example."), "bücher.example")
    assert found.is_proven
    assert found.domain == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    "domain",
    [
        "",
        ".",
        "..",
        "a..example",
        ".example.com",
        "example.com..",
        "-a.example",
        "a-.example",
        "a_b.example",
        "a b.example",
        "a\n.example",
        "a\0.example",
        "*.example.com",
        "ann@example.com",
        "https://example.com",
        "127.0.0.1",
        "[127.0.0.1]",
        "::1",
        "x" * 64 + ".example",
        "ü" * 64 + ".example",
        "a." * 122 + "example",
        "xn--.example",
        "xn--a.example",
        "\u0301x.example",
        "١٢٧.٠.٠.١",
    ],
)
async def test_an_invalid_domain_is_refused_before_any_lookup(domain: str) -> None:
    async with nameserver(texts(f'"{VALUE}"')) as server:
        with pytest.raises(WrongDomain, match=r"example\.com"):
            await find_proof(domain, TOKEN, resolver=server.resolver)
        assert server.asked == []


@pytest.mark.parametrize("domain", ["com", "COM.", "localhost", "xn--zckzah", "テスト"])
def test_a_top_level_domain_cannot_be_owned(domain: str) -> None:
    with pytest.raises(WrongDomain, match=r"example\."):
        provable_domain(domain)


@given(st.text(max_size=80) | st.from_regex(r"[a-zA-Zäß0-9-]{1,10}(\.[a-zA-Zäß0-9-]{1,10}){0,4}\.?", fullmatch=True))
def test_any_text_is_a_domain_of_at_least_two_labels_or_refused(text: str) -> None:
    try:
        written = provable_domain(text)
    except WrongDomain:
        return
    assert written.isascii()
    assert written == written.lower()
    assert "." in written
    assert len(f"_fairpost.{written}") <= 253
    assert provable_domain(written) == written


@pytest.mark.parametrize("token", ["", "short", "a b" * 10, 'x"' * 10, "x" * 201, "ü" * 20])
def test_a_token_that_could_be_guessed_or_misread_is_a_mistake_of_ours(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        proof_record("acme.test", token)
