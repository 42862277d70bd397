"""How a workspace calls accounts and pools: its own without its name before them. The operator's accounts have no names here.

In the database the workspace stands before its own, so that two workspaces never meet over a name (see docs/tenancy.md).
"""

import re
from dataclasses import replace

from fairpost.api.access import Caller
from fairpost.model.account import Account
from fairpost.model.transport import UnknownTransport

SHARED = "a shared account"


def full_name(name: str, caller: Caller) -> str:
    """As the database has it."""
    return f"{caller.workspace}/{name}"


def own_name(name: str, caller: Caller) -> str:
    """Of what is the workspace's own, or has no owner."""
    return name.removeprefix(f"{caller.workspace}/")


def own_account(name: str | None, caller: Caller) -> str | None:
    """None: there is none, or it is the operator's."""
    return own_name(name, caller) if name and name.startswith(f"{caller.workspace}/") else None


def own_route(route: str, caller: Caller) -> tuple[str | None, str | None]:
    """The pool, or else the account, that a stored route means."""
    if route.startswith("@"):
        return None, route.removeprefix(f"@{caller.workspace}/")
    return own_name(route, caller), None


def own_words(text: str, caller: Caller) -> str:
    """What we say of accounts and pools, as the workspace calls them."""
    return re.sub(rf"(?<![\w.@/-])@?{re.escape(caller.workspace)}/", "", text)


def as_known(account: Account, caller: Caller) -> Account:
    """The same account with no more of it than the workspace may know. Its own keep the whole of their names."""
    if own_account(account.name, caller) is not None:
        return account
    return replace(account, name=SHARED, status_reason=None, transport=UnknownTransport("shared"))
