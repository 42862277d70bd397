"""Measures how fast a million prospects are read and imported, and with how much memory, compared with a bare
`csv.reader` in the same run.

Each of the three runs in a separate process, so that its peak memory can be measured. Rates are given per second of
elapsed time and of CPU time, which other programs affect less.
"""

import asyncio
import csv
import io
import json
import multiprocessing
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time

import asyncpg

from fairpost.model.prospect import ProspectLine
from fairpost.prospects.csv_reader import read_prospects
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from fairpost.store.prospects import import_prospects

LINES = 1_000_000
LINES_PER_S_MIN = 60_000
IMPORTED_PER_S_MIN = 20_000
PEAK_MB_MAX = 150
ROUNDS = 3

Figures = dict[str, float]


def write(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["E-Mail", "First Name", "Last Name", "Company", "Time Zone", "ID", "City", "Notes"])
        for i in range(LINES):
            note = 'said "hello", then\nleft' if i % 10 == 0 else ""
            zone = ("Europe/Vienna", "America/New_York", "")[i % 3]
            company = f"Company {i % 5000}, Inc."
            writer.writerow(
                [f"Person.{i}@company{i % 5000}.example", "Jörg", f"Lee {i}", company, zone, i, "Graz", note]
            )


def bare(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as file:
        return sum(1 for _ in csv.reader(file)) - 1


def read(path: Path) -> int:
    with path.open("rb") as file:
        return sum(isinstance(line, ProspectLine) for line in read_prospects(file))


def imported(path: Path) -> int:
    """Imports into a PostgreSQL that writes to disk as usual. The time to start PostgreSQL is not included."""

    async def run(url: str) -> int:
        conn = await asyncpg.connect(url)
        try:
            with path.open("rb") as file:
                done = await import_prospects(
                    conn, read_prospects(file), workspace="bench", list_name="bench", skip_bad=False
                )
            return done.added
        finally:
            await conn.close()

    return asyncio.run(run(os.environ["BENCH_URL"]))


async def emptied(url: str) -> None:
    conn = await asyncpg.connect(url)
    await migrate(conn)
    await conn.execute("TRUNCATE fairpost.prospects, fairpost.lists, fairpost.list_members")
    await conn.close()


WAYS: dict[str, tuple[str, Callable[[Path], int]]] = {
    "read": (f"read and checked (to reach: {LINES_PER_S_MIN:,}/s, below {PEAK_MB_MAX} MB)", read),
    "imported": (
        f"read, checked, and written to a new list (to reach: {IMPORTED_PER_S_MIN:,}/s, below 200 MB)",
        imported,
    ),
    "bare": ("for comparison: a bare csv.reader", bare),
}


def measured(way: str, path: Path) -> Figures:
    started, worked = perf_counter(), process_time()
    count = WAYS[way][1](path)
    assert count == LINES, f"{way} found {count:,} lines of {LINES:,}"
    return {
        "lines_per_s": LINES / (perf_counter() - started),
        "lines_per_cpu_s": LINES / (process_time() - worked),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    }


def best(rounds: list[Figures]) -> Figures:
    """Returns the figures of the fastest run, because other programs disturbed the slower ones, and the highest peak."""
    return {key: max(figures[key] for figures in rounds) for key in rounds[0]}


@contextmanager
def running(home: Path) -> Iterator[str]:
    server = EmbeddedServer(home)
    try:
        yield server.start()
    finally:
        server.stop("immediate")


def main() -> None:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="fp") as folder, running(Path(folder) / "home") as url:
        os.environ["BENCH_URL"] = url
        path = Path(folder) / "prospects.csv"
        write(path)
        rounds: dict[str, list[Figures]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, found in rounds.items():
                asyncio.run(emptied(url))
                with ProcessPoolExecutor(1, mp_context=context) as pool:
                    found.append(pool.submit(measured, way, path).result())
        megabytes = path.stat().st_size / 1e6
    figures = {way: best(found) for way, found in rounds.items()}
    table = io.StringIO()
    print(f"{LINES:,} lines, {megabytes:.0f} MB, best of {ROUNDS}; load {os.getloadavg()[0]:.1f}", file=table)
    print(f"{'lines/s':>12} {'per CPU s':>12} {'peak MB':>8}", file=table)
    for way, (meaning, _) in WAYS.items():
        rate, cpu_rate, peak_mb = figures[way].values()
        print(f"{rate:>12,.0f} {cpu_rate:>12,.0f} {peak_mb:>8.0f}  {meaning}", file=table)
    print(table.getvalue())
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
