"""What the chaos tests do in processes that are going to be killed.

Each process is a fork of one that has loaded everything, because a fresh interpreter would take a second.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_network
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from fairpost.campaigns import launching
from fairpost.cli import main
from fairpost.engine import handover, lease, runner, send, settle
from fairpost.engine.handover import NOWHERE, Handover, Note, folders
from fairpost.engine.results import Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.engine.together import Together
from fairpost.engine.worker import AccountWorker
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.maintenance.progress import ProgressWatch
from fairpost.maintenance.returns import ReturnsWatch
from fairpost.maintenance.senders import SenderOptions, SenderWatch
from fairpost.maintenance.webhooks import WebhookOptions, WebhookWatch
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached, Report
from fairpost.model.sender import AbuseMode, Fairness
from fairpost.policy.abuse import AbusePolicy
from fairpost.policy.senders import SenderPolicy
from fairpost.settings import read_settings
from fairpost.smtp import client
from fairpost.smtp.guard import NetworkGuard
from fairpost.startup.parts import vault_of
from fairpost.store import campaigns
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.failpoints import arm
from fairpost.transports.factory import transport_of
from fairpost.transports.port import ClosableTransport, Permission
from fairpost.transports.scripted.send import OK
from fairpost.vault.keyring import Keyring
from fairpost.vault.vault import Vault

# What an engine loads before it forks its workers.
CLIENTS = (
    *("fairpost.transports.smtp.login", "fairpost.transports.smtp.send"),
    *("fairpost.transports.gmail.client", "fairpost.transports.gmail.send"),
)

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__, "fairpost.cli.work", "fairpost.startup.engine", *CLIENTS])

LEASE_S = 0.5  # of a worker that sends into a pipe
SENDERS_LEASE_S = 60.0  # of one that sends over SMTP
OPERATORS = ("ops@here.test", "boss@here.test")
Part = Literal["campaigns", "progress", "senders"]


def fork(victim: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    process = _forks.Process(target=victim, args=arguments)
    process.start()
    return process


async def ended(process: ForkServerProcess) -> int:
    """Returns its exit code, once it has one."""
    await asyncio.to_thread(process.join)
    assert process.exitcode is not None
    return process.exitcode


def apply_returns(url: str, point: str) -> None:
    """Applies reports that arrived before their e-mails were finished, as an engine does; is killed at the failpoint."""

    async def run() -> None:
        async with Store.open(url) as store:
            arm(point)
            await ReturnsWatch(store, lambda said: None).step()

    asyncio.run(run())


# ── a whole engine ────────────────────────────────────────────────────────────────────────────────────────


def work(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """`fairpost work`, as a command."""
    os.environ.clear()
    os.environ.update(environment)
    out = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.close(out)
    sys.argv = ["fairpost", "work", *arguments]
    main()


# ── a worker, as in an engine ─────────────────────────────────────────────────────────────────────────────


def drive(url: str, account_id: AccountId, home: Path, point: str) -> None:
    arm(point)
    asyncio.run(_drive(url, account_id, home))


def drive_together(url: str, account_ids: Sequence[AccountId], home: Path, point: str) -> None:
    """Accounts that share a process, its claims and its commits."""
    arm(point)
    asyncio.run(_drive_together(url, account_ids, home))


async def _drive_together(url: str, account_ids: Sequence[AccountId], home: Path) -> None:
    async with Store.open(url) as store:
        notes = Handover.open(notes_at(home), database=await store.handover_key(), accounts_max=len(account_ids))
        together = Together.over(store)
        accounts = [await store.account(id_) for id_ in account_ids]
        transports = [transport_of(account, vault_at(home)) for account in accounts]
        runs = (
            run_account(store, account.id, transport, notes, together=together)
            for account, transport in zip(accounts, transports, strict=True)
        )
        await asyncio.gather(*runs)


def work_through_trouble(url: str, account_id: AccountId, home: Path, point: str) -> None:
    """A complete worker, which waits when the database goes away."""
    arm(point)
    asyncio.run(_work(url, account_id, home))


async def _work(url: str, account_id: AccountId, home: Path) -> None:
    async with Store.unopened(url) as store:
        account = await store.account(account_id)
        notes = Handover.open(notes_at(home), database=await store.handover_key(), accounts_max=1)
        await AccountWorker(
            store, transport_of(account, vault_at(home)), account_id, owner="chaos", handover=notes
        ).run()


def drive_to_line(
    url: str, account_id: AccountId, home: Path, nth: int, number: signal.Signals, lease_s: float = SENDERS_LEASE_S
) -> None:
    """Gets the signal right before the nth line of a handover: from the note of the second e-mail, while the first is
    being settled, until the note of the third is taken back."""
    lines = Lines(nth, number)
    sys.settrace(lines.entered)
    asyncio.run(_drive(url, account_id, home, lease_s))
    sys.settrace(None)
    (home / LINES).write_text(str(lines.passed))


LINES = "lines"  # the number of lines, if it reached the end
HANDING_OVER = {module.__file__ for module in (handover, lease, runner, send, settle, client)}


class Lines:
    def __init__(self, nth: int, number: signal.Signals) -> None:
        self.passed = 0
        self._begun = self._completed = 0
        self._nth = nth
        self._signal = number

    def entered(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in HANDING_OVER:
            return None
        self._begun += frame.f_code is Note.begin.__code__
        self._completed += frame.f_code is Note.complete.__code__
        return self._at_line

    def _at_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and self._begun >= 2 and self._completed < 3:
            self.passed += 1
            if self.passed == self._nth:
                os.kill(os.getpid(), self._signal)
        return self._at_line


async def _drive(url: str, account_id: AccountId, home: Path, lease_s: float = SENDERS_LEASE_S) -> None:
    async with Store.open(url) as store:
        account = await store.account(account_id)
        notes = Handover.open(notes_at(home), database=await store.handover_key(), accounts_max=1)
        await run_account(store, account_id, transport_of(account, vault_at(home)), notes, lease_s)


def vault_at(home: Path) -> Vault:
    return vault_of(read_settings({"FAIRPOST_HOME": str(home)}))


def notes_at(home: Path) -> tuple[Path, ...]:
    return folders(home, "main")


async def run_account(
    store: Store,
    account_id: AccountId,
    transport: ClosableTransport,
    handover: Handover = NOWHERE,
    lease_s: float = SENDERS_LEASE_S,
    together: Together | None = None,
) -> None:
    """Runs until there is nothing to do now."""
    runner = await Runner.start(
        *(store, transport, account_id), owner="chaos", lease_s=lease_s, handover=handover, together=together
    )
    assert runner is not None
    await runner.run_until_idle()
    await runner.stop()
    await transport.close()


# ── a worker whose messages arrive in a pipe ──────────────────────────────────────────────────────────────


class PipeTransport:
    """Writes one line per message in a single write: it is out, whatever happens to this process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        await asyncio.sleep(0)
        if not permission():
            return Report(reached=Reached.UNTOUCHED, error="the lease ran out before the message was complete")
        os.write(self._pipe.fileno(), f"{email.id}\n".encode())
        return OK


