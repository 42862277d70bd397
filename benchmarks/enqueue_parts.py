"""Measures how much CPU time per e-mail each part of enqueueing costs in the database.

    PYTHONPATH=. python benchmarks/enqueue_parts.py          # takes half a minute, with its own embedded PostgreSQL

There is a single connection, and the CPU time is that of the database process that serves it. The parts are measured
in turns, without waiting for the disk (`synchronous_commit` is off). The lowest figure of all rounds counts, because
other programs can only increase it.
"""

import asyncio
import json
import tempfile
from pathlib import Path

import asyncpg

from fairpost.dev.bench.workload import bench_database
from fairpost.store.embedded import EmbeddedServer

ROUNDS, SINGLE, BULK = 30, 40, 1000
BODY = "A line of text as people write it in a message.\n" * 10
QUEUE = """INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, created_at, content_id, class, on_doubt, route, workspace, domain, user_name, stream,
    sender, recipients, addresses, idempotency_key) VALUES (id, 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', t, 5, t, id, 'urgent', 'resend', 'default', 'w', 's.test', 'ann', '',
    '{"address": "news@s.test"}', '[{"kind": "to", "address": "a@b.test"}]', '{a@b.test}', id)"""
PARTS = {
    "an empty function": "NULL",
    "fields and check": """DECLARE o CONSTANT fairpost.plain_fields := jsonb_populate_record(NULL::fairpost.plain_fields, email);
                           BEGIN IF fairpost.is_plain(email, o, NULL) THEN NULL; END IF; END""",
    "key": "INSERT INTO fairpost.idempotency_keys VALUES (gen_random_uuid(), id) ON CONFLICT DO NOTHING",
    "content": "INSERT INTO fairpost.contents (id, subject, text_body, created_at) VALUES (id, email ->> 'subject', email ->> 'text', t)",
    "note": """INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
               VALUES ('default', 'urgent', 'w', 's.test', 'ann', '', 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', 1, 1, t, id)""",
    "queue row": QUEUE,
}
ONE_BY_ONE = {
    "bare INSERT": "INSERT INTO raw (email) VALUES ($1)",
    **{name: f'SELECT "{name}"($1)' for name in PARTS},
    "fairpost.enqueue, plain": "SELECT * FROM fairpost.enqueue($1)",
    "fairpost.enqueue, with reply_to": """SELECT * FROM fairpost.enqueue($1::jsonb || '{"reply_to": "a@b.test"}')""",
}
TOGETHER = {
    "bare INSERT, 1,000 at a time": "INSERT INTO raw (email) SELECT jsonb_array_elements($1::jsonb)",
    "fairpost.enqueue_many, 1,000 at a time": "SELECT * FROM fairpost.enqueue_many($1)",
}


def email(number: int) -> dict[str, str]:
    return {
        "to": f"person{number}@example.com",
        "from": "news@sender.test",
        "subject": f"Message {number}",
        "text": BODY,
        "workspace": "w",
        "user": "ann",
        "idempotency_key": f"key {number}",
    }


def spent_us(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1000


async def measure(url: str) -> None:
    async with bench_database(url) as own:
        conn = await asyncpg.connect(own)
        await conn.execute("SET synchronous_commit = off; CREATE TABLE raw (id bigserial PRIMARY KEY, email jsonb)")
        for name, body in PARTS.items():
            await conn.execute(
                f"""CREATE FUNCTION "{name}"(email jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
                    DECLARE id CONSTANT bigint := fairpost.new_id(); t CONSTANT timestamptz := clock_timestamp(); BEGIN {body}; END $$"""
            )
        pid = conn.get_server_pid()
        least_us: dict[str, float] = {}
        number = 0
        for _ in range(ROUNDS):
            for name, sql in (ONE_BY_ONE | TOGETHER).items():
                size = 1 if name in ONE_BY_ONE else BULK
                emails = [email(number + i) for i in range(SINGLE if size == 1 else BULK)]
                number += len(emails)
                calls = [json.dumps(each) for each in emails] if size == 1 else [json.dumps(emails)]
                before = spent_us(pid)
                for call in calls:
                    await conn.fetch(sql, call)
                us = (spent_us(pid) - before) / len(emails)
                least_us[name] = min(us, least_us.get(name, us))
        for name, us in least_us.items():
            print(f"{name:40s}{us:7.1f} µs")
        await conn.close()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fp-parts-") as home:
        server = EmbeddedServer(Path(home))
        url = server.start()
        try:
            asyncio.run(measure(url))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
