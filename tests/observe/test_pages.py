"""Pages of e-mails: the same as a plain query would find, at a cost that does not grow with history."""

from collections.abc import AsyncIterator, Sequence
from itertools import product

import pytest

from fairpost.dev.bench.pages import fill_history
from fairpost.model.ids import EmailId
from fairpost.model.states import State
from fairpost.observe.emails import list_emails
from fairpost.store.store import Store
from tests.observe.reading import rows_read

pytestmark = pytest.mark.fresh

PAGE = 21
EMAILS = 3_000
ASKED: tuple[tuple[State, ...], ...] = (
    (),
    (State.SENT,),
    (State.FAILED,),
    (State.FAILED, State.BOUNCED, State.CANCELLED),
    (State.SENT, State.BOUNCED, State.READY),
    (State.READY,),
    (State.SCHEDULED,),
    (State.CLAIMED, State.SENDING),
    (State.READY, State.SCHEDULED, State.CLAIMED, State.FAILED),
)

_PLAINLY = """
SELECT x.id FROM (
    SELECT q.id, q.workspace, CASE WHEN NOT q.waiting THEN q.state::text WHEN q.due_at <= clock_timestamp() THEN 'ready' ELSE 'scheduled' END AS state
    FROM fairpost.queue q UNION ALL SELECT e.id, e.workspace, e.state::text FROM fairpost.emails e) x
WHERE ($1::text IS NULL OR x.workspace = $1) AND (cardinality($2::text[]) = 0 OR x.state = ANY ($2)) AND x.id < $3 ORDER BY x.id DESC LIMIT $4"""


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url, connections_max=1) as store:
        yield store


async def filled(store: Store, emails: int) -> None:
    await fill_history(store, emails, lambda _: None)


async def test_pages_have_what_a_plain_query_finds(store: Store) -> None:
    await filled(store, EMAILS)
    middle = await store.value("SELECT e.id FROM fairpost.emails e ORDER BY e.id LIMIT 1 OFFSET $1", EMAILS // 2)
    for workspace, states, before in product(("big", "w0", None), ASKED, (None, EmailId(middle), EmailId(1))):
        page = await list_emails(store, workspace=workspace, states=states, before=before, most=PAGE)
        below = 2**63 - 1 if before is None else before
        plain = await store.fetch(_PLAINLY, workspace, list(states), below, PAGE)
        assert [each.id for each in page] == [row["id"] for row in plain], (workspace, states, before)
        assert not states or {each.state for each in page} <= set(states)


async def test_going_on_leads_through_all_of_them_once(store: Store) -> None:
    await filled(store, EMAILS)
    seen: list[EmailId] = []
    while page := await list_emails(
        store.of_tenant("big"), workspace="big", before=seen[-1] if seen else None, most=500
    ):
        seen += [each.id for each in page]
    assert seen == sorted(set(seen), reverse=True)
    both = "SELECT (SELECT count(*) FROM fairpost.queue q WHERE q.workspace = $1) + (SELECT count(*) FROM fairpost.emails e WHERE e.workspace = $1)"
    assert len(seen) == await store.value(both, "big")


async def rows_of_page(store: Store, states: Sequence[State], before: EmailId | None) -> float:
    sql = "SELECT * FROM fairpost.list_emails('big', $1, $2, $3)"
    return await rows_read(store, sql, list(states) or None, before, PAGE)


async def test_a_page_reads_little_wherever_it_lies(store: Store) -> None:
    for states in ASKED[:5]:
        await rows_of_page(store, states, None)  # a plan made for empty tables must also be right later
    await filled(store, 5 * EMAILS)
    middle = await store.value("SELECT e.id FROM fairpost.emails e ORDER BY e.id LIMIT 1 OFFSET $1", EMAILS)
    read = {
        (states, before): await rows_of_page(store, states, before)
        for states, before in product(ASKED[:5], (None, EmailId(middle)))
    }
    assert {asked: rows for asked, rows in read.items() if rows > 12 * PAGE + 60} == {}
