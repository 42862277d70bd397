"""The factory of the PgQueuer peer. As a script, it reads e-mails as JSON and enqueues a job for each."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from mailing import send  # type: ignore[import-not-found]
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.models import Job  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]


@asynccontextmanager
async def main() -> AsyncIterator[Any]:
    pgq = PgQueuer.from_asyncpg_connection(await asyncpg.connect())

    async def send_email(job: Job) -> None:
        await send(json.loads(job.payload))

    pgq.entrypoint("send_email")(send_email)
    yield pgq


async def enqueue() -> None:
    emails = json.load(sys.stdin)
    connection = await asyncpg.connect()
    await Queries(AsyncpgDriver(connection)).enqueue(
        ["send_email"] * len(emails), [json.dumps(email).encode() for email in emails], [0] * len(emails)
    )
    await connection.close()


if __name__ == "__main__":
    asyncio.run(enqueue())
