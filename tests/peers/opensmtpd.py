"""OpenSMTPD in a room, where it finds its compiled-in /var/spool/smtpd, its users and its delivery programs."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.peers.certificates import Certificate
from tests.peers.dovecot import Login
from tests.peers.fetch import PeerMissing, Software, require
from tests.peers.process import HOST, free_port
from tests.peers.received import Server
from tests.peers.room import CERT, HOSTNAME, KEY, MAILDIR, room_for

CONFIG = "/etc/smtpd.conf"
VERSION_WITH_TLS = 7
PROGRAMS = "usr/libexec"  # it contains mail.maildir and others, which are run by their full path


@contextmanager
def opensmtpd(
    *,
    tls: Certificate | None = None,
    login: Login | None = None,
    relay_to: tuple[str, int] | None = None,
    settings: str = "",
) -> Iterator[Server]:
    """If a login is given, only its owner may send. `settings` are lines for smtpd.conf: "smtp max-message-size 1000".

    TLS, and passwords, which need TLS, require OpenSMTPD 7: older versions cannot use a private key with OpenSSL 3
    (https://github.com/OpenSMTPD/OpenSMTPD/issues/1171), and Debian 12 has 6.8.
    """
    software = require("opensmtpd")
    if tls and (reason := why_no_tls(software)):
        raise PeerMissing(reason)
    if login and not tls:
        raise ValueError("OpenSMTPD takes passwords over TLS only: give it a certificate as well")
    port, tls_port = free_port(), free_port() if tls else None
    with room_for(software) as room:
        room.folder("/var/lib/opensmtpd/empty")
        room.folder("/var/spool/smtpd", mode=0o711)
        if tls:
            room.certificate(tls)
        if login:
            room.write("/etc/credentials", f"{login.username} {_encrypted(software, login.password)}\n")
        room.write(CONFIG, _config(port, tls_port, login, relay_to, settings))
        binds = [] if software.is_system else [(PROGRAMS, f"/{PROGRAMS}")]
        command = [room.software(software.program("smtpd")), "-d", "-f", CONFIG]
        with room.serving(command, port=port, tls_port=tls_port, binds=binds) as server:
            yield server


def why_no_tls(software: Software) -> str | None:
    program = str(software.root / software.program("smtpd"))
    asked = subprocess.run([program, "-h"], env=software.environment(), capture_output=True, text=True, check=False)
    found = re.search(r"OpenSMTPD (\d+)\.\S+", asked.stderr + asked.stdout)
    if found and int(found[1]) < VERSION_WITH_TLS:
        return f"{found[0]} cannot do TLS with OpenSSL 3, version {VERSION_WITH_TLS} can"
    return None


def _encrypted(software: Software, password: str) -> str:
    program = str(software.root / software.program("encrypt"))
    given, environment = f"{password}\n", software.environment()
    return subprocess.run([program], input=given, env=environment, capture_output=True, text=True, check=True).stdout


def _config(
    port: int,
    tls_port: int | None,
    login: Login | None,
    relay_to: tuple[str, int] | None,
    settings: str,
) -> str:
    auth = " auth <credentials>" if login else ""
    lines = [
        'table catchall { "@" = keeper }',
        "table credentials file:/etc/credentials" if login else "",
        settings,
    ]
    if tls_port:
        lines += [
            f'pki peer cert "{CERT}"',
            f'pki peer key "{KEY}"',
            f"listen on {HOST} port {port} tls pki peer hostname {HOSTNAME}{auth}",
            f"listen on {HOST} port {tls_port} smtps pki peer hostname {HOSTNAME}{auth}",
        ]
    else:
        lines += [f"listen on {HOST} port {port} hostname {HOSTNAME}"]
    if relay_to:
        lines += [f'action "out" relay host "smtp://{relay_to[0]}:{relay_to[1]}"']
    else:
        lines += [f'action "out" maildir "{MAILDIR}" virtual <catchall>']
    lines += ['match from any for any action "out"']
    return "\n".join(lines) + "\n"
