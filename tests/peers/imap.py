"""Real IMAP servers, each with one mailbox and a way to deliver mail to it."""

import functools
import itertools
import os
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.certificates import Certificate
from tests.peers.dovecot import Login
from tests.peers.fetch import PeerMissing, require
from tests.peers.process import HOST, free_port
from tests.peers.room import CERT, KEEPER, KEY, SOFTWARE, UNSHARE, Room, room_for, why_no_room

LOGIN = Login("ann", "pass-word")
MAIL = "/var/mail/ann"
# Dovecot looks for its programs and modules in system folders, which exist inside the room.
OVERLAY = 'mount -t overlay overlay -o "lowerdir=$1/usr:/usr" /usr || exit; shift; exec "$@"'


@dataclass(frozen=True)
class ImapPeer:
    port: int
    tls_port: int
    deliver: Callable[[bytes], None]  # to INBOX
    file_as_sent: Callable[[bytes], None]
    flags: Callable[[], set[str]]  # of all messages of INBOX


CONFIG = """\
protocols = imap
listen = {host}
disable_plaintext_auth = no
ssl = yes
ssl_cert = <{cert}
ssl_key = <{key}
log_path = /dev/stderr
mail_location = maildir:{mail}
passdb {{
  driver = static
  args = user={user} password={password}
}}
userdb {{
  driver = static
  args = uid=keeper gid=keeper home={mail}
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox "Gesendete Objekte" {{
    auto = create
    special_use = \\Sent
  }}
  mailbox Entwürfe {{
    auto = create
  }}
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
"""


@contextmanager
def dovecot(certificate: Certificate) -> Iterator[ImapPeer]:
    software = require("dovecot")
    if reason := why_no_overlay():
        raise PeerMissing(reason)
    port, tls_port = free_port(), free_port()
    with room_for(software) as room:
        room.certificate(certificate)
        room.folder("/run/dovecot")
        for folder in ("", "/cur", "/new", "/tmp"):
            room.folder(MAIL + folder, owner="keeper", mode=0o700)
        config = CONFIG.format(
            host=HOST,
            cert=CERT,
            key=KEY,
            mail=MAIL,
            user=LOGIN.username,
            password=LOGIN.password,
            port=port,
            tls_port=tls_port,
        )
        room.write("/etc/dovecot/dovecot.conf", config)
        command = ["/usr/sbin/dovecot", "-F"]
        if not software.is_system:
            command = ["/bin/sh", "-c", OVERLAY, "overlay", SOFTWARE, *command]
        with room.serving(command, port=port, tls_port=tls_port, greeting=b"* OK"):
            yield ImapPeer(
                port=port,
                tls_port=tls_port,
                deliver=lambda raw: _file(room, MAIL, raw),
                file_as_sent=lambda raw: _file(room, f"{MAIL}/.Gesendete Objekte", raw),
                flags=lambda: _flags(room),
            )


@contextmanager
def courier(maildir: Path) -> Iterator[int]:
    """Courier's imapd on a maildir, already logged in, without IDLE and TLS. Yields the port."""
    software = require("courier")
    program = str(software.root / software.program("imapd"))
    environment = {**os.environ, **software.environment(), "IMAP_CAPABILITY": "IMAP4rev1 UIDPLUS"}

    # Like a person's mail program. Before that, Courier numbers the messages separately for each reader.
    selected = b"a SELECT INBOX\r\nb LOGOUT\r\n"
    subprocess.run([program, "."], input=selected, capture_output=True, cwd=maildir, env=environment, check=False)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            subprocess.run(
                [program, "."],
                stdin=self.request,
                stdout=self.request,
                stderr=subprocess.DEVNULL,
                cwd=maildir,
                env=environment,
                check=False,
            )

    with socketserver.ThreadingTCPServer((HOST, 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@functools.cache
def why_no_overlay() -> str | None:
    if reason := why_no_room():
        return reason
    command = [*UNSHARE, "mount", "-t", "overlay", "overlay", "-o", "lowerdir=/tmp:/usr", "/usr"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return f"this system allows no overlays: {tried.stderr.strip()}" if tried.returncode else None


_numbers = itertools.count(1)


def _file(room: Room, folder: str, raw: bytes) -> None:
    name = f"{int(time.time())}.M{next(_numbers)}P{os.getpid()}.peer"
    temporary, final = room.outside(f"{folder}/tmp/{name}"), room.outside(f"{folder}/new/{name}")
    temporary.write_bytes(raw)
    os.chown(temporary, KEEPER, KEEPER)
    temporary.rename(final)


def _flags(room: Room) -> set[str]:
    files = [path for part in ("new", "cur") for path in room.outside(f"{MAIL}/{part}").iterdir()]
    return {letter for path in files for letter in path.name.partition(":2,")[2]}
