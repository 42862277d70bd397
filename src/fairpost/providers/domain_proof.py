"""Whether somebody owns a domain: asked of the DNS, where only its owner can put a record.

The record is a TXT at `_fairpost.<domain>` with `fairpost-domain=<token>`. Nothing is remembered here.
"""

import asyncio
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

LIMIT_S = 5.0
SEEN_MAX = 5
SEEN_CHARS_MAX = 200
DOMAIN_CHARS_MAX = 253 - len("_fairpost.")

_LABEL = re.compile(r"[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?")
_TOKEN = re.compile(r"[0-9A-Za-z_-]{16,200}")


class WrongDomain(FairpostError):
    """What was given is no domain that anybody could own."""


class Found(StrEnum):
    PROVEN = "proven"
    NOT_FOUND = "not_found"
    DNS_ERROR = "dns_error"  # nobody knows: ask again later


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
    domain: str  # as the DNS writes it
    record: Record
    seen: tuple[str, ...] = ()  # what is there instead: strangers' words, fit to print
    error: str = ""

    @property
    def is_proven(self) -> bool:
        return self.found is Found.PROVEN

    @property
    def words(self) -> str:
        match self.found:
            case Found.PROVEN:
                return f"{self.domain} is proven"
            case Found.DNS_ERROR:
                return f"The DNS did not say what is at {self.record.name} ({self.error}). Try again later."
            case Found.NOT_FOUND:
                there = "; ".join(f'"{text}"' for text in self.seen) or "nothing"
                return f"{self.record.name} has {there}. Publish this record, then try again: {self.record}"


def proof_record(domain: str, token: str) -> Record:
    """What the owner of the domain has to publish. Raises WrongDomain."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("a token has 16..200 letters, digits, - and _")  # a shorter one could be guessed
    return Record(name=f"_fairpost.{provable_domain(domain)}", value=f"fairpost-domain={token}")


async def find_proof(domain: str, token: str, *, resolver: "Resolver | None" = None, limit_s: float = LIMIT_S) -> Proof:
    """`resolver` None: the system's. Raises WrongDomain, before anything is asked."""
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
    except (dns.exception.DNSException, OSError, ValueError, EOFError):  # their words name the operator's own servers
        return replace(proof, found=Found.DNS_ERROR, error="no server had a usable answer")
    if record.value.encode("ascii") in texts:
        return replace(proof, found=Found.PROVEN)
    return replace(proof, seen=tuple(_printable(text.decode("utf-8", "replace")) for text in sorted(texts)[:SEEN_MAX]))


def provable_domain(domain: str) -> str:
    """As the DNS writes it, in small letters and ASCII. Raises WrongDomain."""
    name = _ascii(domain.removesuffix(".")).lower()
    labels = name.split(".")
    if len(name) > DOMAIN_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdigit():
        raise _wrong(domain, "no domain", "example.com")
    if len(labels) == 1:
        raise _wrong(domain, "a whole top-level domain or a bare name", f"example.{name}")
    return name


def _ascii(domain: str) -> str:
    """ASCII that claims to be of another script must be so in truth. What is too long stays so, and is refused for it."""
    if len(domain) > DOMAIN_CHARS_MAX or (domain.isascii() and "xn--" not in domain.lower()):
        return domain
    import idna

    try:
        return idna.encode(domain, uts46=True).decode("ascii")
    except ValueError:  # idna's errors are of this kind
        raise _wrong(domain, "no domain", "example.com") from None


def _wrong(domain: str, what: str, example: str) -> WrongDomain:
    return WrongDomain(f"{_printable(domain)!r} is {what}. Name a domain of your own, like {example}")


async def _texts(name: str, resolver: "Resolver | None", limit_s: float) -> list[bytes]:
    """Each record's pieces joined. Raises what dnspython raises."""
    import dns.asyncresolver
    import dns.name

    if resolver is None:
        resolver = await asyncio.to_thread(dns.asyncresolver.Resolver)  # reads the system's configuration
    answer = await resolver.resolve(dns.name.from_text(name), "TXT", lifetime=limit_s)  # absolute: no search list
    return [b"".join(each.strings) for each in answer]


def _printable(text: str) -> str:
    """One line without surprises for a terminal or a page, and not too long."""
    shown = "".join(char if char.isprintable() else "?" for char in text[:SEEN_CHARS_MAX])
    return f"{shown}…" if len(text) > SEEN_CHARS_MAX else shown
