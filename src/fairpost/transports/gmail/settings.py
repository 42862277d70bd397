"""A mailbox of the Gmail API, as an account has it stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fairpost.model.transport import ServerSettings
from fairpost.transports.oauth.settings import OauthSettings, read_oauth

GOOGLE = "https://gmail.googleapis.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class GmailSettings(ServerSettings):
    """A service account acts for the mailbox `oauth.subject`; None: the account's own address. What is sealed is the key file, or the
    refresh token with its client's secret."""

    kind: ClassVar[str] = "gmail"
    oauth: OauthSettings
    base_url: str | None = None  # None: Google


def read_gmail(given: Mapping[str, Any]) -> GmailSettings:
    """Raises KeyError, TypeError or ValueError for what is none."""
    oauth = read_oauth(given["oauth"])
    if not oauth.kind.is_google:
        raise ValueError("Gmail takes Google's tokens")
    if not all(isinstance(value, str) for name, value in given.items() if name != "oauth"):
        raise ValueError("all else is text")
    return GmailSettings(**{**given, "oauth": oauth})
