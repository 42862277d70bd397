"""What comes back to an account: whether its mailbox is read, why not, and what stays unknown therefore."""

from typing import TYPE_CHECKING

from fairpost.model.reason import Reason
from fairpost.model.transport import ServerSettings
from fairpost.transports.registry import kind_of

if TYPE_CHECKING:
    from fairpost.model.account import Account
    from fairpost.store.mailbox_reads import MailboxState


def way_back(account: "Account", state: "MailboxState | None") -> Reason | None:
    """None if the account has no server. `state` is its mailbox's state, if the mailbox was ever read."""
    settings = account.transport
    if not isinstance(settings, ServerSettings):
        return None
    kind = kind_of(settings)
    if not kind.reads(settings):
        code = "account.replies_unknown" if kind.bounce_domain(settings) else "account.no_way_back"
        return Reason(code, account=account.name, option=kind.read_option)
    if state is not None and state.reason is not None:
        return state.reason
    if state is None or state.looked_at is None:
        return Reason("account.read_soon", account=account.name)
    return Reason("account.read", account=account.name, looked_at=state.looked_at)
