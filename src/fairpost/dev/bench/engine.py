"""A real engine for benchmarks: `fairpost work` in its own processes, on the benchmark's database."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fairpost.dev.bench.beside import ending
from fairpost.model.account import Limits
from fairpost.model.errors import FairpostError
from fairpost.model.ids import AccountId
from fairpost.model.transport import Security
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings

DOMAIN = "example.com"  # the accounts' sender domain


@asynccontextmanager
async def running_engine(url: str, *options: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[int]:
    """Yields the PID of the engine's parent process once the engine is ready."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairpost", "work", "--ends-with-stdin", *options),
        env={**os.environ, "FAIRPOST_DATABASE_URL": url, **(environment or {})},
        stdin=asyncio.subprocess.PIPE,  # a benchmark that is killed does not leave an engine behind
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    async with ending(process):
        said = b""
        while b"engine.started" not in said:
            said = await process.stderr.readline()
            if not said:
                raise FairpostError("the engine did not start")
        drain = asyncio.create_task(process.stderr.read())
        yield process.pid
    await drain


async def add_accounts(store: Store, n: int, *, host: str, port: int, first: int = 0) -> list[AccountId]:
    server = SmtpSettings(host=host, port=port, security=Security.NONE)
    return [
        await store.add_account(f"bench{i}", address=f"bench{i}@{DOMAIN}", limits=Limits(), transport=server)
        for i in range(first, first + n)
    ]


def children(pid: int) -> list[int]:
    """Returns all descendants of this process."""
    found: list[int] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *children(int(child))]
    return found


def private_kb(pid: int) -> int:
    """Returns the amount of a process's private memory, which is not shared with its parent."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
