"""A place where a mail server finds its own /etc, /var and /run, while the system's stay unchanged.

Mail servers require their own users, fixed paths and root. A mount namespace provides these from a temporary folder,
and a process namespace ensures that none of their processes outlives it. Needs root, adds no user.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.peers.certificates import Certificate
from tests.peers.fetch import PeerMissing, Software
from tests.peers.maildir import read_maildir
from tests.peers.process import HOST, STOP_S_MAX, await_greeting, running
from tests.peers.received import Server

UNSHARE = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
# Binds the first of each pair of arguments over the second, up to a lone dash, and then executes the rest.
ENTER = 'while [ "$1" != - ]; do mount --rbind "$1" "$2" || exit; shift 2; done; shift; cd /; exec "$@"'
SOFTWARE = "/var/software"
MAILDIR = "/var/mail/all"
CONSOLE = "/console.log"  # the server's output; outside the room only
CERT, KEY = "/etc/peer/cert.pem", "/etc/peer/key.pem"
HOSTNAME = "peer.test"

# Only known inside. The numbers are far from those that systems assign.
USERS = {
    "root": 0,
    "nobody": 65_534,
    "keeper": 64_801,  # owns delivered mail
    "postfix": 64_802,
    "postdrop": 64_803,
    "Debian-exim": 64_804,
    "exim": 64_805,
    "opensmtpd": 64_806,
    "opensmtpq": 64_807,
    "smtpd": 64_808,
    "smtpq": 64_809,
    "dovecot": 64_810,
    "dovenull": 64_811,
}
KEEPER = USERS["keeper"]

ETC = {
    "passwd": "".join(f"{name}:x:{number}:{number}::/var/empty:/bin/false\n" for name, number in USERS.items()),
    "group": "".join(f"{name}:x:{number}:\n" for name, number in USERS.items()),
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n",
    "hosts": f"127.0.0.1 localhost {HOSTNAME}\n",
    "services": "smtp 25/tcp\nsubmissions 465/tcp\nsubmission 587/tcp\ndomain 53/tcp\ndomain 53/udp\n",
    "protocols": "ip 0 IP\ntcp 6 TCP\nudp 17 UDP\n",
    "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    "aliases": "",
    "mailname": f"{HOSTNAME}\n",
}
FROM_THE_SYSTEM = ("ld.so.cache", "ld.so.conf", "localtime")


class Room:
    """Paths are as the server sees them; `outside` returns the real ones."""

    def __init__(self, home: Path, software: Software) -> None:
        self._home = home
        self._software = software
        for name in ("/etc", "/run", "/var", "/var/empty", "/var/log", "/var/lib", "/var/mail", "/var/spool", SOFTWARE):
            self.folder(name)
        self.folder("/var/tmp", mode=0o1777)
        self.outside("/var/run").symlink_to("/run")
        self.maildir(owner="keeper")
        for name, text in ETC.items():
            self.write(f"/etc/{name}", text)
        for name in FROM_THE_SYSTEM:
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), self.outside(f"/etc/{name}"))

    def outside(self, path: str) -> Path:
        return self._home / path.removeprefix("/")

    def folder(self, path: str, *, owner: str = "root", group: str = "", mode: int = 0o755) -> None:
        self.outside(path).mkdir(parents=True, exist_ok=True)
        os.chown(self.outside(path), USERS[owner], USERS[group or owner])
        self.outside(path).chmod(mode)

    def maildir(self, *, owner: str) -> None:
        for folder in ("", "/new", "/cur", "/tmp"):
            self.folder(MAILDIR + folder, owner=owner, mode=0o700)

    def write(self, path: str, text: str, *, mode: int = 0o644) -> None:
        self.outside(path).parent.mkdir(parents=True, exist_ok=True)
        self.outside(path).write_text(text)
        self.outside(path).chmod(mode)
        # Postfix waits until its configuration is a few seconds old, in case it is still being written.
        os.utime(self.outside(path), (0, 0))

    def resolve_by(self, dns: str) -> None:
        """Host names are also resolved by this DNS server."""
        self.write("/etc/resolv.conf", f"nameserver {dns}\noptions timeout:5 attempts:2\n")
        self.write("/etc/nsswitch.conf", ETC["nsswitch.conf"].replace("hosts: files", "hosts: files dns"))

    def certificate(self, given: Certificate, *, reader: str = "root") -> None:
        self.write(CERT, given.cert.read_text())
        self.write(KEY, given.key.read_text(), mode=0o400)
        os.chown(self.outside(KEY), USERS[reader], USERS[reader])

    def software(self, path: str) -> str:
        return f"/{path}" if self._software.is_system else f"{SOFTWARE}/{path}"

    @contextmanager
    def serving(
        self,
        command: Sequence[str],
        *,
        port: int,
        tls_port: int | None,
        log: str = CONSOLE,
        binds: Sequence[tuple[str, str]] = (),
        greeting: bytes = b"220",
    ) -> Iterator[Server]:
        """`binds` are folders of the software that the server expects at a fixed place in the system."""
        maildir = self.outside(MAILDIR)
        with self.running(command, ports=[port, tls_port] if tls_port else [port], binds=binds) as pid:
            await_greeting(port, self.outside(log), greeting)
            yield Server(
                host=HOST,
                port=port,
                tls_port=tls_port,
                pid=pid,
                log=self.outside(log),
                received=lambda: read_maildir(maildir),
            )

    @contextmanager
    def running(
        self,
        command: Sequence[str],
        *,
        ports: Sequence[int],
        binds: Sequence[tuple[str, str]] = (),
        stop_s_max: float = STOP_S_MAX,
    ) -> Iterator[int]:
        with running(
            [*UNSHARE, "/bin/sh", "-c", ENTER, "room", *self._binds(binds), "-", *self._with_libraries(command)],
            name=command[0],
            ports=ports,
            log=self.outside(CONSOLE),
            environment={"LC_ALL": "C", "TZ": "UTC"},
            cwd=Path("/"),
            stop_s_max=stop_s_max,
        ) as pid:
            yield pid

    def _binds(self, more: Sequence[tuple[str, str]]) -> list[str]:
        pairs = [(str(self._software.root / source), target) for source, target in more]
        if not self._software.is_system:
            pairs += [(str(self._software.root), str(self.outside(SOFTWARE)))]
        # /var last, because the temporary folder itself may be below it.
        pairs += [(str(self.outside(path)), path) for path in ("/etc", "/run", "/var")]
        return [part for pair in pairs for part in pair]

    def _with_libraries(self, command: Sequence[str]) -> list[str]:
        """Set only inside, because unshare and mount must use the system's libraries."""
        folders = ":".join(self.software(folder) for folder in self._software.library_folders())
        return ["/usr/bin/env", f"LD_LIBRARY_PATH={folders}", *command] if folders else [*command]


@contextmanager
def room_for(software: Software) -> Iterator[Room]:
    if reason := why_no_room():
        raise PeerMissing(reason)
    with tempfile.TemporaryDirectory(prefix="fp-peer-") as home:
        yield Room(Path(home), software)


@functools.cache
def why_no_room() -> str | None:
    if not shutil.which("unshare"):
        return "there is no unshare(1) here, only Linux has it"
    if os.geteuid() != 0:
        return "only root can give a mail server a /etc and /var of its own"
    tried = subprocess.run(
        [*UNSHARE, "mount", "--bind", "/etc", "/etc"], capture_output=True, text=True, check=False, timeout=120
    )
    return f"this system allows no namespaces: {tried.stderr.strip()}" if tried.returncode else None
