"""E-mails by their properties: the same as a full scan finds, at a cost that does not grow with history."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import asyncpg
import pytest

from fairpost.dev.bench.pages import fill_history
from fairpost.model.account import Limits
from fairpost.model.ids import EmailId
from fairpost.model.states import State
from fairpost.observe.emails import ListedEmail
from fairpost.observe.search import Understood, Wanted, find_emails, search_emails
from fairpost.store.store import Store
from tests.observe.reading import rows_read

pytestmark = pytest.mark.fresh

EMAILS = 3_000
PAGE = 201
FEW = 21
A = "acme"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url, connections_max=1) as store:
        yield store


def mail(**more: Any) -> dict[str, Any]:
    return {"workspace": A, "to": "ann@example.com", "subject": "Hello", "text": "Hi", **more}


async def put(store: Store, *emails: dict[str, Any]) -> list[EmailId]:
    return [EmailId(row["id"]) for row in await store.enqueue_many(list(emails))]


async def found(store: Store, workspace: str | None = A, **wanted: Any) -> list[EmailId]:
    return [each.id for each in (await search_emails(store, Wanted(**wanted), workspace=workspace)).emails]


async def all_pages(store: Store, wanted: Wanted, **more: Any) -> list[ListedEmail]:
    """Reads page by page until the end."""
    emails: list[ListedEmail] = []
    before: EmailId | None = None
    while True:
        matches = await search_emails(store, wanted, before=before, most=PAGE, **more)
        emails += matches.emails
        if matches.looked_to is None and len(matches.emails) < PAGE:
            return emails
        before = matches.looked_to if matches.looked_to is not None else matches.emails[-1].id


async def test_an_address_is_found_wherever_it_stands_and_however_it_is_written(store: Store) -> None:
    alone, capital, hidden, international, other = await put(
        store,
        mail(),
        mail(to="ANN@Example.COM"),
        mail(to="bob@example.com", cc="eve@example.com", bcc="Ann@example.com"),
        mail(to="ann@müller.example"),
        mail(to="joann@example.com"),
    )
    await put(store, mail(workspace="other"))
    assert await found(store, to="ann@example.com") == [hidden, capital, alone]
    assert await found(store, to="aNN@xn--mller-kva.example") == [international]
    assert await found(store, to="JOANN@example.com") == [other]
    for id_ in (alone, hidden):
        assert await store.cancel(id_) == "cancelled"  # moves it to history
    assert await found(store, to="ann@EXAMPLE.com") == [hidden, capital, alone]
    assert len(await found(store, None, to="ann@example.com")) == 4
    assert await found(store, to="nobody@example.com") == []


async def test_each_thing_known_must_be_true(store: Store) -> None:
    one, two, three = await put(
        store,
        mail(user="u1", stream="news", idempotency_key="order 1", type="receipt", tags={"order": "7", "plan": "gold"}),
        mail(
            user="u1", stream="offers", idempotency_key="order 2", type="receipt", tags={"order": "8", "plan": "gold"}
        ),
        mail(user="u2", stream="news", to="bob@example.com", type="hub_forgot_password", metadata={"order": "7"}),
    )
    assert await found(store, user="u1") == [two, one]
    assert await found(store, stream="news") == [three, one]
    assert await found(store, user="u1", stream="news") == [one]
    assert await found(store, key="order 2") == [two]
    assert await found(store, key="order 2", user="u2") == []
    assert await found(store, "other", key="order 2") == []
    assert await found(store, to="bob@example.com", stream="offers") == []
    assert await found(store, type="receipt") == await found(store, tags={"plan": "gold"}) == [two, one]
    assert await found(store, tags={"order": "7"}) == await found(store, tags={"plan": "gold", "order": "7"}) == [one]
    assert await found(store, type="hub_forgot_password", tags={"order": "7"}) == []
    assert await found(store, type="receipt", user="u1", stream="offers") == [two]
    assert await found(store, "other", type="receipt") == await found(store, "other", tags={"order": "7"}) == []
    for unknown in (
        *({"account": "x"}, {"campaign": "x"}, {"user": "x"}, {"stream": "x"}, {"key": "x"}, {"type": "x"}),
        *({"tags": {"x": "7"}}, {"tags": {"order": "x"}}, {"tags": {"order": ""}}),
    ):
        assert await found(store, **unknown) == []
    now = datetime.now(UTC)
    assert await found(store, since=now - timedelta(hours=1), until=now + timedelta(hours=1)) == [three, two, one]
    assert (
        await found(store, since=now + timedelta(hours=1)) == await found(store, until=now - timedelta(hours=1)) == []
    )
    matches = await search_emails(store, Wanted(user="u1"), workspace=A, states=[State.CANCELLED])
    assert matches.emails == []
    await store.cancel(one)
    for wanted in (Wanted(user="u1"), Wanted(type="receipt"), Wanted(tags={"plan": "gold"})):
        matches = await search_emails(store, wanted, workspace=A, states=[State.CANCELLED])
        assert [(each.id, each.type, each.tags) for each in matches.emails] == [
            (one, "receipt", {"order": "7", "plan": "gold"})
        ]
    assert await found(store, type="receipt") == await found(store, tags={"plan": "gold"}) == [two, one]


async def test_an_erased_person_is_not_found(store: Store) -> None:
    (id_,) = await put(store, mail(idempotency_key="for ann"))
    await store.cancel(id_)
    await store.value("SELECT fairpost.erase_emails($1, $2, $3)", [id_], "ann@example.com", ["ann@example.com"])
    assert await found(store, to="ann@example.com") == await found(store, key="for ann") == []


async def test_properties_of_a_workspace_need_its_name(store: Store) -> None:
    for wanted in (Wanted(user="u1"), Wanted(type="x"), Wanted(tags={"a": "b"})):
        with pytest.raises(asyncpg.PostgresError, match="workspace"):
            await search_emails(store, wanted)


async def test_one_word_is_understood_as_the_first_that_there_is(store: Store) -> None:
    (plain,) = await put(store, mail())
    numbered, with_at = await put(
        store, mail(to="b@example.com", idempotency_key="4711"), mail(to="c@example.com", idempotency_key="a@b")
    )
    public = await store.public_ids()
    for text, understood, ids in (
        (str(plain), Understood.ID, [plain]),
        (public.email(plain), Understood.ID, [plain]),
        ("4711", Understood.KEY, [numbered]),
        (" Ann@Example.com ", Understood.ADDRESS, [plain]),
        ("a@b", Understood.KEY, [with_at]),
        ("nobody@example.com", Understood.ADDRESS, []),
        ("99999999999999999999999", Understood.NOTHING, []),
        ("spring", Understood.NOTHING, []),
    ):
        id_ = public.email_id(text, or_number=True)
        answer = await find_emails(store, text, id_=id_, workspace=A, home=A)
        assert (answer.understood, [each.id for each in answer.emails]) == (understood, ids), text
    assert (await find_emails(store, str(plain), id_=plain, workspace="other", home=A)).emails == []
    assert [e.id for e in (await find_emails(store, "4711", workspace=None, home=A)).emails] == [numbered]


_PLAINLY = """
SELECT x.id FROM (
    SELECT q.id, q.workspace, q.user_name, q.stream, q.account_id, CASE WHEN NOT q.waiting THEN q.state::text WHEN q.due_at <= clock_timestamp() THEN 'ready' ELSE 'scheduled' END AS state
    FROM fairpost.queue q UNION ALL SELECT e.id, e.workspace, e.user_name, e.stream, e.account_id, e.state::text FROM fairpost.emails e) x
