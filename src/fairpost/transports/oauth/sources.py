"""From an account's settings and its opened secret to the source of its tokens."""

from collections.abc import Callable
from datetime import datetime
from typing import assert_never

from fairpost.system import clock
from fairpost.transports.oauth.google import GoogleRefreshToken, GoogleServiceAccount
from fairpost.transports.oauth.microsoft import MicrosoftClient, MicrosoftRefreshToken
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.oauth.tokens import KeptTokens


def token_source(
    settings: OauthSettings,
    secret: str,
    *,
    mailbox: str,
    on_rotated: Callable[[str], None] = lambda _: None,
    now: Callable[[], datetime] = clock.now,
) -> KeptTokens:
    """Nothing is read or asked yet: what is wrong with the secret is told with the first token. `mailbox` is whom a
    service account acts for, unless the settings say otherwise."""
    client_id, tenant = settings.client_id or "", settings.tenant or ""  # there where the kind needs them
    match settings.kind:
        case OauthKind.GOOGLE_SERVICE_ACCOUNT:
            subject = settings.subject or mailbox
            return GoogleServiceAccount(secret, subject=subject, token_uri=settings.token_uri, now=now)
        case OauthKind.GOOGLE_PERSON:
            return GoogleRefreshToken(secret, client_id=client_id, token_uri=settings.token_uri, now=now)
        case OauthKind.MICROSOFT_CLIENT:
            return MicrosoftClient(secret, client_id=client_id, tenant=tenant, authority=settings.authority, now=now)
        case OauthKind.MICROSOFT_PERSON:
            return MicrosoftRefreshToken(
                secret,
                client_id=client_id,
                tenant=tenant,
                authority=settings.authority,
                on_rotated=on_rotated,
                now=now,
            )
        case _:
            assert_never(settings.kind)
