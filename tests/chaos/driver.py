"""A complete set of real processes (PostgreSQL, engines, a recording server), and actions that break it, drawn from a
seed.

The permitted consequences of an action are recorded when it happens; verdicts.py judges the actual ones.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.model.transport import Security
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.store import Store
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system import clock
from fairpost.transports.smtp.settings import SmtpSettings
from tests.chaos.processes import Engine, signal_to, still_alive
from tests.chaos.recorder import Cut, Manners, Recorder
from tests.simulation.world import draft

T = TypeVar("T")

LONG_KILLS = int(os.environ.get("FAIRPOST_CHAOS_KILLS", "0"))
"""How often the long form kills; 0: the short form of `make test`, which kills each kind of process once."""

POSTGRES_KILLS = int(os.environ.get("FAIRPOST_CHAOS_POSTGRES_KILLS", LONG_KILLS // 20))
"""How many of these the long form gives to PostgreSQL, evenly among the others."""

LEASE_S = 3
ENGINE = ("--lease-s", str(LEASE_S), "--idle-s", "5")
STUCK_S = 200.0  # only guards against waiting forever: an account whose worker died repeatedly rests for up to a minute
ORPHANS_S_MAX = 100.0
ORPHANS_SEND_S_MAX = 5.0  # by the recorder's clock; longer if the machine stands still
ORPHANS_BEGIN_MAX = 2  # this many may begin before the workers notice that they are orphans

SENDERS = {
    "quick": Limits(batch_max=20),
    "single": Limits(batch_max=1),
    "paced": Limits(delay_ms=40),
    "slow": Limits(delay_ms=150),
    "hourly": Limits(hourly_max=60),
    "daily": Limits(daily_max=80, delay_ms=20),
}
MANNERS = Manners(delay_s_max=0.06, cut_before_dot=0.002)  # slow enough that most deaths happen during a message
PINNED = 100  # for each account with an hourly or daily limit: more than it may send
BACKLOG = 60  # at least this many are waiting during the test
WAVE = (5, 60)
BETWEEN_DEEDS = (3, 30)  # messages

# How often each action happens in a round. Each round has a different order.
ROUND = {
    "kill_worker": 6,
    "kill_mind": 2,
    "kill_parent": 2,
    "kill_postgres": 1,
    "freeze_worker": 1,
    "replace_engine": 1,
    "cut_before_dot": 1,
    "cut_after_dot": 2,
    "cut_all": 1,
}

HASTEN = """
DO $$
DECLARE
    late CONSTANT bigint[] := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.waiting AND q.attempts > 0 AND q.due_at > clock_timestamp() + interval '1 second'
                                    ORDER BY q.id FOR UPDATE SKIP LOCKED);
BEGIN
    PERFORM fairpost.note(late, -1);
    UPDATE fairpost.queue q SET due_at = clock_timestamp() WHERE q.id = ANY (late);
    PERFORM fairpost.note(late, 1);
END $$
"""

UNFINISHED = """
SELECT q.id, q.state::text, q.on_doubt::text, q.attempts, q.route, a.name AS account, q.due_at, q.last_error
FROM fairpost.queue q LEFT JOIN fairpost.accounts a ON a.id = q.account_id
WHERE NOT (q.state = 'in_doubt' AND q.on_doubt = 'hold')
AND NOT (q.state = 'waiting' AND q.route IN (
    SELECT '@' || s.name FROM fairpost.accounts s JOIN fairpost.leases l ON l.account_id = s.id
    WHERE l.hour_used >= s.hourly_max OR l.day_used >= s.daily_max))
