"""Each provider treats a real client on a socket like the simulated one: one description, two implementations."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from fairpost.dev.inbox.faults import Decide, Heard, Step
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.dev.simulate.providers import START
from fairpost.dev.simulate.transports import SimulatedSmtp
from fairpost.dev.simulate.virtual_time import VirtualLoop, run_virtually
from fairpost.dev.simulate.visits import Visits
from fairpost.dev.simulate.zoo import ABUSER, MESSAGES_PER_CONNECTION, POISON, ZOO, Behaviour
from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.email import Content, Mailbox, Outgoing
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Report
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.smtp.auth import Password
from fairpost.smtp.server import Security, Server, Timeouts
from fairpost.store.store import Store
from fairpost.system import chance
from fairpost.transports.port import Transport
from fairpost.transports.smtp.send import SmtpTransport

IMPATIENT = {  # for that step alone
    "hangs-at-greeting": Timeouts(greeting_s=0.1),
    "hangs-at-ehlo": Timeouts(hello_s=0.1),
    "hangs-at-auth": Timeouts(auth_s=0.1),
    "hangs-at-mail": Timeouts(mail_s=0.1),
    "hangs-at-rcpt": Timeouts(rcpt_s=0.1),
    "hangs-at-data": Timeouts(data_s=0.1),
    "hangs-at-dot": Timeouts(dot_s=0.1),
    "hangs-on-one": Timeouts(dot_s=0.1),
}
EMAILS = MESSAGES_PER_CONNECTION + 3
MET = {name: behaviour for name, behaviour in ZOO.items() if behaviour.smtp is not None}

ACCOUNT = Account(
    id=AccountId(1),
    name="sales",
    address="sales@post.test",
    display_name=None,
    pool="zoo",
    status=AccountStatus.ACTIVE,
    status_reason=None,
    limits=Limits(),
    usage=Usage(),
)


def outgoing(number: int) -> Outgoing:
    """Every fifth e-mail goes to the deferred recipient, and every seventh comes from the rejected sender."""
    to = f"{POISON if number % 5 == 4 else f'p{number}'}@there.test"
    return Outgoing(
        id=EmailId(number),
        workspace="w",
        email_class=EmailClass.BULK,
        on_doubt=DoubtPolicy.HOLD,
        attempts=1,
        attempts_max=3,
        sender=Mailbox(address=f"news@{ABUSER if number % 7 == 6 else 'honest.test'}"),
        recipients=(),
        envelope=(to,),
        fields={},
        content=Content(id=None, subject="s", text="t", html=None, reply_to=None, headers={}),
    )


def decide_as(behaviour: Behaviour) -> Decide:
    assert behaviour.smtp is not None
    return behaviour.smtp(chance.dice("the same for both"))


def told(report: Report) -> tuple[Any, ...]:
    reply = report.reply and (report.reply.code, report.reply.code >= 400 and report.reply.text)
    return report.reached, report.step, reply, report.is_silent, {a: r.code for a, r in report.recipients.items()}


async def reports(transport: Transport, emails: Iterable[Outgoing]) -> list[tuple[Any, ...]]:
    return [told(await transport.send(ACCOUNT, email, permission=lambda: True)) for email in emails]


async def over_a_socket(store: Store, behaviour: Behaviour, emails: list[Outgoing]) -> list[tuple[Any, ...]]:
    async def no_delay(_: float) -> None:
        pass

    inbox = InboxServer(store, ServerOptions(port=0, decide=decide_as(behaviour)), sleep=no_delay)
    await inbox.start()
    timeouts = IMPATIENT.get(behaviour.name, Timeouts())
    server = Server(host="127.0.0.1", port=inbox.port, security=Security.NONE, timeouts=timeouts)
    transport = SmtpTransport(server, Password(user="sales", secret="geheim"))
    try:
        return await reports(transport, emails)
    finally:
        await transport.close()
        await inbox.stop()


def simulated(behaviour: Behaviour, emails: list[Outgoing]) -> list[tuple[Any, ...]]:
    async def run() -> list[tuple[Any, ...]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.waits_for(lambda: False)
        return await reports(SimulatedSmtp(decide_as(behaviour), Visits()), emails)

    return run_virtually(START, run)


@pytest.mark.parametrize("name", MET)
async def test_a_provider_is_the_same_on_a_socket_and_in_a_simulation(name: str, store: Store) -> None:
    behaviour = MET[name]
    emails = [outgoing(number) for number in ([4] if name in IMPATIENT else range(EMAILS))]
    real = await over_a_socket(store, behaviour, emails)
    assert await asyncio.to_thread(simulated, behaviour, emails) == real


async def test_a_server_decides_at_each_step_with_what_it_has_heard(store: Store) -> None:
    heard: list[Heard] = []

    def note(each: Heard) -> tuple[()]:
        heard.append(each)
        return ()

    behaviour = Behaviour(name="noting", about="", smtp=lambda _: note)
    await over_a_socket(store, behaviour, [outgoing(0), outgoing(6)])
    facts = [(each.step, each.sender, each.recipient, each.messages) for each in heard]
    first, second = "news@honest.test", f"news@{ABUSER}"
    assert facts == [
        *((step, "", "", 0) for step in (Step.CONNECT, Step.EHLO, Step.AUTH)),
        (Step.MAIL, first, "", 0),
        *((step, first, "p0@there.test", 0) for step in (Step.RCPT, Step.DATA, Step.DOT)),
        (Step.MAIL, second, "", 1),
        *((step, second, "p6@there.test", 1) for step in (Step.RCPT, Step.DATA, Step.DOT)),
    ]
