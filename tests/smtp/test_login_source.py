"""Logins that expire: requested for each connection, and once more if the server refuses one."""

import pytest

from fairpost.model.message import Message
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.smtp.auth import Token
from fairpost.smtp.connecting import Unready
from fairpost.smtp.courier import Courier, Reuse
from fairpost.smtp.server import Security, Server
from tests.smtp.scripted_server import CUT, Misdeed, Says, Script, scripted

MESSAGE = Message(
    sender="me@example.com", recipients=("ann@example.com",), message_id="<1@example.com>", data=b"Subject: x\r\n\r\n"
)


class Numbered:
    """Returns tok-1, tok-2, … as long as there are any; records refusals."""

    def __init__(self, script: Script, *, tokens_max: int = 100, good_from: int = 1) -> None:
        self._script = script
        self._max = tokens_max
        self._good_from = good_from
        self._at = 1
        self.asked = 0
        self.refusals = 0

    async def login(self) -> Token:
        self.asked += 1
        if self._at > self._max:
            raise Unready(Step.AUTH, "no token", Reply(454, "4.7.0 later"))
        return Token(user="ann", secret=f"tok-{self._at}")

    def refused(self) -> None:
        self.refusals += 1
        self._at += 1
        if self._at >= self._good_from:
            self._script.at = ""


def refusing(misdeed: Misdeed) -> Script:
    return Script(features=("AUTH XOAUTH2",), at="auth", misdeed=misdeed)


async def send(script: Script, source: Numbered, messages: int = 1, reuse: Reuse | None = None) -> list[Report]:
    async with scripted(script) as port:
        courier = Courier(Server(host="127.0.0.1", port=port, security=Security.NONE), source, reuse=reuse)
        try:
            return [await courier.send(MESSAGE, permission=lambda: True) for _ in range(messages)]
        finally:
            await courier.close()


async def test_a_connection_asks_for_a_login_and_the_next_one_asks_again() -> None:
    script = Script(features=("AUTH XOAUTH2",))
    source = Numbered(script)
    reports = await send(script, source, 4, Reuse(messages_max=2))
    assert {report.reached for report in reports} == {Reached.REPLIED}
    assert (source.asked, source.refusals, script.connections) == (2, 0, 2)


async def test_a_refused_login_gets_one_successor() -> None:
    script = refusing(Says("535 5.7.8 stale"))
    source = Numbered(script, good_from=2)
    [report] = await send(script, source)
    assert report.reached is Reached.REPLIED
    assert (source.asked, source.refusals, script.connections) == (2, 1, 2)


async def test_a_successor_that_is_refused_too_ends_it() -> None:
    script = refusing(Says("535 5.7.8 no"))
    source = Numbered(script, good_from=99)
    [report] = await send(script, source)
    assert (report.reached, report.step, report.reply) == (Reached.UNTOUCHED, Step.AUTH, Reply(535, "5.7.8 no"))
    assert (source.asked, source.refusals, script.connections) == (2, 1, 2)


async def test_where_there_is_no_successor_that_is_what_is_reported() -> None:
    script = refusing(Says("535 5.7.8 stale"))
    [report] = await send(script, Numbered(script, tokens_max=1))
    assert (report.reached, report.step, report.reply) == (Reached.UNTOUCHED, Step.AUTH, Reply(454, "4.7.0 later"))


@pytest.mark.parametrize("misdeed", [Says("454 4.7.0 later"), Says("421 4.7.0 bye"), Says("534 5.7.9 no"), CUT])
async def test_anything_but_a_refusal_is_not_the_tokens_fault(misdeed: Misdeed) -> None:
    script = refusing(misdeed)
    source = Numbered(script)
    [report] = await send(script, source)
    assert report.reached is Reached.UNTOUCHED
    assert (source.asked, source.refusals, script.connections) == (1, 0, 1)


async def test_without_a_login_nothing_is_connected() -> None:
    script = Script(features=("AUTH XOAUTH2",))
    source = Numbered(script, tokens_max=0)
    [report] = await send(script, source)
    assert (report.step, report.reply) == (Step.AUTH, Reply(454, "4.7.0 later"))
    assert (source.asked, script.connections) == (1, 0)
