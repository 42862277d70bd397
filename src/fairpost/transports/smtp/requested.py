"""An SMTP server as a request gives it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from fairpost.model.transport import Security, TransportSettings
from fairpost.transports.described import WrongSetting, one_line
from fairpost.transports.oauth.requested import requested_oauth
from fairpost.transports.smtp.settings import SmtpSettings

_HOST = re.compile(r"(?=.{1,253}$)(?!-)[0-9A-Za-z_-]{1,63}(\.[0-9A-Za-z_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def requested_smtp(
    old: TransportSettings | None, given: Mapping[str, Any], *, mailbox: str
) -> tuple[SmtpSettings, str | None]:
    """And the secret to seal. What was sealed for the old one stays where host and user are the same, and no other is given."""
    user, security = given.get("user"), given.get("security", Security.STARTTLS)
    if given.get("password") is not None and given.get("oauth") is not None:
        raise WrongSetting("oauth", "takes the place of a password: give one of the two")
    if user is not None and not user.isprintable():
        raise WrongSetting("user", "must be printable, on one line")
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
            raise WrongSetting("user", "is needed with a password")
    elif "user" not in given or user is not None:
        server = _with_kept_login(old, server)
    if server.user is not None and server.security not in (Security.IMPLICIT, Security.STARTTLS):
        raise WrongSetting("security", "must be implicit or starttls: a login does not go out unencrypted")
    return server, secret


def host_refusal(host: str) -> WrongSetting | None:
    """Of what leads nowhere, or is a number that other programs take for an address."""
    is_name = _HOST.fullmatch(host) and not _NUMBER.fullmatch(host.rpartition(".")[2])
    if is_name or _is_address(host):
        return None
    return WrongSetting("host", "must be a name like smtp.example.com, or an IP address")


def _with_kept_login(old: TransportSettings | None, server: SmtpSettings) -> SmtpSettings:
    kept = old if isinstance(old, SmtpSettings) and old.secret and old.host == server.host else None
    if kept is not None and (server.user == kept.user or (server.user is None and kept.oauth is not None)):
        return replace(server, user=kept.user, oauth=kept.oauth, secret=kept.secret)
    if server.user is not None:
        raise WrongSetting("password", "is needed: this host and user have none yet")
    return server


def _usual_port(security: Security) -> int:
    return {Security.IMPLICIT: 465, Security.STARTTLS: 587}.get(security, 25)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
