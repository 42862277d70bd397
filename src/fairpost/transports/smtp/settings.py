"""The stored settings of an SMTP server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fairpost.model.transport import MailboxLogin, Security, ServerSettings
from fairpost.transports.oauth.settings import OauthSettings, read_oauth

_VERIFIED = frozenset({Security.IMPLICIT, Security.STARTTLS})  # requires a valid certificate for the server


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings(ServerSettings):
    kind: ClassVar[str] = "smtp"
    host: str
    port: int
    security: Security = Security.STARTTLS
    user: str | None = None  # None: no login
    ca_file: str | None = None
    hello_name: str | None = None
    bounce_domain: str | None = None  # where reports go, with a separate address for each e-mail; None: to the sender
    oauth: OauthSettings | None = None  # None: the secret is a password
    read: bool = False  # whether the mailbox is read, with the same login
    imap: str | None = None  # URL of the mailbox; None: the provider's usual server

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def takes_secret(self) -> bool:
        return self.user is not None

    @property
    def login(self) -> MailboxLogin | None:
        if self.user is None:
            return None
        is_verified = self.security in _VERIFIED and self.ca_file is None
        return MailboxLogin(host=self.host, user=self.user, is_verified=is_verified)


def read_smtp(given: Mapping[str, Any]) -> SmtpSettings:
    """Parses stored settings. Raises KeyError, TypeError or ValueError if they are invalid."""
    oauth = given.get("oauth")
    return SmtpSettings(
        **{
            **given,
            "port": int(given["port"]),
            "security": Security(given["security"]),
            "oauth": read_oauth(oauth) if oauth is not None else None,
            "read": bool(given.get("read")),
        }
    )
