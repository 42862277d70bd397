"""The zoo on real sockets: each provider is a local server, engines are real processes, and the checks are the same.

The servers and the checks share this process and its loop; engines have their own. Time is real, so a case lasts as
long as it says, and delays below `SLACK_S` are tolerated.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from fairpost.dev.emulate.server import GmailEmulator
from fairpost.dev.inbox.faults import Action, Answer, Cut, Decide, Delay, Heard, Step
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.dev.simulate.checks import Watch, Watched
from fairpost.dev.simulate.providers import LOOK_S, POOL, Case, Result, arrivals, emulator, result
from fairpost.dev.simulate.visits import Visit, Visits
from fairpost.dev.simulate.zoo import TAKES_S
from fairpost.model.transport import Security, ServerSettings
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.vault.rotation import write_sealed
from tests.chaos.driver import until
from tests.chaos.processes import Engine
from tests.chaos.victims import vault_at
from tests.peers.certificates import Certificates, make_certificates

SLACK_S = 2.0
PASSWORD = "a secret of the zoo"
CLOSING = "421"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An account of a case, and its provider's port."""

    watched: Watched
    settings: ServerSettings
    secret: str
    google: GmailEmulator | None = None


def seen_by(decide: Decide, account: str, visits: Visits) -> Decide:
    """The same watch, with the time that an e-mail takes; it records what it observes."""

    def seen(heard: Heard) -> Sequence[Action]:
        actions = decide(heard)
        if heard.step is Step.MAIL and not (heard.messages and _closes(actions)):
            workspace = heard.sender.partition("@")[2].removesuffix(".test")
            visits.all.append(Visit(account=account, workspace=workspace, began_at=heard.now))
        elif heard.step is Step.RCPT:
            _last(visits, account).recipient = heard.recipient
        elif heard.step is Step.DOT:
            return (Delay(TAKES_S), *actions)
        return actions

    return seen


def _closes(actions: Sequence[Action]) -> bool:
    """If an old connection ends like this, it counts as dead before; the client tries a new one at once."""
    return any(
        isinstance(action, Cut) or (isinstance(action, Answer) and action.reply.startswith(CLOSING))
        for action in actions
    )


def _last(visits: Visits, account: str) -> Visit:
    return next(visit for visit in reversed(visits.all) if visit.account == account)


@asynccontextmanager
async def provider(
    watched: Watched, visits: Visits, store: Store, certificates: Certificates, *, seed: int
) -> AsyncIterator[Place]:
    behaviour, address = watched.behaviour, f"{watched.account}@post.test"
    if behaviour.smtp is None:
        async with emulator(behaviour, address) as google:
            settings = GmailSettings(oauth=OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), base_url=google.url)
            secret = json.dumps(google.service_account_info())
            yield Place(watched=watched, settings=settings, secret=secret, google=google)
        return
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.good.cert, certificates.good.key)
    decide = seen_by(behaviour.smtp(chance.dice(f"{seed} {watched.account}")), watched.account, visits)
    is_encrypted = behaviour.name == "tls-breaks"
    options = ServerOptions(port=0, decide=decide, tls=tls if is_encrypted else None, implicit_tls=is_encrypted)
    server = InboxServer(store, options)
    await server.start()
    try:
        yield Place(
            watched=watched,
            settings=SmtpSettings(
                host="127.0.0.1",
                port=server.port,
                security=Security.IMPLICIT if is_encrypted else Security.NONE,
                user=address,
                ca_file=str(certificates.ca),
            ),
            secret=PASSWORD,
        )
    finally:
        await server.stop()


async def add(store: Store, place: Place, home: Path) -> None:
    id_ = await store.next_account_id()

    async def write(sealed: str, keys: Sequence[str]) -> None:
        await store.add_account(
            place.watched.account,
            address=f"{place.watched.account}@post.test",
            pool=POOL,
            limits=place.watched.limits,
            transport=replace(place.settings, secret=sealed),
            id_=id_,
            keys=keys,
        )

    await write_sealed(store, vault_at(home), place.secret, account_id=id_, write=write)


async def run_for_real(url: str, case: Case, home: Path, *, seed: int = 1) -> Result:
    certificates = make_certificates(home)
    visits = Visits()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(Store.open(url, connections_max=8))
        places = [
            await stack.enter_async_context(provider(each, visits, store, certificates, seed=seed))
            for each in case.accounts
        ]
        for place in places:
            await add(store, place, home)
        engines = [_start(url, case, home) for _ in range(case.engines)]
        for engine in engines:
            stack.callback(engine.end)
            await until(engine.is_ready, "an engine is ready")
        start = clock.now()
        watch = Watch(store, case.accounts, visits, start=start, guilty=case.guilty, slack_s=SLACK_S)
        arriving = asyncio.create_task(_arrive(store, case, watch))
        ends_at = start + timedelta(seconds=case.lasts_s)
        while clock.now() < ends_at:
            _note_gmail(places, visits)
            await watch.look(clock.now())
            await asyncio.sleep(LOOK_S)
        await arriving
        ended_at = clock.now()
        for engine in engines:
            engine.process.terminate()
        await _end(engines, store, visits)
        await watch.finish(ended_at, drains=case.drains)
        log = [line for engine in engines for line in engine.log.read_text(errors="replace").splitlines()]
        return await result(store, case, watch, visits, log)


def _start(url: str, case: Case, home: Path) -> Engine:
    packed = ("--accounts-per-process", "50") if case.is_packed else ()
    return Engine.start(url, None, home, *packed)


async def _end(engines: Sequence[Engine], store: Store, visits: Visits) -> None:
    """Kill a process that does not end by itself. Its last e-mail may be missing from the log."""
    with_patience = [asyncio.to_thread(engine.process.wait, 3.0) for engine in engines]
    await asyncio.gather(*with_patience, return_exceptions=True)
    for engine in engines:
        engine.end()
    names = await store.fetch(
        "SELECT a.name FROM fairpost.queue q JOIN fairpost.accounts a ON a.id = q.account_id WHERE q.state = 'sending'"
    )
    for row in names:
        if any(visit.account == row["name"] for visit in visits.all):
            _last(visits, row["name"]).was_cut = True


def _note_gmail(places: Sequence[Place], visits: Visits) -> None:
    """Returns the workspaces that the emulator has sent for; a recipient's name begins with the workspace's."""
    for place in places:
        if place.google is not None:
            noted = sum(visit.account == place.watched.account for visit in visits.all)
            for sent in place.google.sent()[noted:]:
                workspace = sent.to[0].partition("@")[0].rpartition("-")[0]
                visits.all.append(
                    Visit(account=place.watched.account, workspace=workspace, recipient=sent.to[0], began_at=sent.at)
                )


async def _arrive(store: Store, case: Case, watch: Watch) -> None:
    start = clock.now()
    for arrival in arrivals(case):
        await asyncio.sleep(max(0.0, arrival.at_s - (clock.now() - start).total_seconds()))
        if arrival.is_newcomer:
            watch.arrived(arrival.workspace, arrival.email_class, clock.now())
        await store.enqueue_many(arrival.emails)
