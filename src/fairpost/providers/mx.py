"""Looks up the servers that accept a domain's mail."""

from fairpost.model.errors import FairpostError

TIMEOUT_S = 5.0


def mx_hosts(domain: str, *, nameserver: tuple[str, int] | None = None) -> list[str]:
    """Returns the servers, preferred first. Raises FairpostError if DNS does not respond.

    The result is empty if the domain accepts no mail or has no MX.
    """
    import dns.exception
    import dns.resolver

    resolver = dns.resolver.Resolver(configure=nameserver is None)
    if nameserver is not None:
        resolver.nameservers, resolver.port = [nameserver[0]], nameserver[1]
    try:
        answer = resolver.resolve(domain, "MX", lifetime=TIMEOUT_S)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError, ValueError) as error:
        raise FairpostError(
            f"The MX lookup for {domain} failed: {error}. Set the provider yourself: --provider NAME"
        ) from error
    ranked = sorted((record.preference, record.exchange.to_text(omit_final_dot=True)) for record in answer)
    return [host for _, host in ranked if host not in ("", ".")]  # a single dot means that the domain accepts no mail
