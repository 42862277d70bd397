"""Regions that each have a PostgreSQL server, which can be killed and restarted."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from fairpost.store.store import Store
from tests.chaos.driver import until
from tests.chaos.processes import still_alive
from tests.regions.conftest import NAMES
from tests.simulation.world import draft


@dataclass
class Land:
    """A region with everything of its own except the machine."""

    name: str
    server: EmbeddedServer
    url: str

    async def enqueue(self, n: int) -> None:
        async with Store.open(self.url) as store:
            rows = await store.enqueue_many([draft(to=f"{self.name}{i}@there.test", attempts_max=10) for i in range(n)])
            assert all(row["id"] for row in rows)

    async def kill(self) -> None:
        pid = self.server.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not still_alive([pid]), "PostgreSQL is dead")

    async def start(self) -> None:
        assert await asyncio.to_thread(self.server.start) == self.url


@asynccontextmanager
async def lands(names: Sequence[str] = NAMES) -> AsyncIterator[dict[str, Land]]:
    folder = Path(tempfile.mkdtemp(prefix="fp"))
    servers = {name: EmbeddedServer(folder / name, settings={"shared_buffers": "32MB"}) for name in names}
    try:
        # One after the other: a newly forked child of one would still hold the lock of another.
        urls = [await asyncio.to_thread(server.start) for server in servers.values()]
        for url in urls:
            conn = await asyncpg.connect(url)
            await migrate(conn)
            await conn.close()
        yield {name: Land(name, servers[name], url) for name, url in zip(names, urls, strict=True)}
    finally:
        for server in servers.values():
            await asyncio.to_thread(server.stop, "immediate")
        shutil.rmtree(folder, ignore_errors=True)
