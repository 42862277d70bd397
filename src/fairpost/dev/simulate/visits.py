"""Records the time, account and sender of each connection that providers received. The connections are recorded by the
servers, not by the engine.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.system import clock


@dataclass(slots=True, kw_only=True)
class Visit:
    """A conversation in which the server received an e-mail. `was_cut` means that the client disconnected in the middle
    of the conversation.
    """

    account: str
    workspace: str
    recipient: str = ""
    began_at: datetime
    left_at: datetime | None = None  # when the client began to connect, if known
    was_cut: bool = False


async def _nothing(_: Account) -> None:
    pass


@dataclass(slots=True)
class Visits:
    all: list[Visit] = field(default_factory=list)
    on_begin: Callable[[Account], Awaitable[None]] = _nothing

    @asynccontextmanager
    async def visit(self, account: Account, email: Outgoing, *, left_at: datetime | None = None) -> AsyncIterator[None]:
        visit = Visit(
            account=account.name,
            workspace=email.workspace,
            recipient=email.envelope[0],
            began_at=clock.now(),
            left_at=left_at,
        )
        self.all.append(visit)
        await self.on_begin(account)
        try:
            yield
        except BaseException:
            visit.was_cut = True
            raise
