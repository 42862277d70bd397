"""Command-line options for sending through the Gmail API, and rules for combining them."""

import json
from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from fairpost.model.errors import FairpostError
from fairpost.model.transport import TransportSettings
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.options import read_file

FILE_BYTES_MAX = 64 * 1024  # Google's key files are about 2.4 KB

Gmail = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Send through the Gmail API, with the JSON key file of a service account that may act on behalf of the mailbox. Use `-` for standard input.",
    ),
]
GmailRefreshToken = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Send through the Gmail API with a refresh token: a JSON file with `client_id`, `client_secret` and `refresh_token`. Use `-` for standard input.",
    ),
]
Subject = Annotated[
    str | None,
    typer.Option(
        metavar="MAILBOX",
        help="Mailbox on whose behalf the --gmail service account acts. Use `''` for the account's address.",
    ),
]
GmailUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="URL of an emulator to use instead of Google, for example http://127.0.0.1:8025."),
]
GmailRead = Annotated[
    bool | None,
    typer.Option(
        "--gmail-read/--no-gmail-read",
        help="Read the mailbox for bounces and replies through the Gmail API. Nothing in the mailbox is changed.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GmailOptions:
    gmail: Gmail = None
    gmail_refresh_token: GmailRefreshToken = None
    subject: Subject = None
    gmail_url: GmailUrl = None
    gmail_read: GmailRead = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenGmail:
    """The Gmail options that were given. If no secret is given, the options change an account that already has one."""

    oauth: OauthSettings | None = None
    secret: str | None = field(default=None, repr=False)
    subject: str | None = None
    url: str | None = None
    read: bool | None = None

    def server(self, name: str, old: TransportSettings | None, *, mailbox: str) -> GmailSettings:
        """Returns the settings. Options that were not given keep their stored values."""
        kept = old if isinstance(old, GmailSettings) else None
        oauth = self.oauth or (kept.oauth if kept else None)
        if oauth is None:
            raise FairpostError(
                f"Account {name} does not send through the Gmail API. Set its key: fairpost account set {name} --gmail FILE"
            )
        if kept is not None and self.url is not None and self.url != (kept.base_url or "") and self.secret is None:
            raise FairpostError("If the URL is new, specify the key as well. Add: --gmail FILE")
        is_service = oauth.kind is OauthKind.GOOGLE_SERVICE_ACCOUNT
        if self.subject and not is_service:
            raise FairpostError("--subject needs --gmail: a refresh token works only for its own mailbox.")
        before = kept.oauth.subject if kept else None
        subject = before if self.subject is None else self.subject or None
        return GmailSettings(
            oauth=replace(oauth, subject=subject if is_service else None),
            base_url=(kept.base_url if kept else None) if self.url is None else self.url or None,
            secret=kept.secret if kept and self.secret is None else None,
            read=(kept.read if kept else False) if self.read is None else self.read,
        )


def given_gmail(name: str, options: GmailOptions) -> GivenGmail | None:
    """Returns the Gmail options that were given, or None if there are none."""
    key_file, refresh_token_file = options.gmail, options.gmail_refresh_token
    subject, url = options.subject, options.gmail_url
    if key_file is refresh_token_file is subject is url is None and options.gmail_read is None:
        return None
    if key_file is not None and refresh_token_file is not None:
        raise FairpostError("Use either --gmail or --gmail-refresh-token, but not both.")
    if refresh_token_file is not None and subject:
        raise FairpostError("--subject needs --gmail: a refresh token works only for its own mailbox.")
    given = GivenGmail(subject=_mailbox(subject), url=_url(url), read=options.gmail_read)
    if key_file is not None:
        oauth, secret = _service_account(key_file, name)
        return replace(given, oauth=oauth, secret=secret)
    if refresh_token_file is not None:
        oauth, secret = _person(refresh_token_file)
        return replace(given, oauth=oauth, secret=secret)
    return given


def _service_account(path: str, name: str) -> tuple[OauthSettings, str]:
    from fairpost.transports.gmail.send import what_to_type
    from fairpost.transports.oauth.errors import Refused
    from fairpost.transports.oauth.google import read_service_key

    text = read_file(path, option="--gmail", bytes_max=FILE_BYTES_MAX)
    try:
        read_service_key(text)
    except Refused as refused:
        raise FairpostError(what_to_type(str(refused), name)) from None
    return OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), text


def _person(path: str) -> tuple[OauthSettings, str]:
    from fairpost.transports.oauth.http import require_safe
    from fairpost.transports.oauth.secrets import RefreshSecret, write_refresh_secret

    option = "--gmail-refresh-token"
    text = read_file(path, option=option, bytes_max=FILE_BYTES_MAX)
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    names = ("client_id", "client_secret", "refresh_token")
    if not isinstance(given, dict) or not all(isinstance(given.get(each), str) and given[each] for each in names):
        raise FairpostError(f"{option} must be a JSON file with client_id, client_secret and refresh_token.")
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
        raise FairpostError(f"--subject must be a mailbox such as ann@example.com, got {subject!r}")
    return subject


def _url(url: str | None) -> str | None:
    """Checks the Gmail API URL. An empty string means Google's own URL. Tokens leave this machine only over TLS."""
    from urllib.parse import urlsplit

    from fairpost.transports.oauth.errors import Refused
    from fairpost.transports.oauth.http import require_safe

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
        raise FairpostError(
            "--gmail-url must be https://HOST, or http:// on this machine, for example http://127.0.0.1:8025"
        )
    return url.rstrip("/")
