"""Keeps the servers that others choose out of the operator's own networks.

A name is looked up once, every address of it is judged, and those that were judged are connected to: a name that
answers otherwise the next time gains nothing. What is forbidden is decided in policy/networks.py.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address

from fairpost.policy.networks import SMTP_PORTS, Address, Network, objection, port_refusal, refusal

ADDRESSES_MAX = 8  # of one name are tried; all are judged
LOOK_UP_S_MAX = 10.0  # while a person waits

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""A host's addresses, as text. Raises OSError or ValueError where there are none."""


_look_ups = ThreadPoolExecutor(16, thread_name_prefix="look-up")  # names that take long hold up only one another


async def look_up(host: str, port: int) -> list[str]:
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_look_ups, ask)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class NotAllowed(Exception):
    """The operator does not let accounts of others go there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGuard:
    allowed: tuple[Network, ...] = ()  # beside the public internet
    ports: frozenset[int] = SMTP_PORTS
    resolve: Resolve = look_up

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Those to connect to, and nowhere else. Raises NotAllowed; OSError or ValueError where the host is unknown."""
        words = port_refusal(port, self.ports)
        if words is not None:
            raise NotAllowed(words)
        found = [ip_address(text) for text in await self.resolve(host, port)]
        if not found:
            raise OSError(f"{host} has no address")
        for ip in found:
            self._judge(host, ip)
        return found[:ADDRESSES_MAX]

    async def refusal(self, host: str, port: int) -> str | None:
        """Why an account may not have this server. None: it may."""
        try:
            async with asyncio.timeout(LOOK_UP_S_MAX):
                await self.addresses(host, port)
        except NotAllowed as error:
            return str(error)
        except TimeoutError:
            return f"{host} was not found within {LOOK_UP_S_MAX:g} s"
        except (OSError, ValueError):
            return f"{host} was not found: there is no such host, or the DNS does not answer"
        return None

    def _judge(self, host: str, ip: Address) -> None:
        """A name's address is not told: it would show strangers what the operator's own DNS knows."""
        kind = objection(ip, self.allowed)
        if kind is None:
            return
        if host == str(ip):
            raise NotAllowed(refusal(ip, self.allowed))
        raise NotAllowed(f"{host} leads to {kind}, and the operator does not allow it")