"""


class Stuck(AssertionError):
    """An expected event does not happen."""


async def until(happened: Callable[[], object], what: str, *, s_max: float = STUCK_S) -> None:
    deadline_s = clock.monotonic() + s_max
    while not happened():
        if clock.monotonic() > deadline_s:
            raise Stuck(f"{what}: not within {s_max:.0f} s")
        await asyncio.sleep(0.02)


async def eventually(happened: Callable[[], Awaitable[object]], what: str, *, s_max: float = STUCK_S) -> None:
    """As `until`, for conditions that need a query."""
    deadline_s = clock.monotonic() + s_max
    while not await happened():
        if clock.monotonic() > deadline_s:
            raise Stuck(f"{what}: not within {s_max:.0f} s")
        await asyncio.sleep(0.05)


@dataclass
class Done:
    """What was done, and what it may cause."""

    deeds: list[str] = field(default_factory=list)
    kills: int = 0  # of all processes, PostgreSQL's among them
    postgres_kills: int = 0
    broken: int = 0  # messages that may have been in progress when their worker died, froze or lost its database
    frozen: Counter[str] = field(default_factory=Counter)
    offences: list[str] = field(default_factory=list)  # noticed at once


@dataclass
class World:
    folder: Path
    seed: int
    url: str
    store: Store
    recorder: Recorder
    accounts: dict[str, AccountId]
    engines: list[Engine] = field(default_factory=list)
    done: Done = field(default_factory=Done)
    keys: set[str] = field(default_factory=set)  # of e-mails that are certainly committed
    pinned: set[str] = field(default_factory=set)
    server: EmbeddedServer | None = None  # only if PostgreSQL is killed
    env: Mapping[str, str] = field(default_factory=dict)  # of its engines
    packed: int = 1  # accounts per process

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._round: list[str] = []

    # ── set-up ────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    @asynccontextmanager
    async def made(
        cls,
        folder: Path,
        url: str,
        *,
        seed: int,
        senders: Mapping[str, Limits] = SENDERS,
        manners: Manners = MANNERS,
        server: EmbeddedServer | None = None,
        packed: int = 1,
    ) -> AsyncIterator["World"]:
        """Creates a world on an empty database. `server` is the one to kill, if any. Up to `packed` accounts share a
        process.
        """
        recorder = Recorder(seed, manners)
        with recorder.running():
            async with Store.open(url) as store:
                accounts = await add_accounts(store, recorder, senders)
                world = cls(folder, seed, url, store, recorder, accounts, server=server, packed=packed)
                try:
                    yield world
                finally:
                    for engine in world.engines:
                        engine.end()

    async def start_engine(self, *arguments: str, home: Path | None = None) -> Engine:
        """Starts an engine. `home` is for an engine on a separate machine."""
        given = ("--accounts-per-process", str(self.packed), *(arguments or ENGINE))  # the last one counts
        engine = Engine.fork(self.url, self.recorder, home or self.folder, *given, env=self.env)
        self.engines.append(engine)
        await until(engine.is_ready, "an engine is ready")
        return engine

    # ── the database, which may be down for a moment ──────────────────────────────────────────────────────

    async def patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        deadline_s = clock.monotonic() + STUCK_S
        while True:
            try:
                return await work()
            except DRIVER_ERRORS:
                if clock.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(0.05)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        return await self.patiently(lambda: self.store.fetch(sql, *args))

    async def enqueue(self, emails: Sequence[dict[str, Any]]) -> None:
        """Enqueues e-mails, each with a key, so that retrying is safe if the answer is lost."""
        rows = await self.patiently(lambda: self.store.enqueue_many(emails))
        assert all(row["id"] for row in rows), rows
        self.keys |= {email["idempotency_key"] for email in emails}

    def drafts(self, n: int, **more: Any) -> list[dict[str, Any]]:
        first = len(self.keys)
        return [
            draft(
                workspace=f"w{self.dice.randrange(5)}",
                user=f"u{self.dice.randrange(3)}",
                stream=self.dice.choice(("", "spring")),
                to=f"p{first + i}@there.test",
                on_doubt=self.dice.choice(("hold", "resend")),
                idempotency_key=f"k{first + i}",
                attempts_max=10,
                **more,
            )
            for i in range(n)
        ]

    async def fill_up(self) -> None:
        """Keeps enough e-mails waiting, in waves of all sizes: small ones wake sleeping engines, large ones are found
        by polling."""
        while len(self.keys) - len(self.pinned) - len({t.email_id for t in self.recorder.taken}) < BACKLOG:
            await self.enqueue(self.drafts(self.dice.randint(*WAVE)))

    async def pin(self) -> None:
        for name in ("hourly", "daily"):
            emails = self.drafts(PINNED, account=name)
            self.pinned |= {email["idempotency_key"] for email in emails}
            await self.enqueue(emails)

    async def hasten(self) -> None:
        """Makes retries due at once; otherwise they would wait for minutes."""
        await self.fetch(HASTEN)

    async def drain(self) -> None:
        """Waits until nothing moves: the rest is final, in doubt, or waiting for an account at its limit."""
        deadline_s = clock.monotonic() + STUCK_S
        while left := await self.fetch(UNFINISHED):
            if clock.monotonic() > deadline_s:
                raise Stuck(f"{len(left)} e-mails do not come to an end, among them {[dict(row) for row in left[:3]]}")
            await self.hasten()
            await asyncio.sleep(0.2)

    # ── actions ───────────────────────────────────────────────────────────────────────────────────────────

    async def do_something(self) -> None:
        if not self._round:
            self._round = [name for name, times in ROUND.items() for _ in range(times) if name != "kill_postgres"]
            self.dice.shuffle(self._round)
        await self.do(self._round.pop())

    async def do(self, name: str) -> None:
        """Performs an action of the round, and then waits for a random number of messages."""
        await self.only(name)
        await self.progress(self.dice.randint(*BETWEEN_DEEDS))

    async def only(self, name: str) -> None:
        """Performs an action of the round, without waiting."""
        said = await getattr(self, f"_{name}")()
        self.done.deeds.append(f"{len(self.recorder.taken):6} messages: {said}")

    async def engines_look_again(self) -> None:
        """Waits until a live engine has checked the database once more."""
        now = await self.store.now()
        seen = "SELECT max(seen_at) > $1 FROM fairpost.engines"
        await eventually(lambda: self.store.value(seen, now), "an engine looks")

    async def progress(self, messages: int) -> None:
        goal = len(self.recorder.taken) + messages
        deadline_s = clock.monotonic() + STUCK_S
        while len(self.recorder.taken) < goal:
            await self.fill_up()
            if clock.monotonic() > deadline_s:
                raise Stuck(f"{goal - len(self.recorder.taken)} more messages: not within {STUCK_S:.0f} s")
            await asyncio.sleep(0.05)

    async def _some_worker(self) -> tuple[Engine, int, str]:
        found: list[tuple[Engine, int, str]] = []

        def look() -> bool:
            found[:] = [(engine, pid, account) for engine in self.engines for pid, account in engine.workers().items()]
            return bool(found)

        await until(look, "a worker is connected")
        return self.dice.choice(sorted(found, key=lambda each: each[2]))

    def _some_engine(self) -> Engine:
        return self.dice.choice(self.engines)

    async def _kill_worker(self) -> str:
        _, pid, account = await self._some_worker()
        signal_to(pid, signal.SIGKILL)
        self.done.kills += 1
        self.done.broken += self.packed
        return f"SIGKILL to the worker of {account}"

    async def _kill_mind(self) -> str:
        engine, _, _ = await self._some_worker()
        await until(lambda: engine.orchestrator() is not None, "an engine has an orchestrator")
        orchestrator, before = engine.orchestrator(), engine.children()
        assert orchestrator is not None
        signal_to(orchestrator, signal.SIGKILL)
        self.done.kills += 1
        self.done.broken += self.packed * (len(before) - 1)
        await until(lambda: not still_alive(before), "workers end with their orchestrator", s_max=ORPHANS_S_MAX)
        return f"SIGKILL to an orchestrator with {len(before) - 1} workers"

    async def _kill_parent(self) -> str:
        engine = self._some_engine()
        lines = [line for line in self.recorder.lines if line.is_open]
        mine = set[str]().union(*map(engine.accounts_of, engine.workers()))
        orphans = engine.kill()
        killed_s = clock.monotonic()
        self.engines.remove(engine)
        self.done.kills += 1
        self.done.broken += self.packed * max(0, len(orphans) - 1)
        try:
            await until(lambda: not still_alive(orphans), "orphans end", s_max=ORPHANS_S_MAX)
        except Stuck:
            self.done.offences.append(f"processes {still_alive(orphans)} outlive their parent")
        for line in (line for line in lines if line.account in mine):
            begun = [t for t in self.recorder.taken if t.line is line and t.began_s > killed_s]
            if len(begun) > ORPHANS_BEGIN_MAX and begun[-1].at_s > killed_s + ORPHANS_SEND_S_MAX:
                told = f"{len(begun)} e-mails, the last one {begun[-1].at_s - killed_s:.1f} s later"
                self.done.offences.append(f"an orphan of {line.account} sent {told}")
        await self.start_engine()
        return f"SIGKILL to a parent with {len(orphans)} processes, gone after {clock.monotonic() - killed_s:.1f} s"

    async def _kill_postgres(self) -> str:
        assert self.server is not None
        await self._end_postgres(self.server)
        await asyncio.to_thread(self.server.start)
        return "SIGKILL to PostgreSQL"

    async def _kill_embedded(self) -> str:
        """Its clients have to restart it."""
        assert self.server is not None
        server = self.server
        dead = await self._end_postgres(server)
        killed_s = clock.monotonic()
        await until(lambda: server.is_ready() and server.status().pid != dead, "another server is ready")
        ready_s = clock.monotonic() - killed_s
        await self.progress(1)
        return f"SIGKILL to PostgreSQL: another after {ready_s:.1f} s, an e-mail after {clock.monotonic() - killed_s:.1f} s"

    async def _end_postgres(self, server: EmbeddedServer) -> int:
        pid = server.status().pid
        assert pid is not None
        self.done.broken += self.packed * sum(len(engine.children()) for engine in self.engines)
        os.kill(pid, signal.SIGKILL)
        self.done.kills += 1
        self.done.postgres_kills += 1
        await until(lambda: not still_alive([pid]), "PostgreSQL is dead")
        return pid

    async def _freeze_worker(self) -> str:
        engine, pid, account = await self._some_worker()
        epoch = await self._epoch(account)
        signal_to(pid, signal.SIGSTOP)
        self.done.broken += self.packed
        self.done.frozen.update({account} | engine.accounts_of(pid))

        async def is_past_its_lease() -> bool:
            return await self._epoch(account) != epoch or not still_alive([pid])

        await eventually(is_past_its_lease, "the lease of a frozen worker is taken from it")
        signal_to(pid, signal.SIGCONT)
        return f"SIGSTOP to the worker of {account} until its lease was gone, then SIGCONT"

    async def _epoch(self, account: str) -> int:
        rows = await self.fetch("SELECT epoch FROM fairpost.leases WHERE account_id = $1", self.accounts[account])
        return int(rows[0]["epoch"])

    async def _replace_engine(self) -> str:
        engine = self._some_engine()
        await self.start_engine()
        children = engine.children()
        signal_to(engine.pid, signal.SIGTERM)
        try:
            await until(lambda: engine.process.poll() is not None, "an engine ends when told to")
        except Stuck as error:
            self.done.offences.append(str(error))
            engine.end()
        if still_alive(children):
            self.done.offences.append(f"processes {still_alive(children)} outlive an engine that was told to end")
        self.engines.remove(engine)
        return f"SIGTERM to an engine with {len(children)} processes, another in its place"

    async def _cut_before_dot(self) -> str:
        self.recorder.cut_next(Cut.BEFORE_DOT)
        return "the next conversation is cut before the dot"

    async def _cut_after_dot(self) -> str:
        self.recorder.cut_next(Cut.AFTER_DOT)
        return "the next conversation is cut after the dot"

    async def _cut_all(self) -> str:
        cut = self.recorder.cut_all()
        self.done.broken += cut
        return f"{cut} connections are cut"


async def add_accounts(store: Store, recorder: Recorder, senders: Mapping[str, Limits]) -> dict[str, AccountId]:
    """All accounts send through the recorder, each under its own name."""
    recorder.ids = await store.public_ids()
    return {
        name: await store.add_account(
            name, address=f"{name}@post.test", limits=limits, transport=through(recorder, name)
        )
        for name, limits in senders.items()
    }


def through(recorder: Recorder, name: str) -> SmtpSettings:
    return SmtpSettings(host="127.0.0.1", port=recorder.port, security=Security.NONE, hello_name=name)
