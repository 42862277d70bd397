"""SMTP as a kind of transport. The other modules in this folder contain the implementation."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fairpost.model.transport import Security, Tls, TransportSettings
from fairpost.transports.described import WrongSetting
from fairpost.transports.kind import Given, TransportKind
from fairpost.transports.oauth.public import own_token_server, with_public_server
from fairpost.transports.smtp import described
from fairpost.transports.smtp.settings import SmtpSettings, read_smtp

if TYPE_CHECKING:
    from fairpost.model.account import Account
    from fairpost.smtp.guard import NetworkGuard
    from fairpost.transports.port import ClosableTransport, Tried
    from fairpost.transports.reading import MailboxReader

_SECURITY = {
    Security.IMPLICIT: "TLS",
    Security.STARTTLS: "STARTTLS",
    Security.OFFERED: "encrypted if the server offers it",
    Security.NONE: "not encrypted",
}

# Providers that sign the mail submitted to them and may change it before signing.
_SIGNING_HOSTS = ("gmail.com", "googlemail.com", "office365.com", "outlook.com", "yahoo.com", "aol.com", "me.com")


class Smtp(TransportKind[SmtpSettings]):
    settings = SmtpSettings
    title = "SMTP"
    way = "by SMTP"
    steps = ("connect", "greeting", "hello", "starttls", "tls", "auth")
    asked = described.ASKED
    shown = described.SHOWN
    choices = described.CHOICES
    read_option = "--read"

    def read(self, stored: Mapping[str, Any]) -> SmtpSettings:
        return read_smtp(stored)

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────

    def transport(
        self, account: "Account", settings: SmtpSettings, secret: str | None, *, guard: "NetworkGuard | None"
    ) -> "ClosableTransport":
        from fairpost.transports.smtp.login import login_of, server_of
        from fairpost.transports.smtp.send import SmtpTransport

        login = login_of(settings, secret, account=account.name)
        server = server_of(settings, guard=guard)
        return SmtpTransport(server, login, bounce_domain=settings.bounce_domain, is_read=settings.read)

    def announced(self, settings: SmtpSettings, host: str | None) -> SmtpSettings:
        return replace(settings, hello_name=settings.hello_name or host)

    async def verify(
        self,
        settings: SmtpSettings,
        secret: str | None,
        *,
        name: str,
        address: str,
        guard: "NetworkGuard | None",
        is_brief: bool = False,
    ) -> "list[Tried]":
        from fairpost.transports.smtp.login import login_of, server_of
        from fairpost.transports.smtp.verify import BRIEF, PATIENCE, try_server

        login = login_of(settings, secret, account=name)
        return await try_server(server_of(settings, guard=guard), login, patience=BRIEF if is_brief else PATIENCE)

    def advice(self, failed: "Tried", settings: SmtpSettings, name: str) -> str:
        from fairpost.transports.smtp.advice import advice

        return advice(failed, settings, name)

    def reads(self, settings: SmtpSettings) -> bool:
        return settings.read

    def bounce_domain(self, settings: SmtpSettings) -> str | None:
        return settings.bounce_domain

    def reader(
        self, account: "Account", settings: SmtpSettings, secret: str | None, *, guard: "NetworkGuard | None"
    ) -> "MailboxReader":
        from fairpost.transports.smtp.read import imap_reader

        return imap_reader(settings, secret, account=account.name, guard=guard)

    def provider_signs(self, settings: SmtpSettings) -> bool:
        host = settings.host.lower().rstrip(".")
        return any(host.endswith(f".{each}") for each in _SIGNING_HOSTS)

    def sending_host(self, settings: SmtpSettings) -> str | None:
        return settings.host

    async def tls(self, settings: SmtpSettings, *, guard: "NetworkGuard | None") -> Tls | None:
        from fairpost.transports.smtp.login import server_of
        from fairpost.transports.smtp.verify import tls_of

        server = server_of(settings, guard=guard)
        return None if server.is_local else await tls_of(server)

    def preload(self) -> None:
        import fairpost.transports.smtp.login
        import fairpost.transports.smtp.read
        import fairpost.transports.smtp.send  # noqa: F401

    # ── accounts that are not the operator's ──────────────────────────────────────────────────────────────────

    def own_endpoint(self, settings: SmtpSettings) -> str | None:
        return "ca_file" if settings.ca_file is not None else own_token_server(settings.oauth)

    def public(self, settings: SmtpSettings) -> SmtpSettings:
        return replace(settings, oauth=with_public_server(settings.oauth)) if settings.oauth else settings

    async def refusal(self, settings: SmtpSettings, guard: "NetworkGuard") -> WrongSetting | None:
        from fairpost.transports.smtp.requested import host_refusal

        wrong = host_refusal(settings.host)
        if wrong is not None:
            return wrong
        words = await guard.refusal(settings.host, settings.port)
        if words:
            return WrongSetting("host", words)
        return await self._mailbox_refusal(settings, guard) if settings.read else None

    async def _mailbox_refusal(self, settings: SmtpSettings, guard: "NetworkGuard") -> WrongSetting | None:
        from fairpost.transports.smtp.imap_urls import mailbox_of
        from fairpost.transports.smtp.read import guard_of
        from fairpost.transports.smtp.requested import host_refusal

        mailbox = mailbox_of(settings)
        if host_refusal(mailbox.host) is not None:
            return WrongSetting("imap", "must have a host such as imap.example.com")
        words = await guard_of(guard).refusal(mailbox.host, mailbox.port)
        return WrongSetting("imap", words) if words else None

    # ── display ───────────────────────────────────────────────────────────────────────────────────────────────

    def in_short(self, settings: SmtpSettings) -> str:
        return f"{settings.host}:{settings.port}"

    def in_full(self, settings: SmtpSettings) -> str:
        from fairpost.transports.smtp.urls import url_of

        return url_of(settings)

    def in_words(self, settings: SmtpSettings) -> str:
        login = f", as {settings.user}" if settings.user else ""
        return f"{settings.host}:{settings.port}, {_SECURITY[settings.security]}{login}"

    def in_audit(self, settings: SmtpSettings) -> str:
        return f"{settings.security} {settings.host}:{settings.port}"

    def secret_in_short(self, settings: SmtpSettings) -> str | None:
        return settings.oauth.kind if settings.oauth else None

    def facts(self, settings: SmtpSettings) -> dict[str, Any]:
        shown = {name: value for name, value in asdict(settings).items() if name not in ("secret", "origin")}
        return {"kind": self.name, **shown, "has_password": settings.secret is not None}

    def values(self, settings: SmtpSettings) -> dict[str, Any]:
        oauth = settings.oauth
        return {
            "host": settings.host,
            "port": settings.port,
            "security": settings.security,
            "user": settings.user,
            "has_secret": settings.secret is not None,
            "oauth": oauth.kind if oauth else None,
            "client_id": oauth.client_id if oauth else None,
            "tenant": oauth.tenant if oauth else None,
            "read": settings.read,
            "imap": settings.imap,
        }

    # ── options and requests ──────────────────────────────────────────────────────────────────────────────────

    def options(self) -> type:
        from fairpost.transports.smtp.options import SmtpOptions

        return SmtpOptions

    def given(self, name: str, options: Any, *, is_new: bool) -> Given | None:
        from fairpost.transports.smtp.options import given_smtp

        return given_smtp(options, is_new=is_new)

    def requested(
        self, old: TransportSettings | None, given: Mapping[str, Any], *, mailbox: str
    ) -> tuple[SmtpSettings, str | None]:
        from fairpost.transports.smtp.requested import requested_smtp

        return requested_smtp(old, given, mailbox=mailbox)


KIND = Smtp()
