"""What every transport offers to a worker."""

from collections.abc import Callable
from typing import Protocol

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.report import Report

Permission = Callable[[], bool]
"""Asked right before the message is completed: may this lease still send? A no leaves the e-mail untouched."""


class Transport(Protocol):
    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report: ...


class ClosableTransport(Transport, Protocol):
    async def close(self) -> None:
        """Ends what it keeps open. It may be used again."""
