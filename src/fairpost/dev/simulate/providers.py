"""Runs whole engines against every provider in the zoo, on a simulated clock, and checks the rules in `checks.py`. A
case combines a provider, a form of account, and the senders that share the pool. Not every combination is covered. Each
behaviour is combined with each form of account at least once. Problems that have occurred together are also combined.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from fairpost.dev.emulate.server import GmailEmulator
from fairpost.dev.simulate.checks import Violation, Watch, Watched
from fairpost.dev.simulate.engines import engine
from fairpost.dev.simulate.transports import SimulatedGmail, SimulatedSmtp
from fairpost.dev.simulate.virtual_time import virtual_store
from fairpost.dev.simulate.visits import Visits
from fairpost.dev.simulate.zoo import ABUSER, POISON, POISON_AT_GMAIL, TAKES_S, ZOO, Behaviour, Matter
from fairpost.engine.orchestrator import Orchestrator
from fairpost.model.account import Account, Limits
from fairpost.model.states import EmailClass
from fairpost.store.connections import connect
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.transports.port import ClosableTransport
from fairpost.transports.smtp.settings import SmtpSettings

START = datetime(2030, 1, 7, 8, tzinfo=UTC)  # a Monday
LOOK_S = 0.25
LOOK_S_LONG = 2.0  # in cases that last for hours
LONG_S = 300.0
ARRIVE_S = 26.0  # in shorter cases, all e-mails arrive sooner
NOTIFIED_MAX = 10  # larger arrivals trigger no notification; they are found by polling every second
POOL = "zoo"
BESIDE = "healthy"

WHALES = {EmailClass.URGENT: "urgent whale", None: "no whale"}  # by default, there is a bulk whale

FORMS: dict[str, Limits] = {
    "no pause": Limits(),
    "100 ms": Limits(delay_ms=100),
    "200 ms": Limits(delay_ms=200),
    "1 s": Limits(delay_ms=1_000),
    "0-2 s": Limits(gap_max_ms=2_000),
    "30-90 s": Limits(delay_ms=30_000, gap_max_ms=90_000),
    "100 an hour": Limits(hourly_max=100),
    "60 a minute": Limits(units_per_minute=60),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. `beside` is the number of other accounts in the pool, which are of the same kind but have a healthy
    provider.
    """

    behaviour: str
    form: str = "no pause"
    beside: int = 0
    engines: int = 1
    is_packed: bool = False
    whale: EmailClass | None = EmailClass.BULK  # None: no whale
    attempts_max: int = 3  # maximum attempts for each e-mail
    lasts_s: float = 40.0
    drains: bool = False

    @property
    def name(self) -> str:
        more = [f"+{self.beside}"] if self.beside else []
        more += ["2 engines"] if self.engines > 1 else []
        more += ["packed"] if self.is_packed else []
        more += [WHALES[self.whale]] if self.whale in WHALES else []
        return " ".join([self.behaviour, self.form, *more])

    @property
    def provider(self) -> Behaviour:
        return ZOO[self.behaviour]

    @property
    def accounts(self) -> list[Watched]:
        beside = ZOO["gmail" if self.provider.is_gmail else "healthy"]
        return [
            Watched(account=self.behaviour, behaviour=self.provider, limits=FORMS[self.form]),
            *(
                Watched(account=f"{BESIDE}-{n}", behaviour=beside, limits=FORMS[self.form])
                for n in range(1, self.beside + 1)
            ),
        ]

    @property
    def guilty(self) -> tuple[str, ...]:
        return (ABUSER.partition(".")[0],) if self.provider.matter is Matter.SENDER else ()


def _hanging(form: str, **more: Any) -> list[Case]:
    names = [name for name in ZOO if name.startswith("hangs-at-")]
    return [Case(behaviour=name, form=form, beside=1, **more) for name in names]