WHERE x.workspace = $1 AND (cardinality($2::text[]) = 0 OR x.state = ANY ($2)) AND ($3::text IS NULL OR x.user_name = $3) AND ($4::bigint IS NULL OR x.account_id = $4)
AND x.id >= $5 AND x.id < $6 ORDER BY x.id DESC"""


async def test_going_on_leads_through_all_that_are_wanted_once(store: Store) -> None:
    await fill_history(store, EMAILS, lambda _: None)
    account = await store.add_account("one", address="one@shop.test", limits=Limits())
    await store.value(
        "UPDATE fairpost.emails SET account_id = $1 WHERE user_name <> 'u3' OR state = 'sent'", account + 1
    )
    middle = await store.value(
        "SELECT e.created_at FROM fairpost.emails e ORDER BY e.id LIMIT 1 OFFSET $1", EMAILS // 2
    )
    for asked, user, by_account, span in product(
        ((), (State.SENT,), (State.FAILED, State.BOUNCED), (State.READY,), (State.SCHEDULED, State.CLAIMED)),
        (None, "u3", "nobody"),
        (False, True),
        ((None, None), (middle, None), (None, middle)),
    ):
        wanted = Wanted(user=user, account="one" if by_account else None, since=span[0], until=span[1])
        if wanted == Wanted():
            continue
        seen = [each.id for each in await all_pages(store, wanted, workspace="big", states=asked or None)]
        low, high = [await store.value("SELECT fairpost.first_id_at($1)", each) for each in span]
        plain = await store.fetch(
            _PLAINLY, "big", list(asked), user, account if by_account else None, low or 0, high or 2**63 - 1
        )
        assert seen == [row["id"] for row in plain], (asked, wanted)


async def rows_of_search(store: Store, wanted: Wanted, states: list[State] | None = None) -> float:
    sql = "SELECT * FROM fairpost.search_emails('big', $1, $2, NULL, $3)"
    return await rows_read(store, sql, wanted.as_json(), states, FEW)


async def test_a_search_reads_little_however_rare_what_is_wanted(store: Store) -> None:
    asked = (
        Wanted(to="person777@example.com"),
        Wanted(to="nobody@example.com"),
        Wanted(user="u17"),
        Wanted(user="nobody"),
        Wanted(stream="nothing"),
        Wanted(key="nothing"),
        Wanted(type="common"),
        Wanted(type="nothing"),
        Wanted(tags={"common": "yes"}),
        Wanted(tags={"order": "777"}),
        Wanted(tags={"nothing": ""}),
    )
    for wanted in asked:
        await rows_of_search(store, wanted)  # a plan made for empty tables must also be right later
    await fill_history(store, 5 * EMAILS, lambda _: None)
    for n in range(0, 2_000, 1_000):
        tags = [{"common": "yes", "order": str(n + i)} for i in range(1_000)]
        await put(store, *(mail(workspace="big", user="many", type="common", tags=each) for each in tags))
    await store.value("SELECT fairpost.cancel(q.id) FROM fairpost.queue q WHERE q.user_name = 'many' AND q.id % 2 = 0")
    for wanted in asked:
        assert await rows_of_search(store, wanted) <= 12 * FEW, wanted


async def test_a_search_without_an_index_reads_a_little_at_a_time(store: Store) -> None:
    await fill_history(store, EMAILS, lambda _: None)
    await store.add_account("idle", address="idle@shop.test", limits=Limits())
    await store.value("UPDATE fairpost.emails SET account_id = 77")
    wanted = Wanted(account="idle")
    matches = await search_emails(store, wanted, workspace="big", states=[State.SENT], most=PAGE)
    assert matches.emails == []
    assert matches.looked_to is not None
    assert await all_pages(store, wanted, workspace="big", states=[State.SENT]) == []


def test_criteria_without_a_value_match_everything_and_need_no_search() -> None:
    for anything in (Wanted(), Wanted(tags={})):
        assert anything.is_anything
        assert not anything.is_of_one_workspace
    assert not Wanted(tags={"order": "7"}).is_anything
    assert Wanted(tags={"order": "7"}).is_of_one_workspace
