"""What a workspace learns from its search depends only on its own e-mails, whatever others write to the same people."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairpost.dev.bench.pages import fill_history
from fairpost.model.ids import EmailId
from fairpost.model.states import State
from fairpost.observe.search import Matches, Wanted, find_emails, search_emails
from fairpost.store.store import Store
from tests.observe.reading import rows_read
from tests.thorough import times

pytestmark = pytest.mark.fresh

A, B = "anton", "berta"
ANN, BOB = "ann@example.com", "bob@example.com"
FEW = 3
PAGES_MAX = 4
MORE_THAN_ONE_LOOKS_AT = 2_100
Told = tuple[list[int], int | None]

# An e-mail's time determines its id: of two batches, the later one has the newer ids.
_HISTORY = """
INSERT INTO fairpost.emails (id, state, finished_at, created_at, due_at, attempts, attempts_max, account_id, content_id, class, on_doubt, flow,
    route, workspace, domain, user_name, stream, recipients, addresses)
SELECT fairpost.first_id_at(t.at) + i, $5::text::fairpost.email_state, t.at, t.at, t.at, 1, 4, 1, 1, 'urgent', 'resend',
    '00000000-0000-0000-0000-000000000000', 'default', $2, 'shop.test', '', '', r.recipients, $3
FROM (SELECT clock_timestamp() - interval '1 hour' + $1 * interval '1 minute' AS at) t, generate_series(1, $4::integer) i,
    (SELECT jsonb_agg(jsonb_build_object('kind', 'to', 'address', a)) AS recipients FROM unnest($3::text[]) a) r"""
_QUEUE = """
INSERT INTO fairpost.queue (id, flow, due_at, state, waiting, attempts_max, created_at, content_id, class, on_doubt, route, workspace, domain, user_name,
    stream, recipients, addresses)
SELECT fairpost.first_id_at(t.at) + i, '00000000-0000-0000-0000-000000000000', t.at, 'waiting', true, 4, t.at, 1, 'urgent', 'resend', 'default', $2,
    'shop.test', '', '', r.recipients, $3
