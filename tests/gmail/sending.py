"""An account, an e-mail, and a transport without patience: for all the tests of sending through Gmail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from fairpost.gmail.client import GmailClient, Timeouts
from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.email import Outgoing, Recipient
from fairpost.model.ids import AccountId, EmailId
from fairpost.oauth.tokens import TokenSource
from fairpost.transport.gmail import GmailTransport
from tests.compose.strategies import content_of, email_of
from tests.gmail.google import Tokens

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


@asynccontextmanager
async def transport_to(
    url: str, tokens: TokenSource | None = None, *, read_s: float = 0.1
) -> AsyncIterator[GmailTransport]:
    """Its pauses take no time."""
    client = GmailClient(tokens or Tokens(), base_url=url, timeouts=Timeouts(read_s=read_s, total_s=5))
    transport = GmailTransport(client, pause=_at_once)
    try:
        yield transport
    finally:
        await transport.close()


async def _at_once(seconds: float) -> None:
    assert 0 < seconds <= 15
