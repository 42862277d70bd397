"""For staging: every e-mail goes to one address instead of its recipients, who are named in it and get nothing.

What the server says of that one address is booked on the recipients, but never as if they did not exist: nobody is
suppressed because a test mailbox is missing.
"""

import re
from dataclasses import replace

from fairpost.model.account import Account
from fairpost.model.email import Outgoing, Recipient
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.transports.port import ClosableTransport, Permission

HEADER = "X-Fairpost-Original-Recipients"

# What a refusal may be about besides an address or its mailbox (RFC 3463); a full one will be emptied.
_NOT_ABOUT_AN_ADDRESS = re.compile(r"\s*5\.(?:[3-7]\.|2\.2\b)")
_BEFORE_ANY_ADDRESS = (Step.CONNECT, Step.GREETING, Step.HELLO, Step.STARTTLS, Step.TLS, Step.AUTH)


class Redirected:
    def __init__(self, transport: ClosableTransport, address: str) -> None:
        self._transport = transport
        self._address = address

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        report = await self._transport.send(account, redirected(email, self._address), permission=permission)
        return self._booked_on(email, report)

    async def close(self) -> None:
        await self._transport.close()

    def _booked_on(self, email: Outgoing, report: Report) -> Report:
        """All recipients share the fate of the one address, except that they do not bounce with it."""
        own = report.recipients.get(self._address)
        ended = report.reply if report.step not in _BEFORE_ANY_ADDRESS else None
        refusal = next((reply for reply in (own, ended) if reply is not None and _may_be_about_an_address(reply)), None)
        if report.reached is Reached.REPLIED and refusal is not None:
            words = f"{self._address}, to which everything is redirected, was refused: {refusal.code} {refusal.text}"
            return replace(report, reached=Reached.UNSENDABLE, recipients={}, reply=Reply(554, f"5.4.0 {words}"))
        if ended is not None and 400 <= ended.code < 500:  # nobody's mailbox is full because a test mailbox is
            words = f"4.4.0 {self._address}, to which everything is redirected, takes nothing now"
            return replace(report, recipients={}, reply=Reply(451, words))
        return replace(report, recipients=dict.fromkeys(email.envelope, own) if own else {})


def _may_be_about_an_address(reply: Reply) -> bool:
    return reply.code >= 500 and not _NOT_ABOUT_AN_ADDRESS.match(reply.text)


def redirected(email: Outgoing, address: str) -> Outgoing:
    headers = {name: value for name, value in email.content.headers.items() if name.lower() != HEADER.lower()}
    content = replace(
        email.content,
        id=-email.id,  # it is this e-mail's own now: whoever keeps contents by id must not take it for the shared one
        headers={**headers, HEADER: ", ".join(f"{person.kind} {person.address}" for person in email.recipients)},
    )
    shown = tuple(_harmless(person, address) for person in email.recipients if person.kind != "bcc")
    return replace(email, envelope=(address,), recipients=shown, content=content)


def _harmless(person: Recipient, address: str) -> Recipient:
    """Still to be read, but an answer to all reaches nobody else."""
    who = person.address.replace("@", " at ")
    return Recipient(kind=person.kind, address=address, name=f"{person.name} ({who})" if person.name else who)
