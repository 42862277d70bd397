"""Sends e-mails to an SMTP server: composes them, has them carried, and tells of each recipient by the name we know."""

from dataclasses import replace

from fairpost.compose.errors import Uncomposable
from fairpost.compose.message import compose
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.message import Message
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.smtp.auth import Login, LoginSource
from fairpost.smtp.courier import Courier, Reuse
from fairpost.smtp.server import Server
from fairpost.system import clock
from fairpost.transports.composing import PreparedContents, sender_of
from fairpost.transports.port import Permission


class SmtpTransport:
    """One account's way out: one connection, one e-mail at a time."""

    def __init__(self, server: Server, login: Login | LoginSource | None = None, *, reuse: Reuse | None = None) -> None:
        self._courier = Courier(server, login, reuse=reuse)
        self._prepared = PreparedContents()

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        try:
            message = self._composed(account, email)
        except Uncomposable as error:
            return Report(reached=Reached.UNSENDABLE, step=Step.MAIL, reply=Reply(553, f"5.1.3 {error}"))
        report = await self._courier.send(message, permission=permission)
        as_known = dict(zip(message.recipients, email.envelope, strict=True))  # domains may be written in ASCII
        return replace(report, recipients={as_known[address]: reply for address, reply in report.recipients.items()})

    async def close(self) -> None:
        await self._courier.close()

    def _composed(self, account: Account, email: Outgoing) -> Message:
        prepared = self._prepared.of(email.content)
        return compose(email, prepared, sender=sender_of(account, email), date=clock.now())
