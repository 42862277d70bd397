"""Puts an engine together: the parent that forks, the orchestrator that decides, the workers that send.

`run_engine` is called before anything is opened: no loop, no thread, no connection. What each process needs it opens
for itself, after the fork.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fairpost.engine.channel import Message
from fairpost.engine.handover import clear_doubts, folders
from fairpost.engine.lease import LEASE_S
from fairpost.engine.orchestrator import Orchestrator
from fairpost.engine.process import WorkerOptions, work
from fairpost.engine.steps import FOLDER as STEPS
from fairpost.engine.supervisor import Supervisor
from fairpost.engine.worker import IDLE_S_MAX
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.maintenance.patience import PatienceWatch
from fairpost.maintenance.progress import CourseWatch
from fairpost.maintenance.retention import HistoryWatch
from fairpost.maintenance.senders import SenderOptions, SenderWatch
from fairpost.model.account import Account
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Log, Reason
from fairpost.observe.guard import remember
from fairpost.settings import Settings
from fairpost.startup.environment import bring_in_line, given_account
from fairpost.startup.parts import fairness_of, kept, network_guard, open_store, sender_policy, server_url, vault_of
from fairpost.store.outage import patiently
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble
from fairpost.system.presence import Presence, announced, if_gone
from fairpost.transports.factory import transport_of
from fairpost.transports.port import ClosableTransport
from fairpost.transports.redirect import Redirected
from fairpost.transports.registry import preload

STDIN = 0
RUNNING = "running"  # the folder in Fairpost's home where engines of this machine are announced, by region; what they remember is not here
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
    """Until a signal ends it; the second signal ends it at once. False: it saw that it cannot go on, and said why."""
    name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"

    def orchestrator(sock: socket.socket, lifeline: int, message: Message) -> None:
        has_said_goodbye = asyncio.run(
            _orchestrate(sock, lifeline, settings, options, name, log, is_again=message["again"])
        )
        if (
            presence is not None and has_said_goodbye
        ):  # else the next engine here tells the database that this one is gone
            presence.withdraw()

    def worker(sock: socket.socket, lifeline: int, message: Message) -> None:
        asyncio.run(
            work(sock, lifeline, _worker_options(message["url"], settings, options, name), _transports(settings))
        )

    preload()
    presence = _announce(settings, name)
    supervisor = Supervisor(
        orchestrator=orchestrator, worker=worker, log=log, ends_with=STDIN if options.ends_with_stdin else None
    )
    return supervisor.run()


def engines_folder(settings: Settings) -> Path:
    """Of this region alone: whoever finds a dead engine of another cannot free what it held, and would forget it."""
    return settings.home / RUNNING / settings.region_name


def _announce(settings: Settings, name: str) -> Presence | None:
    """So that the next engine on this machine sees at once if this one was killed, and need not wait for its leases."""
    try:
        return Presence.announce(engines_folder(settings), name)
    except OSError:  # a home that cannot be written to: then the leases decide alone
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
    """Whether the database knows in the end that this engine is gone."""
    asyncio.get_running_loop().add_reader(lifeline, os._exit, 1)  # readable means: the parent is gone
    async with AsyncExitStack() as opened:

        async def open_it() -> Store:
            return await opened.enter_async_context(
                open_store(settings, connections_max=3, behind_pooler=options.poll_only, is_again=is_again)
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
        whose = f"the region {settings.region}" if settings.regions else "this database"
        log(Reason("engine.started", engine=name, region=whose))
        watching = [asyncio.create_task(each.run()) for each in watches]
        await orchestrator.run()
        for task in watching:
            task.cancel()
        log(Reason("engine.stopped", engine=name))
        return orchestrator.has_said_goodbye


def watches_of(
    store: Store, settings: Settings, log: Log, *, engine: str | None = None
) -> tuple["Watch", SenderWatch, CampaignWatch, CourseWatch, HistoryWatch, PatienceWatch]:
    """What an engine runs beside the orchestrator."""
    return (
        Watch(store, settings, log, engine=engine),
        SenderWatch(store, _sender_options(settings), log),
        CampaignWatch(store, log),
        CourseWatch(store, log),
        HistoryWatch(store, settings.retention, log),
        PatienceWatch(store, urgent=settings.patience_urgent, bulk=settings.patience_bulk, log=log),
    )


async def _provide_account(store: Store, settings: Settings, log: Log) -> None:
    """What is wrong with the one account of the environment is no reason for the others not to send."""
    try:
        given = given_account(settings)
        if given is not None and (said := await bring_in_line(store, given, vault_of(settings), home=settings.home)):
            log(Reason("account.provided", what=said))
    except FairpostError as error:
        log(Reason("account.not_provided", why=str(error)))


class Watch:
    """Sees, now and then, whether this is still the database that it was: one restored from a backup is paused."""

    def __init__(self, store: Store, settings: Settings, log: Log, *, engine: str | None = None) -> None:
        """`engine`: the name of the one that watches."""
        self._store = store
        self._engine = engine
        self._settings = settings
        self._log = log
        self._told: tuple[str | None, ...] = ()

    async def look(self) -> None:
        guarded = await remember(self._store, self._settings.home)
        words = (guarded.text, guarded.trouble)
        if words != self._told:
            self._told = words
            for code, why in zip(("database.restored", "database.not_remembered"), words, strict=True):
                if why:
                    self._log(Reason(code, why=why))

    async def reclaim_dead_engines(self) -> None:
        """What engines of this machine that were killed still hold is free at once."""
        folder = engines_folder(self._settings)
        for name in announced(folder):
            with if_gone(folder, name) as is_gone:
                if is_gone and (accounts := await self._store.bury_engine(name, heir=self._engine)):
                    self._log(Reason("engine.found_dead", engine=name, accounts=accounts))
        if cut := await clear_doubts(self._store, notes_of(self._settings)):
            self._log(Reason("email.put_back", emails=cut))

    async def run(self) -> None:
        """Whatever goes wrong with one look, the next one comes: nobody else watches."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            try:
                await self.look()
                await self.reclaim_dead_engines()
            except Exception as error:
                if not is_trouble(error):  # of which the orchestrator tells
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
    )


def _transports(settings: Settings) -> Callable[[Account], ClosableTransport]:
    vault = vault_of(settings)
    guard = network_guard(settings)

    def transport(account: Account) -> ClosableTransport:
        real = transport_of(account, vault, guard=guard if account.workspace is not None else None)
        return Redirected(real, settings.redirect_all) if settings.redirect_all else real

    return transport
