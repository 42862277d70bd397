"""Assembles an engine: the parent that forks, the orchestrator that decides, and the workers that send.

Call `run_engine` before any event loop, thread or connection exists. Each process opens what it needs after the fork.
"""

import asyncio
import os
import resource
import secrets
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fairpost.actions import domains
from fairpost.actions.acting import Actor
from fairpost.engine.channel import Message, encode
from fairpost.engine.handover import clear_doubts, folders
from fairpost.engine.lease import LEASE_S
from fairpost.engine.orchestrator import Orchestrator
from fairpost.engine.process import WorkerOptions, work
from fairpost.engine.steps import FOLDER as STEPS
from fairpost.engine.supervisor import Supervisor
from fairpost.engine.worker import IDLE_S_MAX
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.maintenance.domains import DomainWatch
from fairpost.maintenance.events import EventWatch
from fairpost.maintenance.mailboxes import MailboxCall, MailboxWatch, ReaderOptions
from fairpost.maintenance.patience import PatienceWatch
from fairpost.maintenance.progress import ProgressWatch
from fairpost.maintenance.retention import HistoryWatch
from fairpost.maintenance.returns import ReturnsWatch
from fairpost.maintenance.senders import SenderOptions, SenderWatch
from fairpost.maintenance.webhooks import WebhookOptions, WebhookWatch
from fairpost.model.account import Account
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Log, Reason
from fairpost.observe.guard import remember
from fairpost.settings import Settings
from fairpost.smtp.guard import NetworkGuard
from fairpost.startup.environment import bring_in_line, given_account
from fairpost.startup.parts import (
    fairness_of,
    host_name,
    kept,
    network_guard,
    open_store,
    sender_policy,
    server_url,
    vault_of,
)
from fairpost.store.outage import patiently
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble
from fairpost.system.presence import Presence, announced, if_gone
from fairpost.transports.factory import reader_of, transport_of
from fairpost.transports.port import ClosableTransport
from fairpost.transports.reading import MailboxReader
from fairpost.transports.redirect import Redirected
from fairpost.transports.registry import preload
from fairpost.transports.verify import offered_tls

STDIN = 0
RUNNING = "running"  # in Fairpost's home; announces this machine's engines by region
WATCH_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    accounts_per_process: int | None = None
    processes_max: int = 1000
    poll_only: bool = False
    lease_s: float = LEASE_S
    idle_s_max: float = IDLE_S_MAX
    ends_with_stdin: bool = False


def run_engine(settings: Settings, options: EngineOptions, *, log: Log) -> bool:
    """Runs until it receives a signal.

    A second signal stops the engine immediately. Returns False if the engine failed; the failure has already been
    logged.
    """
    name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"

    def orchestrator(sock: socket.socket, lifeline: int, message: Message) -> None:
        has_said_goodbye = asyncio.run(
            _orchestrate(sock, lifeline, settings, options, name, log, is_again=message["again"])
        )
        if presence is not None and has_said_goodbye:  # or the next engine here would report this engine as dead
            presence.withdraw()

    def worker(sock: socket.socket, lifeline: int, message: Message) -> None:
        asyncio.run(
            work(sock, lifeline, _worker_options(message["url"], settings, options, name), _transports(settings))
        )

    def reader(sock: socket.socket, lifeline: int, message: Message) -> None:
        asyncio.run(_read_mailboxes(lifeline, settings, options, name, log))

    preload()
    host_name(settings)  # may query DNS, so this is done once, before workers are forked
    presence = _announce(settings, name)
    supervisor = Supervisor(
        orchestrator=orchestrator,
        worker=worker,
        reader=reader,
        log=log,
        ends_with=STDIN if options.ends_with_stdin else None,
    )
    return supervisor.run()


def engines_folder(settings: Settings) -> Path:
    """Returns the folder for this region.

    Each region has its own folder, because an engine cannot clean up after dead engines in other regions.
    """
    return settings.home / RUNNING / settings.region_name


