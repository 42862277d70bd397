"""Looks up all DNS records of a domain that receivers check. These records are SPF with its includes, DMARC, MX, and
the addresses and names of the servers that send the domain's mail. policy/domain_health.py judges the result.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from fairpost.policy.domain_health import (
    STRANGER,
    Looked,
    NamedAddress,
    SendingHost,
    Spf,
    is_address,
    is_public,
    organisation,
)
from fairpost.policy.spf import Evaluated, Result, evaluate
from fairpost.providers.lookups import Found, look_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dns.asyncresolver import Resolver

AT_ONCE = 20  # maximum number of concurrent queries
SPF_LIMIT_S = 20.0  # receivers apply the same limit
ADDRESSES_MAX = 4  # addresses per host, and names per address


Ask = Callable[[str, str], Awaitable[Found]]


async def look_at(domain: str, hosts: "Sequence[SendingHost]", *, resolver: "Resolver | None" = None) -> Looked:
    """Looks up all records concurrently, so a slow DNS server causes only one delay."""
    ask = _asking(resolver)
    dmarc, mx, seen = await asyncio.gather(
        _dmarc(domain, ask), ask(domain, "MX"), asyncio.gather(*[_host(host, ask) for host in hosts])
    )
    envelopes = dict.fromkeys([domain, *(host.envelope for host in seen if host.envelope)])
    spf = await asyncio.gather(*[_spf(each, domain, seen, ask) for each in envelopes])
    return Looked(
        spf=tuple(spf),
        dmarc=dmarc[0].records,
        dmarc_error=dmarc[0].error,
        is_dmarc_inherited=dmarc[1],
        mx=mx.records,
        mx_error=mx.error,
        hosts=tuple(seen),
    )


def _asking(resolver: "Resolver | None") -> Ask:
    """Returns a function that makes each query only once, and only a limited number of queries at a time."""
    asked: dict[tuple[str, str], asyncio.Task[Found]] = {}
    turns = asyncio.Semaphore(AT_ONCE)

    async def look(name: str, kind: str) -> Found:
        async with turns:
            return await look_up(name, kind, resolver=resolver)

    async def ask(name: str, kind: str) -> Found:
        question = name.lower().rstrip("."), kind
        if question not in asked:
            asked[question] = asyncio.create_task(look(name, kind))
        return await asyncio.shield(asked[question])

    return ask


async def _spf(envelope: str, sender: str, hosts: "Sequence[SendingHost]", ask: Ask) -> Spf:
    """Evaluates SPF for the public addresses of the servers that use this domain in the envelope."""
    sending = [host for host in hosts if (host.envelope or sender) == envelope]
    addresses = dict.fromkeys(each for host in sending for each in _public(host))
    stranger, *results = await asyncio.gather(*[_evaluated(envelope, each, ask) for each in (STRANGER, *addresses)])
    return Spf(domain=envelope, stranger=stranger, addresses=dict(zip(addresses, results, strict=True)))


def _public(host: SendingHost) -> list[str]:
    """Returns a few IPv4 and a few IPv6 addresses that receivers may see."""
    public = [each for each in host.addresses if is_public(each)]
    return [each for sign in (".", ":") for each in [one for one in public if sign in one][:ADDRESSES_MAX]]


async def _evaluated(domain: str, address: str, ask: Ask) -> Evaluated:
    evaluation = evaluate(domain, address)
    try:
        async with asyncio.timeout(SPF_LIMIT_S):
            question = next(evaluation)
            while True:
                question = evaluation.send(await ask(*question))
    except StopIteration as done:
        found: Evaluated = done.value
        return found
    except TimeoutError:
        return Evaluated(result=Result.TEMPERROR, detail=f"no complete answer within {SPF_LIMIT_S:g} s")


async def _dmarc(domain: str, ask: Ask) -> tuple[Found, bool]:
    """Returns the domain's record or, if there is none, that of its organizational domain, and whether the record is
    inherited.

    Receivers do not look at the domains in between.
    """
    own, above = await asyncio.gather(_policies(domain, ask), _policies(organisation(domain), ask))
    return (own, False) if own.records or own.error else (above, organisation(domain) != domain)


async def _policies(domain: str, ask: Ask) -> Found:
    """Returns the DMARC records or, if there are none, the records that seem to be meant as DMARC records."""
    found = await ask(f"_dmarc.{domain}", "TXT")
    written = [(each, "".join(each.split())) for each in found.records]
    exact = [each for each, packed in written if packed.partition(";")[0] == "v=DMARC1"]
    meant = [each for each, packed in written if packed.lower().startswith("v=dmarc1")]
    return replace(found, records=tuple(exact or meant))


async def _host(host: SendingHost, ask: Ask) -> SendingHost:
    """Returns the host with its addresses, and the names of those addresses that receivers can see."""
    addresses = await _addresses(host.name, ask)
    public = [address for address in addresses if is_public(address)] if host.is_own else []
    names = await asyncio.gather(*[_confirmed_name(address, ask) for address in public[:ADDRESSES_MAX]])
    return replace(host, addresses=addresses, names=tuple(names))


async def _confirmed_name(address: str, ask: Ask) -> NamedAddress:
    """Returns the name of the address (PTR), and whether that name resolves back to the address."""
    import dns.reversename

    found = await ask(dns.reversename.from_address(address).to_text(), "PTR")
    for name in found.records[:ADDRESSES_MAX]:
        if address in await _addresses(name.rstrip("."), ask):
            return NamedAddress(address=address, name=name.rstrip("."), is_confirmed=True)
    name = next((each.rstrip(".") for each in found.records), "")
    return NamedAddress(address=address, name=name, error=found.error)


async def _addresses(name: str, ask: Ask) -> tuple[str, ...]:
    if is_address(name):
        return (str(ip_address(name)),)  # in the form used in DNS
    found = await asyncio.gather(*[ask(name, kind) for kind in ("A", "AAAA")])
    return tuple(address for each in found for address in each.records)
