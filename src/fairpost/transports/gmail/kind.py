"""The Gmail API as a kind of transport. The other modules in this folder contain the implementation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairpost.model.report import Channel
from fairpost.model.transport import TransportSettings
from fairpost.transports.described import WrongSetting
from fairpost.transports.gmail import described
from fairpost.transports.gmail.settings import GOOGLE, GmailSettings, read_gmail
from fairpost.transports.kind import Given, TransportKind
from fairpost.transports.oauth.public import own_token_server, with_public_server
from fairpost.transports.oauth.settings import OauthKind

if TYPE_CHECKING:
    from fairpost.model.account import Account
    from fairpost.smtp.guard import NetworkGuard
    from fairpost.transports.port import ClosableTransport, Tried
    from fairpost.transports.reading import MailboxReader


class Gmail(TransportKind[GmailSettings]):
    settings = GmailSettings
    title = "the Gmail API"
    way = "through the Gmail API"
    channel = Channel.GOOGLE
    steps = ("token", "mailbox", "sender", "draft")
    asked = described.ASKED
    shown = described.SHOWN
    choices = described.CHOICES
    read_option = "--gmail-read"
    preset = "workspace"
    presets = {"gmail": "gmail-api"}  # noqa: RUF012
    keeps_secret = False

    def read(self, stored: Mapping[str, Any]) -> GmailSettings:
        return read_gmail(stored)

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────

    def transport(
        self, account: "Account", settings: GmailSettings, secret: str | None, *, guard: "NetworkGuard | None"
    ) -> "ClosableTransport":
        from fairpost.transports.gmail.client import client_of
        from fairpost.transports.gmail.send import GmailTransport

        client = client_of(settings, secret, name=account.name, address=account.address)
        return GmailTransport(client, is_read=settings.read)

    async def verify(
        self,
        settings: GmailSettings,
        secret: str | None,
        *,
        name: str,
        address: str,
        guard: "NetworkGuard | None",
        is_brief: bool = False,
    ) -> "list[Tried]":
        from fairpost.transports.gmail.client import client_of
        from fairpost.transports.gmail.verify import PATIENCE, try_gmail

        client = client_of(settings, secret, name=name, address=address, timeouts=PATIENCE)
        try:
            return await try_gmail(client, settings, name=name, address=address)
        finally:
            await client.close()

    def reads(self, settings: GmailSettings) -> bool:
        return settings.read

    def reader(
        self, account: "Account", settings: GmailSettings, secret: str | None, *, guard: "NetworkGuard | None"
    ) -> "MailboxReader":
        from fairpost.transports.gmail.client import client_of
        from fairpost.transports.gmail.read import GmailReader

        mailbox = settings.oauth.subject or account.address
        return GmailReader(client_of(settings, secret, name=account.name, address=account.address), mailbox=mailbox)

    def sending_host(self, settings: GmailSettings) -> str | None:
        return "smtp.google.com"

    def preload(self) -> None:
        import fairpost.transports.gmail.client
        import fairpost.transports.gmail.read
        import fairpost.transports.gmail.send  # noqa: F401

    # ── accounts that are not the operator's ──────────────────────────────────────────────────────────────────

    def own_endpoint(self, settings: GmailSettings) -> str | None:
        is_googles = settings.base_url is None or settings.base_url.rstrip("/") == GOOGLE
        return own_token_server(settings.oauth) if is_googles else "base_url"

    def public(self, settings: GmailSettings) -> GmailSettings:
        return replace(settings, oauth=with_public_server(settings.oauth))

    # ── display ───────────────────────────────────────────────────────────────────────────────────────────────

    def in_short(self, settings: GmailSettings) -> str:
        return f"Gmail API at {settings.base_url}" if settings.base_url else "Gmail API"

    def in_full(self, settings: GmailSettings) -> str:
        how = {
            OauthKind.GOOGLE_SERVICE_ACCOUNT: "by a service account",
            OauthKind.GOOGLE_PERSON: f"by a user's refresh token, client {settings.oauth.client_id}",
        }
        mailbox = f", for {settings.oauth.subject}" if settings.oauth.subject else ""
        return f"{self.in_short(settings)}, {how.get(settings.oauth.kind, settings.oauth.kind)}{mailbox}"

    def facts(self, settings: GmailSettings) -> dict[str, Any]:
        return {
            "kind": self.name,
            "oauth": settings.oauth.kind,
            "client_id": settings.oauth.client_id,
            "subject": settings.oauth.subject,
            "url": settings.base_url,
            "has_key": settings.secret is not None,
            "read": settings.read,
        }

    def values(self, settings: GmailSettings) -> dict[str, Any]:
        return {
            "oauth": settings.oauth.kind,
            "client_id": settings.oauth.client_id,
            "subject": settings.oauth.subject,
            "has_secret": settings.secret is not None,
            "read": settings.read,
        }

    # ── options and requests ──────────────────────────────────────────────────────────────────────────────────

    def options(self) -> type:
        from fairpost.transports.gmail.options import GmailOptions

        return GmailOptions

    def given(self, name: str, options: Any, *, is_new: bool) -> Given | None:
        from fairpost.transports.gmail.options import given_gmail

        return given_gmail(name, options)

    def requested(
        self, old: TransportSettings | None, given: Mapping[str, Any], *, mailbox: str
    ) -> tuple[GmailSettings, str | None]:
        from fairpost.transports.oauth.requested import requested_oauth

        subject = given.get("subject")
        if not OauthKind(given["oauth"]["kind"]).is_google:
            raise WrongSetting("oauth.kind", "must be a Google kind")
        oauth, secret = requested_oauth(given["oauth"])
        if subject and oauth.kind is not OauthKind.GOOGLE_SERVICE_ACCOUNT:
            raise WrongSetting("subject", "needs a service account: a refresh token works only for its own mailbox")
        if subject and not (subject.isprintable() and subject.count("@") == 1 and " " not in subject):
            raise WrongSetting("subject", "must be a mailbox such as ann@example.com")
        before = isinstance(old, GmailSettings) and old.read
        read = before if given.get("read") is None else bool(given["read"])
        return GmailSettings(oauth=replace(oauth, subject=subject or None), read=read), secret


KIND = Gmail()
