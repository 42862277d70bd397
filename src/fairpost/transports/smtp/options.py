"""Command-line options for an SMTP server, with rules for combining them and for keeping values when the server
changes.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from fairpost.model.errors import FairpostError
from fairpost.model.transport import Security, TransportSettings
from fairpost.transports.oauth.options import OauthOptions, given_grant
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.options import PasswordOptions, given_password
from fairpost.transports.smtp.settings import SmtpSettings

Smtp = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL of the SMTP server: `smtp+starttls://USER@HOST:587`, `smtps://USER@HOST:465` or `smtp://HOST:25`. Other users on this machine can see a password in the URL (`USER:PASSWORD@`), so use one of the options below instead.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class UrlOption:
    smtp: Smtp = None


Read = Annotated[
    bool | None,
    typer.Option(
        "--read/--no-read",
        help="Read the mailbox for bounces and replies over IMAP, with the same login. Nothing in the mailbox is changed.",
    ),
]
Imap = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL of the mailbox that --read reads, for example `imaps://HOST` or `imap+starttls://USER@HOST:143?folder=INBOX`. Use `''` for the provider's usual server.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    read: Read = None
    imap: Imap = None


@dataclass(frozen=True, kw_only=True)
class SmtpOptions(ReadOptions, OauthOptions, PasswordOptions, UrlOption):
    """The options for SMTP accounts, in the order shown in the help: the URL, passwords, tokens, and reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSmtp:
    """The server, the secret to seal and the OAuth settings from the options. Values that were not given are None."""

    url: SmtpSettings | None
    secret: str | None = field(repr=False)
    oauth: OauthSettings | None
    read: bool | None = None
    imap: str | None = None  # an empty string means the provider's usual server

    def server(self, name: str, old: TransportSettings | None, *, mailbox: str) -> SmtpSettings | None:
        before = old if isinstance(old, SmtpSettings) else None
        server = self._sending(name, before, mailbox=mailbox)
        if self.read is None and self.imap is None:
            return server and with_kept_reading(server, before)
        if server is None and before is None:
            raise FairpostError(f"Account {name} has no SMTP server. Add: --smtp smtp+starttls://HOST")
        return self._reading((server and with_kept_reading(server, before)) or before)

    def _sending(self, name: str, before: SmtpSettings | None, *, mailbox: str) -> SmtpSettings | None:
        if self.url is None and self.secret is None and self.oauth is None:
            return None
        server = self._with_login(name, before, mailbox=mailbox)
        if self.secret is not None:
            _require_user(name, server or before)
            return server
        return server and _with_kept_secret(server, before)

    def _reading(self, server: SmtpSettings | None) -> SmtpSettings:
        assert server is not None
        reads = server.read if self.read is None else self.read
        if reads and server.user is None:
            raise FairpostError("Reading a mailbox requires a login. Add a user: --smtp smtp+starttls://USER@HOST")
        return replace(server, read=reads, imap=server.imap if self.imap is None else self.imap or None)

    def _with_login(self, name: str, old: SmtpSettings | None, *, mailbox: str) -> SmtpSettings | None:
        """Returns the server with the given OAuth settings, or with the stored ones."""
        if self.oauth is None:
            if self.url is None:
                _require_plain_secret(name, old)
            return self.url and self._with_kept_grant(self.url, old)
        server = self.url or old
        if server is None:
            raise FairpostError(f"Account {name} has no SMTP server. Add: --smtp smtp+starttls://HOST")
        return _with_grant(server, self.oauth, user=server.user or mailbox)

    def _with_kept_grant(self, url: SmtpSettings, old: SmtpSettings | None) -> SmtpSettings:
        """Keeps the login if only the port or the TLS mode changes, because OAuth settings belong to the host."""
        if self.secret is not None or old is None or old.oauth is None:
            return url
        if url.host != old.host or url.user not in (None, old.user):
            return url
        return _with_grant(url, old.oauth, user=old.user)


