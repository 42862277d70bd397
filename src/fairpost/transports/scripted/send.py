"""A transport that follows a script, for tests, simulations and experiments. It sends no mail."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.transports.port import Permission

OK = Report(reached=Reached.REPLIED, reply=Reply(250, "2.0.0 taken"))


@dataclass(frozen=True, slots=True)
class Delivery:
    account: str
    email_id: EmailId
    to: tuple[str, ...]
    subject: str


class ScriptedTransport:
    """Sends nothing. Returns a script's reports one by one, and from then on always returns the report `always`.
    Records what a server would have received.
    """

    def __init__(self, script: Iterable[Report] = (), *, always: Report | Callable[[Outgoing], Report] = OK) -> None:
        self._script: Iterator[Report] = iter(script)
        self._always = always
        self.delivered: list[Delivery] = []

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        report = next(self._script, None) or (self._always(email) if callable(self._always) else self._always)
        if report.reached is not Reached.UNTOUCHED and not permission():
            return Report(reached=Reached.UNTOUCHED, error="the lease ran out before the message was complete")
        if report.reached is Reached.AFTER_DOT or (report.reply is not None and report.reply.code < 300):
            self.delivered.append(Delivery(account.name, email.id, email.envelope, email.content.subject))
        return report

    async def close(self) -> None: ...