def send_into_pipe(url: str, account_id: AccountId, pipe: Connection) -> None:
    asyncio.run(_send_into_pipe(url, account_id, PipeTransport(pipe)))


async def _send_into_pipe(url: str, account_id: AccountId, transport: PipeTransport) -> None:
    async with Store.open(url, connections_max=1) as store:
        await _send_all(store, account_id, transport, Together.over(store))


def send_together_into_pipe(url: str, account_ids: Sequence[AccountId], pipe: Connection) -> None:
    """Accounts that share a process, its claims and its commits."""
    asyncio.run(_send_together_into_pipe(url, account_ids, PipeTransport(pipe)))


async def _send_together_into_pipe(url: str, account_ids: Sequence[AccountId], transport: PipeTransport) -> None:
    async with Store.open(url) as store:
        together = Together.over(store)
        await asyncio.gather(*(_send_all(store, id_, transport, together) for id_ in account_ids))


async def _send_all(store: Store, account_id: AccountId, transport: PipeTransport, together: Together) -> None:
    runner = await _take(store, transport, account_id, together)
    while True:
        match await runner.step():
            case Rested(Idle.BUSY):
                await runner.await_turn()
            case Rested(
                Idle.LOST
            ):  # the machine is so busy that the lease expired; an engine would start again as well
                runner = await _take(store, transport, account_id, together)
            case Rested():
                break
    await runner.stop()


async def _take(store: Store, transport: PipeTransport, account_id: AccountId, together: Together) -> Runner:
    options: dict[str, Any] = {"owner": "chaos", "lease_s": LEASE_S, "together": together}
    while (runner := await Runner.start(store, transport, account_id, **options)) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # the last worker died while holding the lease
    return runner


# ── what an engine does besides sending ───────────────────────────────────────────────────────────────────


def look(url: str, part: Part, moment: datetime, point: str | None) -> None:
    """Runs one check of a watch, at this time, whatever the clock says."""
    if point is not None:
        arm(point)
    with clock.stopped_at(moment):
        asyncio.run(_look(url, part))


async def _look(url: str, part: Part) -> None:
    async with Store.open(url) as store:
        await LOOKS[part](store)


async def _campaigns(store: Store) -> None:
    await CampaignWatch(store, log=print).step()


async def _progress(store: Store) -> None:
    await ProgressWatch(store, log=print).step()


async def _senders(store: Store) -> None:
    policy = SenderPolicy(abuse=AbusePolicy(mode=AbuseMode.ENFORCE))
    watch = SenderWatch(store, SenderOptions(policy=policy, fairness=Fairness(), operators=OPERATORS), print)
    await watch.start()
    await watch.step()


LOOKS: dict[Part, Callable[[Store], Awaitable[None]]] = {
    "campaigns": _campaigns,
    "progress": _progress,
    "senders": _senders,
}


# ── the launch of a campaign ──────────────────────────────────────────────────────────────────────────────


def launch(url: str, campaign_id: int, batch: int, point: str) -> None:
    """`batch` is the number of prospects per commit, so that it can be killed in between."""
    arm(point)
    launching.BATCH = batch
    asyncio.run(_launch(url, campaign_id))


async def _launch(url: str, campaign_id: int) -> None:
    async with Store.open(url) as store:
        draft = await campaigns.campaign_by_id(store, campaign_id)
        launched = await launching.launch(store, draft, skip_incomplete=False, by="test", now=clock.now())
        await launching.schedule(store, launched)


# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────────────


def deliver_webhooks(url: str, home: Path, point: str) -> None:
    """Runs as the engine `victim`, until it is killed."""
    arm(point)
    asyncio.run(_deliver_webhooks(url, home))


async def _deliver_webhooks(url: str, home: Path) -> None:
    guard = NetworkGuard(allowed=(ip_network("127.0.0.0/8"),))
    options = WebhookOptions(engine="victim", open_secret=Vault(Keyring(home)).open_secret, guard=guard)
    async with Store.open(url) as store:
        await WebhookWatch(store, options, print).run()