CASES: tuple[Case, ...] = (
    *(Case(behaviour="healthy", form=form) for form in ("no pause", "100 ms", "1 s", "0-2 s")),
    Case(behaviour="healthy", form="100 ms", lasts_s=60, whale=EmailClass.URGENT),
    Case(behaviour="healthy", form="200 ms", lasts_s=60, whale=EmailClass.URGENT),
    Case(behaviour="healthy", form="30-90 s", lasts_s=600),
    Case(behaviour="healthy", form="100 an hour", lasts_s=60),
    Case(behaviour="healthy", form="60 a minute", lasts_s=90),
    Case(behaviour="healthy", form="100 ms", beside=3, engines=2),
    Case(behaviour="healthy", form="100 ms", beside=3, is_packed=True),
    Case(behaviour="healthy", form="1 s", beside=3, engines=2, is_packed=True),
    Case(behaviour="slow", form="no pause", beside=1),
    Case(behaviour="slow", form="1 s"),
    *_hanging("100 ms", lasts_s=45),
    Case(behaviour="hangs-at-dot", form="no pause", beside=1, lasts_s=700),
    Case(behaviour="hangs-on-one", form="100 ms", lasts_s=660),
    Case(behaviour="hangs-on-one", form="no pause", beside=1, lasts_s=60),
    Case(behaviour="tarpit", form="no pause", beside=1, lasts_s=60),
    Case(behaviour="tarpit", form="30-90 s", lasts_s=600),
    Case(behaviour="greylisting", form="100 ms", lasts_s=180),
    Case(behaviour="greylisting", form="1 s", beside=1, lasts_s=180),
    Case(behaviour="defers-one", form="no pause", lasts_s=480),
    Case(behaviour="defers-one", form="100 ms", beside=1, lasts_s=480),
    Case(behaviour="defers-one", form="30-90 s", lasts_s=600),
    Case(behaviour="refuses-a-sender", form="no pause", lasts_s=60),
    Case(behaviour="refuses-a-sender", form="1 s", beside=1, lasts_s=60),
    Case(behaviour="refuses-a-sender", form="200 ms", whale=None, lasts_s=60),
    Case(behaviour="bounces-a-sender", form="200 ms", lasts_s=60),
    Case(behaviour="bounces-a-sender", form="1 s", beside=1, lasts_s=60),
    Case(behaviour="closes-after-20", form="no pause"),
    Case(behaviour="closes-after-20", form="100 ms", is_packed=True, beside=1),
    Case(behaviour="30-per-minute", form="100 ms", lasts_s=240),
    Case(behaviour="30-per-minute", form="100 ms", beside=1, lasts_s=120),
    Case(behaviour="tls-breaks", form="100 ms", lasts_s=120),
    Case(behaviour="random-4xx", form="no pause", lasts_s=60),
    Case(behaviour="random-4xx", form="100 ms", beside=1, engines=2, lasts_s=60),
    Case(behaviour="down", form="1 s", lasts_s=4_200, drains=True),
    Case(behaviour="down", form="1 s", beside=1, lasts_s=120),
    Case(behaviour="gmail", form="100 ms"),
    Case(behaviour="gmail-429", form="100 ms", lasts_s=240),
    Case(behaviour="gmail-429", form="100 ms", beside=1, lasts_s=60),
    Case(behaviour="gmail-403", form="100 ms", lasts_s=90),
    Case(behaviour="gmail-hangs-at-draft", form="100 ms", beside=1, lasts_s=60),
    Case(behaviour="gmail-hangs-at-send", form="100 ms", beside=1, lasts_s=300),
    Case(behaviour="gmail-503-for-one", form="100 ms", lasts_s=480),
    Case(behaviour="gmail-401", form="100 ms", beside=1, lasts_s=60),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    case: Case
    worst_wait_s: float | None  # a newcomer's longest wait
    idle_share: float  # the idle share of the time during which accounts could have worked
    conversations: int
    doubts: int  # e-mails that must be resolved manually after the run
    stopped: int  # accounts that must be resumed manually after the run
    violations: tuple[Violation, ...]
    log: tuple[str, ...]  # the engines' log lines


def as_facts(result: Result) -> dict[str, Any]:
    """Returns the result for JSON output."""
    case = result.case
    return {
        "case": case.name,
        "provider": case.behaviour,
        "account": case.form,
        "accounts": case.beside + 1,
        "engines": case.engines,
        "packed": case.is_packed,
        "worst_wait_s": result.worst_wait_s,
        "idle_share": result.idle_share,
        "conversations": result.conversations,
        "left_to_a_person": {"emails": result.doubts, "accounts": result.stopped},
        "violations": [asdict(each) for each in result.violations],
        "log": list(result.log),
    }


@dataclass(frozen=True, slots=True)
class Arrival:
    """E-mails that arrive together. `is_newcomer` means that the sender has not sent e-mails before."""

    at_s: float
    workspace: str
    emails: tuple[dict[str, Any], ...]
    email_class: EmailClass
    is_newcomer: bool = True


def arrivals(case: Case) -> list[Arrival]:
    """Returns the arrivals of a whale, a sender with one deferred recipient, an abuser, and newcomers with urgent and
    bulk mail.
    """
    interval_s = min(each.interval_s for each in case.accounts)
    whale = math.ceil(min(1_200, max(60, min(30, case.lasts_s) / interval_s * len(case.accounts))))
    poison = POISON_AT_GMAIL if case.behaviour == "gmail-503-for-one" else POISON
    bulk, urgent = EmailClass.BULK, EmailClass.URGENT
    return [
        *([_arrival(case, 0, "whale", whale, case.whale, is_newcomer=False)] if case.whale is not None else []),
        _arrival(case, 5, "unlucky", 3, bulk, second=poison),
        _arrival(case, 5, ABUSER.partition(".")[0], 12, bulk, is_newcomer=not case.guilty),
        _arrival(case, 10, "early", 5, bulk),
        _arrival(case, 10, "prompt", 5, bulk),
        _arrival(case, 10, "codes", 3, urgent),
        _arrival(case, 15, "alerts", 1, urgent),
        _arrival(case, 20, "late", 1, bulk),
    ]


def _arrival(
    case: Case,
    at_s: float,
    workspace: str,
    n: int,
    email_class: EmailClass,
    *,
    second: str | None = None,
    is_newcomer: bool = True,
) -> Arrival:
    sender = {} if case.provider.is_gmail else {"from": f"news@{workspace}.test"}
    emails = tuple(
        {
            "workspace": workspace,
            "to": f"{second if second and number == 1 else f'{workspace}-{number}'}@there.test",
            "subject": "s",
            "text": "t",
            "pool": POOL,
            "class": email_class.value,
            "attempts_max": case.attempts_max,
            "on_doubt": "hold",
            **sender,
        }
        for number in range(n)
    )
    return Arrival(at_s * min(1.0, case.lasts_s / ARRIVE_S), workspace, emails, email_class, is_newcomer)


async def simulate_providers(
    url: str, cases: Sequence[Case], *, seed: int, progress: Callable[[int], None] = lambda _: None
) -> list[Result]:
    """Runs the cases in a virtual loop. `url` is a database with only the schema; each case gets a copy."""
    results = []
    for number, case in enumerate(cases):
        async with _copied(url, f"zoo_{number}") as own, virtual_store(own) as store:
            results.append(await run_case(store, case, seed=seed))
        progress(number + 1)
    return results


async def run_case(store: Store, case: Case, *, seed: int) -> Result:
    """Runs one case, which needs an empty database."""
    with chance.loaded(f"{seed} {case.name}"):
        return await _run_case(store, case, seed)


async def _run_case(store: Store, case: Case, seed: int) -> Result:
    start = clock.now()
    visits = Visits()
    watch = Watch(store, case.accounts, visits, start=start, guilty=case.guilty)

    async def begun(account: Account) -> None:
        await watch.begun(account, clock.now())

    visits.on_begin = begun
    for each in case.accounts:
        await store.add_account(
            each.account,
            address=f"{each.account}@post.test",
            pool=POOL,
            limits=each.limits,
            transport=SmtpSettings(host="127.0.0.1", port=9),
        )
    make_transport = _transports(case, visits, seed)
    log = list[str]()
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(
                engine(
                    store,
                    f"engine-{n}",
                    make_transport,
                    accounts_per_process=50 if case.is_packed else 1,
                    log=lambda event: log.append(event.code),
                )
            )
            for n in range(case.engines)
        ]
        arriving = asyncio.create_task(_arrive(store, case, watch, engines))
        ends_at = start + timedelta(seconds=case.lasts_s)
        while clock.now() < ends_at:
            await watch.look(clock.now())
            is_long = (clock.now() - start).total_seconds() > LONG_S
            await asyncio.sleep(LOOK_S_LONG if is_long else LOOK_S)
        await arriving
        ended_at = clock.now()
    await watch.finish(ended_at, drains=case.drains)
    return await result(store, case, watch, visits, log)


