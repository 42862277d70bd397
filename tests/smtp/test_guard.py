"""A guarded connection only goes to checked addresses: real sockets, and a resolver that lies."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

import pytest

from fairpost.model.message import Message
from fairpost.model.report import Reached, Report, Step
from fairpost.policy.networks import objection
from fairpost.smtp.client import Connection
from fairpost.smtp.connecting import Barred
from fairpost.smtp.courier import Courier, Reuse
from fairpost.smtp.guard import ADDRESSES_MAX, NetworkGuard, look_up
from fairpost.smtp.server import Security, Server, Timeouts
from tests.facts import missing
from tests.peers.certificates import OTHER_HOST, Certificate, Certificates
from tests.smtp.scripted_server import Script, deaf, scripted

MESSAGE = Message(
    sender="me@example.com", recipients=("ann@example.com",), message_id="<1@x>", data=b"Subject: x\r\n\r\nhello\r\n"
)
LOOPBACK = (ip_network("127.0.0.0/8"),)
ELSEWHERE = "127.0.0.3"  # the guards here consider it public; nothing responds there
AS_PUBLIC = (ip_network("127.0.0.3/32"),)
HASTE = Timeouts(connect_s=0.2)  # for servers that do not answer
PATIENCE = Timeouts()


@dataclass
class Dns:
    """Answers each query with the next answer, and repeats the last one."""

    answers: Sequence[Sequence[str]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def guard_at(port: int, **given: object) -> NetworkGuard:
    return NetworkGuard(ports=frozenset({port}), **given)  # type: ignore[arg-type]


async def send(
    port: int,
    guard: NetworkGuard | None,
    *,
    host: str = "127.0.0.1",
    times: int = 1,
    security: Security = Security.NONE,
    ca: Certificates | None = None,
    timeouts: Timeouts = PATIENCE,
) -> list[Report]:
    """Uses a new connection for each."""
    server = Server(
        host=host,
        port=port,
        security=security,
        ca_file=str(ca.ca) if ca else None,
        timeouts=timeouts,
        guard=guard,
    )
    courier = Courier(server, reuse=Reuse(messages_max=1))
    try:
        return [await courier.send(MESSAGE, permission=lambda: True) for _ in range(times)]
    finally:
        await courier.close()


def is_sent(report: Report) -> bool:
    return report.reached is Reached.REPLIED and report.reply is not None and report.reply.code == 250


# The guard's name for addresses of this machine.
THIS_MACHINE = [kind for ip in ("127.0.0.1", "0.0.0.0", "::1", "::") if (kind := objection(ip_address(ip), ()))]


def is_barred(report: Report) -> bool:
    return (report.reached, report.step, report.reply) == (Reached.UNTOUCHED, Step.CONNECT, None) and any(
        kind in (report.error or "") for kind in THIS_MACHINE
    )


async def test_a_guarded_client_does_not_go_to_this_machine() -> None:
    script = Script()
    async with scripted(script) as port:
        [report] = await send(port, guard_at(port))
        assert is_barred(report)
        assert missing(report.error, "127.0.0.1", "loopback") == []
        assert script.connections == 0


async def test_but_it_does_where_the_operator_allows_it() -> None:
    script = Script()
    async with scripted(script) as port:
        [report] = await send(port, guard_at(port, allowed=LOOPBACK))
    assert is_sent(report)
    assert script.taken == [MESSAGE.data]


async def test_the_operators_own_server_may_be_anywhere() -> None:
    script = Script()
    async with scripted(script) as port:
        [report] = await send(port, None)
    assert is_sent(report)


async def test_another_port_is_refused_before_anything_is_looked_up() -> None:
    script, dns = Script(), Dns([["127.0.0.1"]])
    async with scripted(script) as port:
        [report] = await send(port, NetworkGuard(allowed=LOOPBACK, resolve=dns), host="mail.test")
        assert script.connections == 0
    assert missing(report.error, str(port), "465, 587, 2525") == []
    assert dns.asked == []


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "2130706433",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "１２７.０.０.１",
        "127。0。0。1",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "0.0.0.0",
        "0",
    ],
)
async def test_no_spelling_leads_to_this_machine(host: str) -> None:
    script = Script()
    async with scripted(script) as port:
        [report] = await send(port, guard_at(port), host=host)
        assert script.connections == 0
    assert is_barred(report)
    assert await guard_at(port).refusal(host, port) == report.error


@pytest.mark.parametrize(
    "host", ["localhost.", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "::1%lo", "", " ", "a\0b", "x" * 70, "a..b"]
)
async def test_a_malformed_host_leads_nowhere_and_raises_nothing(host: str) -> None:
    """Resolvers differ on these: the address is rejected, or the name is not found."""
    script = Script()
    async with scripted(script) as port:
        [report] = await send(port, guard_at(port), host=host)
        assert script.connections == 0
        assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)
        assert await guard_at(port).refusal(host, port) is not None


@pytest.mark.parametrize("host", ["x" * 70, "a..b", "a\0b"])
async def test_such_a_host_of_the_operators_raises_nothing_either(host: str) -> None:
    [report] = await send(587, None, host=host)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)


async def test_a_name_that_changes_its_mind_gains_nothing() -> None:
    """DNS rebinding: harmless when it is checked, this machine when it is connected to."""
    script, dns = Script(), Dns([[ELSEWHERE], ["127.0.0.1"]])
    async with scripted(script) as port:
        first, second = await send(port, guard_at(port, allowed=AS_PUBLIC, resolve=dns), host="rebinding.test", times=2)
        assert script.connections == 0
    assert (first.reached, first.step) == (Reached.UNTOUCHED, Step.CONNECT)
    assert not is_barred(first)  # it used the first answer
    assert is_barred(second)
    assert dns.asked == ["rebinding.test"] * 2  # once for each connection


async def test_an_account_taken_in_by_its_first_answer_is_judged_again_when_it_connects() -> None:
    script, dns = Script(), Dns([[ELSEWHERE], ["127.0.0.1"]])
    async with scripted(script) as port:
        guard = guard_at(port, allowed=AS_PUBLIC, resolve=dns)
        assert await guard.refusal("rebinding.test", port) is None
        [report] = await send(port, guard, host="rebinding.test")
        assert script.connections == 0
    assert is_barred(report)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of this machine")
async def test_the_connection_is_made_to_the_address_that_was_judged() -> None:
    dns = Dns([["127.0.0.2"], ["127.0.0.1"]])
    async with listening("127.0.0.1") as (port, wrong), listening("127.0.0.2", port) as (_, right):
        allowed = (ip_network("127.0.0.2/32"),)
        await send(port, guard_at(port, allowed=allowed, resolve=dns), host="rebinding.test")
    assert (len(right), len(wrong)) == (1, 0)


@pytest.mark.parametrize(
    "answers", [[ELSEWHERE, "127.0.0.1"], ["127.0.0.1", ELSEWHERE], [ELSEWHERE, "::1"], [ELSEWHERE] * 20 + ["::1"]]
)
async def test_one_forbidden_address_among_others_is_enough(answers: list[str]) -> None:
    script = Script()
    async with scripted(script) as port:
        guard = guard_at(port, allowed=AS_PUBLIC, resolve=Dns([answers]))
        [report] = await send(port, guard, host="both.test")
        assert script.connections == 0
    assert missing(report.error, "both.test", "loopback") == []
    assert await guard.refusal("both.test", port) == report.error


async def test_the_operators_dns_is_not_revealed() -> None:
    guard = NetworkGuard(resolve=Dns([["10.20.30.40"]]))
    words = await guard.refusal("database.internal", 587)
    assert missing(words, "database.internal", "private") == []
    assert "10.20.30.40" not in (words or "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of this machine")
async def test_an_address_that_does_not_answer_leaves_time_for_the_next() -> None:
    script = Script()
    async with scripted(script) as port:
        with deaf("127.0.0.2", port):
            guard = guard_at(port, allowed=LOOPBACK, resolve=Dns([["127.0.0.2", "127.0.0.1"]]))
            [report] = await send(port, guard, host="two.test", timeouts=Timeouts(connect_s=2))
    assert is_sent(report)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of this machine")
async def test_addresses_that_all_do_not_answer_are_no_connection_in_time() -> None:
    async with scripted(Script()) as port:
        pass
    with deaf("127.0.0.2", port):
        [report] = await send(
            port, guard_at(port, allowed=LOOPBACK, resolve=Dns([["127.0.0.2"]])), host="one.test", timeouts=HASTE
        )
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)
    assert "0.2 s" in (report.error or "")


async def test_no_name_makes_us_try_addresses_without_end() -> None:
    guard = NetworkGuard(resolve=Dns([[f"9.9.{each}.1" for each in range(200)]]))
    assert len(await guard.addresses("many.test", 587)) == ADDRESSES_MAX


async def test_a_name_without_addresses_is_not_found() -> None:
    guard = NetworkGuard(resolve=Dns([[]]))
    assert "none.test" in (await guard.refusal("none.test", 587) or "")
    [report] = await send(587, guard, host="none.test")
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)
    assert "none.test" in (report.error or "")


async def test_a_public_server_is_taken_in() -> None:
    assert await NetworkGuard(resolve=Dns([["9.9.9.9", "2a00:1450::1"]])).refusal("smtp.test", 587) is None
    assert await NetworkGuard().refusal("9.9.9.9", 587) is None


async def test_the_system_is_asked_for_each_address_once() -> None:
    assert await look_up("127.0.0.1", 587) == ["127.0.0.1"]


async def test_a_barred_connection_is_known_as_such() -> None:
    with pytest.raises(Barred, match=r"10\.0\.0\.5 .*private"):
        await Connection.open(Server(host="10.0.0.5", port=587, guard=NetworkGuard()))


@pytest.mark.parametrize("security", [Security.IMPLICIT, Security.STARTTLS])
async def test_tls_asks_for_the_name_and_not_for_the_address(security: Security, certificates: Certificates) -> None:
    """One certificate is for localhost and 127.0.0.1, the other one for the other host."""

    async def reached(host: str, certificate: Certificate) -> Report:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.cert, certificate.key)
        script = Script(features=("STARTTLS",), tls=context)
        async with scripted(script, implicit=security is Security.IMPLICIT) as port:
            guard = guard_at(port, allowed=LOOPBACK, resolve=Dns([["127.0.0.1"]]))
            [report] = await send(port, guard, host=host, security=security, ca=certificates)
        return report

    assert is_sent(await reached("localhost", certificates.good))
    assert is_sent(await reached(OTHER_HOST, certificates.wrong_host))
    refused = await reached(OTHER_HOST, certificates.good)
    assert (refused.reached, refused.step) == (Reached.UNTOUCHED, Step.TLS)
    assert "Hostname mismatch" in (refused.error or "")


@asynccontextmanager
async def listening(host: str, port: int = 0) -> AsyncIterator[tuple[int, list[str]]]:
    """Yields the port, and who has connected. All connections are closed."""
    peers: list[str] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername")[0])
        writer.close()

    server = await asyncio.start_server(serve, host, port)
    try:
        yield server.sockets[0].getsockname()[1], peers
    finally:
        server.close()
        await server.wait_closed()
