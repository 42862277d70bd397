"""Sends every e-mail to one address instead of its recipients, for staging. The recipients are still named in the
e-mail but do not receive it.

The server's reply for that address is recorded for the recipients, but never as a missing mailbox. A recipient is
therefore never suppressed because a test mailbox does not exist.
"""

import re
from dataclasses import replace

from fairpost.model.account import Account
from fairpost.model.email import Outgoing, Recipient
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.transports.port import ClosableTransport, Permission

HEADER = "X-Fairpost-Original-Recipients"

# Refusals that are not about an address or its mailbox (RFC 3463). A full mailbox is included, because it will be
# emptied.
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
        """Assigns the outcome for the one address to all recipients, except that none of them is recorded as
        bounced.
        """
        own = report.recipients.get(self._address)
        ended = report.reply if report.step not in _BEFORE_ANY_ADDRESS else None
        refusal = next((reply for reply in (own, ended) if reply is not None and _may_be_about_an_address(reply)), None)
        if report.reached is Reached.REPLIED and refusal is not None:
            words = f"the redirect address {self._address} was rejected: {refusal.code} {refusal.text}"
            return replace(report, reached=Reached.UNSENDABLE, recipients={}, reply=Reply(554, f"5.4.0 {words}"))
        # A full test mailbox proves nothing about the recipients' mailboxes.
        if ended is not None and 400 <= ended.code < 500:
            words = f"4.4.0 the redirect address {self._address} does not accept mail right now"
            return replace(report, recipients={}, reply=Reply(451, words))
        return replace(report, recipients=dict.fromkeys(email.envelope, own) if own else {})


def _may_be_about_an_address(reply: Reply) -> bool:
    return reply.code >= 500 and not _NOT_ABOUT_AN_ADDRESS.match(reply.text)


def redirected(email: Outgoing, address: str) -> Outgoing:
    headers = {name: value for name, value in email.content.headers.items() if name.lower() != HEADER.lower()}
    content = replace(
        email.content,
        id=-email.id,  # the content now belongs only to this e-mail, so caches must not return the shared content
        headers={**headers, HEADER: ", ".join(f"{person.kind} {person.address}" for person in email.recipients)},
    )
    shown = tuple(_harmless(person, address) for person in email.recipients if person.kind != "bcc")
    return replace(email, envelope=(address,), recipients=shown, content=content)


def _harmless(person: Recipient, address: str) -> Recipient:
    """Keeps the name readable but changes the address so that a reply to all does not reach the recipient."""
    who = person.address.replace("@", " at ")
    return Recipient(kind=person.kind, address=address, name=f"{person.name} ({who})" if person.name else who)
