"""Restricts the servers that a workspace's account may use.

The account may use its own SMTP server if the guard allows that server. It may also use Google and Microsoft at their
public addresses. Call `server_refusal` before storing such an account.
"""

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.errors import FairpostError
from fairpost.model.report import Reached, Report, Step
from fairpost.model.transport import ServerSettings, TransportSettings, UnknownTransport
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.described import WrongSetting
from fairpost.transports.port import Permission
from fairpost.transports.registry import kind_of


def own_endpoint(settings: TransportSettings) -> str | None:
    """Returns the name of a setting that replaces the provider's public address, such as "base_url", or None if there
    is none. Settings that refer to the operator's files are included. An SMTP server's host and port are not included,
    because the guard checks them.
    """
    return "kind" if isinstance(settings, UnknownTransport) else kind_of(settings).own_endpoint(settings)


def endpoint_refusal(settings: TransportSettings) -> WrongSetting | None:
    own = own_endpoint(settings)
    return None if own is None else WrongSetting(own, "is allowed only for the operator's accounts. Omit it")


async def server_refusal(settings: TransportSettings, guard: NetworkGuard) -> WrongSetting | None:
    """Returns the reason why an account that is not the operator's must not use this server, or None if the account may
    use it.
    """
    wrong = endpoint_refusal(settings)
    return wrong or (await kind_of(settings).refusal(settings, guard) if isinstance(settings, ServerSettings) else None)


class EndpointRefused(FairpostError):
    """Raised if a workspace's account has settings that only the operator's accounts may have."""


def standard(settings: ServerSettings) -> ServerSettings:
    """Returns settings that a workspace's account may use. Raises EndpointRefused."""
    wrong = endpoint_refusal(settings)
    if wrong is not None:
        raise EndpointRefused(str(wrong))
    public: ServerSettings = kind_of(settings).public(settings)
    return public


class BarredTransport:
    """A transport for accounts whose settings name a forbidden server. It sends nothing and keeps all e-mails
    waiting.
    """

    def __init__(self, words: str) -> None:
        self._words = words

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        return Report(reached=Reached.UNTOUCHED, step=Step.CONNECT, error=self._words, is_barred=True)

    async def close(self) -> None:
        pass
