"""Mailboxes of people at a provider whose domain nobody proves by DNS: when a login there shows that an address is somebody's own.

Nothing is tried here: whoever asks logs in, and remembers what came of it.
"""

from dataclasses import dataclass
from enum import StrEnum

from fairpost.model.transport import MailboxLogin

GOOGLE = frozenset({"gmail.com", "googlemail.com"})  # one mailbox under both, whatever dots are in it


class Unfit(StrEnum):
    """Why a login at this server would prove nothing."""

    NO_PROVIDER = "no_provider"  # the domain is not of a provider whose servers are known
    NO_LOGIN = "no_login"  # no SMTP server, or none with a login
    OTHER_HOST = "other_host"
    NOT_VERIFIED = "not_verified"
    OTHER_USER = "other_user"


@dataclass(frozen=True, slots=True)
class Doubt:
    """`field`: of the request that gave the server."""

    reason: Unfit
    field: str


def doubt_about(address: str, login: MailboxLogin | None, provider_host: str | None) -> Doubt | None:
    """None: who can log in at this server with this name has this mailbox. `provider_host`: the server for mailboxes of the address's domain."""
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
    """One name for all addresses of a mailbox: without a +tag, and at Google without dots."""
    local, _, domain = address.casefold().rpartition("@")
    local = local.partition("+")[0] or local
    if domain in GOOGLE:
        return f"{local.replace('.', '') or local}@gmail.com"
    return f"{local}@{domain}"
