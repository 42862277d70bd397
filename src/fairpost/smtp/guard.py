"""Keeps servers chosen by workspaces out of the operator's networks.

A name is resolved once, all of its addresses are checked, and connections are made only to checked addresses. Addresses
that the name resolves to later are not used. policy/networks.py decides what is forbidden.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address

from fairpost.policy.networks import SMTP_PORTS, Address, Network, objection, port_refusal, refusal

ADDRESSES_MAX = 8  # maximum number of addresses tried for a name; all of them are checked
LOOK_UP_S_MAX = 10.0  # short, because a user is waiting

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns a host's addresses as text. Raises OSError or ValueError if there are none."""


_look_ups = ThreadPoolExecutor(128, thread_name_prefix="look-up")  # slow lookups only delay other lookups


async def look_up(host: str, port: int) -> list[str]:
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_look_ups, ask)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class NotAllowed(Exception):
    """The operator does not allow workspaces' accounts to connect to this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGuard:
    allowed: tuple[Network, ...] = ()  # allowed in addition to the public internet
    ports: frozenset[int] = SMTP_PORTS
    resolve: Resolve = look_up

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Returns the only addresses that a connection may use. Raises NotAllowed, or OSError or ValueError if the host
        is unknown.
        """
        words = port_refusal(port, self.ports)
        if words is not None:
            raise NotAllowed(words)
        found = [ip_address(text) for text in await self.resolve(host, port)]
        for ip in found:
            self._judge(host, ip)
        return _some(host, found)

    async def unchecked(self, host: str, port: int) -> list[Address]:
        """Returns the addresses of a host that the operator has chosen. Raises OSError or ValueError if the host is
        unknown.
        """
        return _some(host, [ip_address(text) for text in await self.resolve(host, port)])

    async def refusal(self, host: str, port: int) -> str | None:
        """Returns why an account must not use this server, or None if the account may use it."""
        try:
            async with asyncio.timeout(LOOK_UP_S_MAX):
                await self.addresses(host, port)
        except NotAllowed as error:
            return str(error)
        except TimeoutError:
            return f"{host} was not found within {LOOK_UP_S_MAX:g} s"
        except (OSError, ValueError):
            return f"{host} was not found: there is no such host, or DNS is not responding"
        return None

    def _judge(self, host: str, ip: Address) -> None:
        """Raises an error that omits the address, which would reveal what the operator's own DNS contains."""
        kind = objection(ip, self.allowed)
        if kind is None:
            return
        if host == str(ip):
            raise NotAllowed(refusal(ip, self.allowed))
        raise NotAllowed(f"{host} resolves to {kind}, which the operator does not allow")


def _some(host: str, found: list[Address]) -> list[Address]:
    if not found:
        raise OSError(f"{host} has no address")
    return found[:ADDRESSES_MAX]
