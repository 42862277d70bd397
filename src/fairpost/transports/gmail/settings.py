"""The stored settings of a Gmail API mailbox."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fairpost.model.transport import ServerSettings
from fairpost.transports.oauth.settings import OauthSettings, read_oauth

GOOGLE = "https://gmail.googleapis.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class GmailSettings(ServerSettings):
    """The settings of a mailbox.

    A service account acts for the mailbox `oauth.subject`, or for the account's own address if `oauth.subject` is None.
    The sealed secret is the key file, or the refresh token with its client secret.
    """

    kind: ClassVar[str] = "gmail"
    oauth: OauthSettings
    base_url: str | None = None  # None: Google's own URL
    read: bool = False  # whether the mailbox is read


def read_gmail(given: Mapping[str, Any]) -> GmailSettings:
    """Parses stored settings. Raises KeyError, TypeError or ValueError if they are invalid."""
    oauth = read_oauth(given["oauth"])
    if not oauth.kind.is_google:
        raise ValueError("Gmail requires Google tokens")
    if not all(isinstance(value, str) for name, value in given.items() if name not in ("oauth", "read")):
        raise ValueError("all other values must be text")
    return GmailSettings(**{**given, "oauth": oauth, "read": bool(given.get("read"))})
