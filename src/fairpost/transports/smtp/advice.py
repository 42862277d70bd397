"""The command to run next when a step in testing an SMTP server fails."""

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
            return f"Check the host and port and that this machine can connect to them; then: {change} --smtp URL"
        case Step.TLS:
            return _about_tls(failed, settings, change)
        case Step.STARTTLS:
            return f"Try implicit TLS: {change} --smtp smtps://{_login(settings)}{settings.host}:465"
        case Step.AUTH:
            return _about_login(failed, settings, change)
        case Step.HELLO:
            return f"Use a host name that the server accepts: {change} --smtp 'URL?hello=mail.example.com'"
        case _ if settings.port == 465 and settings.security is not Security.IMPLICIT:
            return f"Port 465 needs implicit TLS: {change} --smtp smtps://{_login(settings)}{settings.host}"
        case _:
            return f"Contact the operator of {settings.host}, or try again later: fairpost account verify {name}"


def _about_tls(failed: Tried, settings: SmtpSettings, change: str) -> str:
    if settings.ca_file is not None and "certificate was rejected" not in failed.text:
        return f"Check that {settings.ca_file} exists and contains certificates, or change it: {change} --smtp URL"
    if settings.security is Security.IMPLICIT and "certificate" not in failed.text:
        return (
            f"If the server starts without TLS: {change} --smtp smtp+starttls://{_login(settings)}{settings.host}:587"
        )
    return f"Use the host name of the certificate, or trust its issuer: {change} --smtp 'URL?ca_file=/path/to/ca.pem'"


def _about_login(failed: Tried, settings: SmtpSettings, change: str) -> str:
    if settings.oauth is not None and (failed.reply is None or failed.reply.code >= 500):
        return _about_token(failed, settings, settings.oauth, change)
    if failed.reply is None:
        return f"Log in over TLS: {change} --smtp smtp+starttls://{_login(settings)}{settings.host}:587 --ask-password"
    if failed.reply.code < 500:
        return "The server does not accept logins right now. Try again later."
    page = APP_PASSWORD_HOSTS.get(settings.host)
    made = f"Create an app password ({page}), then: " if page else "Correct the password: "
    return f"{made}{change} --ask-password"


def _about_token(failed: Tried, settings: SmtpSettings, oauth: OauthSettings, change: str) -> str:
    """Returns the advice for a token that was granted but is refused by the mail server."""
    if failed.reply is None:
        return f"Tokens need a server that offers XOAUTH2 over TLS: {change} --smtp smtp+starttls://HOST:587 --oauth …"
    if oauth.kind.is_google:
        return (
            f"The token was granted, but not for the mailbox {settings.user}. Use the mailbox that it was granted for. "
            f"Set it: {change} --smtp smtp+starttls://USER@{settings.host} --oauth google …"
        )
    allow = f"Set-CASMailbox {settings.user} -SmtpClientAuthenticationDisabled $false"
    give = f"Add-MailboxPermission {settings.user} -User SERVICE_PRINCIPAL_ID -AccessRights FullAccess"
    is_client = oauth.kind is OauthKind.MICROSOFT_CLIENT
    return (
        f"The token was granted but cannot be used for the mailbox {settings.user}. Allow SMTP there, in Exchange "
        f"Online PowerShell: {allow}{f'; and give the application access to the mailbox: {give}' if is_client else ''}"
    )


def _login(settings: SmtpSettings) -> str:
    return f"{quote(settings.user, safe='')}@" if settings.user else ""
