"""Measures the cost of reading mailboxes: memory and connections for idle mailboxes, and CPU time for new mail.

    PYTHONPATH=. python benchmarks/mailboxes.py [MAILBOXES] [MAILS]      # default: 5,000 and 1,000; takes some minutes

One reader runs as in an engine, with its own embedded PostgreSQL. The IMAP server is a separate process on the same
machine; connections use TLS. The new mail arrives within a minute: a third each of reports, replies and newsletters.
"""

import asyncio
import multiprocessing
import resource
import ssl
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tests.imap.scripted_server import Mailboxes, imap_server
from tests.peers.certificates import make_certificates
from tests.returns.mails import mail, report

from fairpost.dev.bench.workload import bench_database
from fairpost.maintenance.mailboxes import MailboxWatch, ReaderOptions
from fairpost.model.account import Account, Limits
from fairpost.model.transport import Security
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.store import Store
from fairpost.transports.reading import MailboxReader
from fairpost.transports.smtp.read import imap_reader
from fairpost.transports.smtp.settings import SmtpSettings

MINUTE_S = 60.0
MB = 1_048_576


def serve(pipe: Connection, cert: str, key: str) -> None:
    asyncio.run(_serve(pipe, cert, key))


async def _serve(pipe: Connection, cert: str, key: str) -> None:
    _allow_files()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    given = Mailboxes(tls=context)
    loop = asyncio.get_running_loop()
    async with imap_server(given, implicit=True) as port:
        pipe.send(port)
        while (asked := await loop.run_in_executor(None, pipe.recv)) is not None:
            if asked == "idling":
                pipe.send((given.idling, given.connections))
            else:
                user, raw = asked
                given.box(user)["INBOX"].add(raw)


async def measure(url: str, port: int, pipe: Connection, ca: str, mailboxes: int, mails: int) -> None:
    async with bench_database(url) as own, Store.open(own, connections_max=3) as store:
        for n in range(mailboxes):
            settings = SmtpSettings(
                host="localhost",
                port=25,
                security=Security.NONE,
                user=f"u{n}",
                ca_file=ca,
                read=True,
                imap=f"imaps://localhost:{port}",
            )
            await store.add_account(f"a{n}", address=f"u{n}@post.test", limits=Limits(), transport=settings)
        await store.engine_here("bench", asleep=False)
        watch = MailboxWatch(store, _reader, ReaderOptions(owner="bench", mailboxes_max=mailboxes), _say)
        before = _memory()
        begun, cpu = time.monotonic(), time.process_time()
        await watch.step()
        while _asked(pipe)[0] < mailboxes:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.5)
        _say(
            f"{mailboxes:,} mailboxes connected and idle after {time.monotonic() - begun:.0f} s, {time.process_time() - cpu:.1f} s of CPU"
        )
        _say(
            f"connections: {_asked(pipe)[1]:,}; memory: {(_memory() - before) / MB:.0f} MB, {(_memory() - before) / mailboxes / 1024:.1f} KB each"
        )
        cpu, begun = time.process_time(), time.monotonic()
        await asyncio.sleep(20)
        _say(f"idle: {100 * (time.process_time() - cpu) / (time.monotonic() - begun):.2f}% of a core")
        cpu, begun = time.process_time(), time.monotonic()
        for n in range(mails):
            pipe.send((f"u{n % mailboxes}", _mail(n)))
            await asyncio.sleep(max(0.0, begun + (n + 1) * MINUTE_S / mails - time.monotonic()))
        while await store.value("SELECT count(*) FROM fairpost.returned") < mails * 2 // 3:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        took_s, used_s = time.monotonic() - begun, time.process_time() - cpu
        _say(f"{mails:,} mails in {took_s:.0f} s: {used_s:.1f} s of CPU, {1000 * used_s / mails:.1f} ms each")
        await watch.stop()


def _mail(n: int) -> bytes:
    match n % 3:
        case 0:
            return report("5.1.1", "550 5.1.1 User unknown", recipient=f"p{n}@people.example")
        case 1:
            return mail("Yes, please call me.", sender=f"p{n}@people.example")
        case _:
            return mail(f"News number {n}", subject="News", sender="news@shop.example", answers=False)


def _reader(account: Account) -> MailboxReader | None:
    assert isinstance(account.transport, SmtpSettings)
    return imap_reader(account.transport, "secret", account=account.name, guard=None)


def _asked(pipe: Connection) -> tuple[int, int]:
    pipe.send("idling")
    found: tuple[int, int] = pipe.recv()
    return found


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _allow_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _say(words: object) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main() -> None:
    given = [int(each) for each in sys.argv[1:]]
    mailboxes, mails = (*given, *(5_000, 1_000)[len(given) :])
    _allow_files()
    with tempfile.TemporaryDirectory(prefix="fairpost-bench-") as home:
        certificates = make_certificates(Path(home))
        ours, theirs = multiprocessing.Pipe()
        arguments = (theirs, str(certificates.good.cert), str(certificates.good.key))
        server = multiprocessing.get_context("spawn").Process(target=serve, args=arguments)
        server.start()
        database = EmbeddedServer(Path(home) / "postgres")
        try:
            asyncio.run(measure(database.start(), ours.recv(), ours, str(certificates.ca), mailboxes, mails))
        finally:
            database.stop()
            ours.send(None)
            server.join()


if __name__ == "__main__":
    main()
