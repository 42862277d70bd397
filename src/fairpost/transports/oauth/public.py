"""The providers' public token servers, the only ones that workspaces' accounts may use."""

from dataclasses import replace

from fairpost.transports.oauth.settings import OauthSettings

GOOGLE_URI = "https://oauth2.googleapis.com/token"
MICROSOFT = "https://login.microsoftonline.com"
GOOGLES_TOKEN_SERVERS = frozenset(
    {
        GOOGLE_URI,
        "https://accounts.google.com/o/oauth2/token",  # the address in old key files
        "https://www.googleapis.com/oauth2/v4/token",
    }
)


def own_token_server(oauth: OauthSettings | None) -> str | None:
    """Returns the name of the setting that chooses a different token server, or None."""
    if oauth is None:
        return None
    if oauth.token_uri is not None and oauth.token_uri not in GOOGLES_TOKEN_SERVERS:
        return "oauth.token_uri"
    return "oauth.authority" if oauth.authority is not None and oauth.authority.rstrip("/") != MICROSOFT else None


def with_public_server(oauth: OauthSettings) -> OauthSettings:
    """Returns the settings, changed so that any token server named in a service account's key file is ignored."""
    return replace(oauth, token_uri=GOOGLE_URI) if oauth.kind.is_google else oauth
