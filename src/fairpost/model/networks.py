"""Network addresses as one customer of a provider has them: what limits per client are counted by."""

import ipaddress


def network_of(address: str) -> str | None:
    """An IPv4 address, or a /64 of IPv6. None: this is no address."""
    try:
        parsed = ipaddress.ip_address(address.strip())
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)
