"""Log the accounts that have stopped sending or become able to send again since the last check.

An engine logs the accounts that it drives or used to drive, and the accounts that no engine drives.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fairpost.model.account import AccountRuntime
from fairpost.model.reason import Reason
from fairpost.policy.conditions import why_stopped

if TYPE_CHECKING:
    from fairpost.model.ids import AccountId


class AccountChanges:
    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._codes: dict[AccountId, str | None] = {}  # why the account is stopped, or None if it is not
        self._others: set[AccountId] = set()  # accounts driven by other engines at the last check

    def seen(self, accounts: Sequence[AccountRuntime]) -> Iterator[Reason]:
        for each in accounts:
            assert each.seen_at is not None
            id_, reason = each.account.id, why_stopped(each, each.seen_at)
            code = reason.code if reason is not None else None
            is_new = code != self._codes.get(id_)
            self._codes[id_] = code
            is_others = each.owner not in (None, self._engine) and each.is_driven()
            if is_new and not (is_others or id_ in self._others):
                yield reason or Reason("account.active", account=each.account.name)
            (self._others.add if is_others else self._others.discard)(id_)
        gone = self._codes.keys() - {each.account.id for each in accounts}
        for id_ in gone:
            del self._codes[id_]
