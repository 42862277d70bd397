"""Builds an SMTP server from a request."""

import re
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from fairpost.model.transport import Security, TransportSettings
from fairpost.transports.described import WrongSetting, one_line
from fairpost.transports.oauth.requested import requested_oauth
from fairpost.transports.smtp.imap_urls import parse_imap_url
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.smtp.urls import WrongUrl

_HOST = re.compile(r"(?=.{1,253}$)(?!-)[0-9A-Za-z_-]{1,63}(\.[0-9A-Za-z_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def requested_smtp(
    old: TransportSettings | None, given: Mapping[str, Any], *, mailbox: str
) -> tuple[SmtpSettings, str | None]:
    """Returns the settings and the secret to seal.

    The sealed secret is kept if the host and user are unchanged and no other secret is given.
    """
    user, security = given.get("user"), given.get("security", Security.STARTTLS)
    if given.get("password") is not None and given.get("oauth") is not None:
        raise WrongSetting("oauth", "replaces a password: specify only one of them")
    if user is not None and not user.isprintable():
        raise WrongSetting("user", "must be a single line of printable characters")
    server = SmtpSettings(
        host=given["host"].lower(), port=given.get("port") or _usual_port(security), security=security, user=user
    )
    secret: str | None = None
    if given.get("oauth") is not None:
        oauth, secret = requested_oauth(given["oauth"])
        server = replace(server, oauth=oauth, user=server.user or mailbox)
    elif given.get("password") is not None:
        secret = one_line(given["password"], "password")
        if server.user is None:
            raise WrongSetting("user", "is required with a password")
    elif "user" not in given or user is not None:
        server = _with_kept_login(old, server)
    if server.user is not None and server.security not in (Security.IMPLICIT, Security.STARTTLS):
        raise WrongSetting("security", "must be implicit or starttls: logins must be encrypted")
    return _with_reading(old, server, given), secret


def _with_reading(old: TransportSettings | None, server: SmtpSettings, given: Mapping[str, Any]) -> SmtpSettings:
    """Adds the settings for reading the mailbox. Settings that are not in the request are kept as long as the host
    stays the same.
    """
    before = old if isinstance(old, SmtpSettings) and old.host == server.host else None
    read = given.get("read")
    imap = given.get("imap", before.imap if before else None)
    reads = (before.read if before and server.user is not None else False) if read is None else read
    if reads and server.user is None:
        raise WrongSetting("read", "needs a login")
    if imap:
        try:
            parse_imap_url(imap)
        except WrongUrl as wrong:
            raise WrongSetting("imap", f"is not valid: {wrong.part} {wrong.rule}") from None
    return replace(server, read=reads, imap=imap or None)


def host_refusal(host: str) -> WrongSetting | None:
    """Refuses invalid hosts and numbers that other programs interpret as IP addresses."""
    is_name = _HOST.fullmatch(host) and not _NUMBER.fullmatch(host.rpartition(".")[2])
    if is_name or _is_address(host):
        return None
    return WrongSetting("host", "must be a name such as smtp.example.com, or an IP address")


def _with_kept_login(old: TransportSettings | None, server: SmtpSettings) -> SmtpSettings:
    kept = old if isinstance(old, SmtpSettings) and old.secret and old.host == server.host else None
    if kept is not None and (server.user == kept.user or (server.user is None and kept.oauth is not None)):
        return replace(server, user=kept.user, oauth=kept.oauth, secret=kept.secret)
    if server.user is not None:
        raise WrongSetting("password", "is required: none is stored for this host and user yet")
    return server


def _usual_port(security: Security) -> int:
    return {Security.IMPLICIT: 465, Security.STARTTLS: 587}.get(security, 25)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
