"""Workers are killed and frozen between any two lines of a handover, and at any moment: an attempt reported as
incomplete never was completed, and hardly any e-mail needs a manual decision."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from fairpost.engine.handover import Handover
from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.transports.factory import transport_of
from tests.chaos.driver import HASTEN, LONG_KILLS, World, add_accounts, eventually, until
from tests.chaos.processes import signal_to, still_alive
from tests.chaos.recorder import Manners, Recorder
from tests.chaos.test_engines import drives
from tests.chaos.test_failpoints import let_time_pass
from tests.chaos.verdicts import Aftermath
from tests.chaos.victims import LINES, drive_to_line, ended, fork, notes_at, run_account, vault_at
from tests.simulation.world import draft

SEED = int(os.environ.get("FAIRPOST_SEED", "11"))
ACCOUNT = "quick"
EMAILS = 4  # for each worker: the second and third are handed over line by line
LINES_TRIED = 10_000 if LONG_KILLS else 6  # for each kind of death
SHORT_LEASE_S = 1.0
IS_OVER = "SELECT bool_and(until <= clock_timestamp()) FROM fairpost.leases"

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="sees in /proc that a process is frozen")


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder().running() as recorder:
        yield recorder


@dataclass
class Scene:
    """One account, and one worker after the other."""

    url: str
    store: Store
    recorder: Recorder
    home: Path
    account: AccountId
    keys: int = 0

    async def enqueue(self) -> None:
        mails = [draft(on_doubt="hold", to="p@x.test", idempotency_key=f"k{self.keys + i}") for i in range(EMAILS)]
        await self.store.enqueue_many(mails)
        self.keys += EMAILS

    async def lines(self) -> int:
        """Returns how many lines there are in an undisturbed handover."""
        await self.enqueue()
        assert await ended(fork(drive_to_line, self.url, self.account, self.home, 0, signal.SIGKILL)) == 0
        return int((self.home / LINES).read_text())

    async def succeed(self) -> None:
        """Acts as the worker that takes over."""
        await let_time_pass(self.store)
        transport = transport_of(await self.store.account(self.account), vault_at(self.home))
        await run_account(self.store, self.account, transport, Handover(notes_at(self.home)))

    async def clear_up(self) -> None:
        """Interrupted e-mails are due again after a minute."""
        for _ in range(2):
            await self.succeed()
            await self.store.fetch(HASTEN)

    async def cut(self) -> int:
        return int(await self.store.value("SELECT count(*) FROM fairpost.attempts WHERE outcome = 'cut'"))

    async def kill(self, line: int) -> None:
        await self.enqueue()
        await ended(fork(drive_to_line, self.url, self.account, self.home, line, signal.SIGKILL))
        await self.clear_up()

    async def freeze(self, line: int, then: signal.Signals, lease_s: float) -> None:
        """Freezes it past its lease, while another takes over. With a long lease that the others consider expired, it
        still trusts its own clock when it wakes up, and completes what it should not."""
        await self.enqueue()
        worker = fork(drive_to_line, self.url, self.account, self.home, line, signal.SIGSTOP, lease_s)
        assert worker.pid is not None
        pid = worker.pid
        await until(lambda: not worker.is_alive() or is_stopped(pid), "the worker is frozen")
        before = await self.cut()
        if lease_s == SHORT_LEASE_S:
            await eventually(lambda: self.store.value(IS_OVER), "its lease has run out")
        await self.succeed()
        assert await self.cut() == before, "it is alive, and may continue"
        signal_to(pid, then)
        await ended(worker)
        await self.clear_up()

    async def tell(self, deaths: int) -> None:
        left, arrived = await self.check(deaths)
        sys.stdout.write(
            f"{deaths} deaths: {await self.cut()} known to be incomplete, {left} in doubt, {arrived} of these arrived\n"
        )

    async def check(self, deaths: int) -> tuple[int, int]:
        """Returns how many e-mails need a manual decision, and how many of these did arrive."""
        keys = {f"k{n}" for n in range(self.keys)}
        frozen = Counter({ACCOUNT: deaths})
        after = await Aftermath.of(self.store, self.recorder, keys=keys, broken=deaths, frozen=frozen)
        assert after.offences() == []
        left = [id_ for id_, row in after.emails.items() if row["state"] == "in_doubt"]
        return len(left), sum(bool(after.arrived[id_]) for id_ in left)


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@pytest.fixture
async def scene(url: str, store: Store, recorder: Recorder, tmp_path: Path) -> Scene:
    accounts = await add_accounts(store, recorder, {ACCOUNT: Limits(batch_max=EMAILS)})
    return Scene(url, store, recorder, tmp_path, accounts[ACCOUNT])


def some(lines: int) -> list[int]:
    dice = random.Random(SEED)
    return sorted(dice.sample(range(1, lines + 1), min(lines, LINES_TRIED)))


@pytest.mark.timeout(3600 if LONG_KILLS else 120)
async def test_a_worker_killed_between_any_two_lines_leaves_no_false_note(scene: Scene) -> None:
    lines = some(await scene.lines())
    for line in lines:
        await scene.kill(line)
    await scene.tell(len(lines))


@pytest.mark.parametrize(
    ("then", "lease_s"), [(signal.SIGCONT, 60.0), (signal.SIGCONT, SHORT_LEASE_S), (signal.SIGKILL, 60.0)]
)
@pytest.mark.timeout(3600 if LONG_KILLS else 120)
async def test_a_worker_frozen_between_any_two_lines_is_not_believed_dead(
    scene: Scene, then: signal.Signals, lease_s: float
) -> None:
    lines = some(await scene.lines())
    for line in lines:
        await scene.freeze(line, then, lease_s)
    await scene.tell(len(lines))


# ── a whole engine ────────────────────────────────────────────────────────────────────────────────────────


SENDERS = {f"a{i}": Limits(batch_max=20) for i in range(8 if LONG_KILLS else 5)}
# Most of a conversation is before the dot, as with servers that look up the sender.
LOOKS_UP = Manners(data_s=0.2)
ROUNDS = 5 if LONG_KILLS else 2


async def kill_all_workers(world: World, rounds: int) -> int:
    """Kills all at once, this many times. Returns how many died."""
    engine = await world.start_engine("--lease-s", "60", "--idle-s", "60")
    killed = 0
    for _ in range(rounds):
        await world.progress(20)
        await drives(world, engine, len(SENDERS))
        await asyncio.sleep(world.dice.random() / 10)
        workers = list(engine.workers())
        for pid in workers:
            signal_to(pid, signal.SIGKILL)
        killed += len(workers)
        await until(lambda pids=workers: not still_alive(pids), "they are dead")  # type: ignore[misc]
    await world.drain()
    signal_to(engine.pid, signal.SIGTERM)
    await until(lambda: engine.process.poll() is not None, "the engine ends")
    return killed


@dataclass(frozen=True)
class Doubt:
    """An attempt that was in doubt, and still is, or was until its e-mail's policy sent it again."""

    email_id: int
    begun_at: datetime
    ended_at: datetime

    def is_needless(self, after: Aftermath) -> bool:
        """Checks that nothing of it had arrived."""
        return not any(self.begun_at <= t.at <= self.ended_at for t in after.arrived.get(self.email_id, ()))


