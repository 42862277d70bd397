"""A DNS server with a zone that a test writes, for daemons that only use port 53: at its own address in 127.0.0.0/8. It
answers for the names it knows; no others exist."""

import os
import random
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import dns.asyncresolver
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.reversename
import dns.rrset

from tests.peers.fetch import PeerMissing

PORT = 53
TEXT_MAX = 255
TRIES_MAX = 20


@dataclass
class Dns:
    address: str
    records: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def put(self, name: str, kind: str, *values: str) -> None:
        """Values as in zone files. A TXT value is given unsplit."""
        shown = [_quoted(value) for value in values] if kind == "TXT" else list(values)
        self.records[name.lower().rstrip("."), kind] = shown

    def put_host(self, name: str, address: str) -> None:
        """Adds the host's address, and its name at that address."""
        self.put(name, "A", address)
        self.put(dns.reversename.from_address(address).to_text(), "PTR", f"{name}.")

    @property
    def resolver(self) -> dns.asyncresolver.Resolver:
        found = dns.asyncresolver.Resolver(configure=False)
        found.nameservers = [self.address]
        return found

    def answer(self, data: bytes) -> bytes:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.AA | dns.flags.RA
        name, kind = query.question[0].name, query.question[0].rdtype.name
        known = name.to_text(omit_final_dot=True).lower()
        if found := self.records.get((known, kind)):
            answer.answer.append(dns.rrset.from_text(name, 60, "IN", kind, *found))
        elif not any(each == known or each.endswith(f".{known}") for each, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer.to_wire()


@contextmanager
def dns_server() -> Iterator[Dns]:
    if os.geteuid() != 0:
        raise PeerMissing("only root can serve DNS at port 53")
    server = _bound()
    with server.over_udp, server.over_tcp:
        for each in (server.over_udp, server.over_tcp):
            threading.Thread(target=each.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        try:
            yield server.dns
        finally:
            server.over_udp.shutdown()
            server.over_tcp.shutdown()


@dataclass
class _Server:
    dns: Dns
    over_udp: socketserver.ThreadingUDPServer
    over_tcp: socketserver.ThreadingTCPServer


def _bound() -> _Server:
    last: OSError | None = None
    for _ in range(TRIES_MAX):
        address = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}.{random.randint(1, 250)}"
        zone = Dns(address)
        try:
            return _Server(zone, _serving_udp(zone), _serving_tcp(zone))
        except OSError as error:
            last = error
    raise PeerMissing(f"no address of 127.0.0.0/8 can serve DNS at port 53: {last}")


def _serving_udp(zone: Dns) -> socketserver.ThreadingUDPServer:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            data, sock = self.request
            sock.sendto(zone.answer(data), self.client_address)

    return _Udp((zone.address, PORT), Handler)


def _serving_tcp(zone: Dns) -> socketserver.ThreadingTCPServer:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(2):
                answer = zone.answer(self.rfile.read(int.from_bytes(size, "big")))
                self.wfile.write(len(answer).to_bytes(2, "big") + answer)

    return _Tcp((zone.address, PORT), Handler)


class _Udp(socketserver.ThreadingUDPServer):
    daemon_threads = True
    max_packet_size = 4096


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    address_family = socket.AF_INET


def _quoted(text: str) -> str:
    return " ".join(f'"{text[start : start + TEXT_MAX]}"' for start in range(0, len(text), TEXT_MAX))
