"""Transports to the zoo's providers without sockets. The transports return a client's report on each conversation, in
loop time.

For SMTP, the client is simulated with the real timeouts. For the Gmail API, the real client connects to the emulator in
the same process. Both clients record the conversations in a `Visits` object.
"""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import assert_never

import httpx2

from fairpost.dev.emulate.answers import Refusal as EmulatorRefusal
from fairpost.dev.emulate.server import CLIENT_ID, CLIENT_SECRET, GmailEmulator
from fairpost.dev.emulate.tokens import SCOPES, Grant
from fairpost.dev.inbox.faults import Answer, Cut, CutAfter, Decide, Delay, Heard, Stall
from fairpost.dev.inbox.faults import Step as Met
from fairpost.dev.simulate.visits import Visits
from fairpost.dev.simulate.zoo import TAKES_S
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.smtp.client import patience
from fairpost.smtp.courier import Reuse
from fairpost.smtp.server import Timeouts
from fairpost.system import clock
from fairpost.transports.composing import sender_of
from fairpost.transports.gmail.client import GmailClient
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.oauth.errors import Refused
from fairpost.transports.oauth.tokens import AccessToken
from fairpost.transports.port import Evidence, Permission

STEPS = {
    Met.CONNECT: Step.GREETING,
    Met.EHLO: Step.HELLO,
    Met.AUTH: Step.AUTH,
    Met.MAIL: Step.MAIL,
    Met.RCPT: Step.RCPT,
    Met.DATA: Step.DATA,
    Met.DOT: Step.DOT,
}
PATIENCE = patience(Timeouts())
CLOSING = 421
DENIED = "the lease ran out before the message was complete"


@dataclass(frozen=True, slots=True)
class _Lost:
    error: str
    is_silent: bool  # the connection is open, but no answer arrived in time


@dataclass(slots=True)
class _Connection:
    messages: int = 0


class SimulatedSmtp:
    """One account's transport to one provider. The transport behaves like `SmtpTransport`."""

    def __init__(self, decide: Decide, visits: Visits) -> None:
        self._decide = decide
        self._visits = visits
        self._connection: _Connection | None = None

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        left_at = clock.now()
        connection = await self._ready()
        if isinstance(connection, Report):
            return connection
        is_used = connection.messages > 0
        report, had_hung_up = await self._carry(connection, account, email, permission, left_at)
        if had_hung_up and is_used:  # the server had only closed an idle connection
            connection = await self._ready()
            if isinstance(connection, Report):
                return connection
            report, _ = await self._carry(connection, account, email, permission, left_at)
        return report

    async def close(self) -> None:
        self._connection = None

    async def _ready(self) -> _Connection | Report:
        if self._connection is not None and self._connection.messages >= Reuse().messages_max:
            self._connection = None
        if self._connection is None:
            for step in (Met.CONNECT, Met.EHLO, Met.AUTH):
                met = await self._meet(Heard(step=step, now=clock.now()))
                if isinstance(met, _Lost):
                    return Report(reached=Reached.UNTOUCHED, step=STEPS[step], error=met.error)
                if met is not None:
                    return Report(reached=Reached.UNTOUCHED, step=STEPS[step], reply=met)
            self._connection = _Connection()
        return self._connection

    async def _carry(
        self, connection: _Connection, account: Account, email: Outgoing, permission: Permission, left_at: datetime
    ) -> tuple[Report, bool]:
        """Returns the report and whether the server had closed the connection before it received the message."""
        heard = Heard(step=Met.MAIL, now=clock.now(), sender=sender_of(account, email).address)
        heard = replace(heard, messages=connection.messages)
        connection.messages += 1
        met = await self._meet(heard)
        if isinstance(met, _Lost) and not met.is_silent and heard.messages:
            return self._broken(Step.MAIL, met, {}), True
        if isinstance(met, Reply) and met.code == CLOSING and heard.messages:
            return self._refused(Step.MAIL, met, {}), True
        async with self._visits.visit(account, email, left_at=left_at):
            return await self._told(heard, met, email, permission), False

    async def _told(self, heard: Heard, met: Reply | _Lost | None, email: Outgoing, permission: Permission) -> Report:
        if met is not None:
            return self._ended(Step.MAIL, met, {})
        replies: dict[str, Reply] = {}
        for address in email.envelope:
            met = await self._meet(replace(heard, step=Met.RCPT, recipient=address, now=clock.now()))
            if isinstance(met, _Lost):
                return self._broken(Step.RCPT, met, replies)
            replies[address] = met or Reply(250, "2.1.5 OK")
        if not any(reply.code < 300 for reply in replies.values()):
            return self._refused(Step.RCPT, next(reversed(replies.values())), replies)
        for step in (Met.DATA, Met.DOT):
            if step is Met.DOT:
                if not permission():
                    self._connection = None
                    return Report(reached=Reached.UNTOUCHED, step=Step.BODY, error=DENIED)
                await asyncio.sleep(TAKES_S)
            met = await self._meet(replace(heard, step=step, recipient=email.envelope[0], now=clock.now()))
            if met is not None:
                return self._ended(STEPS[step], met, replies)
        return Report(reached=Reached.REPLIED, step=Step.DOT, reply=Reply(250, "2.0.0 Kept"), recipients=replies)

    def _ended(self, step: Step, met: Reply | _Lost, replies: dict[str, Reply]) -> Report:
        return self._broken(step, met, replies) if isinstance(met, _Lost) else self._refused(step, met, replies)

    def _broken(self, step: Step, lost: _Lost, replies: dict[str, Reply]) -> Report:
        self._connection = None
        reached = Reached.AFTER_DOT if step is Step.DOT else Reached.BEFORE_DOT
        return Report(reached=reached, step=step, error=lost.error, is_silent=lost.is_silent, recipients=replies)

    def _refused(self, step: Step, reply: Reply, replies: dict[str, Reply]) -> Report:
        if reply.code == CLOSING:
            self._connection = None
        return Report(reached=Reached.REPLIED, step=step, reply=reply, recipients=replies)

    async def _meet(self, heard: Heard) -> Reply | _Lost | None:
        """Waits for as long as the provider takes to respond. Returns the provider's reaction if it is not the
        usual answer.
        """
        waits_s = PATIENCE[STEPS[heard.step]]
        for action in self._decide(heard):
            match action:
                case Answer(reply):
                    return Reply(int(reply[:3]), reply[4:])
                case Delay(seconds):
                    await asyncio.sleep(min(seconds, waits_s))
                    waits_s -= seconds
                    if waits_s <= 0:
                        return _Lost(f"no answer to {heard.step} in time", is_silent=True)
                case Stall():
                    await asyncio.sleep(waits_s)
                    return _Lost(f"no answer to {heard.step} in time", is_silent=True)
                case Cut() | CutAfter():
                    return _Lost("the server closed the connection", is_silent=False)
                case _:
                    assert_never(action)
        return None


