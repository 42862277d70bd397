"""Measures the size and cost of the pages when there is a long history. The figures are the size and load time of the
first page, the time to update each live topic, and the load that viewers cause on the database. Like a browser, the benchmark
connects to a real service over real sockets. For comparison, the same run measures the load that one viewer causes, and
a plain count of the queue.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from fairpost.api.access import SESSION_COOKIE
from fairpost.api.routes.pages import FILES
from fairpost.api.topics import TOPICS
from fairpost.auth.membership import local_operator_link
from fairpost.dev.bench.api import running_server
from fairpost.dev.bench.pages import BIG, fill_history
from fairpost.dev.bench.workload import Progress, bench_database, fill, stage_all
from fairpost.model.account import Limits
from fairpost.store.store import Store
from fairpost.system import clock

EMAILS = 1_000_000
SENDERS, EACH = 1_000, 100  # queued
ACCOUNTS = 20
LOOKS = 20
WATCHERS = 200
WATCH_S = 10.0
BOOKED_S = 12.0  # time until PostgreSQL records statistics for idle connections, such as those used for sign-ins
_IMPORTS = re.compile(r"""(?:from|import\()\s*["'](\.[^"']+)["']""")
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_STATE = b"event: state"


async def bench_dashboard(
    url: str, progress: Progress, *, emails: int = EMAILS, watchers: int = WATCHERS
) -> dict[str, float]:
    async with bench_database(url) as own, Store.open(own) as store:
        await fill_history(store, emails, progress)
        await _fill_queue(store, progress)
        link = await local_operator_link(store, "http://bench")
        assert link is not None
        async with running_server(
            "-m", "fairpost", "api", "--listen", "127.0.0.1:0", "--processes", "1", url=own
        ) as port:
            browser = await Browser.entered(port, link.partition("token=")[2])
            figures = await _first_page(browser, progress)
            for topic in TOPICS:
                for scope, query in (("all", ""), ("big", f"?workspace={BIG}")):
                    progress(f"{topic}_ms_{scope}: until the first state is received")
                    figures |= await _topic(browser, f"/v1/live/{topic}{query}", f"{topic}_ms_{scope}")
            figures |= await _watching(store, browser, progress, watchers)
        counted = [await _timed(store.value("SELECT count(*) FROM fairpost.queue")) for _ in range(LOOKS)]
        return figures | {"plain_count_ms": median(counted)}


async def _fill_queue(store: Store, progress: Progress) -> None:
    progress(f"{SENDERS * EACH:,} e-mails of {SENDERS:,} workspaces are waiting")
    for number in range(ACCOUNTS):
        await store.add_account(f"account{number}", address=f"a{number}@post.test", limits=Limits(hourly_max=100))
    names = [f"sender{number}" for number in range(SENDERS)]
    for at in range(0, SENDERS, 100):
        await fill(store, names[at : at + 100], EACH)
    await fill(store, [BIG], EACH * 10)
    await stage_all(store)


async def _first_page(browser: "Browser", progress: Progress) -> dict[str, float]:
    """Requests everything that a browser needs until the overview page is ready, one request at a time."""
    progress("first_page_ms: all of a browser's requests, until the first state")
    times, size = [], 0
    for _ in range(LOOKS):
        began_s, size = clock.monotonic(), 0
        for path in (
            "/",
            "/static/chart.css",
            "/static/icon.svg",
            *(f"/static/{name}" for name in _files()),
            "/v1/auth/session",
        ):
            size += len(await browser.get(path))
        async with browser.stream("/v1/live/now") as events:
            size += len(await anext(events))
        times.append((clock.monotonic() - began_s) * 1000)
    return {"first_page_bytes": size, "first_page_ms": median(times), "first_page_requests": len(_files()) + 5}


def _files() -> list[str]:
    """Returns the files that the overview page loads."""
    todo, found = ["app.css", "app.js", "pages/now.js"], dict[str, None]()
    while todo:
        name = todo.pop()
        found[name] = None
        folder = f"{name.rpartition('/')[0]}/" if "/" in name else ""
        for path in _IMPORTS.findall(FILES[name].content.decode()):
            beside = re.sub(r"[^/]+/\.\./", "", f"{folder}{path}".replace("/./", "/").removeprefix("./"))
            if not beside.startswith("pages/") and beside not in found:
                todo.append(beside)
    return list(found)


async def _topic(browser: "Browser", path: str, name: str) -> dict[str, float]:
    times = []
    for _ in range(3):  # the first read may be slow, but later viewers of the same topic need not wait for a read
        began_s = clock.monotonic()
        async with browser.stream(path) as events:
            await anext(events)
        times.append((clock.monotonic() - began_s) * 1000)
    return {name: median(times)}


async def _watching(store: Store, browser: "Browser", progress: Progress, watchers: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, many in (("commits_per_s_1", 1), ("commits_per_s_many", watchers)):
        progress(f"{name}: statements per second with {many} viewers")
        async with asyncio.TaskGroup() as group:
            inside = asyncio.Semaphore(0)
            tasks = [group.create_task(_watch(browser, inside)) for _ in range(many)]
            for _ in tasks:
                await inside.acquire()
            await asyncio.sleep(BOOKED_S)
            before, began_s = await store.value(_COMMITS), clock.monotonic()
            await asyncio.sleep(WATCH_S)
            seconds = clock.monotonic() - began_s
            figures[name] = (await store.value(_COMMITS) - before) / seconds
            for task in tasks:
                task.cancel()
    return figures


async def _watch(browser: "Browser", inside: asyncio.Semaphore) -> None:
    async with browser.stream("/v1/live/now") as events:
        await anext(events)
        inside.release()
        async for _ in events:
            pass


async def _timed(asked: "object") -> float:
    began_s = clock.monotonic()
    await asked  # type: ignore[misc]
    return (clock.monotonic() - began_s) * 1000


class Browser:
    """A minimal browser, with a cookie, sequential requests on a persistent connection, and streams."""

    def __init__(self, port: int, cookie: str) -> None:
        self._port = port
        self._cookie = cookie
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @classmethod
    async def entered(cls, port: int, token: str) -> "Browser":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps({"token": token}).encode()
        head = f"POST /v1/auth/enter HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        found = re.search(rf"{SESSION_COOKIE}=([^;]+)".encode(), answer)
        assert found is not None, answer
        return cls(port, found[1].decode())

    async def get(self, path: str) -> bytes:
        """Returns the response as received over the wire."""
        if self._line is None:
            self._line = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._line
        writer.write(self._request(path))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n")[0], head
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        return head + await reader.readexactly(int(length[1]))

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=4_194_304)
        try:
            writer.write(self._request(path))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.split(b"\r\n")[0], head
            yield self._states(reader)
        finally:
            writer.close()

    async def _states(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while True:
            event = await reader.readuntil(b"\n\n")
            if _STATE in event:
                yield event

    def _request(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\nCookie: {SESSION_COOKIE}={self._cookie}\r\n\r\n".encode()
