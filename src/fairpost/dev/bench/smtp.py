"""Measures messages per second over one connection and over eight connections, compared with aiosmtplib.

Both clients use the same event loop, the same server and the same 5 KB message. The clients take turns so that other
load on the machine affects both of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairpost.dev.bench.compose import bench_message
from fairpost.dev.bench.sink import running_sink
from fairpost.model.errors import FairpostError
from fairpost.smtp.courier import Courier
from fairpost.smtp.server import Security, Server
from fairpost.system import clock

CONNECTIONS = (1, 8)
ROUNDS = 5
ROUND_S = 2.0
MESSAGES_PER_CONNECTION = 100  # Fairpost's client applies this limit itself; with aiosmtplib, the caller must apply it

Carry = Callable[[str, int, float], Awaitable[int]]


async def bench_smtp(progress: Callable[[str], None], *, server: tuple[str, int] | None = None) -> dict[str, float]:
    if server is not None:
        return await _measure(*server, progress)
    async with running_sink() as (host, port, _):
        return await _measure(host, port, progress)


async def _measure(host: str, port: int, progress: Callable[[str], None]) -> dict[str, float]:
    peers: dict[str, Carry] = {"smtp_per_s": _ours, "aiosmtplib_per_s": _theirs()}
    seen: dict[str, list[float]] = {}
    for turn in range(ROUNDS):
        for n in CONNECTIONS:
            for name, carry in peers.items():
                progress(f"round {turn + 1} of {ROUNDS}: {name}, {n} connections")
                seen.setdefault(f"{name}_{n}", []).append(await _rate(carry, host, port, n))
    figures = {key: sorted(rates)[ROUNDS // 2] for key, rates in seen.items()}
    for n in CONNECTIONS:
        figures[f"times_aiosmtplib_{n}"] = figures[f"smtp_per_s_{n}"] / figures[f"aiosmtplib_per_s_{n}"]
    return figures


async def _rate(carry: Carry, host: str, port: int, connections: int) -> float:
    started_s = clock.monotonic()
    until_s = started_s + ROUND_S
    done = await asyncio.gather(*(carry(host, port, until_s) for _ in range(connections)))
    return sum(done) / (clock.monotonic() - started_s)


async def _ours(host: str, port: int, until_s: float) -> int:
    courier = Courier(Server(host=host, port=port, security=Security.NONE))
    message = bench_message(1)
    done = 0
    while clock.monotonic() < until_s:
        report = await courier.send(message, permission=lambda: True)
        if report.reply is None or report.reply.code != 250:
            raise FairpostError(f"{host}:{port} did not accept a message: {report.reply or report.error}")
        done += 1
    await courier.close()
    return done


def _theirs() -> Carry:
    import aiosmtplib

    async def carry(host: str, port: int, until_s: float) -> int:
        message = bench_message(1)
        done = 0
        client: Any = None
        while clock.monotonic() < until_s:
            if done % MESSAGES_PER_CONNECTION == 0:
                if client is not None:
                    await client.quit()
                client = aiosmtplib.SMTP(hostname=host, port=port, start_tls=False)
                await client.connect()
            await client.sendmail(message.sender, list(message.recipients), message.data)
            done += 1
        await client.quit()
        return done

    return carry
