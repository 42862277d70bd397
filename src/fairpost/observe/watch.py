"""A viewer of one workspace, or of everything, that reads repeatedly."""

from collections.abc import Callable

from fairpost.model.account import Account
from fairpost.store.store import Store

Called = Callable[[Account], Account]
"""Gives an account the name that the viewer knows."""


def as_stored(account: Account) -> Account:
    return account


class Watch:
    def __init__(self, store: Store, workspace: str | None = None, *, called: Called = as_stored) -> None:
        self._store = store
        self._workspace = workspace
        self._called = called
