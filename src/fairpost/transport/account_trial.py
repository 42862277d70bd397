"""Tries the server of an account, of whichever kind, without sending anything."""

from typing import assert_never

from fairpost.model.account import Account
from fairpost.model.transport import GmailSettings, SmtpSettings
from fairpost.smtp.guard import NetworkGuard
from fairpost.smtp.server import Timeouts
from fairpost.transport import gmail_trial, trial
from fairpost.transport.factory import gmail_client_of, login_of, server_of, server_settings
from fairpost.transport.trial import Tried
from fairpost.vault.vault import Vault


async def try_account(
    account: Account, vault: Vault, *, guard: NetworkGuard | None = None, patience: Timeouts = trial.PATIENCE
) -> list[Tried]:
    """Every step that was taken, in order; the last one is the one that failed, if any did. `guard`: the account is not the
    operator's own. Raises FairpostError when it has no server that it may use, VaultError when its secret cannot be opened."""
    settings = server_settings(account, guard=guard)
    match settings:
        case SmtpSettings():
            login = login_of(account, vault, guard=guard)
            return await trial.try_server(server_of(settings, guard=guard), login, patience=patience)
        case GmailSettings():
            client = gmail_client_of(account, vault, timeouts=gmail_trial.PATIENCE, guard=guard)
            try:
                return await gmail_trial.try_gmail(client, account)
            finally:
                await client.close()
        case _:
            assert_never(settings)
