"""Sends e-mails to an SMTP server. Composes and transmits them, and reports each recipient by the address in the
queue.
"""

from contextlib import suppress
from dataclasses import replace

from fairpost.compose.errors import Uncomposable
from fairpost.compose.message import compose
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.message import Message
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.model.return_path import return_path, unsubscribe_mailto
from fairpost.smtp.auth import Login, LoginSource
from fairpost.smtp.courier import Courier, Reuse
from fairpost.smtp.server import Server
from fairpost.system import clock
from fairpost.transports.composing import PreparedContents, sender_of
from fairpost.transports.port import Permission
from fairpost.transports.signing import Locked, Signer


class SmtpTransport:
    """Sends the e-mails of one account, one at a time, over one connection."""

    def __init__(
        self,
        server: Server,
        login: Login | LoginSource | None = None,
        *,
        reuse: Reuse | None = None,
        bounce_domain: str | None = None,
        is_read: bool = False,
    ) -> None:
        self._courier = Courier(server, login, reuse=reuse)
        self._prepared = PreparedContents()
        self._bounce_domain = bounce_domain
        self._is_read = is_read
        self.signer: Signer | None = None
        self._ahead: tuple[Outgoing, Message] | None = None

    def compose_ahead(self, account: Account, email: Outgoing) -> None:
        with suppress(Uncomposable, Locked):  # `send` reports the error
            self._ahead = email, self._composed(account, email)

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        try:
            message = self._taken_ahead(email) or self._composed(account, email)
        except Uncomposable as error:
            return Report(reached=Reached.UNSENDABLE, step=Step.MAIL, reply=Reply(553, f"5.1.3 {error}"))
        except Locked as locked:  # only this e-mail waits; e-mails from other domains are still sent
            return Report(reached=Reached.UNTOUCHED, error=str(locked), locked_key=locked.key)
        report = await self._courier.send(message, permission=permission)
        if message.recipients == email.envelope:
            return report
        # The addresses in the report may have ASCII domains.
        as_known = dict(zip(message.recipients, email.envelope, strict=True))
        return replace(report, recipients={as_known[address]: reply for address, reply in report.recipients.items()})

    async def close(self) -> None:
        await self._courier.close()

    def _taken_ahead(self, email: Outgoing) -> Message | None:
        ahead, self._ahead = self._ahead, None
        return ahead[1] if ahead is not None and ahead[0] is email else None

    def _composed(self, account: Account, email: Outgoing) -> Message:
        prepared = self._prepared.of(email.content)
        sender = sender_of(account, email)
        keys = self.signer.keys_for(email, sender) if self.signer is not None else ()
        back = return_path(email.return_token, domain=self._bounce_domain) if self._bounce_domain else None
        mailbox = account.address if self._is_read else None
        mailto = unsubscribe_mailto(email.return_token, bounce_domain=self._bounce_domain, mailbox=mailbox)
        return compose(email, prepared, sender=sender, date=clock.now(), keys=keys, return_path=back, mailto=mailto)
