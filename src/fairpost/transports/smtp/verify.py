"""Tests a server without sending anything. Connects, starts TLS, logs in, and reports each step."""

import asyncio
from dataclasses import replace

from fairpost.model.report import Step
from fairpost.model.transport import Tls
from fairpost.smtp.auth import Login, LoginSource, current
from fairpost.smtp.client import Connection
from fairpost.smtp.connecting import Barred, Unready
from fairpost.smtp.server import Security, Server, Timeouts
from fairpost.transports.port import Tried
from fairpost.transports.smtp.login import NoToken

# A user is waiting, so these timeouts are shorter than a worker's. They are longer than the delays that some servers
# add before their greeting.
PATIENCE = Timeouts(connect_s=15, tls_s=20, greeting_s=60, hello_s=30, auth_s=60)
TLS_S_MAX = 20
BRIEF = Timeouts(connect_s=8, tls_s=8, greeting_s=12, hello_s=8, auth_s=12)  # timeouts while an HTTP request is waiting

ELSEWHERE = (
    "Choose a server on the public internet, on a mail port, or ask the operator to allow this one: "
    "FAIRPOST_ALLOWED_NETWORKS, FAIRPOST_ALLOWED_PORTS"
)

STEPS = {
    Security.IMPLICIT: (Step.CONNECT, Step.TLS, Step.GREETING, Step.HELLO),
    Security.STARTTLS: (Step.CONNECT, Step.GREETING, Step.HELLO, Step.STARTTLS, Step.TLS),
    Security.OFFERED: (Step.CONNECT, Step.GREETING, Step.HELLO),
    Security.NONE: (Step.CONNECT, Step.GREETING, Step.HELLO),
}


async def try_server(
    server: Server, source: Login | LoginSource | None, *, patience: Timeouts = PATIENCE
) -> list[Tried]:
    """Tests a server and returns every step taken, in order. If a step failed, it is the last one."""
    try:
        login = await current(source)
    except NoToken as none:
        tried = await try_server(server, None, patience=patience)  # test as many of the server's steps as possible
        failed = Tried(step=none.step, ok=False, text=none.what, advice=none.advice)
        return [*tried, failed] if all(each.ok for each in tried) else tried
    try:
        connection = await Connection.open(replace(server, timeouts=patience), login)
    except Unready as unready:
        advice = ELSEWHERE if isinstance(unready, Barred) else ""
        failed = Tried(step=unready.step, ok=False, text=str(unready), reply=unready.reply, advice=advice)
        return [*_passed_before(unready.step, server, login), failed]
    tls = connection.tls
    await connection.quit()
    return _all_passed(server, login, tls=tls)


async def tls_of(server: Server) -> Tls:
    """Returns the TLS support that the server offers to every client, whatever the account's settings."""
    security = Security.IMPLICIT if server.security is Security.IMPLICIT else Security.STARTTLS
    try:
        async with asyncio.timeout(TLS_S_MAX):
            tried = await try_server(replace(server, security=security), None, patience=BRIEF)
    except TimeoutError:
        return Tls.UNREACHABLE
    failed = next((each for each in tried if not each.ok), None)
    if failed is None:
        return Tls.TRUSTED
    by_step = {Step.TLS: Tls.UNTRUSTED, Step.STARTTLS: Tls.NONE}
    return by_step.get(failed.step, Tls.UNREACHABLE) if failed.step is not None else Tls.UNREACHABLE


def _passed_before(failed: Step, server: Server, login: Login | None) -> list[Tried]:
    steps = _steps(server, login)
    passed = steps[: steps.index(failed)] if failed in steps else STEPS[server.security]
    return [Tried(step=step, ok=True) for step in passed]


def _all_passed(server: Server, login: Login | None, *, tls: str | None) -> list[Tried]:
    tried = [Tried(step=step, ok=True, text=(tls or "") if step is Step.TLS else "") for step in _steps(server, login)]
    if server.security is Security.OFFERED:
        text = tls or "not offered: mail is sent unencrypted"
        tried.insert(len(STEPS[server.security]), Tried(step=Step.TLS, ok=True, text=text))
    return tried


def _steps(server: Server, login: Login | None) -> tuple[Step, ...]:
    return STEPS[server.security] + ((Step.AUTH,) if login else ())
