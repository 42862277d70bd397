"""The server of an account as a request gives it, and as it is shown: SMTP or the Gmail API, with a password or by OAuth. What is secret is apart from the rest,
and never shown.

Where tokens come from is never for the request to say: it would be asked with the secret.
"""

import json
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, SecretStr, StringConstraints

from fairpost.api.answers import Given, Model, Text
from fairpost.api.errors import invalid
from fairpost.model.oauth import OauthKind, OauthSettings
from fairpost.model.transport import GmailSettings, Security, ServerSettings, SmtpSettings, TransportSettings
from fairpost.oauth.errors import Refused
from fairpost.oauth.google import PUBLIC_URI, read_service_key
from fairpost.oauth.secrets import RefreshSecret, write_refresh_secret

SECRET_BYTES_MAX = 10_000  # tokens can be long
KEY_BYTES_MAX = 65_536  # Google's key files have 2.4 KB

ClientName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]

# Of each kind: what it needs, and what it may have.
NEEDED = {
    OauthKind.GOOGLE_SERVICE_ACCOUNT: ("key",),
    OauthKind.GOOGLE_PERSON: ("client_id", "refresh_token"),
    OauthKind.MICROSOFT_CLIENT: ("client_id", "tenant", "client_secret"),
    OauthKind.MICROSOFT_PERSON: ("client_id", "tenant", "refresh_token"),
}
ALLOWED = {kind: (*names, "client_secret") if kind.has_refresh_token else names for kind, names in NEEDED.items()}


class OauthIn(Given):
    """Which of these are needed depends on the kind; the others must be left out."""

    kind: OauthKind
    client_id: Annotated[ClientName | None, Field(description="Of the registered application.")] = None
    tenant: Annotated[ClientName | None, Field(description="Microsoft's directory id, or a domain of it.")] = None
    client_secret: Annotated[SecretStr | None, Field(description="Of the registered application.")] = None
    refresh_token: Annotated[SecretStr | None, Field(description="Of a person who allowed it.")] = None
    key: Annotated[SecretStr | None, Field(description="The key file of a Google service account, as text.")] = None


class SmtpIn(Given):
    host: Annotated[Text, Field(min_length=1, max_length=253)]
    port: Annotated[
        int | None, Field(ge=1, le=65_535, description="Left out: 465, 587 or 25, as `security` has it.")
    ] = None
    security: Annotated[Security, Field(description="With a login: implicit or starttls.")] = Security.STARTTLS
    user: Annotated[Text | None, Field(min_length=1, max_length=500, description="Null: no login.")] = None
    password: SecretStr | None = None
    oauth: OauthIn | None = None


class GmailIn(Given):
    oauth: Annotated[OauthIn, Field(description="Of a Google kind.")]
    subject: Annotated[
        Text | None,
        Field(max_length=320, description="The mailbox that a service account acts for; null: the address."),
    ] = None


class SmtpOut(Model):
    kind: Literal["smtp"] = "smtp"
    host: str
    port: int
    security: Security
    user: str | None
    has_secret: Annotated[bool, Field(description="Whether a password or a token was given.")]
    oauth: Annotated[OauthKind | None, Field(description="Null: it logs in with a password, or not at all.")]
    client_id: str | None
    tenant: str | None


class GmailOut(Model):
    kind: Literal["gmail"] = "gmail"
    oauth: OauthKind
    client_id: str | None
    subject: str | None
    has_secret: bool


class OtherServer(Model):
    """One that this version of the service cannot read."""

    kind: Literal["other"] = "other"


# ── given ─────────────────────────────────────────────────────────────────────────────────────────────────


def new_server(smtp: SmtpIn | None, gmail: GmailIn | None, *, mailbox: str) -> tuple[ServerSettings | None, str | None]:
    """And the secret to seal for it, where there is one."""
    return changed_server(None, smtp, gmail, mailbox=mailbox)


def changed_server(
    old: TransportSettings | None, smtp: SmtpIn | None, gmail: GmailIn | None, *, mailbox: str
) -> tuple[ServerSettings | None, str | None]:
    """What was sealed for the old one stays where host and user are the same, and no other secret is given."""
    if smtp is not None and gmail is not None:
        raise invalid("gmail", "an account sends by SMTP or through the Gmail API, not both")
    if gmail is not None:
        return _gmail(gmail)
    return _smtp(old, smtp, mailbox) if smtp is not None else (None, None)


def _gmail(given: GmailIn) -> tuple[GmailSettings, str]:
    if not given.oauth.kind.is_google:
        raise invalid("gmail.oauth.kind", "must be one of Google's")
    oauth, secret = _grant(given.oauth, "gmail.oauth")
    if given.subject and oauth.kind is not OauthKind.GOOGLE_SERVICE_ACCOUNT:
        raise invalid("gmail.subject", "goes with a service account: a refresh token is for its own mailbox")
    if given.subject and not (
        given.subject.isprintable() and given.subject.count("@") == 1 and " " not in given.subject
    ):
        raise invalid("gmail.subject", "must be a mailbox like ann@example.com")
    return GmailSettings(oauth=replace(oauth, subject=given.subject or None)), secret