def _announce(settings: Settings, name: str) -> Presence | None:
    """Announces this engine.

    If this engine is killed, the next engine on this machine detects it immediately, without waiting for leases to
    expire.
    """
    try:
        return Presence.announce(engines_folder(settings), name)
    except OSError:  # the home is not writable; dead engines are then detected only by expired leases
        return None


async def _orchestrate(
    sock: socket.socket,
    lifeline: int,
    settings: Settings,
    options: EngineOptions,
    name: str,
    log: Log,
    *,
    is_again: bool,
) -> bool:
    """Runs the orchestrator. Returns whether this engine has signed off in the database."""
    asyncio.get_running_loop().add_reader(lifeline, os._exit, 1)  # becomes readable when the parent exits
    async with AsyncExitStack() as opened:

        async def open_it() -> Store:
            return await opened.enter_async_context(
                open_store(settings, connections_max=4, behind_pooler=options.poll_only, is_again=is_again)
            )

        store = await patiently(open_it, log, is_again=is_again)
        opened.enter_context(kept(settings, log))
        url = await server_url(settings, is_again=True)
        if store.behind_pooler and not options.poll_only:
            options = replace(options, poll_only=True)
            log(Reason("engine.polls", every_s=settings.poll_interval.total_seconds()))
        watches = watches_of(store, settings, log, engine=name)
        watch, sender_watch = watches[:2]
        await watch.look()
        await watch.reclaim_dead_engines()
        await _provide_account(store, settings, log)
        if settings.redirect_all:
            log(Reason("engine.redirects", address=settings.redirect_all))
        orchestrator = Orchestrator(
            store,
            _worker_options(url, settings, options, name),
            sock,
            processes_max=options.processes_max,
            look_s=settings.poll_interval.total_seconds(),
            log=log,
        )
        await sender_watch.start()
        whose = f"region {settings.region}" if settings.regions else "this database"
        log(Reason("engine.started", engine=name, region=whose))
        call = MailboxCall(store, lambda: sock.sendall(encode({"read": True})), log)
        watching = [asyncio.create_task(each.run()) for each in (*watches, call)]
        await orchestrator.run()
        for task in watching:
            task.cancel()
        log(Reason("engine.stopped", engine=name))
        return orchestrator.has_said_goodbye


async def _read_mailboxes(lifeline: int, settings: Settings, options: EngineOptions, name: str, log: Log) -> None:
    """Reads mailboxes until the process is killed.

    Results are committed, and the next reader continues where this one stopped.
    """
    asyncio.get_running_loop().add_reader(lifeline, os._exit, 1)
    _allow_files()
    vault, guard = vault_of(settings), network_guard(settings)

    def reader(account: Account) -> MailboxReader | None:
        return reader_of(account, vault, guard=guard if account.workspace is not None else None)

    async with open_store(settings, connections_max=3, behind_pooler=options.poll_only, is_again=True) as store:
        await MailboxWatch(store, reader, ReaderOptions(owner=name, reply_stops=settings.reply_stops), log).run()


