"""What to type next where a step of trying an SMTP server has failed."""

from urllib.parse import quote

from fairpost.model.report import Step
from fairpost.model.transport import Security
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.port import Tried
from fairpost.transports.smtp.settings import SmtpSettings

APP_PASSWORD_HOSTS = {
    "smtp.gmail.com": "https://myaccount.google.com/apppasswords",
    "smtp.mail.yahoo.com": "https://login.yahoo.com/account/security",
    "smtp.mail.me.com": "https://account.apple.com",
}


def advice(failed: Tried, settings: SmtpSettings, name: str) -> str:
    change = f"fairpost account set {name}"
    match failed.step:
        case Step.CONNECT:
            return f"Check host and port, and whether this machine may connect there; then: {change} --smtp URL"
        case Step.TLS:
            return _about_tls(failed, settings, change)
        case Step.STARTTLS:
            return f"Try TLS from the first byte: {change} --smtp smtps://{_login(settings)}{settings.host}:465"
        case Step.AUTH:
            return _about_login(failed, settings, change)
        case Step.HELLO:
            return f"Name a host that the server accepts: {change} --smtp 'URL?hello=mail.example.com'"
        case _ if settings.port == 465 and settings.security is not Security.IMPLICIT:
            return f"Port 465 wants TLS from the first byte: {change} --smtp smtps://{_login(settings)}{settings.host}"
        case _:
            return f"Ask those who run {settings.host}, or try again later: fairpost account verify {name}"


def _about_tls(failed: Tried, settings: SmtpSettings, change: str) -> str:
    if settings.ca_file is not None and "certificate was refused" not in failed.text:
        return f"Check that {settings.ca_file} is there and holds certificates; else: {change} --smtp URL"
    if settings.security is Security.IMPLICIT and "certificate" not in failed.text:
        return (
            f"If the server begins without TLS: {change} --smtp smtp+starttls://{_login(settings)}{settings.host}:587"
        )
    return f"Use the host name that is in the certificate, or trust its authority: {change} --smtp 'URL?ca_file=/path/to/ca.pem'"


def _about_login(failed: Tried, settings: SmtpSettings, change: str) -> str:
    if settings.oauth is not None and (failed.reply is None or failed.reply.code >= 500):
        return _about_token(failed, settings, settings.oauth, change)
    if failed.reply is None:
        return f"Log in over TLS: {change} --smtp smtp+starttls://{_login(settings)}{settings.host}:587 --ask-password"
    if failed.reply.code < 500:
        return "The server wants no logins right now. Try again later."
    page = APP_PASSWORD_HOSTS.get(settings.host)
    made = f"Make an app password ({page}), then: " if page else "Give the right password: "
    return f"{made}{change} --ask-password"


def _about_token(failed: Tried, settings: SmtpSettings, oauth: OauthSettings, change: str) -> str:
    """A token was granted, and the server does not take it."""
    if failed.reply is None:
        return f"Tokens need a server that offers XOAUTH2, over TLS: {change} --smtp smtp+starttls://HOST:587 --oauth …"
    if oauth.kind.is_google:
        return (
            f"The token was granted, but not for the mailbox {settings.user}: it must be the one that the token is for. "
            f"Name it: {change} --smtp smtp+starttls://USER@{settings.host} --oauth google …"
        )
    allow = f"Set-CASMailbox {settings.user} -SmtpClientAuthenticationDisabled $false"
    give = f"Add-MailboxPermission {settings.user} -User SERVICE_PRINCIPAL_ID -AccessRights FullAccess"
    is_client = oauth.kind is OauthKind.MICROSOFT_CLIENT
    return (
        f"The token was granted, but the mailbox {settings.user} cannot be used with it. Allow SMTP there, in Exchange "
        f"Online PowerShell: {allow}{f'; and give the application the mailbox: {give}' if is_client else ''}"
    )


def _login(settings: SmtpSettings) -> str:
    return f"{quote(settings.user, safe='')}@" if settings.user else ""
