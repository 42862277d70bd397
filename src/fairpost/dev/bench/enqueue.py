"""Measures how many e-mails per second are accepted durably: one per transaction from eight connections, and in bulk.

For comparison, the same run measures the bare database: one INSERT of the same JSON into a table with a key.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from fairpost.dev.bench.workload import Progress, bench_database
from fairpost.store.connections import connect
from fairpost.system import clock

CONNECTIONS = 8
BULK_CONNECTIONS = 2
BULK = 1000
BODY = "A line of text as people write it in a message.\n" * 10

_ENQUEUE = "SELECT * FROM fairpost.enqueue($1)"
_ENQUEUE_MANY = "SELECT * FROM fairpost.enqueue_many($1)"
_RAW = "INSERT INTO raw (email) VALUES ($1)"
_RAW_MANY = "INSERT INTO raw (email) SELECT jsonb_array_elements($1::jsonb)"


async def bench_enqueue(url: str, progress: Progress, *, seconds: float = 8) -> dict[str, float]:
    async with bench_database(url) as own:
        conns = [await connect(own, answer_s_max=None) for _ in range(CONNECTIONS)]
        await conns[0].execute("CREATE TABLE raw (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email jsonb)")
        figures = {}
        for key, sql, size, n in (
            ("single_per_s", _ENQUEUE, 0, CONNECTIONS),
            ("raw_single_per_s", _RAW, 0, CONNECTIONS),
            ("bulk_per_s", _ENQUEUE_MANY, BULK, BULK_CONNECTIONS),
            ("raw_bulk_per_s", _RAW_MANY, BULK, BULK_CONNECTIONS),
        ):
            progress(f"{key} for {seconds:.0f} s")
            figures[key] = await rate(conns[:n], sql, size, seconds)
        for conn in conns:
            await conn.close()
    return figures


async def rate(conns: list[Any], sql: str, size: int, seconds: float) -> float:
    done = 0
    started = clock.monotonic()

    async def work(number: int, run: Callable[..., Awaitable[Any]]) -> None:
        nonlocal done
        turn = 0
        while clock.monotonic() < started + seconds:
            turn += 1
            emails = [_email(number, turn * max(size, 1) + i) for i in range(size or 1)]
            await run(sql, json.dumps(emails if size else emails[0]))
            done += len(emails)

    await asyncio.gather(*(work(i, conn.fetch) for i, conn in enumerate(conns)))
    return done / (clock.monotonic() - started)


def _email(sender: int, n: int) -> dict[str, str]:
    return {
        "to": f"person{n}@example.com",
        "from": f"news@sender{sender}.test",
        "subject": f"Message {n}",
        "text": BODY,
        "workspace": f"workspace{sender}",
        "user": "ann",
        "idempotency_key": f"{sender}-{n}-{started_at}",
    }


started_at = clock.monotonic()  # keeps the keys of different runs distinct