async def doubted(world: World) -> set[Doubt]:
    sql = """SELECT id AS email_id, begun_at, clock_timestamp() AS ended_at FROM fairpost.queue WHERE state = 'in_doubt'
             UNION SELECT email_id, begun_at, ended_at FROM fairpost.attempts WHERE outcome = 'in_doubt'"""
    return {Doubt(**row) for row in await world.fetch(sql)}


def all_but_a_moment_is_known(after: Aftermath, doubts: set[Doubt]) -> None:
    """Between the note and the dot there are a few microseconds. Without notes, everything that was cut before its dot
    would be in doubt."""
    assert after.offences() == []
    assert len([after.story(doubt.email_id) for doubt in doubts if doubt.is_needless(after)]) <= 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc")
@pytest.mark.timeout(600)
async def test_workers_killed_together_leave_in_doubt_only_what_arrived(url: str, tmp_path: Path) -> None:
    """The long form also runs without notes, for comparison: a file in place of the folder prevents them."""
    async with World.made(tmp_path, url, seed=SEED, senders=SENDERS, manners=LOOKS_UP) as world:
        before, doubts_before = 0, set[Doubt]()
        if LONG_KILLS:
            for folder in notes_at(tmp_path):
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.touch()
            before = await kill_all_workers(world, ROUNDS)
            doubts_before = await doubted(world)
            for folder in notes_at(tmp_path):
                folder.unlink()
        known = {doubt.email_id for doubt in doubts_before}
        killed = await kill_all_workers(world, ROUNDS)
        after = await Aftermath.of(
            world.store, world.recorder, keys=world.keys, broken=before + killed, frozen=Counter()
        )
        doubts = {doubt for doubt in await doubted(world) if doubt.email_id not in known}
    needless_before, needless = (sum(d.is_needless(after) for d in each) for each in (doubts_before, doubts))
    sys.stdout.write(
        f"without notes: {before} killed, {len(doubts_before)} in doubt, {needless_before} of them never arrived\n"
        f"with notes: {killed} killed, {len(doubts)} in doubt, {needless} of them never arrived; {len(after.cut)} cut\n"
    )
    all_but_a_moment_is_known(after, doubts)
    assert after.cut  # over several rounds; in a single one, all may have been past their dots
    if LONG_KILLS:  # chance decides how many were between their dot and its answer
        assert 10 * needless <= needless_before
        assert 5 * len(doubts) <= len(doubts_before)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc")
async def test_an_engine_killed_as_a_whole_leaves_its_notes_to_the_next(url: str, tmp_path: Path) -> None:
    """Their leases are freed as well: nothing waits until they expire."""
    async with World.made(tmp_path, url, seed=SEED, senders=SENDERS, manners=LOOKS_UP) as world:
        engine = await world.start_engine("--lease-s", "600")
        await drives(world, engine, len(SENDERS))
        everybody = [engine.pid, *engine.children()]
        for pid in everybody:
            signal_to(pid, signal.SIGKILL)
        engine.process.wait()
        await until(lambda: not still_alive(everybody), "they are dead")
        await world.start_engine("--lease-s", "600")
        await world.drain()
        after = await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=len(SENDERS), frozen=Counter())
        all_but_a_moment_is_known(after, await doubted(world))
