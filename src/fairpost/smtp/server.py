"""A server's address, security and timeouts, as values."""

import ipaddress
import ssl
from dataclasses import dataclass, field

from fairpost.model.transport import Security as Security
from fairpost.smtp.guard import NetworkGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds to wait for the server in each phase. The values are taken from RFC 5321 (4.5.3.2) for the phases that it
    covers.
    """

    connect_s: float = 30
    tls_s: float = 60
    greeting_s: float = 300
    hello_s: float = 300
    auth_s: float = 120
    mail_s: float = 300
    rcpt_s: float = 300
    data_s: float = 120
    block_s: float = 180
    dot_s: float = 600
    quit_s: float = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    host: str
    port: int
    security: Security = Security.STARTTLS
    ca_file: str | None = None  # certificates that are trusted instead of the system's certificate authorities
    hello_name: str | None = None  # None: the local address as a literal, as in RFC 5321 (4.1.3)
    timeouts: Timeouts = field(default_factory=Timeouts)
    guard: NetworkGuard | None = None  # None: the operator has chosen the server, so any address is allowed

    @property
    def is_local(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def tls_context(server: Server, *, checked: bool) -> ssl.SSLContext:
    """Returns a TLS context. With `checked`, the certificate must be valid, trusted, and issued for the host.

    An unchecked connection protects the mail only from passive eavesdroppers, and is never used for a password.
    """
    context = ssl.create_default_context(cafile=server.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
