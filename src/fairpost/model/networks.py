"""Group network addresses by customer of an Internet provider, so that limits apply per client."""

import ipaddress


def network_of(address: str) -> str | None:
    """Return an IPv4 address or the /64 of an IPv6 address. Return None if the text is not an address."""
    try:
        parsed = ipaddress.ip_address(address.strip())
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)
