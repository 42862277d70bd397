"""What an account of somebody else than the operator may send through: its own SMTP server where the guard allows it, and
Google and Microsoft at their public addresses. Whoever takes in such an account asks `server_refusal` before it is stored.
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
    """What leads away from the providers' public addresses, or into the operator's files, by its name: "base_url". None:
    nothing does. An SMTP server's host and port are not meant: they are the guard's business."""
    return "kind" if isinstance(settings, UnknownTransport) else kind_of(settings).own_endpoint(settings)


def endpoint_refusal(settings: TransportSettings) -> WrongSetting | None:
    own = own_endpoint(settings)
    return None if own is None else WrongSetting(own, "is for the operator's own accounts: leave it out")


async def server_refusal(settings: TransportSettings, guard: NetworkGuard) -> WrongSetting | None:
    """Why an account that is not the operator's may not have this server. None: it may."""
    wrong = endpoint_refusal(settings)
    return wrong or (await kind_of(settings).refusal(settings, guard) if isinstance(settings, ServerSettings) else None)


class EndpointRefused(FairpostError):
    """An account that is not the operator's own has settings that only his may have."""


def standard(settings: ServerSettings) -> ServerSettings:
    """Settings that can be used for somebody else. Raises EndpointRefused."""
    wrong = endpoint_refusal(settings)
    if wrong is not None:
        raise EndpointRefused(str(wrong))
    public: ServerSettings = kind_of(settings).public(settings)
    return public


class BarredTransport:
    """Sends nothing and loses nothing: for an account whose settings lead where it may not go."""

    def __init__(self, words: str) -> None:
        self._words = words

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        return Report(reached=Reached.UNTOUCHED, step=Step.CONNECT, error=self._words, is_barred=True)

    async def close(self) -> None:
        pass
