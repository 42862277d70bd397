"""Which servers accept a domain's mail, looked up on a local DNS server."""

import socket
import threading
from collections.abc import Iterator

import dns.message
import dns.rcode
import dns.rrset
import pytest

from fairpost.model.errors import FairpostError
from fairpost.providers.mx import mx_hosts

RECORDS = {
    "acme.test.": ["20 alt.aspmx.l.google.com.", "5 aspmx.l.google.com."],
    "silent.test.": [],
    "nomail.test.": ["0 ."],
}


@pytest.fixture
def nameserver() -> Iterator[tuple[str, int]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        server = threading.Thread(target=_serve, args=(sock,))
        server.start()
        host, port = sock.getsockname()
        yield host, port
        sock.sendto(b"", (host, port))
        server.join()


def _serve(sock: socket.socket) -> None:
    while True:
        data, peer = sock.recvfrom(4096)
        if not data:
            return
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        name = query.question[0].name.to_text()
        if name == "broken.test.":
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif name not in RECORDS:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif RECORDS[name]:
            answer.answer.append(dns.rrset.from_text(name, 300, "IN", "MX", *RECORDS[name]))
        sock.sendto(answer.to_wire(), peer)


def test_the_preferred_server_comes_first(nameserver: tuple[str, int]) -> None:
    assert mx_hosts("acme.test", nameserver=nameserver) == ["aspmx.l.google.com", "alt.aspmx.l.google.com"]


@pytest.mark.parametrize("domain", ["silent.test", "nomail.test", "unknown.test"])
def test_a_domain_without_mail_servers_has_none(nameserver: tuple[str, int], domain: str) -> None:
    assert mx_hosts(domain, nameserver=nameserver) == []


def test_a_dns_that_fails_is_reported_with_what_to_do(nameserver: tuple[str, int]) -> None:
    with pytest.raises(FairpostError, match="--provider NAME"):
        mx_hosts("broken.test", nameserver=nameserver)