FROM (SELECT clock_timestamp() - interval '1 hour' + $1 * interval '1 minute' AS at) t, generate_series(1, $4::integer) i,
    (SELECT jsonb_agg(jsonb_build_object('kind', 'to', 'address', a)) AS recipients FROM unnest($3::text[]) a) r"""


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    workspace = draw(st.sampled_from((A, B)))
    return {
        "workspace": workspace,
        "to": draw(st.sampled_from(((ANN,), (BOB,), (ANN, BOB), (BOB, "eve@example.com", ANN)))),
        "state": draw(st.sampled_from(("waiting", "sent", "failed"))),
        "count": draw(st.sampled_from((1, 2, FEW, 10) if workspace == A else (1, FEW, 300, MORE_THAN_ONE_LOOKS_AT))),
    }


def of(workspace: str, to: tuple[str, ...], count: int, state: str = "sent") -> dict[str, Any]:
    return {"workspace": workspace, "to": to, "state": state, "count": count}


@pytest.mark.thorough
@settings(max_examples=times(5))
@example([of(A, (ANN,), 1), of(B, (ANN,), MORE_THAN_ONE_LOOKS_AT)])
@example([of(B, (ANN,), MORE_THAN_ONE_LOOKS_AT)])
@example([of(A, (BOB, ANN), 2), of(B, (ANN, BOB), MORE_THAN_ONE_LOOKS_AT)])
@given(st.lists(batches(), min_size=1, max_size=5))
def test_a_workspaces_figures_only_cover_its_own_emails(url: str, written: list[dict[str, Any]]) -> None:
    asyncio.run(_told_alike(url, written))


async def _told_alike(url: str, written: list[dict[str, Any]]) -> None:
    async with Store.open(url, connections_max=1) as store:
        await store.value("TRUNCATE fairpost.emails, fairpost.queue")
        for place, each in enumerate(written):
            at = (place, each["workspace"], list(each["to"]), each["count"])
            await (
                store.value(_QUEUE, *at) if each["state"] == "waiting" else store.value(_HISTORY, *at, each["state"])
            )
        among_others = await _all_told(store)
        for table in ("emails", "queue"):
            await store.value(f"DELETE FROM fairpost.{table} WHERE workspace <> $1", A)
        assert among_others == await _all_told(store)


async def _all_told(store: Store) -> list[Told]:
    """Reads page by page, following the cursors."""
    told: list[Told] = []
    for address in (ANN, BOB, "nobody@example.com"):
        for states in (None, [State.SENT], [State.FAILED], [State.READY]):
            told += await _pages(store, Wanted(to=address), states)
        told.append(_told(await find_emails(store, address, workspace=A, home=A, most=FEW)))
    return told


async def _pages(store: Store, wanted: Wanted, states: Sequence[State] | None) -> list[Told]:
    pages: list[Told] = []
    before: EmailId | None = None
    while len(pages) < PAGES_MAX:
        matches = await search_emails(store, wanted, workspace=A, states=states, before=before, most=FEW)
        pages.append(_told(matches))
        if matches.looked_to is None and len(matches.emails) < FEW:
            break
        before = matches.looked_to if matches.looked_to is not None else matches.emails[-1].id
    return pages


def _told(matches: Matches) -> Told:
    return [each.id for each in matches.emails], matches.looked_to


async def test_mail_of_other_workspaces_to_an_address_costs_a_search_nothing(url: str) -> None:
    async with Store.open(url, connections_max=1) as store:
        sql = "SELECT * FROM fairpost.search_emails($1, $2, NULL, NULL, $3)"
        asked = (Wanted(to=ANN).as_json(), 21)
        await store.row(sql, A, *asked)  # a plan made for empty tables must also be right later
        await fill_history(store, 3_000, lambda _: None)
        for place, (workspace, to, count) in enumerate(
            [(A, [ANN], 5), (A, [BOB, ANN], 5), (B, [ANN], 5_000), (B, [BOB, ANN], 5_000), ("carla", [ANN], 5)]
        ):
            await store.value(_HISTORY, place, workspace, to, count, "sent")
        await store.value(_QUEUE, 10, B, [ANN], 2_000)
        for tables in ("emails", "queue"):
            await store.value(f"VACUUM ANALYZE fairpost.{tables}")
        for workspace in (A, "nobody"):
            assert await rows_read(store, sql, workspace, *asked) <= 12 * 21


async def test_admins_find_an_address_in_all_workspaces(url: str) -> None:
    async with Store.open(url, connections_max=1) as store:
        wanted = Wanted(to=ANN)
        await search_emails(store, wanted, most=FEW)
        await fill_history(store, 3_000, lambda _: None)
        for place in range(30):
            await store.value(_HISTORY, place, f"w{place % 10}", [ANN], 50, "sent")
        await store.value(_HISTORY, 30, B, [BOB, ANN], 7, "failed")
        await store.value(_QUEUE, 31, A, [ANN], 3)
        await store.value("VACUUM ANALYZE fairpost.emails")
        plainly = await store.fetch(
            """SELECT x.id FROM (SELECT id, addresses FROM fairpost.emails UNION ALL SELECT id, addresses FROM fairpost.queue) x
               WHERE $1 = ANY (x.addresses) ORDER BY x.id DESC""",
            ANN,
        )
        seen: list[int] = []
        while page := (await search_emails(store, wanted, before=EmailId(seen[-1]) if seen else None, most=100)).emails:
            seen += [each.id for each in page]
        assert seen == [row["id"] for row in plainly]
        sql = "SELECT * FROM fairpost.search_emails(NULL, $1, NULL, NULL, $2)"
        of_each_workspace = FEW + 1
        assert await rows_read(store, sql, wanted.as_json(), FEW) <= 15 * of_each_workspace + 50
