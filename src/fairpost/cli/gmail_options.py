"""How an account is told to send through the Gmail API: the options, what goes with what, and how it is tried."""

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.passwords import read_file
from fairpost.model.errors import FairpostError
from fairpost.model.oauth import OauthKind, OauthSettings
from fairpost.model.transport import GmailSettings

if TYPE_CHECKING:
    from fairpost.model.transport import TransportSettings

FILE_BYTES_MAX = 64 * 1024  # Google's key files have 2.4 KB

Gmail = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Send through the Gmail API, with the key of a service account that may act for the mailbox, as JSON; - is "
        "standard input.",
    ),
]
GmailRefreshToken = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Send through the Gmail API, with what a person allowed: JSON with client_id, client_secret and "
        "refresh_token; - is standard input.",
    ),
]
Subject = Annotated[
    str | None,
    typer.Option(metavar="MAILBOX", help="The mailbox that --gmail acts for; '' for the account's own address."),
]
GmailUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="An emulator in Google's place, like http://127.0.0.1:8025.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GmailOptions:
    gmail: Gmail = None
    gmail_refresh_token: GmailRefreshToken = None
    subject: Subject = None
    gmail_url: GmailUrl = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GmailGiven:
    """What was given of it. Without a secret, it changes an account that has one."""

    oauth: OauthSettings | None = None
    secret: str | None = field(default=None, repr=False)
    subject: str | None = None
    url: str | None = None


def given_gmail(name: str, options: GmailOptions, *, beside: bool) -> GmailGiven | None:
    """None: nothing of it. `beside`: a server or a password was given as well."""
    key_file, refresh_token_file = options.gmail, options.gmail_refresh_token
    subject, url = options.subject, options.gmail_url
    if key_file is refresh_token_file is subject is url is None:
        return None
    if beside:
        raise FairpostError("An account sends by SMTP or through the Gmail API: leave out the server and the password.")
    if key_file is not None and refresh_token_file is not None:
        raise FairpostError("Give --gmail or --gmail-refresh-token, not both.")
    if refresh_token_file is not None and subject:
        raise FairpostError("--subject goes with --gmail: a refresh token is for the mailbox of who allowed it.")
    given = GmailGiven(subject=_mailbox(subject), url=_url(url))
    if key_file is not None:
        oauth, secret = _service_account(key_file, name)
        return replace(given, oauth=oauth, secret=secret)
    if refresh_token_file is not None:
        oauth, secret = _person(refresh_token_file)
        return replace(given, oauth=oauth, secret=secret)
    return given


def with_gmail(old: "TransportSettings | None", given: GmailGiven, *, name: str) -> GmailSettings:
    """As it is to be stored, the secret left out. What was not given stays as it was."""
    kept = old if isinstance(old, GmailSettings) else None
    oauth = given.oauth or (kept.oauth if kept else None)
    if oauth is None:
        raise FairpostError(
            f"Account {name} does not send through the Gmail API. Give it a key: fairpost account set {name} --gmail FILE"
        )
    if kept is not None and given.url is not None and given.url != (kept.base_url or "") and given.secret is None:
        raise FairpostError("Another URL needs its key with it. Add: --gmail FILE")
    if given.subject and oauth.kind is not OauthKind.GOOGLE_SERVICE_ACCOUNT:
        raise FairpostError("--subject goes with --gmail: a refresh token is for the mailbox of who allowed it.")
    before = kept.oauth.subject if kept else None
    subject = before if given.subject is None else given.subject or None
    base_url = (kept.base_url if kept else None) if given.url is None else given.url or None
    is_service = oauth.kind is OauthKind.GOOGLE_SERVICE_ACCOUNT
    return GmailSettings(oauth=replace(oauth, subject=subject if is_service else None), base_url=base_url)


def gmail_facts(settings: GmailSettings) -> dict[str, Any]:
    """All but the key, not even sealed."""
    return {
        "kind": "gmail",
        "oauth": settings.oauth.kind,
        "client_id": settings.oauth.client_id,
        "subject": settings.oauth.subject,
        "url": settings.base_url,
        "has_key": settings.secret is not None,
    }


def gmail_in_full(settings: GmailSettings) -> str:
    how = {
        OauthKind.GOOGLE_SERVICE_ACCOUNT: "by a service account",
        OauthKind.GOOGLE_PERSON: f"by the refresh token of a person, client {settings.oauth.client_id}",
    }
    mailbox = f", for {settings.oauth.subject}" if settings.oauth.subject else ""
    return f"{gmail_in_short(settings)}, {how.get(settings.oauth.kind, settings.oauth.kind)}{mailbox}"


def gmail_in_short(settings: GmailSettings) -> str:
    return f"Gmail API at {settings.base_url}" if settings.base_url else "Gmail API"


def _service_account(path: str, name: str) -> tuple[OauthSettings, str]:
    from fairpost.oauth.errors import Refused
    from fairpost.oauth.google import read_service_key
    from fairpost.transport.gmail import what_to_type

    text = read_file(path, option="--gmail", bytes_max=FILE_BYTES_MAX)
    try:
        read_service_key(text)
    except Refused as refused:
        raise FairpostError(what_to_type(str(refused), name)) from None
    return OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), text


def _person(path: str) -> tuple[OauthSettings, str]:
    from fairpost.oauth.http import require_safe
    from fairpost.oauth.secrets import RefreshSecret, write_refresh_secret

    option = "--gmail-refresh-token"
    text = read_file(path, option=option, bytes_max=FILE_BYTES_MAX)
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    names = ("client_id", "client_secret", "refresh_token")
    if not isinstance(given, dict) or not all(isinstance(given.get(each), str) and given[each] for each in names):
        raise FairpostError(f"{option} must be a file of JSON with client_id, client_secret and refresh_token.")
    token_uri = given.get("token_uri")
    if token_uri is not None:
        require_safe(str(token_uri))
    oauth = OauthSettings(
        kind=OauthKind.GOOGLE_PERSON,
        client_id=given["client_id"],
        token_uri=str(token_uri) if token_uri else None,
    )
    secret = RefreshSecret(refresh_token=given["refresh_token"], client_secret=given["client_secret"])
    return oauth, write_refresh_secret(secret)


def _mailbox(subject: str | None) -> str | None:
    local, _, domain = (subject or "").rpartition("@")
    if subject and not (local and domain and subject.isprintable() and " " not in subject and len(subject) <= 320):
        raise FairpostError(f"--subject must be a mailbox like ann@example.com, got {subject!r}")
    return subject


def _url(url: str | None) -> str | None:
    """Empty: Google. Tokens leave this machine over TLS only."""
    from urllib.parse import urlsplit

    from fairpost.oauth.errors import Refused
    from fairpost.oauth.http import require_safe

    if not url:
        return url
    try:
        require_safe(url)
        parts = urlsplit(url)
        is_plain = bool(parts.hostname) and not (parts.username or parts.password or parts.query or parts.fragment)
        fits = is_plain and parts.path in ("", "/") and parts.port != 0 and url.isprintable() and len(url) <= 300
    except (Refused, ValueError):
        fits = False
    if not fits:
        raise FairpostError("--gmail-url must be https://HOST, or http:// on this machine, like http://127.0.0.1:8025")
    return url.rstrip("/")
