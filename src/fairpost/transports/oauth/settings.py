"""How an account comes by its access tokens, as it is stored. The secret that goes with it is sealed, and not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OauthKind(StrEnum):
    """Who grants the tokens, and for what."""

    GOOGLE_SERVICE_ACCOUNT = "google-service-account"  # acts for a mailbox of its Workspace (the key file)
    GOOGLE_PERSON = "google-refresh-token"  # a person allowed it (the refresh token and the client's secret)
    MICROSOFT_CLIENT = "microsoft-client"  # the application itself (the client's secret)
    MICROSOFT_PERSON = "microsoft-refresh-token"  # a person allowed it (the refresh token, maybe a secret)

    @property
    def is_google(self) -> bool:
        return self.startswith("google")

    @property
    def has_refresh_token(self) -> bool:
        return self.endswith("refresh-token")


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """Raises ValueError where something is missing without which no token can be asked for."""

    kind: OauthKind
    client_id: str | None = None  # of the registered application; a service account's is in its key file
    tenant: str | None = None  # Microsoft's word for an organisation: its id or domain
    token_uri: str | None = None  # Google's token server; None: the key file's own, or the public one
    subject: str | None = None  # the mailbox a service account acts for; None: the user of the server's login
    authority: str | None = None  # Microsoft's token server; None: the public one

    def __post_init__(self) -> None:
        if self.kind is not OauthKind.GOOGLE_SERVICE_ACCOUNT and not self.client_id:
            raise ValueError(f"{self.kind} needs a client_id")
        if not self.kind.is_google and not self.tenant:
            raise ValueError(f"{self.kind} needs a tenant")


def read_oauth(data: Any) -> OauthSettings:
    """Raises KeyError, TypeError or ValueError for what is none."""
    if not isinstance(data, Mapping):
        raise TypeError("it is an object")
    given = {name: value for name, value in data.items() if name != "kind"}
    if not all(isinstance(value, str) for value in given.values()):
        raise ValueError("all of it is text")
    return OauthSettings(kind=OauthKind(data["kind"]), **given)
