"""A receiver like those of large providers: Postfix with opendkim, opendmarc and rspamd behind it, and a DNS server
that a test writes. For all of them, mail to `port` comes from SENDING_IP, and mail to `other_port` from OTHER_IP."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.peers.certificates import Certificate
from tests.peers.dns import Dns, dns_server
from tests.peers.filters import Rspamd, opendkim, opendmarc, rspamd
from tests.peers.postfix import postfix
from tests.peers.process import HOST, free_port
from tests.peers.received import Server

SENDING_IP = "93.184.216.34"  # filters distrust addresses reserved for documentation
OTHER_IP = "93.184.216.35"


@dataclass(frozen=True)
class Receiver:
    host: str
    port: int
    other_port: int
    dns: Dns
    rspamd: Rspamd
    postfix: Server


@contextmanager
def receiver(*, tls: Certificate | None = None) -> Iterator[Receiver]:
    with ExitStack() as stack:
        dns = stack.enter_context(dns_server())
        filters = [stack.enter_context(start(dns.address)) for start in (opendkim, opendmarc)]
        scanner = stack.enter_context(rspamd(dns.address))
        milters = ", ".join(f"inet:{HOST}:{port}" for port in (*filters, scanner.port))
        settings = {
            "smtpd_milters": milters,
            "milter_default_action": "tempfail",
            "mynetworks": f"127.0.0.0/8 {SENDING_IP}/32 {OTHER_IP}/32",
            "smtpd_peername_lookup": "yes",
        }
        behind = free_port()
        server = stack.enter_context(postfix(tls=tls, settings=settings, dns=dns.address, proxied_port=behind))
        port, other = (stack.enter_context(_seen_from(ip, behind)) for ip in (SENDING_IP, OTHER_IP))
        yield Receiver(host=HOST, port=port, other_port=other, dns=dns, rspamd=scanner, postfix=server)


@contextmanager
def _seen_from(ip: str, port: int) -> Iterator[int]:
    """A port that forwards connections to the other one, preceded by a line with their source (PROXY protocol)."""
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, port)
        back.write(f"PROXY TCP4 {ip} {HOST} 40000 25\r\n".encode())
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    server = loop.run_until_complete(asyncio.start_server(serve, HOST, 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
