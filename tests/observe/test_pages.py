"""Pages of e-mails: what a plain query would find, at a cost that does not grow with history."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from fairpost.bench.pages import fill_history
from fairpost.model.ids import EmailId
from fairpost.model.states import State
from fairpost.observe.emails import list_emails
from fairpost.postgres.store import Store

PAGE = 21
EMAILS = 6_000
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


@pytest.mark.parametrize("workspace", ["big", "w0", None])
async def test_pages_have_what_a_plain_query_finds(store: Store, workspace: str | None) -> None:
    await filled(store, EMAILS)
    middle = await store.value("SELECT e.id FROM fairpost.emails e ORDER BY e.id LIMIT 1 OFFSET $1", EMAILS // 2)
    for states in ASKED:
        for before in (None, EmailId(middle), EmailId(1)):
            page = await list_emails(store, workspace=workspace, states=states, before=before, most=PAGE)
            below = 2**63 - 1 if before is None else before
            plain = await store.fetch(_PLAINLY, workspace, list(states), below, PAGE)
            assert [each.id for each in page] == [row["id"] for row in plain], (states, before)
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


def walk(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in walk(child))]


async def rows_read(store: Store, states: Sequence[State], before: EmailId | None) -> float:
    """Of tables that grow, by all statements that a page takes."""
    said: list[str] = []
    async with store.connection() as conn:
        conn.add_log_listener(listener := lambda _, message: said.append(message.message))
        await conn.execute(
            """LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
               SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; SET auto_explain.log_format = json;
               SET auto_explain.log_level = notice"""
        )
        await conn.fetch("SELECT * FROM fairpost.list_emails('big', $1, $2, $3)", list(states) or None, before, PAGE)
        await conn.execute("SET auto_explain.log_min_duration = -1")
        conn.remove_log_listener(listener)
    plans = [json.loads(text[text.index("{") :]) for text in said if "plan:" in text and "fairpost." in text]
    scans = [node for plan in plans for node in walk(plan["Plan"]) if "Relation Name" in node]
    assert scans, "auto_explain showed no scan: this test would see nothing"
    discarded = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return sum(
        float((node["Actual Rows"] + sum(node.get(name, 0) for name in discarded)) * node["Actual Loops"])
        for node in scans
    )


@pytest.mark.parametrize("states", ASKED[:5])
async def test_a_page_reads_little_wherever_it_lies(store: Store, states: Sequence[State]) -> None:
    await rows_read(store, states, None)  # a plan made when there was nothing must be right later, too
    await filled(store, 5 * EMAILS)
    middle = await store.value("SELECT e.id FROM fairpost.emails e ORDER BY e.id LIMIT 1 OFFSET $1", EMAILS)
    for before in (None, EmailId(middle)):
        assert await rows_read(store, states, before) <= 12 * PAGE + 60
