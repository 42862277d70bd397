"""An account, an e-mail, and a transport with short waits, for all tests of sending through Gmail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

import httpx2

from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.email import Outgoing, Recipient
from fairpost.model.ids import AccountId, EmailId
from fairpost.transports.factory import opened
from fairpost.transports.gmail.client import GmailClient, client_of
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.tokens import TokenSource
from fairpost.vault.vault import Vault
from tests.compose.strategies import content_of, email_of
from tests.transports.gmail.google import Tokens

ACCOUNT = Account(
    id=AccountId(7),
    name="sales",
    address="sales@post.test",
    display_name="Sales",
    pool="default",
    status=AccountStatus.ACTIVE,
    status_reason=None,
    limits=Limits(),
    usage=Usage(),
)
ANN = Recipient(kind="to", address="ann@there.test", name="Ann")
EMAIL: Outgoing = replace(email_of(content_of(), (ANN,)), id=EmailId(0x1234ABCD))


def yes() -> bool:
    return True


def no() -> bool:
    return False


def client_to(account: Account, vault: Vault) -> GmailClient:
    settings = account.transport
    assert isinstance(settings, GmailSettings)
    return client_of(settings, opened(account, settings, vault), name=account.name, address=account.address)


class Place(Protocol):
    @property
    def url(self) -> str: ...

    def is_silent(self, path: str) -> bool:
        """Returns whether the next request to this path gets no answer, or only a part of it."""
        ...


class KnowingClient(GmailClient):
    """Gives up soon if no answer will arrive, and waits for all others, however busy the machine is."""

    def __init__(self, tokens: TokenSource, place: Place, *, silence_s: float = 0.1, **more: Any) -> None:
        super().__init__(tokens, base_url=place.url, **more)
        self._place = place
        self._silence_s = silence_s

    def _opened(self) -> httpx2.AsyncClient:
        http = super()._opened()
        http.event_hooks = {"request": [self._before]}
        return http

    async def _before(self, request: httpx2.Request) -> None:
        if self._place.is_silent(request.url.path):
            request.extensions["timeout"]["read"] = self._silence_s


@asynccontextmanager
async def transport_to(
    place: Place, tokens: TokenSource | None = None, *, silence_s: float = 0.1, is_read: bool = False
) -> AsyncIterator[GmailTransport]:
    """Its pauses take no time."""
    client = KnowingClient(tokens or Tokens(), place, silence_s=silence_s)
    transport = GmailTransport(client, pause=_at_once, is_read=is_read)
    try:
        yield transport
    finally:
        await transport.close()


async def _at_once(seconds: float) -> None:
    assert 0 < seconds <= 15
