"""Limits the connections, unfinished request heads and requests of each client, separately in each process.

A client is an IPv4 address or an IPv6 /64. A trusted proxy forwards requests from many clients. The proxy's connections
do not count towards any client's limit. Each forwarded request counts towards the limit of the client that the proxy
names. Memory use grows only with the number of open connections. Other modules limit keys and users."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Protocol

from fairpost.api.errors import ApiError
from fairpost.model.networks import network_of

CONNECTIONS_MAX = 300
HEADS_MAX = 100
RETRY_AFTER_S = 10  # after this time, clients that did not send complete headers have been disconnected
TOO_MANY = "Too many connections from your network address. Close some, then try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """The limits for one client in one process."""

    connections_max: int = CONNECTIONS_MAX
    heads_max: int = HEADS_MAX
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()


class Connection(Protocol):
    @property
    def is_idle(self) -> bool: ...

    def drop(self) -> None: ...


class Clients:
    """The connected clients. For a proxy or a local socket, the client is None, and connections are never refused."""

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self._connections: dict[str, dict[Connection, None]] = {}  # oldest first
        self._heads: Counter[str] = Counter()

    def client_at(self, host: str | None) -> str | None:
        network = network_of(host) if host else None
        return None if network is None or self._is_proxy(host) else network

    def _is_proxy(self, host: str | None) -> bool:
        proxies = self._limits.trusted_proxies
        return bool(proxies and host) and any(ip_address(host or "") in network for network in proxies)

    def add(self, client: str | None, connection: Connection) -> bool:
        """Adds a connection. Returns False, without adding the connection, if the client is at its limit."""
        if client is None:
            return True
        theirs = self._connections.setdefault(client, {})
        if len(theirs) >= self._limits.connections_max:
            return False
        theirs[connection] = None
        return True

    def remove(self, client: str | None, connection: Connection) -> None:
        theirs = self._connections.get(client or "", {})
        theirs.pop(connection, None)
        if not theirs:
            self._connections.pop(client or "", None)

    def begin_head(self, client: str | None) -> bool:
        """Counts an unfinished head. Returns False if the client is at its limit; otherwise `end_head` must follow."""
        if client is None:
            return True
        if self._heads[client] >= self._limits.heads_max:
            return False
        self._heads[client] += 1
        return True

    def end_head(self, client: str | None) -> None:
        if client is not None:
            _without_one(self._heads, client)

    def make_room(self) -> bool:
        """When the process has reached its connection limit, drops an idle connection from the client with the most
        connections.

        Returns False if no connection is idle.
        """
        for theirs in sorted(self._connections.values(), key=len, reverse=True):
            idle = next((each for each in theirs if each.is_idle), None)
            if idle is not None:
                idle.drop()
                return True
        return False


class Requests:
    """Counts requests in progress per client. Behind a proxy, connections do not show which client a request belongs
    to.
    """

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def one_more(self, host: str | None, *, most: int) -> Iterator[None]:
        """Counts a client's request until it has been handled. Raises ApiError if the client is at its limit."""
        client = network_of(host) if host else None
        if client is None:
            yield
            return
        if self._under_way[client] >= most:
            raise too_many_of_a_client()
        self._under_way[client] += 1
        try:
            yield
        finally:
            _without_one(self._under_way, client)


def _without_one(counts: Counter[str], client: str) -> None:
    counts[client] -= 1
    if counts[client] <= 0:
        del counts[client]


def too_many_of_a_client() -> ApiError:
    return ApiError("rate_limited", TOO_MANY, headers={"Retry-After": str(RETRY_AFTER_S)})
