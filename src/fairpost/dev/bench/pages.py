"""Measures how long it takes to read a page of e-mails when there is a long history: the first page, a middle page, the
last page, and pages filtered by state. Pages are read as in a request, with the tenant role and in a transaction that
sets the workspace. For comparison, the same run measures a plain scan of the history index and naive paging with
OFFSET.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from fairpost.dev.bench.workload import Progress, bench_database, p99
from fairpost.model.ids import EmailId
from fairpost.model.states import State
from fairpost.store.store import Store
from fairpost.system import clock

EMAILS = 1_000_000
LOOKS = 50
OFFSET_LOOKS = 3
PAGE = 51  # one more than is shown, to detect whether there is a next page
MONTHS = 12
BATCH = 200_000
BIG, SMALL = "big", "w7"
EACH_SMALL = 1_000  # e-mails in a small workspace

# Nine out of ten e-mails belong to one workspace, and the others belong to small workspaces.
# One e-mail in a thousand failed, and one in a hundred bounced. The times are spread evenly over the months.
# IDs in the history are even. The odd IDs between them are used for the queue.
_MAIL = """
SELECT fairpost.first_id_at(made.at) | (2 * i & 1048575) AS id, made.at, CASE WHEN i % 10 > 0 THEN 'big' ELSE 'w' || i / 10 % $4 END AS workspace,
       hashint4(i) & 1023 AS dice, i
FROM generate_series($1::integer, $2) i, LATERAL (SELECT $5::timestamptz - interval '1 year' * (1 - i::float / $3) AS at) made"""

_HISTORY = f"""
WITH mail AS MATERIALIZED ({_MAIL}), content AS (
    INSERT INTO fairpost.contents (id, subject, text_body, created_at)
    SELECT m.id, 'Your order ' || m.i || ' is on its way', 'It should be with you by Thursday.', m.at FROM mail m)
INSERT INTO fairpost.emails (id, state, reason, finished_at, created_at, due_at, attempts, attempts_max, account_id, content_id, class, on_doubt, flow,
    route, workspace, domain, user_name, stream, recipients, addresses, message_id)
SELECT m.id, s.state, CASE WHEN s.state <> 'sent' THEN '550 5.1.1 no such user' END, m.at, m.at, m.at, 1, 4, 1, m.id, 'urgent', 'resend',
    '00000000-0000-0000-0000-000000000000', 'default', m.workspace, 'shop.test', 'u' || m.i % 100, '',
    jsonb_build_array(jsonb_build_object('kind', 'to', 'address', a.address)), ARRAY[a.address], '<' || m.id || '@shop.test>'
FROM mail m,
    LATERAL (SELECT (CASE WHEN m.dice = 7 THEN 'failed' WHEN m.dice BETWEEN 10 AND 19 THEN 'bounced' ELSE 'sent' END)::fairpost.email_state AS state) s,
    LATERAL (SELECT 'person' || m.i || '@example.com' AS address) a"""  # noqa: S608 - all parts are constants

# One e-mail in 128 is waiting. Of these, one in ten is due later, and one in a hundred is claimed.
_QUEUE = f"""
WITH mail AS MATERIALIZED (SELECT m.* FROM ({_MAIL}) m WHERE hashint4(m.i + 1) & 127 = 0), content AS (
    INSERT INTO fairpost.contents (id, subject, text_body, created_at)
    SELECT m.id + 1, 'Your order ' || m.i || ' is on its way', 'It should be with you by Thursday.', m.at FROM mail m)
INSERT INTO fairpost.queue (id, flow, due_at, state, waiting, account_id, epoch, attempts_max, created_at, content_id, class, on_doubt, route, workspace,
    domain, user_name, stream, recipients, addresses)
SELECT m.id + 1, '00000000-0000-0000-0000-000000000000', m.at + CASE WHEN m.dice < 100 THEN interval '10 years' ELSE interval '0' END,
    (CASE WHEN m.dice > 1013 THEN 'claimed' ELSE 'waiting' END)::fairpost.email_state, m.dice <= 1013, 1, 1, 4, m.at, m.id + 1, 'urgent', 'resend', 'default',
    m.workspace, 'shop.test', 'u' || m.i % 100, '', '[{{"kind": "to", "address": "p@there.test"}}]', ARRAY['p@there.test']
