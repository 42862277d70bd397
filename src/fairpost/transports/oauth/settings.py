"""The stored settings for getting access tokens. The secret is sealed and kept elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OauthKind(StrEnum):
    """The provider that grants the tokens and the party that receives them."""

    GOOGLE_SERVICE_ACCOUNT = "google-service-account"  # a service account acts for a mailbox (the key file)
    GOOGLE_PERSON = "google-refresh-token"  # a person has given consent (the refresh token and the client secret)
    MICROSOFT_CLIENT = "microsoft-client"  # the application acts for itself (the client secret)
    MICROSOFT_PERSON = (
        "microsoft-refresh-token"  # a person has given consent (the refresh token, perhaps with a client secret)
    )

    @property
    def is_google(self) -> bool:
        return self.startswith("google")

    @property
    def has_refresh_token(self) -> bool:
        return self.endswith("refresh-token")


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """The settings of a token source. Raises ValueError if they lack a setting that every token request needs."""

    kind: OauthKind
    client_id: str | None = None  # ID of the registered application; a service account's ID is in its key file
    tenant: str | None = None  # Microsoft's term for an organization; its ID or domain
    token_uri: str | None = None  # Google's token server; None: the one in the key file, or the public one
    subject: str | None = None  # the mailbox that a service account acts for; None: the server's login user
    authority: str | None = None  # Microsoft's token server, or None for the public one

    def __post_init__(self) -> None:
        if self.kind is not OauthKind.GOOGLE_SERVICE_ACCOUNT and not self.client_id:
            raise ValueError(f"{self.kind} needs a client_id")
        if not self.kind.is_google and not self.tenant:
            raise ValueError(f"{self.kind} needs a tenant")


def read_oauth(data: Any) -> OauthSettings:
    """Parses stored settings. Raises KeyError, TypeError or ValueError if they are invalid."""
    if not isinstance(data, Mapping):
        raise TypeError("it must be an object")
    given = {name: value for name, value in data.items() if name != "kind"}
    if not all(isinstance(value, str) for value in given.values()):
        raise ValueError("all values must be text")
    return OauthSettings(kind=OauthKind(data["kind"]), **given)
