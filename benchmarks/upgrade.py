"""Measures an upgrade under load: a million e-mails are queued, an old engine sends, and callers keep transactions open.

    python benchmarks/upgrade.py OLD NEW        # folders of the old and the new version, each with .venv/bin/fairpost

Prints how long enqueues had to wait during the migration, compared with the usual wait, and how the old engine ended.
It uses its own embedded PostgreSQL, which is removed afterwards.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import asyncpg

FILL = """
WITH mail AS (
    INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, created_at, content_id, class, on_doubt, route, workspace, domain,
        user_name, stream, recipients, addresses)
    SELECT fairpost.new_id(), fairpost.flow_of('default', 'bulk', w, 'd.test', 'u', 's'), clock_timestamp(), 4, clock_timestamp(), $3,
        'bulk', 'hold', 'default', w, 'd.test', 'u', 's', '[{"kind": "to", "address": "p@there.test"}]', ARRAY['p@there.test']
    FROM unnest($1::text[]) w CROSS JOIN generate_series(1, $2)
    RETURNING *
)
INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, due_at, id)
SELECT route, class, workspace, domain, user_name, stream, flow, count(*), min(due_at), min(id) FROM mail GROUP BY 1, 2, 3, 4, 5, 6, 7
"""
HELLO = json.dumps([{"to": "ann@there.test", "from": "x@d.test", "subject": "s", "text": "t", "workspace": "caller"}])


class Callers:
    """Enqueue in parallel and measure how long each call waits. Some callers keep their transactions open for seconds.

    They alternate between the owner's login and the login of an application that may enqueue for all workspaces.
    """

    def __init__(self, url: str, shop_url: str) -> None:
        self.urls = itertools.cycle([url, shop_url])
        self.waits: list[tuple[float, float]] = []  # when it began, how long it took
        self.errors: list[str] = []
        self.is_over = False

    async def run(self, *, quick: int = 6, slow: int = 3) -> None:
        await asyncio.gather(*(self._call(0.02) for _ in range(quick)), *(self._call(3.0) for _ in range(slow)))

    async def _call(self, open_s: float) -> None:
        conn = await asyncpg.connect(next(self.urls))
        while not self.is_over:
            try:
                async with conn.transaction():
                    began = time.monotonic()
                    (row,) = await conn.fetch("SELECT * FROM fairpost.enqueue_many($1)", HELLO)
                    self.waits.append((began, time.monotonic() - began))
                    if row["error"]:
                        self.errors.append(str(row["error"]))
                    await asyncio.sleep(open_s * random.random())
            except asyncpg.PostgresError as error:
                self.errors.append(f"{type(error).__name__}: {error}")
        await conn.close()

    def longest_ms(self, since: float, until: float) -> float:
        return max((took for at, took in self.waits if since - 1 <= at <= until), default=0.0) * 1000


def fairpost(folder: Path, *arguments: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [folder / ".venv/bin/fairpost", *arguments], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def start(folder: Path, *arguments: str, env: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as out:
        return subprocess.Popen([folder / ".venv/bin/fairpost", *arguments], env=env, stdout=out, stderr=out)


async def measure(old: Path, new: Path, emails: int, home: Path) -> bool:
    env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRPOST_")} | {
        "FAIRPOST_HOME": str(home)
    }
    fairpost(old, "db", "start", env=env)
    url = fairpost(old, "db", "url", env=env)
    env["FAIRPOST_DATABASE_URL"] = url
    inbox = start(old, "inbox", "serve", "--port", "20259", env=env, log=home / "inbox.log")
    engines = []
    try:
        fairpost(old, "db", "migrate", env=env)
        for name in "abcd":
            fairpost(
                old,
                "account",
                "add",
                name,
                "--from",
                f"{name}@d.test",
                "--smtp",
                "smtp://127.0.0.1:20259",
                "--delay-ms",
                "50",
                env=env,
            )
        conn = await asyncpg.connect(url)
        (first,) = await conn.fetch("SELECT * FROM fairpost.enqueue_many($1)", HELLO)
        content = await conn.fetchval("SELECT content_id FROM fairpost.queue WHERE id = $1", first["id"])
        for part in range(10):
            await conn.execute(FILL, [f"w{part}-{n}" for n in range(10)], emails // 100, content)
        log = home / "old-engine.log"
        engine = start(old, "work", env=env, log=log)
        engines.append(engine)
        await conn.execute("CREATE ROLE shop LOGIN")
        fairpost(old, "db", "grant", "shop", "--all-workspaces", env=env)
        callers = Callers(url, url.replace("//fairpost@", "//shop@"))
        calling = asyncio.create_task(callers.run())
        await asyncio.sleep(10)
        began = time.monotonic()
        migrated = await asyncio.create_subprocess_exec(
            new / ".venv/bin/fairpost", "db", "migrate", env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        said, _ = await migrated.communicate()
        ended = time.monotonic()
        for _ in range(300):
            if engine.poll() is not None:
                break
            await asyncio.sleep(0.1)
        stopped = time.monotonic()
        sent_by = await conn.fetchval("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'")
        engines.append(start(new, "work", env=env, log=home / "new-engine.log"))
        await asyncio.sleep(10)
        callers.is_over = True
        await calling
        after = await conn.fetchval("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'")
        doubts = await conn.fetchval("SELECT count(*) FROM fairpost.queue WHERE state = 'in_doubt'")
        waiting = await conn.fetchval("SELECT count(*) FROM fairpost.queue")
        await conn.close()
        print(f"migration: {migrated.returncode}, {ended - began:.1f} s: {said.decode().strip().splitlines()[-1]}")
        print(
            f"waiting: {waiting:,}; enqueued meanwhile: {len(callers.waits):,}; failed: {len(callers.errors)} {callers.errors[:2]}"
        )
        print(
            f"longest enqueue before: {callers.longest_ms(0, began - 1):.0f} ms; during the migration: {callers.longest_ms(began, ended):.0f} ms"
        )
        print(
            f"the old engine ended with {engine.poll()}, {stopped - ended:.1f} s after the migration; last line: {log.read_text().strip().splitlines()[-1]}"
        )
        print(f"in doubt: {doubts}; sent before: {sent_by}; by the new engine in 10 s: {after - sent_by}")
        return (
            not callers.errors
            and callers.longest_ms(began, ended) <= 1000
            and engine.poll() is not None
            and after > sent_by
        )
    finally:
        for process in [*engines, inbox]:
            process.terminate()
            process.wait()
        del env["FAIRPOST_DATABASE_URL"]
        fairpost(old, "db", "stop", env=env)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--emails", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fairpost-upgrade-") as home:
        holds = asyncio.run(measure(given.old.resolve(), given.new.resolve(), given.emails, Path(home)))
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
