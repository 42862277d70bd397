"""Type, tags and metadata of an e-mail: they accompany it everywhere, belong to its workspace, and are deleted with it."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from fairpost.model.account import Limits
from fairpost.model.errors import Refusal
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.verdict import Failed, Retry, Sent
from fairpost.observe.emails import listed_by_ids, show_email
from fairpost.store import privacy
from fairpost.store.store import Store
from fairpost.system import clock
from tests.campaigns.world import MONDAY, World
from tests.settle.test_leases import Bench
from tests.simulation.world import START, draft

LABELS: dict[str, Any] = {
    "type": "hub_forgot_password",
    "tags": {"order": "7", "plan": "gold"},
    "metadata": {"cart": [1]},
}


@pytest.fixture
async def bench(store: Store) -> Bench:
    return Bench(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))


async def put(store: Store, **more: Any) -> EmailId:
    (row,) = await store.enqueue_many([draft(**more)], now=START)
    assert row["error"] is None, row["error"]
    return EmailId(row["id"])


async def labels(store: Store, id_: EmailId) -> dict[str, Any]:
    shown = await show_email(store, id_)
    (listed,) = await listed_by_ids(store, [id_])
    assert (listed.type, listed.tags) == (shown.type, shown.tags)
    return {"type": shown.type, "tags": shown.tags, "metadata": shown.metadata}


async def marks(store: Store) -> int:
    return int(await store.value("SELECT count(*) FROM fairpost.tag_marks"))


async def test_they_go_with_the_e_mail_into_history_and_back(bench: Bench) -> None:
    store = bench.store
    id_ = await put(store, **LABELS)
    assert await labels(store, id_) == LABELS
    lease = await bench.lease()
    assert await bench.begun(lease) == id_
    assert await store.settle(lease, id_, Failed(), now=START) == "settled"
    assert await labels(store, id_) == LABELS
    assert await store.value("SELECT fairpost.retry($1, $2)", id_, START) == "waiting"
    assert await labels(store, id_) == LABELS
    assert await bench.begun(lease) == id_
    assert await store.settle(lease, id_, Sent(), now=START) == "settled"
    assert await labels(store, id_) == LABELS
    assert await marks(store) == 2


async def test_an_e_mail_without_them_leaves_no_row(store: Store) -> None:
    id_ = await put(store)
    empty = await put(store, tags={}, metadata={}, type=None)
    for each in (id_, empty):
        assert await labels(store, each) == {"type": None, "tags": {}, "metadata": {}}
    assert await store.value("SELECT count(*) FROM fairpost.labels") == await marks(store) == 0


async def test_each_of_many_has_its_own(store: Store) -> None:
    given: list[dict[str, Any]] = [
        {},
        {"type": "a"},
        {"tags": {"x": "1"}},
        {"to": "no address", "type": "b"},
        {"metadata": {"y": 2}},
    ]
    rows = await store.enqueue_many([draft(**each) for each in given], now=START)
    stored = [await labels(store, EmailId(row["id"])) if row["id"] else None for row in rows]
    none: dict[str, Any] = {"type": None, "tags": {}, "metadata": {}}
    assert stored == [none, {**none, "type": "a"}, {**none, "tags": {"x": "1"}}, None, {**none, "metadata": {"y": 2}}]


async def test_a_known_key_changes_nothing(store: Store) -> None:
    id_ = await put(store, idempotency_key="k", **LABELS)
    assert await put(store, idempotency_key="k", type="other", tags={"a": "b"}) == id_
    assert await labels(store, id_) == LABELS
    assert await marks(store) == 2


async def test_a_workspace_sees_its_own_alone(store: Store) -> None:
    mine, other = await put(store, workspace="w1", **LABELS), await put(store, workspace="w2", **LABELS)
    async with store.together() as one:
        await one.value("SET LOCAL ROLE fairpost_tenant")
        await one.value("SELECT set_config('fairpost.workspace', 'w1', true)")
        assert [row["email_id"] for row in await one.fetch("SELECT email_id FROM fairpost.labels")] == [mine]
        assert (await one.row("SELECT type FROM fairpost.show_email($1)", mine))["type"] == LABELS["type"]
        with pytest.raises(asyncpg.PostgresError):
            async with one.together():
                await one.fetch("SELECT * FROM fairpost.show_email($1)", other)
    for table in ("labels", "tag_marks"):
        async with store.together() as one:
            await one.value("SET LOCAL ROLE fairpost_app")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await one.fetch(f"SELECT * FROM fairpost.{table}")


async def test_erasure_leaves_the_type_and_others_labels(store: Store) -> None:
    ann, tags = "Ann@There.test", {"for": "ann@there.test", "plan": "gold"}
    alone = await put(store, to=ann, type="welcome", tags=tags, metadata={"n": 1})
    shared = await put(store, to=[ann, "bob@there.test"], type="welcome", tags=tags, metadata={"x": [ann, "bob"]})
    foreign = await put(store, to="bob@there.test", **LABELS)
    exported = [piece async for section, piece in privacy.export(store, ann, workspace=None) if section == "emails"]
    assert [(each["type"], each["tags"]) for each in exported] == [("welcome", tags)] * 2
    assert exported[0]["metadata"] == {"n": 1}
    await privacy.erase(store, ann, workspace=None)
    assert await labels(store, alone) == {"type": "welcome", "tags": {}, "metadata": {}}
    assert await labels(store, shared) == {
        "type": "welcome",
        "tags": {"for": "[erased]", "plan": "gold"},
        "metadata": {"x": ["[erased]", "bob"]},
    }
    assert await labels(store, foreign) == LABELS
    assert await marks(store) == 3  # those of the remaining tags: plan of the second, and both of the third


async def test_a_campaign_labels_every_e_mail_it_plans(bench: Bench) -> None:
    store = bench.store
    with clock.stopped_at(MONDAY) as manual:
        world = World(store, manual)
        await world.add_people(3)
        await world.launch(await world.draft(labels={"type": "newsletter", "tags": {"season": "spring"}}))
    rows = await store.fetch(
        "SELECT q.id, l.type, l.tags FROM fairpost.queue q JOIN fairpost.labels l ON l.email_id = q.id"
    )
    assert {(row["type"], row["tags"]) for row in rows} == {("newsletter", '{"season": "spring"}')}
    assert len(rows) == await marks(store) == await store.value("SELECT count(*) FROM fairpost.queue") > 0


WRONG: dict[str, dict[str, Any]] = {
    "type": {"type": "a b"},
    "tags.a": {"tags": {"a": "\n"}},
    "metadata": {"metadata": {"a": "b" * 2048}},
}


async def test_a_campaign_with_labels_that_no_e_mail_may_have_is_refused(store: Store) -> None:
    with clock.stopped_at(MONDAY) as manual:
        world = World(store, manual)
        await world.add_people(1)
        for field, wrong in WRONG.items():
            with pytest.raises(Refusal) as refused:
                await world.draft(labels=wrong)
            assert refused.value.reason.params["field"] == field


async def status(store: Store, id_: EmailId) -> dict[str, Any]:
    return dict(await store.row("SELECT * FROM fairpost.status($1, $2)", id_, START))


async def test_status_shows_what_was_said_last_and_what_comes_next(bench: Bench) -> None:
    store = bench.store
    id_ = await put(store, **LABELS)
    lease = await bench.lease()
    assert await bench.begun(lease) == id_
    busy = Report(reached=Reached.REPLIED, reply=Reply(451, "4.3.0 busy"))
    later = START + timedelta(minutes=5)
    await store.settle(lease, id_, Retry(later, ("ann@there.test",)), busy, now=START)
    told = await status(store, id_)
    assert (told["state"], told["attempts"], told["due_at"]) == ("scheduled", 1, later)
    assert (told["code"], "4.3.0 busy" in told["reply"]) == (451, True)
    assert (told["waits_for"], told["waits_until"]) == (None, None)
    workspace = await store.value("SELECT workspace FROM fairpost.queue")
    until = START + timedelta(hours=2)
    hold = "SELECT fairpost.hold($1, 'workspace', '', $2, 'hold.by_hand', '{}', $3)"
    await store.value(hold, workspace, until, START)
    told = await status(store, id_)
    assert (told["waits_for"], told["waits_until"]) == ("hold.by_hand", until)
    assert await store.cancel(id_) == "cancelled"
    told = await status(store, id_)
    assert (told["state"], told["reason"], told["waits_for"], told["due_at"]) == (
        "cancelled",
        "email.cancelled",
        None,
        None,
    )
