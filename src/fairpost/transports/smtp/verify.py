"""Tries a server without sending anything: connects, starts TLS, logs in, and tells each step."""

from dataclasses import replace

from fairpost.model.report import Step
from fairpost.smtp.auth import Login, LoginSource, current
from fairpost.smtp.client import Barred, Connection, Unready
from fairpost.smtp.server import Security, Server, Timeouts
from fairpost.transports.port import Tried
from fairpost.transports.smtp.login import NoToken

# A person is waiting: shorter than a worker's, but longer than servers make strangers wait for their greeting.
PATIENCE = Timeouts(connect_s=15, tls_s=20, greeting_s=60, hello_s=30, auth_s=60)
BRIEF = Timeouts(connect_s=8, tls_s=8, greeting_s=12, hello_s=8, auth_s=12)  # so does a request

ELSEWHERE = (
    "Choose a server on the public internet, at a port of mail, or ask the operator to allow this one: "
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
    """Every step that was taken, in order; the last one is the one that failed, if any did."""
    try:
        login = await current(source)
    except NoToken as none:
        tried = await try_server(server, None, patience=patience)  # what can be said of the server is said
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


def _passed_before(failed: Step, server: Server, login: Login | None) -> list[Tried]:
    steps = _steps(server, login)
    passed = steps[: steps.index(failed)] if failed in steps else STEPS[server.security]
    return [Tried(step=step, ok=True) for step in passed]


def _all_passed(server: Server, login: Login | None, *, tls: str | None) -> list[Tried]:
    tried = [Tried(step=step, ok=True, text=(tls or "") if step is Step.TLS else "") for step in _steps(server, login)]
    if server.security is Security.OFFERED:
        text = tls or "not offered: mail goes there unencrypted"
        tried.insert(len(STEPS[server.security]), Tried(step=Step.TLS, ok=True, text=text))
    return tried


def _steps(server: Server, login: Login | None) -> tuple[Step, ...]:
    return STEPS[server.security] + ((Step.AUTH,) if login else ())