def _allow_files() -> None:
    """Raises the limit on open files. Each mailbox needs a connection, and many systems allow only 1,024 files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def watches_of(
    store: Store, settings: Settings, log: Log, *, engine: str | None = None
) -> tuple[
    "Watch",
    SenderWatch,
    CampaignWatch,
    ProgressWatch,
    HistoryWatch,
    EventWatch,
    PatienceWatch,
    ReturnsWatch,
    DomainWatch,
    WebhookWatch,
]:
    """Returns the watches that an engine runs in addition to the orchestrator."""
    return (
        Watch(store, settings, log, engine=engine),
        SenderWatch(store, _sender_options(settings), log),
        CampaignWatch(store, log),
        ProgressWatch(store, log),
        HistoryWatch(store, settings.retention, log, keep_events=settings.events_kept),
        EventWatch(store, log),
        PatienceWatch(store, urgent=settings.patience_urgent, bulk=settings.patience_bulk, log=log),
        ReturnsWatch(store, log),
        DomainWatch(store, partial(_check_domain, store, network_guard(settings)), log),
        WebhookWatch(store, webhook_options(settings, engine=engine or "engine"), log),
    )


def webhook_options(settings: Settings, *, engine: str) -> WebhookOptions:
    vault = vault_of(settings)
    return WebhookOptions(
        engine=engine,
        open_secret=vault.open_secret,
        guard=network_guard(settings),
        operators=settings.operators,
        pool=settings.service_pool,
        public_url=settings.public_url,
    )


async def _check_domain(store: Store, guard: NetworkGuard, workspace: str, domain: str) -> None:
    request = domains.CheckDomain(workspace=workspace, domain=domain, ask_tls=partial(offered_tls, guard=guard))
    await domains.check(Actor(who="engine"), request, store)


async def _provide_account(store: Store, settings: Settings, log: Log) -> None:
    """Creates or updates the account defined by environment variables. If this update fails, the other accounts still
    send.
    """
    try:
        given = given_account(settings)
        if given is not None and (said := await bring_in_line(store, given, vault_of(settings), home=settings.home)):
            log(Reason("account.provided", what=said))
    except FairpostError as error:
        log(Reason("account.not_provided", why=str(error)))


class Watch:
    """Checks every few seconds whether this is still the same database.

    A database that was restored from a backup is paused.
    """

    def __init__(self, store: Store, settings: Settings, log: Log, *, engine: str | None = None) -> None:
        """Creates the watch. `engine` is the name of the engine that runs the watch."""
        self._store = store
        self._engine = engine
        self._settings = settings
        self._log = log
        self._logged: tuple[Reason, ...] = ()

    async def look(self) -> None:
        guarded = await remember(self._store, self._settings.home)
        if (events := guarded.events()) != self._logged:
            self._logged = events
            for event in events:
                self._log(event)

    async def reclaim_dead_engines(self) -> None:
        """Immediately releases the accounts of killed engines on this machine."""
        folder = engines_folder(self._settings)
        for name in announced(folder):
            with if_gone(folder, name) as is_gone:
                if is_gone and (accounts := await self._store.reclaim_engine(name, heir=self._engine)):
                    self._log(Reason("engine.found_dead", engine=name, accounts=accounts))
        if cut := await clear_doubts(self._store, notes_of(self._settings)):
            self._log(Reason("email.put_back", emails=cut))

    async def run(self) -> None:
        """Runs the checks. A failed check does not stop the loop, because nothing else would restart it."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            try:
                await self.look()
                await self.reclaim_dead_engines()
            except Exception as error:
                if not is_trouble(error):  # the orchestrator reports problems with the database
                    self._log(Reason("task.failed", task="database watch", error=f"{type(error).__name__}: {error}"))


def _sender_options(settings: Settings) -> SenderOptions:
    return SenderOptions(
        policy=sender_policy(settings),
        fairness=fairness_of(settings),
        operators=settings.operators,
        pool=settings.service_pool,
    )


def notes_of(settings: Settings) -> tuple[Path, ...]:
    return folders(settings.home, settings.region_name)


def steps_of(settings: Settings) -> tuple[Path, ...]:
    return folders(settings.home, settings.region_name, STEPS)


def _worker_options(url: str, settings: Settings, options: EngineOptions, name: str) -> WorkerOptions:
    return WorkerOptions(
        url=url,
        owner=name,
        accounts_max=options.accounts_per_process,
        lease_s=options.lease_s,
        idle_s_max=options.idle_s_max,
        poll_only=options.poll_only,
        notes=notes_of(settings),
        steps=steps_of(settings),
        public_url=settings.public_url,
        region=settings.region_name,
    )


def _transports(settings: Settings) -> Callable[[Account], ClosableTransport]:
    vault = vault_of(settings)
    guard = network_guard(settings)
    host = host_name(settings)

    def transport(account: Account) -> ClosableTransport:
        real = transport_of(account, vault, guard=guard if account.workspace is not None else None, host=host)
        return Redirected(real, settings.redirect_all) if settings.redirect_all else real

    return transport
