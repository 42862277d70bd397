"""An SMTP server, as an account has it stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fairpost.model.transport import MailboxLogin, Security, ServerSettings
from fairpost.transports.oauth.settings import OauthSettings, read_oauth

_VERIFIED = frozenset({Security.IMPLICIT, Security.STARTTLS})  # the certificate must be the server's own


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings(ServerSettings):
    kind: ClassVar[str] = "smtp"
    host: str
    port: int
    security: Security = Security.STARTTLS
    user: str | None = None  # None: no login
    ca_file: str | None = None
    hello_name: str | None = None
    oauth: OauthSettings | None = None  # None: the secret is a password

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
    """Raises KeyError, TypeError or ValueError for what is none."""
    oauth = given.get("oauth")
    return SmtpSettings(
        **{
            **given,
            "port": int(given["port"]),
            "security": Security(given["security"]),
            "oauth": read_oauth(oauth) if oauth is not None else None,
        }
    )
