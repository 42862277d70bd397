"""Looks up everything that receivers check about a domain.

This is SPF with its includes, DMARC, MX, and the addresses of the servers it sends through, with their names.
policy/domain_health.py judges the result.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from fairpost.policy.domain_health import Looked, NamedAddress, SendingHost, Spf, is_address, is_public
from fairpost.providers.lookups import Found, look_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dns.asyncresolver import Resolver

LOOKUPS_MAX = 20  # for one SPF record: twice as many as receivers follow
ADDRESSES_MAX = 4  # of a host, and names of an address


async def look_at(domain: str, hosts: "Sequence[SendingHost]", *, resolver: "Resolver | None" = None) -> Looked:
    """Looks everything up at once, so that a slow DNS delays it only once."""
    spf, dmarc, mx, seen = await asyncio.gather(
        _SpfWalk(resolver).walk(domain),
        _dmarc(domain, resolver),
        look_up(domain, "MX", resolver=resolver),
        asyncio.gather(*[_host(host, resolver) for host in hosts]),
    )
    return Looked(
        spf=spf,
        dmarc=dmarc.records,
        dmarc_error=dmarc.error,
        mx=mx.records,
        mx_error=mx.error,
        hosts=tuple(seen),
    )


async def _dmarc(domain: str, resolver: "Resolver | None") -> Found:
    labels = domain.split(".")
    found = Found()
    for start in range(len(labels) - 1):
        found = await look_up(f"_dmarc.{'.'.join(labels[start:])}", "TXT", resolver=resolver)
        policies = tuple(each for each in found.records if each.lower().replace(" ", "").startswith("v=dmarc1"))
        if policies or found.error:
            return replace(found, records=policies)
    return replace(found, records=())


async def _host(host: SendingHost, resolver: "Resolver | None") -> SendingHost:
    """Returns the host with its addresses, and the names of those that receivers can see."""
    addresses = await _addresses(host.name, resolver)
    public = [address for address in addresses if is_public(address)] if host.is_own else []
    names = await asyncio.gather(*[_confirmed_name(address, resolver) for address in public[:ADDRESSES_MAX]])
    return replace(host, addresses=addresses, names=tuple(names))


async def _confirmed_name(address: str, resolver: "Resolver | None") -> NamedAddress:
    """Returns the name of the address (PTR), and whether that name leads back to the address."""
    import dns.reversename

    found = await look_up(dns.reversename.from_address(address).to_text(), "PTR", resolver=resolver)
    for name in found.records[:ADDRESSES_MAX]:
        if address in await _addresses(name.rstrip("."), resolver):
            return NamedAddress(address=address, name=name.rstrip("."), is_confirmed=True)
    name = next((each.rstrip(".") for each in found.records), "")
    return NamedAddress(address=address, name=name, error=found.error)


async def _addresses(name: str, resolver: "Resolver | None") -> tuple[str, ...]:
    if is_address(name):
        return (name,)
    found = await asyncio.gather(*[look_up(name, kind, resolver=resolver) for kind in ("A", "AAAA")])
    return tuple(address for each in found for address in each.records)


class _SpfWalk:
    """Follows include, redirect, a and mx the way receiving servers do, and no further."""

    def __init__(self, resolver: "Resolver | None") -> None:
        self._resolver = resolver
        self._lookups = 0
        self._networks: set[str] = set()
        self._names: set[str] = set()
        self._error = ""
        self._allows_all = False

    async def walk(self, domain: str) -> Spf:
        records = await self._records(domain)
        if len(records) == 1:
            await self._follow(domain, records[0], is_own=True)
        return Spf(
            records=records,
            networks=frozenset(self._networks),
            names=frozenset(self._names),
            lookups=self._lookups,
            allows_all=self._allows_all,
            error=self._error,
        )

    async def _records(self, domain: str) -> tuple[str, ...]:
        found = await look_up(domain, "TXT", resolver=self._resolver)
        self._error = self._error or found.error
        return tuple(each for each in found.records if each.lower() == "v=spf1" or each.lower().startswith("v=spf1 "))

    async def _follow(self, domain: str, record: str, *, is_own: bool = False) -> None:
        for word in record.split()[1:]:
            if word[:1] in "-~?":
                continue
            name, _, value = word.lstrip("+").replace("=", ":", 1).partition(":")
            match name.partition("/")[0].lower():
                case "all":
                    self._allows_all = self._allows_all or is_own
                case "ip4" | "ip6":
                    self._networks |= {value} if _is_network(value) else set()
                case "include" | "redirect":
                    await self._include(value)
                case "a":
                    await self._allow_host(value.partition("/")[0] or domain)
                case "mx":
                    await self._allow_mx(value.partition("/")[0] or domain)
                case "exists" | "ptr":
                    self._lookups += 1

    async def _include(self, domain: str) -> None:
        self._lookups += 1
        if self._lookups > LOOKUPS_MAX or "%" in domain or not domain:
            return
        self._names.add(domain)
        for record in await self._records(domain):
            await self._follow(domain, record)

    async def _allow_host(self, host: str) -> None:
        self._lookups += 1
        if self._lookups <= LOOKUPS_MAX and "%" not in host:
            self._names.add(host)
            self._networks |= set(await _addresses(host, self._resolver))

    async def _allow_mx(self, domain: str) -> None:
        self._lookups += 1
        if self._lookups > LOOKUPS_MAX or "%" in domain:
            return
        for host in (await look_up(domain, "MX", resolver=self._resolver)).records[:10]:
            self._networks |= set(await _addresses(host, self._resolver))


def _is_network(text: str) -> bool:
    from ipaddress import ip_network

    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True
