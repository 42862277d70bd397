"""Looks up DNS records. A failed lookup is a value, not an exception."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a lookup.

    `records` is empty if the name or record does not exist. An `error` means that there was no answer, so try again
    later.
    """

    records: tuple[str, ...] = ()
    error: str = ""


async def look_up(name: str, kind: str, *, resolver: "Resolver | None" = None, limit_s: float = LIMIT_S) -> Found:
    """Looks up records of a `kind`: TXT, MX, A or AAAA. By default, the system's resolver is used."""
    import dns.asyncresolver
    import dns.exception
    import dns.name
    import dns.resolver

    try:
        async with asyncio.timeout(limit_s):
            if resolver is None:
                resolver = await asyncio.to_thread(dns.asyncresolver.Resolver)  # reads the system's configuration
            absolute = dns.name.from_text(
                name.replace("\\", "\\\\")
            )  # no search list, and no escape sequences in untrusted names
            answer = await resolver.resolve(absolute, kind, lifetime=limit_s)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return Found()
    except (dns.exception.Timeout, TimeoutError):
        return Found(error=f"no usable answer within {limit_s:g} s")
    except (dns.exception.DNSException, OSError, ValueError, EOFError):  # the text names the operator's own servers
        return Found(error="no server gave a usable answer")
    return Found(records=tuple(_text(each, kind) for each in answer))


def _text(record: object, kind: str) -> str:
    match kind:
        case "TXT":
            return b"".join(record.strings).decode("utf-8", "replace")  # type: ignore[attr-defined]
        case "MX":
            return str(record.exchange.to_text(omit_final_dot=True))  # type: ignore[attr-defined]
        case _:
            return str(record)
