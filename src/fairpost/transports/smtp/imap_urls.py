"""A mailbox's server as one line: `imaps://user@imap.example.com:993?folder=INBOX`. The URL contains no password,
because the account's login is used.
"""

from dataclasses import dataclass

from fairpost.model.transport import Security
from fairpost.providers.imap_hosts import imap_host_of
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.smtp.urls import WrongUrl, url_address, url_decoded, url_parts

SCHEMES = {"imaps": Security.IMPLICIT, "imap+starttls": Security.STARTTLS, "imap": Security.NONE}
PORTS = {Security.IMPLICIT: 993, Security.STARTTLS: 143, Security.NONE: 143}
IMAP_PORTS = frozenset({143, 993})
INBOX = "INBOX"
FOLDER_CHARS_MAX = 250
EXAMPLE = "imaps://imap.example.com or imap+starttls://USER@HOST:143?folder=INBOX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """The mailbox's server and folder. If `user` is None, the account's user is used."""

    host: str
    port: int = 993
    security: Security = Security.IMPLICIT
    user: str | None = None
    folder: str = INBOX


def mailbox_of(settings: SmtpSettings) -> Mailbox:
    """Returns the server and folder that the settings name. Raises WrongUrl."""
    if settings.imap is None:
        return Mailbox(host=imap_host_of(settings.host))
    return parse_imap_url(settings.imap)


def parse_imap_url(url: str) -> Mailbox:
    """Parses a mailbox URL. Raises WrongUrl."""
    try:
        return _parsed(url)
    except WrongUrl as wrong:
        raise WrongUrl(wrong.part, wrong.rule, example=EXAMPLE) from None


def _parsed(url: str) -> Mailbox:
    scheme, user, password, address, tail = url_parts(url, SCHEMES, "imaps:// or imap+starttls://")
    if password is not None:
        raise WrongUrl("it", "must not contain a password: the mailbox is read with the account's own password")
    security = SCHEMES[scheme]
    host, port = url_address(address)
    return Mailbox(host=host, port=port or PORTS[security], security=security, user=user, folder=_folder(tail))


def _folder(query: str) -> str:
    if not query:
        return INBOX
    name, _, value = query.partition("=")
    folder = url_decoded(value, "its folder")
    if name != "folder" or not 0 < len(folder) <= FOLDER_CHARS_MAX or not folder.isprintable():
        raise WrongUrl(
            "its folder", f"must be ?folder=NAME, where NAME has at most {FOLDER_CHARS_MAX} printable characters"
        )
    return folder
