"""What all actions have in common: who acts, what comes of it, and the entry in the audit.

An action is one use case: `(actor, request, store) -> Done | Refused`. It changes what it changes and writes its audit entry in one
commit; a refusal changes nothing. Front ends read a request from what they were given and show what comes of it, and nothing else.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Generic, TypeVar

from fairpost.model.errors import Refusal
from fairpost.model.reason import Reason
from fairpost.store import workspaces
from fairpost.store.store import Store

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """`who`: as the audit names it: a key, a person who has signed in, or the user of the command line.

    `workspace`: the one that the actor is bound to; None: all of them. `scopes`: what the actor may do in it; None: everything.
    `is_operator`: runs the installation.
    """

    who: str
    workspace: str | None = None
    scopes: frozenset[str] | None = None
    is_operator: bool = False
    request_id: str | None = None

    def named(self, who: str) -> "Actor":
        """For requests that show only in the end who makes them."""
        return replace(self, who=who)

    async def record(self, store: Store, action: str, subject: str, *, workspace: str | None, **detail: object) -> None:
        """Writes the audit entry, in the commit of the change. `workspace` None: of the installation itself."""
        await workspaces.write_audit(
            store,
            workspace=workspace,
            who=self.who,
            action=action,
            subject=subject,
            detail={name: value for name, value in detail.items() if value is not None},
            request_id=self.request_id,
        )


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Reason


Action = Callable[[Actor, R, Store], Awaitable[Done[T] | Refused]]

ACTIONS: dict[str, Action[Any, Any]] = {}
"""All there are, by the name under which the audit knows them."""


def action(
    name: str, *, in_one_commit: bool = True
) -> Callable[[Callable[[Actor, R, Store], Awaitable[T]]], Action[R, T]]:
    """`in_one_commit` False: for what takes long, and commits step by step."""

    def wrap(function: Callable[[Actor, R, Store], Awaitable[T]]) -> Action[R, T]:
        @wraps(function)
        async def act(actor: Actor, request: R, store: Store) -> Done[T] | Refused:
            try:
                if not in_one_commit:
                    return Done(await function(actor, request, store))
                async with store.together() as one:
                    return Done(await function(actor, request, one))
            except Refusal as refusal:
                return Refused(refusal.reason)

        ACTIONS[name] = act
        return act

    return wrap