async def result(store: Store, case: Case, watch: Watch, visits: Visits, log: Sequence[str]) -> Result:
    doubts = await store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'in_doubt'")
    stopped = await store.value(
        "SELECT count(*) FROM fairpost.accounts WHERE status <> 'active' AND status_until IS NULL"
    )
    return Result(
        case=case,
        worst_wait_s=watch.worst_wait_s,
        idle_share=watch.idle_share,
        conversations=len(visits.all),
        doubts=doubts,
        stopped=stopped,
        violations=tuple(watch.violations),
        log=tuple(log),
    )


async def _arrive(store: Store, case: Case, watch: Watch, engines: Sequence[Orchestrator]) -> None:
    start = clock.now()
    for arrival in arrivals(case):
        await asyncio.sleep(max(0.0, arrival.at_s - (clock.now() - start).total_seconds()))
        if arrival.is_newcomer:
            watch.arrived(arrival.workspace, arrival.email_class, clock.now())
        await store.enqueue_many(arrival.emails)
        if len(arrival.emails) <= NOTIFIED_MAX:
            for each in engines:
                each.notified(POOL)


def _transports(case: Case, visits: Visits, seed: int) -> Callable[[Account], ClosableTransport]:
    """Returns a transport factory. A provider outlives the workers that connect to it, so the provider's state is
    kept.
    """
    watched = {each.account: each.behaviour for each in case.accounts}
    servers = {
        name: behaviour.smtp(chance.dice(f"{seed} {case.name} {name}"))
        for name, behaviour in watched.items()
        if behaviour.smtp is not None
    }
    emulators = {
        name: emulator(behaviour, f"{name}@post.test") for name, behaviour in watched.items() if behaviour.is_gmail
    }

    def transport(account: Account) -> ClosableTransport:
        if account.name in emulators:
            return SimulatedGmail(emulators[account.name], visits, user=account.address)
        return SimulatedSmtp(servers[account.name], visits)

    return transport


def emulator(behaviour: Behaviour, user: str) -> GmailEmulator:
    return GmailEmulator(
        [user],
        faults=behaviour.faults(),
        latency_s=TAKES_S / 3,  # each message is drafted, sent and read back
        units_per_minute=1_000_000,
        messages_per_day=1_000_000,
    )


# A pooler would keep sessions open, and a database that is in use cannot be copied.
_END_SESSIONS = "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE a.datname = '{}'"


@asynccontextmanager
async def _copied(url: str, name: str) -> AsyncIterator[str]:
    parts = urlsplit(url)
    template = parts.path.removeprefix("/")
    name = f"{template}_{name}"
    elsewhere = urlunsplit(parts._replace(path="/postgres"))
    await _execute(elsewhere, _END_SESSIONS.format(template))
    await _execute(elsewhere, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        await _execute(elsewhere, f'ALTER DATABASE "{name}" SET synchronous_commit = off')  # durability is not needed
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        await _execute(elsewhere, f'DROP DATABASE "{name}" WITH (FORCE)')


async def _execute(url: str, sql: str) -> None:
    conn = await connect(url, answer_s_max=None)
    try:
        await conn.execute(sql)
    finally:
        await conn.close()
