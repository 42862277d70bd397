"""Only a hash is left of an erased person, and everything is left of all others."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.account import Limits
from fairpost.model.errors import FairpostError
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.suppression import SuppressionKind
from fairpost.model.verdict import Bounced, Failed, InDoubt, Retry, Sent
from fairpost.store import privacy as persons
from fairpost.store.store import Store
from fairpost.store.suppressions import known_of
from fairpost.system import clock
from tests.campaigns.world import MONDAY, World
from tests.retention.past import OLD, Past
from tests.settle.test_leases import Bench
from tests.simulation.world import MINUTE, START, broken_promises, clean, connect, draft
from tests.thorough import times

ANN = "Ann.Lee@Example.test"
FORMS = (ANN, ANN.lower(), ANN.upper(), ANN.replace("@", "%40"))
NOW = START


@pytest.fixture
async def bench(store: Store) -> Bench:
    return Bench(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))


TABLES = """
    SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'm') ORDER BY 1"""


async def rows_with(store: Store, *words: str) -> list[str]:
    """Returns every row of any table that contains one of these words, in any column, including bytes."""
    found = []
    for (table,) in await store.fetch(TABLES):
        for (row,) in await store.fetch(f"SELECT x::text FROM fairpost.{table} x"):
            if any(word.lower() in row.lower() or word.encode().hex() in row.lower() for word in words):
                found.append(f"{table}: {row}")
    return found


async def everything(store: Store, table: str, but: Sequence[int] = (), key: str = "id") -> list[str]:
    sql = f"SELECT x::text FROM fairpost.{table} x WHERE NOT x.{key} = ANY ($1) ORDER BY 1"
    return [row[0] for row in await store.fetch(sql, list(but))]


async def recipients(store: Store, ids: Sequence[int]) -> list[list[str]]:
    rows = await store.fetch(
        """SELECT ARRAY(SELECT r ->> 'address' FROM jsonb_array_elements(x.recipients) r) AS them
           FROM (SELECT id, recipients FROM fairpost.queue UNION ALL SELECT id, recipients FROM fairpost.emails) x
           WHERE x.id = ANY ($1) ORDER BY x.id""",
        list(ids),
    )
    return [row["them"] for row in rows]


async def enqueued(store: Store, **email: Any) -> int:
    (row,) = await store.enqueue_many([draft(**email)], now=NOW)
    assert row["error"] is None, row["error"]
    return int(row["id"])


async def settled(bench: Bench, verdict: Any, report: Report | None = None, **more: Any) -> int:
    """Sends the next waiting e-mail, with this outcome."""
    lease = await bench.lease()
    id_ = await bench.begun(lease)
    assert await bench.store.settle(lease, id_, verdict, report, now=NOW, **more) == "settled"
    await bench.store.drop_lease(lease, now=NOW)
    return id_


FULL_OF_ANN: dict[str, Any] = {
    "to": f"Ann Lee <{ANN}>",
    "subject": f"For {ANN}",
    "text": f"Dear {ANN}, or '{ANN.lower()}'",
    "html": f'<a href="https://x.test/?u={ANN.replace("@", "%40")}">leave</a> {ANN.upper()}.',
    "headers": {"X-For": ANN},
    "fields": {"mail": ANN, "deep": [{"x": ANN}]},
    "idempotency_key": f"welcome:{ANN}",
    "attachments": [{"filename": f"{ANN}.txt", "data": base64.b64encode(ANN.encode()).decode()}],
    "reply_to": ANN,
    "tags": {"for": ANN, "plan": "gold"},
    "metadata": {"deep": [{"x": ANN}]},
}
REFUSED = Report(reached=Reached.REPLIED, reply=Reply(550, f"5.1.1 <{ANN}>: no such user"))


async def test_nothing_is_left_of_a_person_in_any_table(bench: Bench) -> None:
    store = bench.store
    await enqueued(store, **FULL_OF_ANN)
    await settled(bench, Sent())
    await enqueued(store, to=ANN, subject="2", idempotency_key=None)
    await settled(bench, Bounced((ANN,)), REFUSED)
    await store.value("DELETE FROM fairpost.suppressions")
    await enqueued(store, to=ANN, subject="3")
    await settled(bench, Retry(NOW + MINUTE, (ANN,)), REFUSED)
    await store.value("SELECT fairpost.suppress('w1', $1, $2, p_kind => 'complaint')", ANN, f"{ANN} said so")
    await store.value("SELECT fairpost.suppress('*', $1, 'x')", ANN)
    await store.value(
        "INSERT INTO fairpost.soft_bounces VALUES ('w1', fairpost.normalize_address($1), 2, now(), now())", ANN
    )
    await store.value(
        "INSERT INTO fairpost.events (at, kind, workspace, subject, detail) VALUES (now(), 'k', 'w1', $1, $2)",
        *(f"about {ANN}", json.dumps({"who": [ANN], "n": 1})),
    )
    await store.value(
        """INSERT INTO fairpost.inbox (sender, recipients, subject, from_header, message_id, size, attachments, helo, peer, search, raw)
           VALUES ('a@b.test', $1, $2, '', '', octet_length($3::bytea), '[]', '', '', $2, $3)""",
        *([ANN], ANN, ANN.encode()),
    )
    with clock.stopped_at(MONDAY) as manual:
        world = World(store, manual)
        await world.add_people(2)
        await store.value(
            "UPDATE fairpost.prospects SET address = $1, folded = fairpost.normalize_address($1), fields = $2 WHERE folded LIKE 'p0@%'",
            *(ANN, json.dumps({"first_name": "Ann", "mail": ANN})),
        )
        await world.launch(await world.draft())
    await store.value(
        "UPDATE fairpost.accounts SET status_reason = 'legacy.text', status_params = jsonb_build_object('text', $1::text)",
        f"<{ANN}> refused",
    )
    assert len(await rows_with(store, *FORMS)) > 12

    planned = await persons.preview(store, ANN.upper(), workspace=None)
    done = await persons.erase(store, ANN.upper(), workspace=None)
    assert await rows_with(store, *FORMS, "Ann Lee") == []
    assert (done.prospects, done.suppressions, done.inbox_mails, done.events) == (1, 2, 1, 1)
    assert done.in_hand == ()
    assert (done.emails, done.cancelled) == (2, 2)
    assert planned == done
    told = await store.fetch("SELECT subject, detail FROM fairpost.events WHERE kind = 'person_erased'")
    assert [row["subject"] for row in told] == [done.address_hash]
    assert await store.value("SELECT count(*) FROM fairpost.queue") == 1, "of the other prospect"
    again = await persons.erase(store, ANN, workspace=None)
    assert (again.emails, again.events, again.prospects) == (0, 0, 0)
    assert await store.value("SELECT count(*) FROM fairpost.events WHERE kind = 'person_erased'") == 1


async def test_that_there_was_an_email_and_how_it_ended_is_still_known(bench: Bench) -> None:
    id_ = await enqueued(bench.store, to=ANN)
    await settled(bench, Failed(), REFUSED)
    await persons.erase(bench.store, ANN, workspace="w1")
    row = await bench.store.row("SELECT * FROM fairpost.show_email($1)", id_)
    assert (row["state"], row["reason"], row["subject"]) == ("failed", "email.refused", "[erased]")
    assert json.loads(row["reason_params"])["reply"] == "5.1.1 <[erased]>: no such user"
    (attempt,) = await bench.store.fetch("SELECT * FROM fairpost.attempts_of($1)", id_)
    assert (attempt["outcome"], attempt["code"], attempt["reply"]) == ("failed", 550, "[erased]")


# ── waiting e-mails ───────────────────────────────────────────────────────────────────────────────────────


async def test_only_the_erased_recipient_among_several_is_removed(bench: Bench) -> None:
    store = bench.store
    id_ = await enqueued(
        store, to=["bob@there.test", ANN], cc=["cid@there.test"], text=f"Dear {ANN} and bob@there.test"
    )
    done = await persons.erase(store, ANN, workspace="w1", keep_sendable=True)
    assert (done.cancelled, done.taken_out) == (0, 1)
    lease = await bench.lease()
    assert await bench.begun(lease) == id_
    (email,) = await store.load([id_])  # type: ignore[list-item]
    assert [r.address for r in email.recipients] == ["bob@there.test", "cid@there.test"]
    assert email.content.text == "Dear [erased] and bob@there.test"
    assert await rows_with(store, *FORMS) == []


async def test_a_claimed_email_must_be_claimed_again(bench: Bench) -> None:
    store = bench.store
    id_ = await enqueued(store, to=["bob@there.test", ANN])
    lease = await bench.lease()
    assert (await store.claim(lease, limit=1, now=NOW)).ids == (id_,)
    await persons.erase(store, ANN, workspace="w1", keep_sendable=True)
    assert (await bench.begin(lease, id_)).verdict == "gone"  # type: ignore[arg-type]
    assert (await store.claim(lease, limit=1, now=NOW)).ids == (id_,)
    assert (await bench.begin(lease, id_)).verdict == "begun"  # type: ignore[arg-type]


async def test_an_email_whose_last_remaining_recipient_is_erased_ends(bench: Bench) -> None:
    store = bench.store
    id_ = await enqueued(store, to=["bob@there.test", ANN])
    await settled(bench, Retry(NOW + MINUTE, (ANN,)))
    done = await persons.erase(store, ANN, workspace="w1")
    assert (done.cancelled, done.taken_out) == (1, 0)
    assert await bench.state(id_) == "cancelled"  # type: ignore[arg-type]
    recipients = await store.value("SELECT recipients FROM fairpost.emails WHERE id = $1", id_)
    assert [r["address"] for r in json.loads(recipients)] == ["bob@there.test"]


async def test_emails_being_sent_or_in_doubt_are_left_for_the_next_run(bench: Bench) -> None:
    store = bench.store
    id_ = await enqueued(store, to=ANN)
    lease = await bench.lease()
    await bench.begun(lease)
    assert (await persons.erase(store, ANN, workspace="w1")).in_hand == (id_,)
    assert await store.settle(lease, id_, InDoubt(), now=NOW) == "settled"  # type: ignore[arg-type]
    assert (await persons.erase(store, ANN, workspace="w1")).in_hand == (id_,)
    await store.resolve(id_, "sent", by="test", now=NOW)  # type: ignore[arg-type]
    done = await persons.erase(store, ANN, workspace="w1")
    assert (done.in_hand, done.emails) == ((), 1)
    assert await rows_with(store, *FORMS) == []


async def test_an_erased_email_that_is_retried_is_not_sent(bench: Bench) -> None:
    store = bench.store
    id_ = await enqueued(store, to=ANN)
    await settled(bench, Failed(), REFUSED)
    await persons.erase(store, ANN, workspace="w1", keep_sendable=True)
    assert await store.value("SELECT fairpost.retry($1, $2)", id_, NOW) == "waiting"
    assert (await store.claim(await bench.lease(), limit=1, now=NOW)).ids == ()
    assert await bench.state(id_) == "suppressed"  # type: ignore[arg-type]


# ── no more mail ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keep_sendable", [False, True])
async def test_a_suppressed_and_erased_person_gets_nothing(bench: Bench, keep_sendable: bool) -> None:
    store = bench.store
    await store.value("SELECT fairpost.suppress('w1', $1, 'r', p_kind => 'complaint')", ANN)
    await persons.erase(store, ANN, workspace="w1", keep_sendable=keep_sendable)
    id_ = await enqueued(store, to=ANN.upper())
    lease = await bench.lease()
    for claimed in (await store.claim(lease, limit=1, now=NOW)).ids:
        assert (await bench.begin(lease, claimed)).verdict == "suppressed"
    assert await bench.state(id_) == "suppressed"  # type: ignore[arg-type]
    (where,), _ = await known_of(store, ANN)
    assert (where.kind, where.reason) == (SuppressionKind.COMPLAINT, "erased on request")


async def test_an_erased_recipient_among_several_is_left_out(bench: Bench) -> None:
    await persons.erase(bench.store, ANN, workspace="w1")
    await enqueued(bench.store, to=["bob@there.test", ANN])
    lease = await bench.lease()
    (id_,) = (await bench.store.claim(lease, limit=1, now=NOW)).ids
    begun = await bench.begin(lease, id_)
    assert (begun.verdict, [address.lower() for address in begun.skip]) == ("begun", [ANN.lower()])


async def test_an_address_kept_sendable_still_gets_mail(bench: Bench) -> None:
    await persons.erase(bench.store, ANN, workspace="w1", keep_sendable=True)
    await enqueued(bench.store, to=ANN)
    await bench.begun(await bench.lease())


async def test_the_hash_counts_where_it_was_asked_for(store: Store) -> None:
    async def suppressed(workspace: str) -> bool:
        return bool(await store.value("SELECT fairpost.suppressed($1, ARRAY[$2])", workspace, ANN))

    await persons.erase(store, ANN, workspace="w1")
    assert [await suppressed(w) for w in ("w1", "w2")] == [True, False]
    await persons.erase(store, ANN, workspace=None)
    assert [await suppressed(w) for w in ("w1", "w2")] == [True, True]
    assert await store.value("SELECT fairpost.unsuppress('*', $1)", ANN.upper())
    assert [await suppressed(w) for w in ("w1", "w2")] == [True, False]
    assert await store.value("SELECT fairpost.unsuppress('w1', $1)", ANN)
    assert not await store.value("SELECT fairpost.unsuppress('w1', $1)", ANN)
    assert not await suppressed("w1")


async def test_suppressing_an_erased_person_again_does_not_write_the_address_down(store: Store) -> None:
    await persons.erase(store, ANN, workspace="w1")
    assert not await store.value("SELECT fairpost.suppress('w1', $1, 'r', p_kind => 'complaint')", ANN)
    assert await rows_with(store, ANN) == []
    (where,), _ = await known_of(store, ANN)
    assert where.kind is SuppressionKind.COMPLAINT


async def test_a_person_erased_everywhere_is_never_stored_again(store: Store) -> None:
    await persons.erase(store, ANN, workspace=None)
    assert not await store.value("SELECT fairpost.suppress('w1', $1, 'r', p_kind => 'complaint')", ANN)
    assert await rows_with(store, ANN) == []
    assert [(each.workspace, each.kind) for each in (await known_of(store, ANN))[0]] == [
        ("*", SuppressionKind.MANUAL),
        ("w1", SuppressionKind.COMPLAINT),
    ]


async def test_no_two_databases_have_the_same_hashes(store: Store, blank_url: str) -> None:
    from fairpost.store.migrations import migrate

    conn = await asyncpg.connect(blank_url)
    await migrate(conn)
    sql = "SELECT fairpost.address_hash($1)"
    assert await conn.fetchval(sql, "a@b.test") != await store.value(sql, "a@b.test")
    assert await conn.fetchval(sql, "a@b.test") == await conn.fetchval(sql, "a@b.test")
    await conn.close()


# ── other people ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_workspace_erases_only_what_is_its_own(bench: Bench) -> None:
    store = bench.store
    for workspace in ("w1", "w2"):
        await enqueued(store, workspace=workspace, to=ANN)
        await store.value("SELECT fairpost.suppress($1, $2, 'r')", workspace, ANN)
        await store.value(
            "INSERT INTO fairpost.events (at, kind, workspace, subject) VALUES (now(), 'k', $1, $2)", workspace, ANN
        )
    await store.value("SELECT fairpost.suppress('*', $1, 'r')", ANN)
    others = "SELECT x::text FROM fairpost.{} x WHERE x.workspace IN ('w2', '*') ORDER BY 1"
    tables = ("queue", "suppressions", "events")
    had = {table: await store.fetch(others.format(table)) for table in tables}
    await persons.erase(store, ANN, workspace="w1")
    assert {table: await store.fetch(others.format(table)) for table in tables} == had
    for table in tables:
        mine = await store.fetch(f"SELECT x::text FROM fairpost.{table} x WHERE x.workspace = 'w1'")
        assert not [row for (row,) in mine if "example.test" in row.lower()]


async def test_content_that_many_share_stays_and_the_fields_of_the_erased_go(store: Store) -> None:
    past = Past(store)
    await past.begin()
    content = await past.put_content(None)
    mine = await past.finished(None, to=ANN, content_id=content, fields={"name": "Ann"})
    theirs = await past.finished(None, to="bob@there.test", content_id=content, fields={"name": "Bob"})
    await persons.erase(store, ANN, workspace="w1")
    assert await store.value("SELECT text_body FROM fairpost.contents WHERE id = $1", content) == "words"
    sql = "SELECT fields FROM fairpost.emails WHERE id = $1"
    assert await store.value(sql, mine) is None
    assert json.loads(await store.value(sql, theirs)) == {"name": "Bob"}


async def test_addresses_that_look_alike_are_left_alone(store: Store) -> None:
    alike = ["joann.lee@example.test", "ann.lee@example.test.au", "x-ann.lee@example.test", "ann.lee@example.tests"]
    text = " ".join(alike)
    id_ = await enqueued(store, to=[*alike, ANN], text=f"{text}, {ANN}")
    await persons.erase(store, ANN, workspace="w1")
    row = await store.row(
        "SELECT q.addresses, c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id WHERE q.id = $1",
        id_,
    )
    assert (row["addresses"], row["text_body"]) == (alike, f"{text}, [erased]")


async def test_an_invalid_address_is_refused(store: Store) -> None:
    with pytest.raises(FairpostError, match="ann"):
        await persons.erase(store, "ann", workspace="w1")


async def test_months_of_history_are_all_read(store: Store) -> None:
    past = Past(store)
    await past.begin()
    for at in (None, OLD):
        await past.finished(at, to=ANN)
    reached: list[int] = []
    done = await persons.erase(store, ANN, workspace="w1", reach=reached.append)
    assert done.emails == 2
    assert reached == sorted(reached)
    assert reached[-1] > 0
    assert await rows_with(store, *FORMS) == []


# ── in any order ──────────────────────────────────────────────────────────────────────────────────────────

PEOPLE = ("ann@one.test", "joann@one.test", "Bob+x@Two.test", "jörg@müller.test", "ann@one.test.org")
WRITTEN = st.sampled_from(PEOPLE).flatmap(lambda a: st.sampled_from((a, a.upper() if a.isascii() else a)))


@st.composite
def emails(draw: st.DrawFn) -> dict[str, Any]:
    to = draw(st.lists(WRITTEN, min_size=1, max_size=3, unique_by=str.lower))
    about = to[0]
    around = draw(st.sampled_from(("{}", "<{}>", '"{}"', "x={}&y", "({}).", "{}, {}")))
    words = around.replace("{}", about)
    return {
        "workspace": draw(st.sampled_from(("w1", "w2"))),
        "to": to,
        "subject": words,
        "text": words,
        "fields": {"mail": words, about: 1},
        "headers": {"X-A": about if about.isascii() else "x"},
        "outcome": draw(st.sampled_from(("wait", "sent", "failed", "cancelled"))),
    }


@settings(max_examples=times(10))
@given(batch=st.lists(emails(), min_size=1, max_size=8), who=st.sampled_from(PEOPLE), everywhere=st.booleans())
def test_an_erased_person_is_gone_and_no_other_data_has_changed(
    url: str, batch: list[dict[str, Any]], who: str, everywhere: bool
) -> None:
    asyncio.run(_erase_one_of_many(url, batch, who, None if everywhere else "w1"))


async def _erase_one_of_many(url: str, batch: list[dict[str, Any]], who: str, workspace: str | None) -> None:
    store = await connect(url)
    try:
        accounts = await clean(store)
        await store.value("TRUNCATE fairpost.suppression_hashes")
        bench = Bench(store, accounts["anna"])
        for each in batch:
            email = {key: value for key, value in each.items() if key != "outcome"}
            id_ = await enqueued(store, **email)
            words = Report(reached=Reached.REPLIED, reply=Reply(550, email["subject"]))
            match each["outcome"]:
                case "sent" | "failed":
                    await store.value("UPDATE fairpost.queue SET due_at = 'infinity' WHERE id <> $1 AND waiting", id_)
                    await settled(bench, Sent() if each["outcome"] == "sent" else Failed(), words)
                    await store.value("UPDATE fairpost.queue SET due_at = $1", NOW)
                case "cancelled":
                    await store.value("SELECT fairpost.cancel($1)", id_)
        folded = await store.value("SELECT fairpost.normalize_address($1)", who)
        mine = "fairpost.is_for(x.recipients, $1) AND ($2::text IS NULL OR x.workspace = $2)"
        ids = [
            row["id"]
            for table in ("queue", "emails")
            for row in await store.fetch(f"SELECT x.id FROM fairpost.{table} x WHERE {mine}", folded, workspace)
        ]
        keys = {"queue": "id", "emails": "id", "contents": "id", "attempts": "email_id", "labels": "email_id"}
        before = {table: await everything(store, table, ids, key) for table, key in keys.items()}
        had = await recipients(store, ids)
        await persons.erase(store, who, workspace=workspace)
        assert {table: await everything(store, table, ids, key) for table, key in keys.items()} == before
        for table, key in keys.items():
            sql = f"SELECT x::text FROM fairpost.{table} x WHERE x.{key} = ANY ($1) AND x::text ~* fairpost.address_pattern($2)"
            assert await store.fetch(sql, ids, [who, folded]) == []
        assert await recipients(store, ids) == [
            [address for address in to if await store.value("SELECT fairpost.normalize_address($1)", address) != folded]
            or ["[erased]"]
            for to in had
        ]
    finally:
        await store.close()


async def test_the_promises_hold_after_an_erasure(bench: Bench) -> None:
    for n in range(5):
        await enqueued(bench.store, to=[ANN, "bob@there.test"] if n % 2 else ANN)
    await bench.store.claim(await bench.lease(), limit=2, now=NOW)
    await persons.erase(bench.store, ANN, workspace=None)
    assert await broken_promises(bench.store) == {}
