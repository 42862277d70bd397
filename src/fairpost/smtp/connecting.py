"""Connects to a server at an address that a guard allows, within a time limit. This module contains no mail
protocol, because the IMAP client uses it too.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.smtp.auth import Login
from fairpost.smtp.guard import NetworkGuard, NotAllowed
from fairpost.smtp.server import Server

LOGIN_REFUSED = 535

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Unready(Exception):
    """The connection never became ready for mail. Contains the step that failed, and the server's reply."""

    def __init__(self, step: Step, error: str, reply: Reply | None = None) -> None:
        super().__init__(error)
        self.step = step
        self.reply = reply

    @property
    def is_refused_login(self) -> bool:
        return self.step is Step.AUTH and self.reply is not None and self.reply.code == LOGIN_REFUSED

    def report(self) -> Report:
        return Report(reached=Reached.UNTOUCHED, step=self.step, reply=self.reply, error=str(self))


class Barred(Unready):
    """The operator does not allow the server's network or port."""

    def report(self) -> Report:
        return replace(super().report(), is_barred=True)


async def connected(server: Server, protocol: Callable[[], P]) -> P:
    """Connects to the server. Raises Unready."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(server.timeouts.connect_s):
            if server.guard is not None:
                return await _connected_as_judged(server, server.guard, protocol)
            _, made = await loop.create_connection(protocol, server.host, server.port, happy_eyeballs_delay=0.25)
    except NotAllowed as error:
        raise Barred(Step.CONNECT, str(error)) from error
    except TimeoutError as error:
        raise Unready(Step.CONNECT, f"no connection within {server.timeouts.connect_s:g} s") from error
    except (OSError, ValueError) as error:  # ValueError: a name that IDNA cannot represent
        raise Unready(Step.CONNECT, f"no connection: {error}") from error
    return made


async def _connected_as_judged(server: Server, guard: NetworkGuard, protocol: Callable[[], P]) -> P:
    """Tries the approved addresses one after another, with an equal share of the time for each. Does not resolve the
    name again. TLS still checks the host name.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + server.timeouts.connect_s
    addresses = await guard.addresses(server.host, server.port)
    failed: OSError | None = None
    for tried, address in enumerate(addresses):
        try:
            async with asyncio.timeout((until - loop.time()) / (len(addresses) - tried)):
                _, made = await loop.create_connection(protocol, str(address), server.port, flags=socket.AI_NUMERICHOST)
                return made
        except OSError as error:
            failed = error
    assert failed is not None, "a guard returns at least one address"
    raise failed


def must_be_checked(server: Server, login: Login | None) -> bool:
    """Returns whether the certificate must be checked. A password is sent only to a server that has proven its
    identity, or to a server on this machine.
    """
    return login is not None and not server.is_local


def tls_complaint(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate was rejected: {error.verify_message}"
    return f"TLS could not be established: {error or type(error).__name__}"
