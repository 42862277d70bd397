"""The database is in trouble, restarted, or replaced by its standby, under load: sending continues without
intervention, or is paused with a reason.

Each scene prints its figures. Tests that take minutes, and limits in seconds, are only in the long form (`make chaos`).
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from fairpost.model.account import Limits
from fairpost.store.embedded import EmbeddedServer, StopMode
from fairpost.store.postmaster import processes_of
from fairpost.store.store import Store
from fairpost.system import clock
from tests.chaos.bouncer import bouncer
from tests.chaos.clusters import SETTINGS, Clusters, ask, kill
from tests.chaos.conftest import database_on
from tests.chaos.driver import LONG_KILLS, STUCK_S, Stuck, World, eventually, until
from tests.chaos.processes import FAIRPOST, Engine, signal_to
from tests.chaos.recorder import Manners
from tests.chaos.verdicts import Aftermath
from tests.peers.pgbouncer import why_not

SENDERS = {f"a{i}": Limits(delay_ms=100) for i in range(4)}
MANNERS = Manners(delay_s_max=0.03)
LONG_LEASES = ("--lease-s", "60", "--idle-s", "60")
SHORT_LEASES = ("--lease-s", "3", "--idle-s", "60")
EMAILS = 300 if LONG_KILLS else 120
AGAIN = 40  # enough for each account, even if all others have been sent
TROUBLE_S = 90.0 if LONG_KILLS else 5.0
GENEROUS = 3  # on a busy machine
LOST_S = 5.0  # how far the standby is behind
PATIENCE_S = 30.0  # how long engines wait for one that does not respond

LEASES = "SELECT a.name, l.owner, l.epoch FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id"
TAKEN_UP = "SELECT bool_and(server = pg_postmaster_start_time()) FROM fairpost.leases"
BLAMED = """
SELECT a.name, a.status::text, a.status_reason, l.deaths FROM fairpost.accounts a JOIN fairpost.leases l ON l.account_id = a.id
WHERE a.status <> 'active' OR l.deaths > 0 OR l.died_at IS NOT NULL
"""
HAS_LATE = "SELECT count(*) = $1 FROM fairpost.queue WHERE idempotency_key LIKE 'late%'"
PAUSE = "SELECT reason || ' ' || params AS reason FROM fairpost.pause_now()"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]
long_only = pytest.mark.skipif(not LONG_KILLS, reason="takes minutes: make chaos")


@dataclass
class Figures:
    """Measurements of a scene, printed at its end."""

    capsys: pytest.CaptureFixture[str]
    scene: str
    measured: dict[str, object] = field(default_factory=dict)

    def note(self, **measured: object) -> None:
        self.measured |= measured

    def within(self, s_max: float, **seconds: float) -> None:
        self.note(**{name: f"{value:.1f} s" for name, value in seconds.items()})
        if LONG_KILLS:
            assert max(seconds.values()) < s_max * GENEROUS, self.measured


@pytest.fixture
def figures(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Figures]:
    figures = Figures(capsys, request.node.name)
    yield figures
    if LONG_KILLS:
        with capsys.disabled():
            told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.measured.items())
            sys.stdout.write(f"\n{figures.scene}: {told}\n")


@asynccontextmanager
async def world_on(url: str, folder: Path, *, emails: int = EMAILS) -> AsyncIterator[World]:
    async with World.made(folder, url, seed=11, senders=SENDERS, manners=MANNERS) as world:
        await world.enqueue(world.drafts(emails))
        try:
            yield world
        except Stuck as stuck:
            logs = [f"{engine.log}:\n{engine.log.read_text()[-2000:]}" for engine in world.engines]
            raise Stuck("\n".join([str(stuck), *logs])) from None


async def all_drive(world: World) -> None:
    """Waits until each account has sent something."""
    await until(lambda: {t.account for t in world.recorder.taken} == set(SENDERS), "all accounts send")


async def next_email(world: World, since_s: float) -> float:
    """Returns the seconds until the first e-mail after that is begun. Adds one, in case all others have been sent."""
    taken = world.recorder.taken
    await world.enqueue(world.drafts(len(SENDERS)))
    await until(lambda: taken and taken[-1].began_s > since_s, "an e-mail goes out")
    return min(t.began_s for t in taken if t.began_s > since_s) - since_s


async def leases(world: World) -> dict[str, tuple[str, int]]:
    return {row["name"]: (row["owner"], row["epoch"]) for row in await world.fetch(LEASES)}


async def nothing_happened(world: World, figures: Figures, *, broken: int = 0) -> None:
    """Checks that all mail is sent, each e-mail once; that no account is blamed; and that nothing more than expected is
    in doubt."""
    await world.drain()
    after = await Aftermath.of(world.store, world.recorder, keys=world.keys, broken=broken, frozen=world.done.frozen)
    blamed = [dict(row) for row in await world.fetch(BLAMED)]
    figures.note(
        lost=sum(row["key"] not in world.keys for row in after.emails.values()) + len(world.keys) - len(after.emails),
        twice_under_hold=sum(
            len(came) > 1 for id_, came in after.arrived.items() if after.emails[id_]["on_doubt"] == "hold"
        ),
        in_doubt=after.doubts,
        accounts_blamed=len(blamed),
    )
    logs = "\n".join(engine.log.read_text()[-2000:] for engine in world.engines)
    assert (after.offences(), blamed) == ([], []), f"{figures.measured}\n{logs}"


# ── trouble ───────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def away(server: EmbeddedServer) -> AsyncIterator[None]:
    await asyncio.to_thread(server.stop, "fast")
    yield
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def frozen_postmaster(server: EmbeddedServer) -> AsyncIterator[None]:
    """Connected clients are served, but each loses its connection, and no new ones can connect."""
    pid = server.status().pid
    assert pid is not None
    conn = await asyncpg.connect(server.url)
    os.kill(pid, signal.SIGSTOP)
    await conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    yield
    os.kill(pid, signal.SIGCONT)
    await conn.close()


@asynccontextmanager
async def frozen_altogether(server: EmbeddedServer) -> AsyncIterator[None]:
    """As if the machine stood still: connections stay open, and nothing responds."""
    pids = processes_of(server.status().data_dir)
    for pid in pids:
        signal_to(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        signal_to(pid, signal.SIGCONT)


@asynccontextmanager
async def without_connections(server: EmbeddedServer) -> AsyncIterator[None]:
    """Other clients use all connections."""
    held = [await asyncpg.connect(server.url)]
    mine = {held[0].get_server_pid()}
    rivals = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL ($1)"
    while True:
        try:
            held.append(await asyncpg.connect(server.url))
            mine.add(held[-1].get_server_pid())
        except asyncpg.TooManyConnectionsError:
            if not await held[0].fetchval(rivals, list(mine)):
                break
    yield
    for conn in held:
        await conn.close()


@asynccontextmanager
async def without_room(server: EmbeddedServer) -> AsyncIterator[None]:
    """The disk is full. PostgreSQL ends when it cannot write its log, and is then restarted, as by an operator."""
    ballast = server.status().data_dir.parent / "ballast"
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    yield
    ballast.unlink()
    await asyncio.to_thread(server.start)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=260m", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def trouble_is_nobodys_fault(
    figures: Figures, home: Path, folder: Path, trouble: Callable[[EmbeddedServer], Any], *, broken: int = 0
) -> None:
    server = EmbeddedServer(home, settings={**SETTINGS, "max_wal_size": "80MB", "min_wal_size": "32MB"})
    try:
        async with world_on(await database_on(server), folder) as world:
            await world.start_engine(*SHORT_LEASES)
            await all_drive(world)
            async with trouble(server):
                began_s = clock.monotonic()
                await asyncio.sleep(TROUBLE_S)
            over_s = clock.monotonic()
            figures.note(trouble=f"{over_s - began_s:.0f} s")
            await eventually(lambda: world.patiently(lambda: world.store.value("SELECT true")), "it answers")
            await world.enqueue(world.drafts(40))
            figures.within(5, next_email_after=await next_email(world, over_s))
            await nothing_happened(world, figures, broken=broken)
    finally:
        await asyncio.to_thread(server.stop, "immediate")


@long_only
@pytest.mark.parametrize("trouble", [away, frozen_postmaster, frozen_altogether, without_connections])
async def test_trouble_of_the_database_is_nobodys_fault(
    tmp_path: Path, figures: Figures, trouble: Callable[[EmbeddedServer], Any]
) -> None:
    # Leases that expire while the server stands still are taken over before their holders are heard.
    broken = len(SENDERS) if trouble is frozen_altogether else 0
    await trouble_is_nobodys_fault(figures, tmp_path / "home", tmp_path, trouble, broken=broken)


@long_only
async def test_a_full_disk_is_nobodys_fault(tmp_path: Path, small_disk: Path, figures: Figures) -> None:
    await trouble_is_nobodys_fault(figures, small_disk, tmp_path, without_room)


# ── restarts ──────────────────────────────────────────────────────────────────────────────────────────────


async def restart(server: EmbeddedServer, how: StopMode | None) -> None:
    """Restarts the server; with None, kills it."""
    if how is None:
        await kill(server)
    else:
        await asyncio.to_thread(server.stop, how)
    await asyncio.to_thread(server.start)


@pytest.mark.parametrize(
    "how", [pytest.param("fast", marks=long_only), pytest.param("immediate", marks=long_only), None]
)
async def test_after_a_restart_each_worker_takes_up_what_it_held(
    mortal: EmbeddedServer, tmp_path: Path, figures: Figures, how: StopMode | None
) -> None:
    async with world_on(await database_on(mortal), tmp_path) as world:
        await world.start_engine(*LONG_LEASES)
        await all_drive(world)
        before = await leases(world)
        await restart(mortal, how)
        back_s = clock.monotonic()
        await eventually(lambda: world.patiently(lambda: world.store.value(TAKEN_UP)), "all leases are taken up")
        figures.within(2, taken_up_after=clock.monotonic() - back_s)
        assert await leases(world) == before
        figures.within(2, next_email_after=await next_email(world, back_s))
        await nothing_happened(world, figures)


# ── another server ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_synchronous_standby_continues_where_the_primary_was_killed(tmp_path: Path, figures: Figures) -> None:
    async with Clusters.made(tmp_path, is_synchronous=True) as clusters, world_on(clusters.door.url, tmp_path) as world:
        await world.start_engine(*LONG_LEASES)
        await all_drive(world)
        before = await leases(world)
        back_s = await clusters.fail_over()
        figures.within(5, next_email_after=await next_email(world, back_s))
        await eventually(lambda: world.patiently(lambda: world.store.value(TAKEN_UP)), "all leases are taken up")
        assert await leases(world) == before
        await nothing_happened(world, figures)


async def paused(world: World) -> str:
    """Returns the reason, once everything is paused."""
    reasons: list[str] = []

    async def is_paused() -> bool:
        reasons[:] = [row["reason"] for row in await world.fetch(PAUSE)]
        return bool(reasons)

    await eventually(is_paused, "everything is paused")
    return reasons[0]


async def goes_on(world: World) -> None:
    async def is_over() -> bool:
        return not await world.fetch(PAUSE)

    await eventually(is_over, "the pause is over")


async def resume_all(world: World) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRPOST_")}
    env |= {"FAIRPOST_DATABASE_URL": world.url, "FAIRPOST_HOME": str(world.folder)}
    process = await asyncio.create_subprocess_exec(FAIRPOST, "resume", "--all", env=env, stdout=subprocess.DEVNULL)
    assert await process.wait() == 0


async def sends_after(world: World, since_s: float) -> None:
    """Waits for each account twice, so that each has begun one since."""
    await until(
        lambda: all(
            sum(t.account == name and t.began_s > since_s for t in world.recorder.taken) > 1 for name in SENDERS
        ),
        "all accounts go on",
    )


def sent_since(world: World, since_s: float) -> dict[str, list[int]]:
    """Returns the messages of each account, in order."""
    found: dict[str, list[int]] = {name: [] for name in SENDERS}
    for taken in world.recorder.taken:
        if taken.began_s > since_s:
            found[taken.account].append(taken.email_id)
    return found


async def lagging_standby_is_paused(
    world: World, clusters: Clusters, figures: Figures, switch: Callable[[], Awaitable[float]]
) -> None:
    await all_drive(world)
    cut_s = clock.monotonic()
    await clusters.standby.fall_behind()
    await world.enqueue(world.drafts(AGAIN))
    await sends_after(world, clock.monotonic())
    if LONG_KILLS:
        await asyncio.sleep(max(0.0, cut_s + LOST_S - clock.monotonic()))
    back_s = await switch()
    reason = await paused(world)
    unknown = sent_since(world, cut_s)
    before_pause = sum(map(len, sent_since(world, back_s).values()))
    figures.note(sent_since_the_cut=sum(map(len, unknown.values())), sent_before_the_pause=before_pause)
    assert before_pause == 0
    for name, ids in unknown.items():
        assert name in reason
        assert any(str(id_) in reason for id_ in ids), f"{name} has sent {ids}: {reason}"
    await resume_all(world)
    resumed_at = await world.store.value("SELECT max(at) FROM fairpost.events WHERE kind = 'resumed'")
    taken = world.recorder.taken
    await until(lambda: taken[-1].at > resumed_at, "mail goes out again")
    first_at = min(t.at for t in taken if t.at > resumed_at)
    figures.within(5, next_email_after_resume=(first_at - resumed_at).total_seconds())
    await world.drain()
    after = await Aftermath.of(
        world.store, world.recorder, keys=world.keys, broken=len(SENDERS), frozen=world.done.frozen
    )
    again = {id_ for id_, came in after.arrived.items() if len(came) > 1 and after.emails[id_]["on_doubt"] == "hold"}
    figures.note(twice_under_hold_beyond_those_named=len(again - {id_ for ids in unknown.values() for id_ in ids}))
    assert again <= {id_ for ids in unknown.values() for id_ in ids}, (
        "e-mails begun before the cut are in doubt and held"
    )
    assert not await world.fetch(BLAMED)


async def test_on_a_standby_that_lags_nothing_is_sent_before_a_person_resumes(tmp_path: Path, figures: Figures) -> None:
    async with (
        Clusters.made(tmp_path, is_synchronous=False) as clusters,
        world_on(clusters.door.url, tmp_path) as world,
    ):
        await world.start_engine(*LONG_LEASES)
        await lagging_standby_is_paused(world, clusters, figures, clusters.fail_over)


# ── behind a pooler: the server changes, and no connection is lost ────────────────────────────────────────


@long_only
@pytest.mark.skipif(bool(why_not()), reason=str(why_not()))
@pytest.mark.parametrize("is_lagging", [False, True])
async def test_a_pooler_that_leads_to_another_server_hides_nothing(
    tmp_path: Path, figures: Figures, is_lagging: bool
) -> None:
    async with (
        Clusters.made(tmp_path, is_synchronous=not is_lagging) as clusters,
        world_on(clusters.door.url, tmp_path) as world,
    ):
        with bouncer(clusters.primary.url, clusters.primary.status().data_dir) as pooler:

            async def switch() -> float:
                await asyncio.to_thread(pooler.order, "PAUSE")
                await clusters.fail_over()
                pooler.lead_to(clusters.standby.url)
                await asyncio.to_thread(pooler.order, "RELOAD")
                await asyncio.to_thread(pooler.order, "RESUME")
                return clock.monotonic()

            world.url = pooler.url
            engine = await world.start_engine(*LONG_LEASES, "--poll-only")
            world.url = clusters.door.url
            if is_lagging:
                await lagging_standby_is_paused(world, clusters, figures, switch)
            else:
                await all_drive(world)
                before = await leases(world)
                back_s = await switch()
                figures.within(5, next_email_after=await next_email(world, back_s))
                await nothing_happened(world, figures)
                assert await leases(world) == before
            engine.end()


# ── two machines ──────────────────────────────────────────────────────────────────────────────────────────


def name_of(engine: Engine) -> str:
    return engine.log.read_text().partition("engine.started Ready: engine ")[2].split()[0]


async def two_engines(world: World, tmp_path: Path) -> tuple[Engine, Engine]:
    """Returns the accounts of two machines, each with its share."""
    one = await world.start_engine(*LONG_LEASES)
    await all_drive(world)
    (tmp_path / "there").mkdir()
    other = await world.start_engine(*LONG_LEASES, home=tmp_path / "there")
    deadline_s = clock.monotonic() + STUCK_S
    while len(other.workers()) != len(SENDERS) / 2:
        if clock.monotonic() > deadline_s:
            raise Stuck("the accounts are not shared")
        await world.progress(1)
    await world.enqueue(world.drafts(EMAILS))
    return one, other


def signal_all(engine: Engine, number: signal.Signals) -> int:
    """Returns how many messages may be in progress."""
    pids = [engine.pid, *engine.children()]
    for pid in pids:
        signal_to(pid, number)
    return len(pids) - 2


@long_only
@pytest.mark.parametrize("is_dead", [False, True])
async def test_after_a_failover_an_engine_that_says_nothing_is_waited_for_and_named(
    tmp_path: Path, figures: Figures, is_dead: bool
) -> None:
    async with (
        Clusters.made(tmp_path, is_synchronous=True) as clusters,
        world_on(clusters.door.url, tmp_path) as world,
    ):
        _, other = await two_engines(world, tmp_path)
        broken = signal_all(other, signal.SIGKILL if is_dead else signal.SIGSTOP)
        back_s = await clusters.fail_over()
        reason = await paused(world)
        figures.within(PATIENCE_S, paused_after=clock.monotonic() - back_s)
        before_pause = sum(map(len, sent_since(world, back_s).values()))
        figures.note(sent_before_the_pause=before_pause)
        assert before_pause == 0
        assert name_of(other) in reason
        if is_dead:
            world.engines.remove(other)
            other.process.wait()
            await world.start_engine(*LONG_LEASES, home=tmp_path / "there")
        else:
            signal_all(other, signal.SIGCONT)
        awake_s = clock.monotonic()
        await goes_on(world)
        figures.within(5, next_email_after_it_is_back=await next_email(world, awake_s))
        await nothing_happened(world, figures, broken=broken if is_dead else 0)


@long_only
async def test_after_a_restart_a_dead_engine_is_waited_for_and_nothing_is_paused(
    mortal: EmbeddedServer, tmp_path: Path, figures: Figures
) -> None:
    async with world_on(await database_on(mortal), tmp_path) as world:
        _, other = await two_engines(world, tmp_path)
        broken = signal_all(other, signal.SIGKILL)
        world.engines.remove(other)
        other.process.wait()
        await restart(mortal, "fast")
        back_s = clock.monotonic()
        waited_s = await next_email(world, back_s)
        figures.within(PATIENCE_S, next_email_after=waited_s)
        paused = "SELECT count(*) FROM fairpost.events WHERE kind = 'paused'"
        assert await world.store.value(paused) == 0
        await nothing_happened(world, figures, broken=broken)


@long_only
async def test_an_engine_that_is_started_again_compares_before_mail_goes_out(tmp_path: Path, figures: Figures) -> None:
    """Only the engine that was killed knows what is missing on the standby; the other engine has no objection."""
    async with (
        Clusters.made(tmp_path, is_synchronous=False) as clusters,
        world_on(clusters.door.url, tmp_path) as world,
    ):
        one, other = await two_engines(world, tmp_path)
        theirs = sorted(set(other.workers().values()))
        await world.drain()
        due_at = (await world.store.now()) + timedelta(seconds=15)
        late = [draft for name in theirs for draft in world.drafts(5, account=name, due_at=due_at)]
        for n, draft in enumerate(late):
            draft |= {"idempotency_key": f"late{n}", "on_doubt": "hold"}
        await world.enqueue(late)
        signal_all(one, signal.SIGSTOP)  # so that it writes nothing that would be missing
        await eventually(lambda: ask(clusters.standby.url, HAS_LATE, len(late)), "the standby has them")
        await asyncio.sleep(
            (due_at - await world.store.now()).total_seconds() - 1
        )  # little is missing, and there is no other trace of it
        await clusters.standby.fall_behind()
        cut_s = clock.monotonic()
        await until(lambda: sum(map(len, sent_since(world, cut_s).values())) == len(late), "they are sent")
        assert {t.account for t in world.recorder.taken if t.began_s > cut_s} == set(theirs)
        signal_all(other, signal.SIGKILL)
        world.engines.remove(other)
        other.process.wait()
        await clusters.fail_over()
        signal_all(one, signal.SIGCONT)
        assert name_of(other) in await paused(world)
        await world.start_engine(*LONG_LEASES, home=tmp_path / "there")
        await until(lambda: world.engines[-1].said("database.behind"), "it has compared")
        await world.engines_look_again()
        arrived = [t.email_id for t in world.recorder.taken if t.began_s > cut_s]
        figures.note(sent_since_the_cut=len(late), twice_under_hold=len(arrived) - len(set(arrived)))
        assert len(arrived) == len(set(arrived))
        assert await paused(world)


@long_only
async def test_a_primary_that_vanishes_without_a_word_is_left(tmp_path: Path, figures: Figures) -> None:
    """Its machine lost power: connections are not closed, but nothing arrives on them any more."""
    async with Clusters.made(tmp_path, is_synchronous=True) as clusters, world_on(clusters.door.url, tmp_path) as world:
        await world.start_engine(*LONG_LEASES)
        await all_drive(world)
        await world.store.close()
        clusters.door.forget_all()
        back_s = await clusters.fail_over()
        world.store = await Store.connect(clusters.door.url)
        figures.within(60, next_email_after=await next_email(world, back_s))
        await nothing_happened(world, figures)
