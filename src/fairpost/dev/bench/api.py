"""Measures how many requests per second the HTTP service answers, with real processes, durable commits and sockets.

For comparison, the same run measures the framework alone, and the database alone with the same number of connections.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from typing import Any

from fairpost.dev.bench.beside import beside, ending
from fairpost.dev.bench.enqueue import rate
from fairpost.dev.bench.requests import SENDER_DOMAIN, Answers, email, one_email
from fairpost.dev.bench.workload import Progress, bench_database, p99, stage_all
from fairpost.model.account import Limits
from fairpost.model.errors import FairpostError
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan, Scope
from fairpost.store import workspaces
from fairpost.store.connections import connect
from fairpost.store.store import Store
from fairpost.system import clock

CLIENTS = 2  # processes
BULK_CONNECTIONS = 2
# number of e-mails per request, for each figure
BULK_LINES = {"api_bulk_per_s_1000": 1_000, "api_bulk_per_s_10000": 10_000}
RATE_MAX = 1_000_000  # requests per minute; a limit that the benchmark cannot reach
LIMIT = 1_000_000_000  # per user; e-mails are counted as usual, but never reach this limit
LIMITS = {
    "FAIRPOST_USER_DAILY_MAX": str(LIMIT),
    "FAIRPOST_USER_WAITING_MAX": str(LIMIT),
    "FAIRPOST_CLIENT_CONNECTIONS_MAX": "1000",  # all connections come from this machine
}
WARM_S = 1.0  # time for processes to start and connect, and for statements to be planned
STAGE_EVERY_S = 0.25
START_S_MAX = 60.0


async def bench_api(
    url: str, progress: Progress, *, seconds: float = 5, processes: int = 2, connections: int = 16
) -> dict[str, float]:
    figures: dict[str, float] = {}
    warm_s, bulk_connections = min(WARM_S, seconds), min(BULK_CONNECTIONS, connections)
    async with bench_database(url) as own:
        async with running_server("-m", "fairpost.dev.bench.framework", str(processes)) as port:
            progress("framework_per_s: the framework alone")
            await _asked(port, "single", "-", seconds=warm_s, connections=connections)
            asked = await _asked(port, "single", "-", seconds=seconds, connections=connections)
            figures["framework_per_s"] = asked.per_s
        figures |= await _database_alone(own, progress, seconds=seconds, connections=connections)
        listen = ("--listen", "127.0.0.1:0", "--processes", str(processes))
        async with (
            Store.open(own) as store,
            _staging(store),
            running_server("-m", "fairpost", "api", *listen, url=own) as port,
        ):
            key = await _key(store)
            figures |= await _statements_per_s(own, key, progress, seconds=seconds, connections=connections)
            progress("api_single_per_s: one e-mail per request")
            await _asked(port, "single", key, seconds=warm_s, connections=connections)
            asked = await _asked(port, "single", key, seconds=seconds, connections=connections)
            figures |= {"api_single_per_s": asked.per_s, **asked.latencies("api_single")}
            for name, lines in BULK_LINES.items():
                progress(f"{name}: {lines:,} e-mails per request")
                asked = await _asked(port, f"bulk:{lines}", key, seconds=seconds, connections=bulk_connections)
                figures[name] = asked.per_s * lines
            email_id = await _an_id(port, key)
            for name, path in (("show", f"/v1/emails/{email_id}"), ("list", "/v1/emails?limit=50")):
                progress(f"api_{name}_per_s: GET {path}")
                asked = await _asked(port, f"get:{path}", key, seconds=seconds, connections=connections)
                figures |= {f"api_{name}_per_s": asked.per_s, **asked.latencies(f"api_{name}")}
    return figures


async def _database_alone(url: str, progress: Progress, *, seconds: float, connections: int) -> dict[str, float]:
    conns = [await connect(url, answer_s_max=None) for _ in range(connections)]
    progress("database_single_per_s: fairpost.enqueue alone")
    single = await rate(conns, "SELECT * FROM fairpost.enqueue($1)", 0, seconds)
    progress("database_bulk_per_s: fairpost.enqueue_many alone")
    bulk = await rate(conns[:BULK_CONNECTIONS], "SELECT * FROM fairpost.enqueue_many($1)", 1_000, seconds)
    for conn in conns:
        await conn.close()
    return {"database_single_per_s": single, "database_bulk_per_s": bulk}


async def _statements_per_s(
    url: str, key: str, progress: Progress, *, seconds: float, connections: int
) -> dict[str, float]:
    """Measures only the database statements of a request, both individually and together."""
    _, _, key_id, secret = key.split("_", 3)

    async def enter(store: Store, _: str) -> None:
        await workspaces.enter(store, key_id, secret)

    async def submit(store: Store, mail: str) -> None:
        await store.fetch("SELECT * FROM fairpost.submit($1, $2)", "bench", mail)

    async def submit_limited(store: Store, mail: str) -> None:
        await store.fetch("SELECT * FROM fairpost.submit($1, $2, $3, $3)", "bench", mail, LIMIT)

    async def request(store: Store, mail: str) -> None:
        await enter(store, mail)
        await submit_limited(store, mail)

    parts = {
        "database_enter_per_s": enter,
        "database_submit_unlimited_per_s": submit,
        "database_submit_limited_per_s": submit_limited,
        "database_submit_per_s": request,
    }
    figures: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(Store.open(url, connections_max=1)) for _ in range(connections)]
        for name, ask in parts.items():
            progress(f"{name}: only the statements that a request runs")
            figures[name] = await _asked_per_s(stores, name, ask, seconds=seconds)
    return figures


async def _asked_per_s(
    stores: Sequence[Store], name: str, ask: Callable[[Store, str], Awaitable[None]], *, seconds: float
) -> float:
    done = 0
    started_s = clock.monotonic()

    async def work(number: int, store: Store) -> None:
        nonlocal done
        turn = 0
        while clock.monotonic() < started_s + seconds:
            await ask(store, json.dumps([email(f"{name}-{number}-{turn}")]))
            turn += 1
            done += 1

    await asyncio.gather(*(work(number, store) for number, store in enumerate(stores)))
    return done / (clock.monotonic() - started_s)


async def _key(store: Store) -> str:
    await workspaces.add_workspace(store, "bench", loans=[Loan("default", (PROVEN, ACCOUNT))])
    await workspaces.set_rate(store, "bench", 1_000_000)
    await workspaces.add_domain(store, "bench", SENDER_DOMAIN)
    await workspaces.domain_checked(store, "bench", SENDER_DOMAIN, proven_by="bench")
    made = workspaces.add_key(
        store, "bench", region="main", name="bench", scopes=tuple(Scope), by="bench", per_minute=RATE_MAX
    )
    return (await made)[1]


@asynccontextmanager
async def _staging(store: Store) -> AsyncIterator[None]:
    """Absorbs arrivals as an engine does. Otherwise, the arrivals would accumulate and count towards limits."""

    async def work() -> None:
        while True:
            while await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])"):
                pass
            await asyncio.sleep(STAGE_EVERY_S)

    await store.add_account("bench", address="bench@post.test", limits=Limits())
    await stage_all(store)
    async with beside(work()):
        yield


async def _an_id(port: int, key: str) -> str:
    _, client = await asyncio.get_running_loop().create_connection(Answers, "127.0.0.1", port)
    answer = await client.ask(one_email("/v1/emails", key, "shown"))
    client.close()
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["data"]["id"])


class Asked:
    """The combined results of all clients."""

    def __init__(self, seen: list[dict[str, Any]]) -> None:
        self.times_ms: list[float] = [time for client in seen for time in client["times_ms"]]
        self.per_s = sum(len(client["times_ms"]) / client["taken_s"] for client in seen)

    def latencies(self, name: str) -> dict[str, float]:
        return {f"{name}_ms_p50": median(self.times_ms), f"{name}_ms_p99": p99(self.times_ms)}


async def _asked(port: int, kind: str, key: str, *, seconds: float, connections: int) -> Asked:
    clients = min(CLIENTS, connections)
    shares = [connections // clients + (number < connections % clients) for number in range(clients)]
    runs = [_client(port, kind, key, str(seconds), str(share), number) for number, share in enumerate(shares)]
    return Asked(await asyncio.gather(*runs))


_runs = 0


async def _client(port: int, kind: str, key: str, seconds: str, connections: str, number: int) -> dict[str, Any]:
    global _runs
    _runs += 1
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairpost.dev.bench.requests", str(port), kind, key, seconds, connections, f"r{_runs}"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    if process.returncode != 0:
        raise FairpostError(f"client {number} of the benchmark failed")
    seen: dict[str, Any] = json.loads(said)
    return seen


@asynccontextmanager
async def running_server(*command: str, url: str | None = None) -> AsyncIterator[int]:
    """Yields the port that the server answers on."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        env={**os.environ, **({"FAIRPOST_DATABASE_URL": url, **LIMITS} if url else {})},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async with ending(process):
        async with asyncio.timeout(START_S_MAX):
            said = await process.stderr.readline()
        port = re.search(rb"http://127\.0\.0\.1:([0-9]+)", said)
        if port is None:
            raise FairpostError(f"the service did not start: {said.decode().strip()}")
        drain = asyncio.create_task(process.stderr.read())
        yield int(port[1])
    await drain
