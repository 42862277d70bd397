"""The account `dev`, which delivers to the development inbox so that sending a first e-mail requires no setup."""

from fairpost.model.account import Limits
from fairpost.store.store import Store
from fairpost.transports.registry import write_transport
from fairpost.transports.smtp.settings import SmtpSettings

NAME = "dev"
POOL = "default"


async def put_dev_account(store: Store, inbox: SmtpSettings) -> None:
    """Adds the account to the pool `default` if the pool is empty.

    If the account exists, it is updated, because the inbox port may have changed.
    """
    accounts = {account.name: account for account in await store.accounts()}
    dev = accounts.get(NAME)
    if dev is None:
        if not any(account.pool == POOL for account in accounts.values()):
            await store.add_account(
                NAME,
                address="dev@localhost",
                display_name="Fairpost development",
                pool=POOL,
                limits=Limits(),
                transport=inbox,
            )
    elif isinstance(dev.transport, SmtpSettings) and dev.transport.host == inbox.host and dev.transport != inbox:
        await store.change_account(NAME, {"transport": write_transport(inbox)})