def given_smtp(options: SmtpOptions, *, is_new: bool) -> GivenSmtp | None:
    """Returns the SMTP options that were given, or None if there are none. `is_new` means that the account has no
    server yet.
    """
    from fairpost.transports.smtp.imap_urls import parse_imap_url

    if options.imap:
        parse_imap_url(options.imap)
    given = _given_server(options, is_new=is_new)
    if options.read is None and options.imap is None:
        return given
    if given is None and is_new:
        raise FairpostError("--read and --imap need a server. Add: --smtp smtp+starttls://USER@HOST")
    return replace(given or GivenSmtp(url=None, secret=None, oauth=None), read=options.read, imap=options.imap)


def _given_server(options: SmtpOptions, *, is_new: bool) -> GivenSmtp | None:
    from fairpost.transports.smtp.urls import parse_smtp_url

    url = parse_smtp_url(options.smtp) if options.smtp is not None else None
    password = given_password(options, in_url=url.password if url else None)
    grant = given_grant(options, password)
    if grant is not None:
        if url is None and is_new:
            raise FairpostError("--oauth needs a server. Add: --smtp smtp+starttls://HOST")
        return GivenSmtp(url=url.settings if url else None, secret=grant.secret, oauth=grant.settings)
    if url is None and password is None:
        return None
    if url is None and is_new:
        raise FairpostError("A password needs a server. Add: --smtp smtp+starttls://USER@HOST")
    if url is not None and url.settings.user is None and password is not None:
        raise FairpostError("A password needs a user. Add the user to the URL: --smtp smtp+starttls://USER@HOST")
    if url is not None and url.settings.user is not None and password is None and is_new:
        raise FairpostError("The URL has a user, so a password is required. Add: --ask-password")
    return GivenSmtp(url=url.settings if url else None, secret=password, oauth=None)


def _with_grant(server: SmtpSettings, oauth: OauthSettings, *, user: str | None) -> SmtpSettings:
    from fairpost.transports.smtp.login import server_of

    if server.security is Security.NONE and not server_of(server).is_local:
        raise FairpostError("A token must not be sent unencrypted. Use smtp+starttls:// or smtps:// with --oauth.")
    return replace(server, oauth=oauth, user=user, origin=None, secret=None)


def _with_kept_secret(server: SmtpSettings, old: SmtpSettings | None) -> SmtpSettings:
    """Keeps the stored secret only for the same host and user so that a password is not sent to another server by
    mistake.
    """
    if server.user is None:
        return server
    if old is None or (old.host, old.user) != (server.host, server.user) or old.secret is None:
        raise FairpostError("If the host or user is new, specify the password as well. Add: --ask-password")
    return replace(server, secret=old.secret)


def with_kept_reading(server: SmtpSettings, old: SmtpSettings | None) -> SmtpSettings:
    """Keeps the reading settings unless the server changes. A server's URL does not contain these settings, and another
    server has a different mailbox.
    """
    if old is None or not old.read or server.user is None:
        return server
    return replace(server, read=True, imap=old.imap if old.host == server.host else None)


def _require_user(name: str, server: SmtpSettings | None) -> None:
    if server is None or server.user is None:
        raise FairpostError(
            f"Account {name} has no server with a user, so it cannot use a password. "
            f"Set both: fairpost account set {name} --smtp smtp+starttls://USER@HOST --ask-password",
        )


def _require_plain_secret(name: str, old: SmtpSettings | None) -> None:
    """Raises an error if the sealed secret contains more than a password, because a password alone cannot replace it."""
    oauth = old.oauth if old else None
    if oauth is None or oauth.kind is OauthKind.MICROSOFT_CLIENT:
        return
    is_service = oauth.kind is OauthKind.GOOGLE_SERVICE_ACCOUNT
    again = "--key-file FILE" if is_service else f"--client-id {oauth.client_id} --refresh-token-file FILE"
    tenant = f" --tenant {oauth.tenant}" if oauth.tenant else ""
    raise FairpostError(
        f"Account {name} logs in with OAuth, so it cannot use a password alone. "
        f"Set its secret: fairpost account set {name} --oauth {'google' if oauth.kind.is_google else 'microsoft'}{tenant} {again}",
    )
