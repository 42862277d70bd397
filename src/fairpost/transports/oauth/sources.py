"""Builds an account's token source from its settings and opened secret."""

from collections.abc import Callable
from datetime import datetime
from typing import assert_never

from fairpost.system import clock
from fairpost.transports.oauth.google import GoogleRefreshToken, GoogleServiceAccount
from fairpost.transports.oauth.microsoft import (
    PERSON_SCOPES,
    READING_SCOPES,
    MicrosoftClient,
    MicrosoftRefreshToken,
)
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.oauth.tokens import KeptTokens


def token_source(
    settings: OauthSettings,
    secret: str,
    *,
    mailbox: str,
    is_for_reading: bool = False,
    on_rotated: Callable[[str], None] = lambda _: None,
    now: Callable[[], datetime] = clock.now,
) -> KeptTokens:
    """Returns the token source. Nothing is read or requested yet, so an error in the secret is raised only when the
    first token is requested.

    `mailbox` is the mailbox that a service account acts for, unless the settings name a different one. With
    `is_for_reading`, the token is for IMAP. Only Microsoft grants a separate token for IMAP.
    """
    client_id, tenant = settings.client_id or "", settings.tenant or ""  # these are set if the kind needs them
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
                scopes=READING_SCOPES if is_for_reading else PERSON_SCOPES,
                on_rotated=on_rotated,
                now=now,
            )
        case _:
            assert_never(settings.kind)
