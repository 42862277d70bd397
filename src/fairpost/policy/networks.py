"""Decide which mail servers workspace accounts may use.

The servers must be on the public internet and use mail ports, unless the operator allows more. Addresses that are not
known to be public are forbidden. An IPv6 address that wraps an IPv4 address is judged by the wrapped address.
"""

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

SMTP_PORTS = frozenset({465, 587, 2525})  # not 25, which delivers mail to any server without a login

_PRIVATE = "a private address"
_LOOPBACK = "a loopback address"
_LINK_LOCAL = "a link-local address"
_METADATA = "an address for the cloud's internal services"
_SHARED = "an address in a carrier's internal network"
_MULTICAST = "a multicast address"
_EXAMPLE = "an address for documentation"
_UNSPECIFIED = "not a host address"
_RESERVED = "a reserved address"

# The first match names the kind.
_FORBIDDEN: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/32", _UNSPECIFIED),
        ("0.0.0.0/8", _RESERVED),
        ("10.0.0.0/8", _PRIVATE),
        ("100.64.0.0/10", _SHARED),  # includes Alibaba's metadata service, 100.100.100.200
        ("127.0.0.0/8", _LOOPBACK),
        ("168.63.129.16/32", _METADATA),  # Azure's metadata service, on an address that looks public
        ("169.254.169.254/32", _METADATA),
        ("169.254.0.0/16", _LINK_LOCAL),
        ("172.16.0.0/12", _PRIVATE),
        ("192.0.0.0/24", _RESERVED),  # includes Oracle's metadata service, 192.0.0.192
        ("192.0.2.0/24", _EXAMPLE),
        ("192.88.99.0/24", _RESERVED),
        ("192.168.0.0/16", _PRIVATE),
        ("198.18.0.0/15", _RESERVED),  # for network benchmarks
        ("198.51.100.0/24", _EXAMPLE),
        ("203.0.113.0/24", _EXAMPLE),
        ("224.0.0.0/4", _MULTICAST),
        ("255.255.255.255/32", "the broadcast address"),
        ("240.0.0.0/4", _RESERVED),
        ("::/128", _UNSPECIFIED),
        ("::1/128", _LOOPBACK),
        ("2001::/23", _RESERVED),  # Teredo, ORCHID, benchmarks
        ("2001:db8::/32", _EXAMPLE),
        ("3fff::/20", _EXAMPLE),
        ("fc00::/7", _PRIVATE),
        ("fe80::/10", _LINK_LOCAL),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", _MULTICAST),
    )
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")  # all addresses allocated so far
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = 0x5EFE  # RFC 5214: the four bytes that precede the wrapped address
_ISATAP_MASK = 0xFDFF_FFFF  # one bit may be either 0 or 1


def refusal(ip: Address, allowed: Collection[Network]) -> str | None:
    """Return why connections to this address are forbidden, as a sentence, or None if they are allowed."""
    kind = objection(ip, allowed)
    return None if kind is None else f"{ip} is {kind}, which the operator does not allow"


def objection(ip: Address, allowed: Collection[Network]) -> str | None:
    """Return the kind of address, such as "a private address", if it is forbidden, or None if it is allowed."""
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:  # a connection to it is an IPv4 connection
        return objection(ip.ipv4_mapped, allowed)
    if any(ip in network for network in allowed):
        return None
    kinds = (objection(wrapped, allowed) for wrapped in _wrapped(ip))
    return _kind(ip) or next((kind for kind in kinds if kind is not None), None)


def port_refusal(port: int, ports: Collection[int] = SMTP_PORTS) -> str | None:
    if port in ports:
        return None
    named = ", ".join(str(each) for each in sorted(ports))
    return f"port {port} is not allowed by the operator ({named})"


def _kind(ip: Address) -> str | None:
    for network, kind in _FORBIDDEN:
        if ip in network:
            return kind
    is_public = isinstance(ip, IPv4Address) or ip in _PUBLIC_IPV6 or ip in _NAT64
    return None if is_public else _RESERVED


def _wrapped(ip: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that a gateway would forward to."""
    if isinstance(ip, IPv4Address):
        return
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip in _NAT64 or int(ip) >> 32 & _ISATAP_MASK == _ISATAP:
        yield IPv4Address(int(ip) & 0xFFFF_FFFF)
