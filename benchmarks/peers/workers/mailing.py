"""Sends an e-mail from a task of a general-purpose queue: composed with the standard library, sent with aiosmtplib.

The tasks of a process share and reuse connections, as the documentation of both queues recommends for clients.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import localtime, make_msgid

import aiosmtplib

_idle: list[aiosmtplib.SMTP] = []


async def send(email: dict[str, str]) -> None:
    message = compose(email)
    async with _connection() as connection:
        await connection.sendmail(email["sender"], [email["to"]], message)


def compose(email: dict[str, str]) -> bytes:
    message = EmailMessage(policy=SMTP)
    message["Date"] = localtime()
    message["From"] = f"The Shop <{email['sender']}>"
    message["To"] = email["to"]
    message["Subject"] = email["subject"]
    message["Message-ID"] = make_msgid(domain="example.com")
    message.set_content(email["text"])
    message.add_alternative(email["html"], subtype="html")
    return message.as_bytes()


@asynccontextmanager
async def _connection() -> AsyncIterator[aiosmtplib.SMTP]:
    """Yields a connection from the pool. If it fails, it is not returned to the pool."""
    connection = _idle.pop() if _idle else await _connected()
    yield connection
    _idle.append(connection)


async def _connected() -> aiosmtplib.SMTP:
    connection = aiosmtplib.SMTP(
        hostname=os.environ["SINK_HOST"], port=int(os.environ["SINK_PORT"]), start_tls=False, use_tls=False
    )
    await connection.connect()
    return connection
