"""The URLs that webhooks may have: `https` for a public host, or `http` for a host in a private network."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from fairpost.policy.networks import Address, objection
from fairpost.smtp.guard import NetworkGuard, NotAllowed

URL_CHARS_MAX = 2000
PORTS = frozenset({80, 443})  # in addition to all ports from 1024 up
PORT_MIN = 1024


class WrongUrl(ValueError):
    """The URL is invalid. The message continues a sentence that begins with the field name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    host: str
    port: int
    path: str  # path and query
    is_tls: bool

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Parse a URL. Raises WrongUrl."""
    if len(url) > URL_CHARS_MAX or not url.isascii() or any(each <= " " or each == "\x7f" for each in url):
        raise WrongUrl(f"must be a URL of at most {URL_CHARS_MAX} ASCII characters without spaces")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise WrongUrl("must be a URL such as https://example.com/webhooks") from None
    if parts.scheme not in ("https", "http") or not host:
        raise WrongUrl("must be a URL such as https://example.com/webhooks")
    if parts.username is not None or parts.password is not None:
        raise WrongUrl("must not contain a user name or password: requests are signed")
    if parts.fragment:
        raise WrongUrl("must not have a fragment")
    is_tls = parts.scheme == "https"
    port = port if port is not None else 443 if is_tls else 80
    if port < PORT_MIN and port not in PORTS:
        raise WrongUrl(f"must use port 443, port 80, or a port of {PORT_MIN} or higher")
    return Target(
        host=host, port=port, path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""), is_tls=is_tls
    )


async def addresses(target: Target, guard: NetworkGuard, *, is_operators: bool) -> list[Address]:
    """Return the addresses that the URL's host resolves to. Connect only to these. Raises NotAllowed, or OSError or ValueError if the
    host is unknown.
    """
    everywhere = NetworkGuard(allowed=guard.allowed, ports=frozenset({target.port}), resolve=guard.resolve)
    if is_operators:
        found = await everywhere.unchecked(target.host, target.port)
    else:
        found = await everywhere.addresses(target.host, target.port)
    if not target.is_tls and any(objection(ip, ()) is None for ip in found):
        raise NotAllowed("plain HTTP is allowed only on private networks: use https")
    return found
