"""Decide when a login proves ownership of an address at a public provider.

The domain of such a provider cannot be verified through DNS. This module does not log in: the caller does, and stores
the result.
"""

from dataclasses import dataclass
from enum import StrEnum

from fairpost.model.transport import MailboxLogin

GOOGLE = frozenset({"gmail.com", "googlemail.com"})  # both domains lead to the same mailbox; dots are ignored


class Unfit(StrEnum):
    """The reason why a login to this server would prove nothing."""

    NO_PROVIDER = "no_provider"  # the domain does not belong to a provider whose servers are known
    NO_LOGIN = "no_login"  # not an SMTP server, or one without a login
    OTHER_HOST = "other_host"
    NOT_VERIFIED = "not_verified"
    OTHER_USER = "other_user"


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason why a login proves nothing. `field` is the request field that the reason is about."""

    reason: Unfit
    field: str


def doubt_about(address: str, login: MailboxLogin | None, provider_host: str | None) -> Doubt | None:
    """Return None if a login to this server with this name proves ownership of the mailbox; otherwise, return the
    reason. `provider_host` is the server for mailboxes in the address's domain.
    """
    if provider_host is None:
        return Doubt(Unfit.NO_PROVIDER, "address")
    if login is None:
        return Doubt(Unfit.NO_LOGIN, "smtp")
    if login.host.rstrip(".").lower() != provider_host.lower():
        return Doubt(Unfit.OTHER_HOST, "smtp.host")
    if not login.is_verified:
        return Doubt(Unfit.NOT_VERIFIED, "smtp.security")
    if login.user.casefold() != address.casefold():
        return Doubt(Unfit.OTHER_USER, "smtp.user")
    return None


def same_mailbox(address: str) -> str:
    """Return one name for all addresses of a mailbox: without any +tag and, at Google, without dots."""
    local, _, domain = address.casefold().rpartition("@")
    local = local.partition("+")[0] or local
    if domain in GOOGLE:
        return f"{local.replace('.', '') or local}@gmail.com"
    return f"{local}@{domain}"