FROM mail m"""  # noqa: S608

_EVERYTHING = """(SELECT q.id, q.workspace, q.user_name, q.content_id, q.recipients, q.created_at FROM fairpost.queue q WHERE q.workspace = $1
     UNION ALL
     SELECT e.id, e.workspace, e.user_name, e.content_id, e.recipients, e.created_at FROM fairpost.emails e WHERE e.workspace = $1)"""
_OFFSET = f"""SELECT x.*, c.subject FROM (SELECT * FROM {_EVERYTHING} x ORDER BY x.id DESC LIMIT $2 OFFSET $3) x
    LEFT JOIN fairpost.contents c ON c.id = x.content_id ORDER BY x.id DESC"""  # noqa: S608
_INDEX = "SELECT e.* FROM fairpost.emails e WHERE e.workspace = $1 AND e.id < $2 ORDER BY e.id DESC LIMIT $3"
_NTH = f"SELECT x.id FROM {_EVERYTHING} x ORDER BY x.id LIMIT 1 OFFSET $2"  # noqa: S608
_COUNT = f"SELECT count(*) FROM {_EVERYTHING} x"  # noqa: S608


class Look(Protocol):
    def __call__(
        self, store: Store, *, workspace: str, states: Sequence[State] | None, before: EmailId | None, most: int
    ) -> Awaitable[Sequence[Any]]: ...


@dataclass(frozen=True, slots=True)
class Places:
    """The positions at which a workspace's pages begin."""

    total: int
    middle: EmailId
    last: EmailId


async def bench_pages(
    url: str, progress: Progress, *, look: Look, emails: int = EMAILS, looks: int = LOOKS
) -> dict[str, float]:
    """Runs the benchmark. `look` reads a page."""
    async with bench_database(url) as own, Store.open(own) as store:
        await fill_history(store, emails, progress)
        figures: dict[str, float] = {}
        for workspace, name in ((BIG, "big"), (SMALL if small_ones(emails) > 7 else "w0", "small")):
            places = await _places(store, workspace)
            progress(f"pages of {workspace}, which has {places.total:,}")
            figures |= await _pages(store, look, workspace, name, places, looks)
        return figures


async def fill_history(store: Store, emails: int, progress: Progress) -> None:
    for month in range(MONTHS + 1):
        await store.value(
            "SELECT fairpost.make_partitions(clock_timestamp() - make_interval(days => $1 * 30))::text", month
        )
    now = await store.value("SELECT clock_timestamp()")
    for at in range(1, emails + 1, BATCH):
        until = min(at + BATCH - 1, emails)
        arguments = (at, until, float(emails), small_ones(emails), now)
        async with store.connection() as conn:
            await conn.execute(_HISTORY, *arguments)
            await conn.execute(_QUEUE, *arguments)
        progress(f"{until:,} of {emails:,} e-mails in history")
    for table in ("emails", "contents", "queue"):
        progress(f"VACUUM ANALYZE {table}")
        await store.value(f"VACUUM ANALYZE fairpost.{table}")


def small_ones(emails: int) -> int:
    return max(1, emails // 10 // EACH_SMALL)


async def _places(store: Store, workspace: str) -> Places:
    total = await store.value(_COUNT, workspace)
    middle = await store.value(_NTH, workspace, total // 2)
    last = await store.value(_NTH, workspace, min(PAGE - 1, total - 1))
    return Places(total, EmailId(middle), EmailId(last))


async def _pages(store: Store, look: Look, workspace: str, name: str, places: Places, looks: int) -> dict[str, float]:
    tenant = store.of_tenant(workspace)

    def page(before: EmailId | None, *states: State) -> Callable[[], Awaitable[Sequence[Any]]]:
        return lambda: look(tenant, workspace=workspace, states=states or None, before=before, most=PAGE)

    figures: dict[str, float] = {}
    for kind, asked in (
        ("first", page(None)),
        ("middle", page(places.middle)),
        ("last", page(places.last)),
        ("sent", page(places.middle, State.SENT)),
        ("failed", page(None, State.FAILED)),
        ("not_sent", page(None, State.FAILED, State.BOUNCED, State.CANCELLED)),
        ("scheduled", page(None, State.SCHEDULED)),
    ):
        times = await _times_ms(asked, looks)
        figures |= {f"page_ms_{name}_{kind}": median(times), f"page_ms_{name}_{kind}_p99": p99(times)}
    for kind, place in (("middle", places.total // 2), ("last", places.total - PAGE)):
        times = await _times_ms(lambda place=place: tenant.fetch(_OFFSET, workspace, PAGE, place), OFFSET_LOOKS)  # type: ignore[misc]
        figures[f"offset_ms_{name}_{kind}"] = median(times)
    index = await _times_ms(lambda: store.fetch(_INDEX, workspace, places.middle, PAGE), looks)
    return figures | {f"index_ms_{name}": median(index)}


async def _times_ms(asked: Callable[[], Awaitable[Sequence[Any]]], looks: int) -> list[float]:
    times = []
    await asked()  # the first read has a cold cache
    for _ in range(looks):
        started_s = clock.monotonic()
        await asked()
        times.append((clock.monotonic() - started_s) * 1000)
    return times
