"""Measures how fast a campaign with a million prospects is scheduled: a row and a key for every prospect and step."""

import resource
import sys

from fairpost.campaigns.launching import launch, schedule
from fairpost.dev.bench.workload import Progress, bench_database
from fairpost.model.account import Limits
from fairpost.model.campaign import Step
from fairpost.store import campaigns, templates
from fairpost.store.campaigns import Draft
from fairpost.store.store import Store
from fairpost.system import clock

PROSPECTS = 1_000_000
AT_ONCE = 5000

_PEOPLE = """
WITH made AS (
    INSERT INTO fairpost.prospects (workspace, address, folded, fields, created_at, changed_at)
    SELECT 'acme', 'p' || n || '@there.test', 'p' || n || '@there.test',
           jsonb_build_object('first_name', 'Ann' || n, 'company', 'Example Ltd ' || n % 1000), clock_timestamp(), clock_timestamp()
    FROM generate_series($1::integer, $2) n RETURNING id)
INSERT INTO fairpost.list_members SELECT $3, id FROM made"""

# The naive approach: insert the same rows into a table with a unique key, with one commit per batch.
_PLAIN = """
CREATE TABLE plain (id bigint PRIMARY KEY, workspace text, key text UNIQUE, address text, fields jsonb, due_at timestamptz);
CREATE INDEX ON plain (due_at)"""
_PLAIN_BATCH = """
INSERT INTO plain SELECT fairpost.new_id(), p.workspace, p.id || ':1:1', p.address, p.fields, clock_timestamp()
FROM fairpost.prospects p WHERE p.id > $1 ORDER BY p.id LIMIT $2 ON CONFLICT DO NOTHING"""


async def bench_schedule(url: str, progress: Progress, *, prospects: int = PROSPECTS) -> dict[str, float]:
    async with bench_database(url) as own, Store.open(own) as store:
        await _people(store, prospects, progress)
        one = await _planned(store, "one", 1, prospects, progress)
        three = await _planned(store, "three", 3, min(prospects, 200_000), progress)
        rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
        progress("the naive approach")
        return {
            "scheduled_per_s": one,
            "scheduled_per_s_3_steps": three,
            "plain_insert_per_s": await _plain(store, prospects),
            "rss_mb": rss_mb,
        }


async def _people(store: Store, n: int, progress: Progress) -> None:
    await store.add_account("anna", address="anna@post.test", limits=Limits())
    for name in ("one", "three"):
        list_id = await store.value(
            "INSERT INTO fairpost.lists (workspace, name, created_at) VALUES ('acme', $1, clock_timestamp()) RETURNING id",
            name,
        )
        if name == "one":
            for start in range(0, n, 100_000):
                progress(f"{start:,} of {n:,} prospects")
                await store.value(_PEOPLE, start, min(n, start + 100_000) - 1, list_id)
        else:
            sql = "INSERT INTO fairpost.list_members SELECT $1, id FROM fairpost.prospects ORDER BY id LIMIT 200000"
            await store.value(sql, list_id)
    await store.value("VACUUM ANALYZE")


async def _planned(store: Store, name: str, steps: int, prospects: int, progress: Progress) -> float:
    for number in range(1, steps + 1):
        await templates.put_template(
            store, "acme", f"{name}-{number}", subject="Hello", text="Hello {{ first_name }}", html=None
        )
    made = [Step(template=f"{name}-{number}", delay_s=86_400 * (number > 1)) for number in range(1, steps + 1)]
    await templates.put_sequence(store, "acme", name, made)
    draft = await campaigns.put_draft(store, Draft(workspace="acme", name=name, sequence=name, lists=(name,)))
    started_s = clock.monotonic()
    launched = await launch(store, draft, skip_incomplete=False, by="bench", now=clock.now())
    result = await schedule(store, launched, progress=lambda seen: progress(f"{seen:,} of {prospects:,} scheduled"))
    took_s = clock.monotonic() - started_s
    assert (result.scheduled, result.is_done) == (prospects * steps, True), result
    return result.scheduled / took_s


async def _plain(store: Store, prospects: int) -> float:
    for statement in _PLAIN.split(";"):
        await store.value(statement)
    started_s, after = clock.monotonic(), 0
    for start in range(0, prospects, AT_ONCE):
        await store.value(_PLAIN_BATCH, after, AT_ONCE)
        after = start + AT_ONCE
    return prospects / (clock.monotonic() - started_s)
