"""The sealed secret of an account that a person connected: the refresh token, and the client secret if there is one."""

import json
from dataclasses import dataclass, field

from fairpost.transports.oauth.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSecret:
    refresh_token: str = field(repr=False)
    client_secret: str | None = field(default=None, repr=False)


def write_refresh_secret(secret: RefreshSecret) -> str:
    given = {"refresh_token": secret.refresh_token, "client_secret": secret.client_secret}
    return json.dumps({name: value for name, value in given.items() if value})


def read_refresh_secret(text: str) -> RefreshSecret:
    """Parses the sealed secret. Raises Refused."""
    try:
        data = json.loads(text)
        token, client_secret = data["refresh_token"], data.get("client_secret")
    except (ValueError, LookupError, TypeError, AttributeError):
        token = client_secret = None
    if not isinstance(token, str) or not token or not isinstance(client_secret, str | None):
        raise Refused(
            "damaged_secret",
            "The stored refresh token cannot be read.",
            "Connect the account again: fairpost account set NAME --oauth … --refresh-token-file FILE",
        )
    return RefreshSecret(refresh_token=token, client_secret=client_secret)
