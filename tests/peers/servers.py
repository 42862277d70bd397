"""Real mail servers on 127.0.0.1, each in a temporary folder, gone when the `with` block ends.

    with postfix(tls=certificates.good) as server:
        send_to(server.host, server.port)
        [mail] = server.wait_for(1)

smtp_sink runs wherever its program is available; the others also need root. If a server cannot run, PeerMissing is
raised; `why_not` returns the reason in advance. Each server has its own file next to this one.
"""

from typing import Literal

from tests.peers.dovecot import Login
from tests.peers.exim import exim
from tests.peers.fetch import PeerMissing, require
from tests.peers.opensmtpd import opensmtpd, why_no_tls
from tests.peers.postfix import postfix
from tests.peers.process import PeerBroken
from tests.peers.received import Received, Server
from tests.peers.room import why_no_room
from tests.peers.sink import Counters, Sink, smtp_sink

Name = Literal["smtp_sink", "postfix", "exim", "opensmtpd"]

__all__ = [
    "Counters",
    "Login",
    "Name",
    "PeerBroken",
    "PeerMissing",
    "Received",
    "Server",
    "Sink",
    "exim",
    "opensmtpd",
    "postfix",
    "smtp_sink",
    "why_not",
]


def why_not(name: Name, *, tls: bool = False) -> str | None:
    """Returns the reason to skip a test, or None if this peer can run."""
    try:
        software = require("postfix" if name == "smtp_sink" else name)
    except PeerMissing as missing:
        return str(missing)
    if name == "smtp_sink":
        return "smtp-sink does no TLS" if tls else None
    if tls and name == "opensmtpd" and (reason := why_no_tls(software)):
        return reason
    return why_no_room()
