"""How an account is told of its SMTP server: the options, what goes with what, and what of it stays with another server."""

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
        help="Its server: smtp+starttls://USER@HOST:587, smtps://USER@HOST:465 or smtp://HOST:25. A password in it "
        "(USER:PASSWORD@) can be seen by others on this machine: better use one of the options below.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class UrlOption:
    smtp: Smtp = None


@dataclass(frozen=True, kw_only=True)
class SmtpOptions(OauthOptions, PasswordOptions, UrlOption):
    """In the order of the help: the URL, ways of giving a password, tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSmtp:
    """The server that was given, the secret to seal, and how it logs in by OAuth, each None where it was not."""

    url: SmtpSettings | None
    secret: str | None = field(repr=False)
    oauth: OauthSettings | None

    def server(self, name: str, old: TransportSettings | None, *, mailbox: str) -> SmtpSettings | None:
        before = old if isinstance(old, SmtpSettings) else None
        server = self._with_login(name, before, mailbox=mailbox)
        if self.secret is not None:
            _require_user(name, server or before)
            return server
        return server and _with_kept_secret(server, before)

    def _with_login(self, name: str, old: SmtpSettings | None, *, mailbox: str) -> SmtpSettings | None:
        """The server with how it logs in by OAuth, where that was given or stays."""
        if self.oauth is None:
            if self.url is None:
                _require_plain_secret(name, old)
            return self.url and self._with_kept_grant(self.url, old)
        server = self.url or old
        if server is None:
            raise FairpostError(f"Account {name} has no SMTP server. Add: --smtp smtp+starttls://HOST")
        return _with_grant(server, self.oauth, user=server.user or mailbox)

    def _with_kept_grant(self, url: SmtpSettings, old: SmtpSettings | None) -> SmtpSettings:
        """Another port or TLS for the same host leaves the login as it is: how it logs in belongs to the host."""
        if self.secret is not None or old is None or old.oauth is None:
            return url
        if url.host != old.host or url.user not in (None, old.user):
            return url
        return _with_grant(url, old.oauth, user=old.user)


def given_smtp(options: SmtpOptions, *, is_new: bool) -> GivenSmtp | None:
    """None: nothing of it. `is_new`: the account has no server yet."""
    from fairpost.transports.smtp.urls import parse_smtp_url

    url = parse_smtp_url(options.smtp) if options.smtp is not None else None
    password = given_password(options, in_url=url.password if url else None)
    grant = given_grant(options, password)
    if grant is not None:
        if url is None and is_new:
            raise FairpostError("--oauth needs a server. Give it: --smtp smtp+starttls://HOST")
        return GivenSmtp(url=url.settings if url else None, secret=grant.secret, oauth=grant.settings)
    if url is None and password is None:
        return None
    if url is None and is_new:
        raise FairpostError("A password needs a server. Give it: --smtp smtp+starttls://USER@HOST")
    if url is not None and url.settings.user is None and password is not None:
        raise FairpostError("A password needs a user. Write it into the URL: --smtp smtp+starttls://USER@HOST")
    if url is not None and url.settings.user is not None and password is None and is_new:
        raise FairpostError("The URL has a user, so a password is needed. Add: --ask-password")
    return GivenSmtp(url=url.settings if url else None, secret=password, oauth=None)


def _with_grant(server: SmtpSettings, oauth: OauthSettings, *, user: str | None) -> SmtpSettings:
    from fairpost.transports.smtp.login import server_of

    if server.security is Security.NONE and not server_of(server).is_local:
        raise FairpostError("A token must not go out unencrypted. Use smtp+starttls:// or smtps:// with --oauth.")
    return replace(server, oauth=oauth, user=user, origin=None, secret=None)


def _with_kept_secret(server: SmtpSettings, old: SmtpSettings | None) -> SmtpSettings:
    """What was given for one server is not handed to another by mistake."""
    if server.user is None:
        return server
    if old is None or (old.host, old.user) != (server.host, server.user) or old.secret is None:
        raise FairpostError("Another host or user needs its password with it.", then="Add: --ask-password")
    return replace(server, secret=old.secret)


def _require_user(name: str, server: SmtpSettings | None) -> None:
    if server is None or server.user is None:
        raise FairpostError(
            f"Account {name} has no server with a user, so a password is of no use.",
            then=f"Give both: fairpost account set {name} --smtp smtp+starttls://USER@HOST --ask-password",
        )


def _require_plain_secret(name: str, old: SmtpSettings | None) -> None:
    """A new password alone can replace what is sealed, or it must come with all that is sealed beside it."""
    oauth = old.oauth if old else None
    if oauth is None or oauth.kind is OauthKind.MICROSOFT_CLIENT:
        return
    is_service = oauth.kind is OauthKind.GOOGLE_SERVICE_ACCOUNT
    anew = "--key-file FILE" if is_service else f"--client-id {oauth.client_id} --refresh-token-file FILE"
    tenant = f" --tenant {oauth.tenant}" if oauth.tenant else ""
    raise FairpostError(
        f"Account {name} logs in by OAuth, so a password alone is of no use.",
        then=f"Give its secret: fairpost account set {name} --oauth {'google' if oauth.kind.is_google else 'microsoft'}{tenant} {anew}",
    )
