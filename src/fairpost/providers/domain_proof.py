"""Verifies ownership of a domain through DNS, where only its owner can add a record.

The record is a TXT record at `_fairpost.<domain>` that contains `fairpost-domain=<token>`. This module stores nothing.
"""

import asyncio
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from fairpost.model.errors import FairpostError
from fairpost.policy.domain_health import shown

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

LIMIT_S = 5.0
SEEN_MAX = 5
DOMAIN_CHARS_MAX = 253 - len("_fairpost.")

_LABEL = re.compile(r"[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?")
_TOKEN = re.compile(r"[0-9A-Za-z_-]{16,200}")


class WrongDomain(FairpostError):
    """The name is not that of a domain that can be owned."""


class Found(StrEnum):
    PROVEN = "proven"
    NOT_FOUND = "not_found"
    DNS_ERROR = "dns_error"  # the result is unknown, so try again later


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The TXT record to publish."""

    name: str
    value: str

    def __str__(self) -> str:
        return f'{self.name} TXT "{self.value}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    found: Found
    domain: str  # in the form used in DNS
    record: Record
    seen: tuple[str, ...] = ()  # what was found instead: untrusted text, made printable
    error: str = ""

    @property
    def is_proven(self) -> bool:
        return self.found is Found.PROVEN

    @property
    def words(self) -> str:
        match self.found:
            case Found.PROVEN:
                return f"{self.domain} is verified"
            case Found.DNS_ERROR:
                return f"The DNS lookup for {self.record.name} failed ({self.error}). Try again later."
            case Found.NOT_FOUND:
                there = "; ".join(f'"{text}"' for text in self.seen) or "nothing"
                return f"{self.record.name} has {there}. Publish this record, then try again: {self.record}"


def proof_record(domain: str, token: str) -> Record:
    """Returns the record that the domain's owner must publish. Raises WrongDomain."""
    if not _TOKEN.fullmatch(token):
        # A shorter token could be guessed.
        raise ValueError("a token must be 16 to 200 characters long: letters, digits, - and _")
    return Record(name=f"_fairpost.{provable_domain(domain)}", value=f"fairpost-domain={token}")


async def find_proof(domain: str, token: str, *, resolver: "Resolver | None" = None, limit_s: float = LIMIT_S) -> Proof:
    """Looks for the proof, using the system's resolver unless another one is given. Raises WrongDomain before any
    lookup.
    """
    import dns.exception
    import dns.resolver

    record = proof_record(domain, token)
    proof = Proof(found=Found.NOT_FOUND, domain=provable_domain(domain), record=record)
    try:
        async with asyncio.timeout(limit_s):
            texts = await _texts(record.name, resolver, limit_s)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return proof
    except (dns.exception.Timeout, TimeoutError):
        return replace(proof, found=Found.DNS_ERROR, error=f"no usable answer within {limit_s:g} s")
    except (dns.exception.DNSException, OSError, ValueError, EOFError):  # the text names the operator's own servers
        return replace(proof, found=Found.DNS_ERROR, error="no server gave a usable answer")
    if record.value.encode("ascii") in texts:
        return replace(proof, found=Found.PROVEN)
    return replace(proof, seen=tuple(shown(text.decode("utf-8", "replace")) for text in sorted(texts)[:SEEN_MAX]))


def provable_domain(domain: str) -> str:
    """Returns the domain in the form used in DNS, in lower-case ASCII. Raises WrongDomain."""
    name = _ascii(domain.removesuffix(".")).lower()
    labels = name.split(".")
    if len(name) > DOMAIN_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdigit():
        raise _wrong(domain, "not a domain", "example.com")
    if len(labels) == 1:
        raise _wrong(domain, "a top-level domain or a name without a dot", f"example.{name}")
    return name


def domain_of(address: str) -> str:
    """Returns the domain of an address in the form used in DNS, or "" if it is not a registrable domain."""
    try:
        return provable_domain(address.rpartition("@")[2])
    except WrongDomain:
        return ""


def _ascii(domain: str) -> str:
    """Returns the domain in ASCII. Encoded names (xn--) must be valid IDNA.

    A name that is too long is returned unchanged and refused later.
    """
    if len(domain) > DOMAIN_CHARS_MAX or (domain.isascii() and "xn--" not in domain.lower()):
        return domain
    import idna

    try:
        return idna.encode(domain, uts46=True).decode("ascii")
    except ValueError:  # idna's errors are ValueErrors
        raise _wrong(domain, "not a domain", "example.com") from None


def _wrong(domain: str, what: str, example: str) -> WrongDomain:
    return WrongDomain(f"{shown(domain)!r} is {what}. Use your own domain, for example {example}")


async def _texts(name: str, resolver: "Resolver | None", limit_s: float) -> list[bytes]:
    """Returns the records, each with its pieces joined. Raises dnspython's errors."""
    import dns.asyncresolver
    import dns.name

    if resolver is None:
        resolver = await asyncio.to_thread(dns.asyncresolver.Resolver)  # reads the system's configuration
    answer = await resolver.resolve(dns.name.from_text(name), "TXT", lifetime=limit_s)  # absolute: no search list
    return [b"".join(each.strings) for each in answer]
