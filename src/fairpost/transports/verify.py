"""Tries the server of an account, of whichever kind, without sending anything."""

from collections.abc import Sequence

from fairpost.model.account import Account
from fairpost.model.transport import ServerSettings, TransportSettings
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.factory import opened, server_settings
from fairpost.transports.port import Tried
from fairpost.transports.registry import kind_of
from fairpost.vault.vault import Vault


async def try_account(
    account: Account, vault: Vault, *, guard: NetworkGuard | None = None, is_brief: bool = False
) -> list[Tried]:
    """Every step that was taken, in order; the last one is the one that failed, if any did. `guard`: the account is not the
    operator's own. `is_brief`: a request waits for it. Raises FairpostError when it has no server that it may use, VaultError
    when its secret cannot be opened."""
    settings = server_settings(account, guard=guard)
    return await kind_of(settings).verify(
        settings,
        opened(account, settings, vault),
        name=account.name,
        address=account.address,
        guard=guard,
        is_brief=is_brief,
    )


def advice(tried: Sequence[Tried], settings: TransportSettings | None, name: str) -> str | None:
    """What to type next; None when all went well."""
    failed = next((each for each in tried if not each.ok), None)
    if failed is None:
        return None
    if failed.advice or not isinstance(settings, ServerSettings):
        return failed.advice
    return kind_of(settings).advice(failed, settings, name)
