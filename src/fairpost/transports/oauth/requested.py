"""OAuth settings from a request, and rules for combining them. A request must not choose the token server, because that
server receives the secret.
"""

import json
from collections.abc import Mapping
from typing import Any

from fairpost.transports.described import WrongSetting, one_line
from fairpost.transports.oauth import public
from fairpost.transports.oauth.described import ALLOWED, KEY_BYTES_MAX, NEEDED
from fairpost.transports.oauth.settings import OauthKind, OauthSettings


def requested_oauth(given: Mapping[str, Any]) -> tuple[OauthSettings, str]:
    """Returns the settings and the secret to seal. `given` is keyed by the settings of `OAUTH`. Raises WrongSetting."""
    from fairpost.transports.oauth.secrets import RefreshSecret, write_refresh_secret

    kind = OauthKind(given["kind"])
    for name in ("client_id", "tenant", "client_secret", "refresh_token", "key"):
        if given.get(name) is None and name in NEEDED[kind]:
            raise WrongSetting(f"oauth.{name}", f"is required with {kind}")
        if given.get(name) is not None and name not in ALLOWED[kind]:
            raise WrongSetting(f"oauth.{name}", f"cannot be used with {kind}")
    token_uri = public.GOOGLE_URI if kind.is_google else None
    settings = OauthSettings(
        kind=kind, client_id=given.get("client_id"), tenant=given.get("tenant"), token_uri=token_uri
    )
    if given.get("key") is not None:
        return settings, _service_key(given["key"])
    client_secret = (
        one_line(given["client_secret"], "oauth.client_secret") if given.get("client_secret") is not None else None
    )
    if given.get("refresh_token") is None:
        assert client_secret is not None, "every kind that does not use a refresh token needs a client secret"
        return settings, client_secret
    token = one_line(given["refresh_token"], "oauth.refresh_token")
    return settings, write_refresh_secret(RefreshSecret(refresh_token=token, client_secret=client_secret))


def _service_key(text: str) -> str:
    from fairpost.transports.oauth.errors import Refused
    from fairpost.transports.oauth.google import read_service_key

    wrong = WrongSetting("oauth.key", "is not a Google service account's key file")
    if len(text) > KEY_BYTES_MAX or "\0" in text:
        raise wrong
    try:
        read_service_key(text)
        info = json.loads(text)
    except (Refused, ValueError, RecursionError):
        raise wrong from None
    if info.get("token_uri") not in (None, public.GOOGLE_URI):
        raise WrongSetting("oauth.key", f"must have Google's token server, {public.GOOGLE_URI}")
    return text
