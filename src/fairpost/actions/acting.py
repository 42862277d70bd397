"""What all actions have in common: the actor, the outcome, and the audit entry.

An action is one use case: `(actor, request, store) -> Done | Refused`. An action makes a change and writes an audit
entry in one commit. A refusal changes nothing. Front ends only parse requests and render outcomes.
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
    """The caller of an action.

    `who` is the actor's name in the audit log: a key, a signed-in person, or the command-line user. `workspace` is
    the workspace that the actor is bound to, or None for all workspaces. `scopes` are the actor's permissions in that
    workspace, or None for all permissions. `is_operator` is True if the actor operates the installation.
    """

    who: str
    workspace: str | None = None
    scopes: frozenset[str] | None = None
    is_operator: bool = False
    request_id: str | None = None

    def named(self, who: str) -> "Actor":
        """Returns the same actor under another name, for requests that reveal the person's identity only during
        processing.
        """
        return replace(self, who=who)

    async def record(self, store: Store, action: str, subject: str, *, workspace: str | None, **detail: object) -> None:
        """Writes the audit entry in the same commit as the change. `workspace` is None for the installation itself."""
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
"""All actions, keyed by their names in the audit log."""


def action(
    name: str, *, in_one_commit: bool = True
) -> Callable[[Callable[[Actor, R, Store], Awaitable[T]]], Action[R, T]]:
    """Registers an action. Set `in_one_commit` to False for slow actions that commit their steps one by one."""

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
