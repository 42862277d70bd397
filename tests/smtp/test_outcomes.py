"""Every cell of the table of outcomes, on a real socket."""

import asyncio
import ssl
from pathlib import Path

import pytest

from fairpost.model.message import Message
from fairpost.model.report import Reached, Report
from fairpost.smtp.auth import Password
from fairpost.smtp.courier import Courier
from fairpost.smtp.server import Security, Server, Timeouts
from tests.peers.certificates import Certificates
from tests.smtp import outcomes
from tests.smtp.outcomes import TABLE, Row
from tests.smtp.scripted_server import DRIP, STALL, Script, scripted

DOCS = Path(__file__).parents[2] / "docs" / "smtp.md"
SHORT_S = 0.15
PATIENT = dict.fromkeys(Timeouts.__dataclass_fields__, 60.0)
PATIENCE_OF = {
    "greeting": "greeting_s",
    "hello": "hello_s",
    "starttls": "hello_s",
    "tls": "tls_s",
    "auth": "auth_s",
    "mail": "mail_s",
    "first rcpt": "rcpt_s",
    "last rcpt": "rcpt_s",
    "data": "data_s",
    "body": "block_s",
    "dot": "dot_s",
}
SMALL = b"Subject: hello\r\n\r\n.a dot\r\n"
LARGE = SMALL + (b"0123456789" * 7 + b"\r\n") * 200_000  # more than all buffers between two sockets hold
TO = ("ann@example.com", "bob@example.com")


def script_of(row: Row, certificates: Certificates, *, pipelining: bool) -> Script:
    script = Script(at=row.step, misdeed=row.misdeed, pipelining=pipelining)
    if row.step in ("starttls", "tls", "auth"):
        script.features += ("STARTTLS", "AUTH PLAIN LOGIN")
        script.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        script.tls.load_cert_chain(certificates.good.cert, certificates.good.key)
    return script


def timeouts_of(row: Row) -> Timeouts:
    """Short timeouts if the server never answers, long ones otherwise, so that a slow machine changes no outcome."""
    if row.misdeed in (STALL, DRIP):
        return Timeouts(**{**PATIENT, PATIENCE_OF[row.step]: SHORT_S})
    return Timeouts(**PATIENT)


async def send(script: Script, row: Row, certificates: Certificates, to: tuple[str, ...]) -> Report:
    async with scripted(script) as port:
        security = Security.STARTTLS if script.tls else Security.NONE
        server = Server(
            host="localhost", port=port, security=security, ca_file=str(certificates.ca), timeouts=timeouts_of(row)
        )
        courier = Courier(server, Password(user="ann", secret="secret") if script.tls else None)
        data = LARGE if row.step == "body" else SMALL
        message = Message(sender="me@example.com", recipients=to, message_id="<1@example.com>", data=data)
        report = await courier.send(message, permission=lambda: True)
        await courier.close()
        return report


def in_words(report: Report, to: tuple[str, ...]) -> str:
    match report.reached:
        case Reached.UNTOUCHED:
            return outcomes.UNTOUCHED
        case Reached.BEFORE_DOT:
            return outcomes.BEFORE
        case Reached.AFTER_DOT:
            return outcomes.DOUBT
        case Reached.REPLIED:
            assert report.reply is not None
            if report.reply.code >= 400:
                return f"{report.reply.code}: {'later' if report.reply.code < 500 else 'refused'}"
            got_it = [a for a in to if report.recipients[a].code < 300]
            return outcomes.SENT if len(got_it) == len(to) else outcomes.REST_SENT
        case _:
            return report.reached


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelined", "one by one"])
@pytest.mark.parametrize("row", TABLE, ids=str)
async def test_the_reported_outcome_is_right(row: Row, pipelining: bool, certificates: Certificates) -> None:
    expected = {TO[:1]: row.one, TO: row.two}
    for to, outcome in expected.items():
        if outcome is None:
            continue
        script = script_of(row, certificates, pipelining=pipelining)
        report = await asyncio.wait_for(send(script, row, certificates, to), 60)
        assert in_words(report, to) == outcome
        nothing_is_there = report.reached in (Reached.UNTOUCHED, Reached.BEFORE_DOT)
        assert not (nothing_is_there and script.taken), "the server has it, and we would send it again"
        if outcome in (outcomes.SENT, outcomes.REST_SENT):
            assert script.taken == [SMALL]


def test_the_documentation_prints_this_table() -> None:
    assert outcomes.as_markdown() in DOCS.read_text("utf-8"), f"docs/smtp.md needs:\n{outcomes.as_markdown()}"
