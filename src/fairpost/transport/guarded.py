"""What an account of somebody else than the operator may send through: its own SMTP server where the guard allows it, and
Google and Microsoft at their public addresses. Whoever takes in such an account asks `server_refusal` before it is stored.
"""

from dataclasses import replace

from fairpost.gmail.client import GOOGLE
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.errors import FairpostError
from fairpost.model.oauth import OauthSettings
from fairpost.model.report import Reached, Report, Step
from fairpost.model.transport import GmailSettings, ServerSettings, SmtpSettings, TransportSettings, UnknownTransport
from fairpost.oauth.google import PUBLIC_URI
from fairpost.oauth.microsoft import AUTHORITY
from fairpost.smtp.guard import NetworkGuard
from fairpost.transport.port import Permission

GOOGLES_TOKEN_SERVERS = frozenset(
    {
        PUBLIC_URI,
        "https://accounts.google.com/o/oauth2/token",  # in files of years past
        "https://www.googleapis.com/oauth2/v4/token",
    }
)


def own_endpoint(settings: TransportSettings) -> str | None:
    """What leads away from the providers' public addresses, or into the operator's files, by its name: "base_url". None:
    nothing does. An SMTP server's host and port are not meant: they are the guard's business."""
    match settings:
        case UnknownTransport():
            return "kind"
        case SmtpSettings():
            return "ca_file" if settings.ca_file is not None else _own_token_server(settings.oauth)
        case GmailSettings(base_url=base_url):
            is_googles = base_url is None or base_url.rstrip("/") == GOOGLE
            return _own_token_server(settings.oauth) if is_googles else "base_url"


def is_standard_endpoint(settings: TransportSettings) -> bool:
    return own_endpoint(settings) is None


def endpoint_refusal(settings: TransportSettings) -> str | None:
    own = own_endpoint(settings)
    return None if own is None else f"{own} is for the operator's own accounts: leave it out"


async def server_refusal(settings: TransportSettings, guard: NetworkGuard) -> str | None:
    """Why an account that is not the operator's may not have this server, in words for whoever gave it. None: it may."""
    words = endpoint_refusal(settings)
    if words is None and isinstance(settings, SmtpSettings):
        words = await guard.refusal(settings.host, settings.port)
    return words


class EndpointRefused(FairpostError):
    """An account that is not the operator's own has settings that only his may have."""


def standard(settings: ServerSettings) -> ServerSettings:
    """Settings that can be used for somebody else: a service account's key file names a token server of its own, and it is
    not believed. Raises EndpointRefused."""
    words = endpoint_refusal(settings)
    if words is not None:
        raise EndpointRefused(words)
    if settings.oauth is None or not settings.oauth.kind.is_google:
        return settings
    return replace(settings, oauth=replace(settings.oauth, token_uri=PUBLIC_URI))


class BarredTransport:
    """Sends nothing and loses nothing: for an account whose settings lead where it may not go."""

    def __init__(self, words: str) -> None:
        self._words = words

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        return Report(reached=Reached.UNTOUCHED, step=Step.CONNECT, error=self._words)

    async def close(self) -> None:
        pass


def _own_token_server(oauth: OauthSettings | None) -> str | None:
    if oauth is None:
        return None
    if oauth.token_uri is not None and oauth.token_uri not in GOOGLES_TOKEN_SERVERS:
        return "oauth.token_uri"
    return "oauth.authority" if oauth.authority is not None and oauth.authority.rstrip("/") != AUTHORITY else None
