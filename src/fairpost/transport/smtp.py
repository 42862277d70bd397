"""Sends e-mails to an SMTP server: composes them, has them carried, and tells of each recipient by the name we know."""

from collections import OrderedDict
from dataclasses import replace

from fairpost.compose.errors import Uncomposable
from fairpost.compose.message import Prepared, compose, prepare
from fairpost.model.account import Account
from fairpost.model.email import Content, Mailbox, Outgoing
from fairpost.model.message import Message
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.smtp.auth import Login
from fairpost.smtp.courier import Courier, Reuse
from fairpost.smtp.server import Server
from fairpost.system import clock
from fairpost.transport.port import Permission

PREPARED_BYTES_MAX = 64 * 1024 * 1024


class SmtpTransport:
    """One account's way out: one connection, one e-mail at a time."""

    def __init__(self, server: Server, login: Login | None = None, *, reuse: Reuse | None = None) -> None:
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
        sender = email.sender or Mailbox(address=account.address, name=account.display_name)
        return compose(email, self._prepared.of(email.content), sender=sender, date=clock.now())


class PreparedContents:
    """Contents never change, and many e-mails share one: the last ones used stay encoded."""

    def __init__(self, *, bytes_max: int = PREPARED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._by_id: OrderedDict[int, Prepared] = OrderedDict()

    def of(self, content: Content) -> Prepared:
        found = self._by_id.get(content.id)
        if found is not None:
            self._by_id.move_to_end(content.id)
            return found
        made = self._by_id[content.id] = prepare(content)
        self._bytes += made.size
        while self._bytes > self._bytes_max and len(self._by_id) > 1:
            _, oldest = self._by_id.popitem(last=False)
            self._bytes -= oldest.size
        return made
