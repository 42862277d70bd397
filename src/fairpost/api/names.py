"""How a workspace calls accounts and pools: its own without its name before them. The operator's accounts have no names here."""

import re
from dataclasses import replace

from fairpost.api.access import Caller
from fairpost.model.account import Account

SHARED = "a shared account"


def own_route(route: str, caller: Caller) -> tuple[str | None, str | None]:
    """The pool, or else the account, that a stored route means."""
    if route.startswith("@"):
        return None, route.removeprefix(f"@{caller.workspace}/")
    return route.removeprefix(f"{caller.workspace}/"), None


def own_words(text: str, caller: Caller) -> str:
    """What we say of accounts and pools, as the workspace calls them."""
    return re.sub(rf"(?<![\w.@/-])@?{re.escape(caller.workspace)}/", "", text)


def as_known(account: Account, caller: Caller) -> Account:
    """The same account with no more of it than the workspace may know."""
    prefix = f"{caller.workspace}/"
    if account.name.startswith(prefix):
        return replace(account, name=account.name.removeprefix(prefix))
    return replace(account, name=SHARED, status_reason=None)