@dataclass(slots=True)
class _EmulatedTokens:
    """The emulator's own tokens, obtained without a request."""

    emulator: GmailEmulator
    form: dict[str, str]
    kept: AccessToken | None = field(default=None)

    async def token(self) -> AccessToken:
        if self.kept is None or self.kept.expires_at <= clock.now():
            try:
                granted = self.emulator.tokens.grant({**self.form, "grant_type": "refresh_token"}, url="")
            except EmulatorRefusal:
                raise Refused("invalid_grant", "The token was revoked.", "") from None
            lasts = timedelta(seconds=granted["expires_in"])
            self.kept = AccessToken(secret=granted["access_token"], expires_at=clock.now() + lasts)
        return self.kept

    def forget(self) -> None:
        self.kept = None


class SimulatedGmail(GmailTransport):
    """The real transport, connected to an emulator in the same process."""

    def __init__(self, emulator: GmailEmulator, visits: Visits, *, user: str) -> None:
        form = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "refresh_token": f"of {user}"}
        emulator.tokens.clients[CLIENT_ID] = CLIENT_SECRET
        emulator.tokens.grants[f"of {user}"] = Grant(user=user, client_id=CLIENT_ID, scopes=SCOPES)
        wire = httpx2.ASGITransport(app=emulator.app())
        super().__init__(GmailClient(_EmulatedTokens(emulator, form), base_url="http://127.0.0.1", wire=wire))
        self._visits = visits

    async def draft(self, account: Account, email: Outgoing) -> Evidence | Report:
        kept = await super().draft(account, email)
        if isinstance(kept, Report):
            async with self._visits.visit(account, email):
                return kept
        return kept

    async def send_draft(
        self, account: Account, email: Outgoing, evidence: Evidence, *, permission: Permission
    ) -> Report:
        async with self._visits.visit(account, email):
            return await super().send_draft(account, email, evidence, permission=permission)
