"""Names of accounts and pools as a workspace sees them. The workspace's own names have no prefix, and shared accounts
have no name.

In the database, names begin with the workspace name, so names from different workspaces never collide (see
docs/tenancy.md).
"""

from dataclasses import replace

from fairpost.api.access import Caller
from fairpost.model.account import Account
from fairpost.model.transport import UnknownTransport

SHARED = "a shared account"


def full_name(name: str, caller: Caller) -> str:
    """Returns the database's name for an account or pool of the workspace."""
    return f"{caller.workspace}/{name}"


def own_name(name: str, caller: Caller) -> str:
    """Returns a database name without the workspace's prefix. Names of shared accounts and pools stay the same."""
    return name.removeprefix(f"{caller.workspace}/")


def own_account(name: str | None, caller: Caller) -> str | None:
    """Returns the workspace's name for one of its own accounts, or None if the account is shared or missing."""
    return own_name(name, caller) if name and name.startswith(f"{caller.workspace}/") else None


def own_route(route: str, caller: Caller) -> tuple[str | None, str | None]:
    """Returns a stored route as (pool, account), one of which is None."""
    if route.startswith("@"):
        return None, route.removeprefix(f"@{caller.workspace}/")
    return own_name(route, caller), None


def as_known(account: Account, caller: Caller) -> Account:
    """Hides the details of shared accounts from the workspace. The workspace's own accounts are returned unchanged."""
    if own_account(account.name, caller) is not None:
        return account
    return replace(account, name=SHARED, status_reason=None, transport=UnknownTransport("shared"))
