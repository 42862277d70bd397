"""Access tokens that are cached and renewed early. The providers' modules fetch them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from fairpost.system import clock
from fairpost.transports.oauth.errors import Unreachable

AHEAD = timedelta(minutes=5)  # how early a token is renewed: it must last for a whole connection, and clocks differ
LAST_USE = timedelta(seconds=30)  # with less time left than this, a token might expire before the login
FETCH_S_MAX = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    secret: str = field(repr=False)
    expires_at: datetime


class TokenSource(Protocol):
    async def token(self) -> AccessToken:
        """Returns a token that stays valid for a while. Raises Refused or Unreachable."""

    def forget(self) -> None:
        """Discards the cached token so that a new one is fetched. Call this once for each token that the server
        refused.
        """


class KeptTokens(ABC):
    """Caches one token, for one event loop. Callers wait while a new token is fetched."""

    def __init__(self, *, now: Callable[[], datetime] = clock.now, fetch_s_max: float = FETCH_S_MAX) -> None:
        self._now = now
        self.fetch_s_max = fetch_s_max
        self._kept: AccessToken | None = None
        self._fetching: asyncio.Task[AccessToken] | None = None

    async def token(self) -> AccessToken:
        if self._kept is not None and self._left(self._kept) > AHEAD:
            return self._kept
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._renew())
            self._fetching.add_done_callback(self._fetched)
        return await asyncio.shield(self._fetching)  # if one caller is cancelled, the fetch continues for the others

    def forget(self) -> None:
        self._kept = None

    @abstractmethod
    def fetch(self) -> AccessToken:
        """Gets a token from the provider. This method may block, because it runs in a thread. Raises Refused or
        Unreachable.
        """

    def lasting(self, secret: str, *, seconds: float, since: datetime) -> AccessToken:
        """Returns a token whose expiry is measured by this machine's clock, which need not be correct."""
        return AccessToken(secret=secret, expires_at=since + timedelta(seconds=seconds))

    def _left(self, token: AccessToken) -> timedelta:
        return token.expires_at - self._now()

    async def _renew(self) -> AccessToken:
        old = self._kept
        try:
            self._kept = await self._fetch_in_time()
        except Unreachable:
            if old is None or self._kept is None or self._left(old) < LAST_USE:
                raise
            return old  # an early renewal is allowed to fail, because the old token is still valid
        return self._kept

    async def _fetch_in_time(self) -> AccessToken:
        try:
            async with asyncio.timeout(self.fetch_s_max):
                return await asyncio.to_thread(self.fetch)
        except TimeoutError:
            raise Unreachable(f"The token server did not respond within {self.fetch_s_max:g} s.") from None

    def _fetched(self, task: asyncio.Task[AccessToken]) -> None:
        self._fetching = None
        if not task.cancelled():
            task.exception()  # retrieves the exception so that asyncio does not log it if no caller is still waiting