def _smtp(old: TransportSettings | None, given: SmtpIn, mailbox: str) -> tuple[SmtpSettings, str | None]:
    if given.password is not None and given.oauth is not None:
        raise invalid("smtp.oauth", "takes the place of a password: give one of the two")
    if given.user is not None and not given.user.isprintable():
        raise invalid("smtp.user", "must be printable, on one line")
    server = SmtpSettings(
        host=given.host.lower(),
        port=given.port or _usual_port(given.security),
        security=given.security,
        user=given.user,
    )
    secret: str | None = None
    if given.oauth is not None:
        oauth, secret = _grant(given.oauth, "smtp.oauth")
        server = replace(server, oauth=oauth, user=server.user or mailbox)
    elif given.password is not None:
        secret = _line(given.password, "smtp.password")
        if server.user is None:
            raise invalid("smtp.user", "is needed with a password")
    else:
        server = _with_kept_login(old, server, is_without="user" in given.model_fields_set and given.user is None)
    if server.user is not None and server.security not in (Security.IMPLICIT, Security.STARTTLS):
        raise invalid("smtp.security", "must be implicit or starttls: a login does not go out unencrypted")
    return server, secret


def _with_kept_login(old: TransportSettings | None, server: SmtpSettings, *, is_without: bool) -> SmtpSettings:
    if is_without:
        return server
    kept = old if isinstance(old, SmtpSettings) and old.secret and old.host == server.host else None
    if kept is not None and (server.user == kept.user or (server.user is None and kept.oauth is not None)):
        return replace(server, user=kept.user, oauth=kept.oauth)
    if server.user is not None:
        raise invalid("smtp.password", "is needed: this host and user have none yet")
    return server


def _usual_port(security: Security) -> int:
    return {Security.IMPLICIT: 465, Security.STARTTLS: 587}.get(security, 25)


def _grant(given: OauthIn, where: str) -> tuple[OauthSettings, str]:
    for name in ("client_id", "tenant", "client_secret", "refresh_token", "key"):
        if getattr(given, name) is None and name in NEEDED[given.kind]:
            raise invalid(f"{where}.{name}", f"is needed with {given.kind}")
        if getattr(given, name) is not None and name not in ALLOWED[given.kind]:
            raise invalid(f"{where}.{name}", f"does not go with {given.kind}")
    token_uri = PUBLIC_URI if given.kind.is_google else None
    settings = OauthSettings(kind=given.kind, client_id=given.client_id, tenant=given.tenant, token_uri=token_uri)
    if given.key is not None:
        return settings, _service_key(given.key, f"{where}.key")
    client_secret = _line(given.client_secret, f"{where}.client_secret") if given.client_secret is not None else None
    if given.refresh_token is None:
        assert client_secret is not None
        return settings, client_secret
    token = _line(given.refresh_token, f"{where}.refresh_token")
    return settings, write_refresh_secret(RefreshSecret(refresh_token=token, client_secret=client_secret))


def _service_key(given: SecretStr, where: str) -> str:
    text = given.get_secret_value()
    wrong = invalid(where, "is not the key file of a Google service account")
    if len(text) > KEY_BYTES_MAX or "\0" in text:
        raise wrong
    try:
        read_service_key(text)
        info = json.loads(text)
    except (Refused, ValueError, RecursionError):
        raise wrong from None
    if info.get("token_uri") not in (None, PUBLIC_URI):
        raise invalid(where, f"has another token server than Google's, which is {PUBLIC_URI}")
    return text


def _line(given: SecretStr, where: str) -> str:
    secret = given.get_secret_value()
    if not 1 <= len(secret.encode()) <= SECRET_BYTES_MAX or set(secret) & set("\0\r\n"):
        raise invalid(where, f"must be one line of 1 to {SECRET_BYTES_MAX:,} bytes")
    return secret


# ── shown ─────────────────────────────────────────────────────────────────────────────────────────────────


def server_out(server: TransportSettings | None) -> SmtpOut | GmailOut | OtherServer | None:
    match server:
        case None:
            return None
        case SmtpSettings():
            oauth = server.oauth
            return SmtpOut(
                host=server.host,
                port=server.port,
                security=server.security,
                user=server.user,
                has_secret=server.secret is not None,
                oauth=oauth.kind if oauth else None,
                client_id=oauth.client_id if oauth else None,
                tenant=oauth.tenant if oauth else None,
            )
        case GmailSettings():
            return GmailOut(
                oauth=server.oauth.kind,
                client_id=server.oauth.client_id,
                subject=server.oauth.subject,
                has_secret=server.secret is not None,
            )
        case _:
            return OtherServer()


def in_short(server: ServerSettings | None) -> str | None:
    """For the audit: never what is secret."""
    if isinstance(server, SmtpSettings):
        return f"{server.security} {server.host}:{server.port}"
    return "gmail" if server is not None else None
