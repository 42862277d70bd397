"""Limits on what a user may submit: e-mails beyond the limit are rejected one by one, with the time at which there is
room again."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from fairpost import Enqueued, InvalidEmail, Rejected, enqueue, enqueue_many
from fairpost.model.account import Limits
from fairpost.model.sender import SenderId
from fairpost.store import senders
from fairpost.store.store import Store
from tests.facts import missing
from tests.observe.reading import rows_read
from tests.simulation.world import draft

NOW = datetime(2030, 1, 10, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)


async def hand_in(store: Store, n: int, now: datetime = NOW, *, daily_max: int | None = 10, **fields: Any) -> list[Any]:
    emails = [draft(**{"user": "ann", **fields}) for _ in range(n)]
    return await store.enqueue_many(emails, daily_max=daily_max, now=now)


def accepted(rows: list[Any]) -> int:
    return sum(row["error"] is None for row in rows)


async def test_the_first_that_find_room_are_taken_and_the_others_are_told_when(store: Store) -> None:
    assert accepted(await hand_in(store, 4, NOW - 3 * HOUR)) == 4
    rows = await hand_in(store, 9)
    assert [row["error"] is None for row in rows] == [True] * 6 + [False] * 3
    error = json.loads(rows[-1]["error"])
    assert error["field"] == "user"
    assert missing(error["message"], "10 of 10", "24 hours", "2030-01-11T09:00:00Z") == []
    assert datetime.fromisoformat(error["until"]) == datetime(2030, 1, 11, 9, tzinfo=UTC), (
        "once the first four are a day old"
    )
    assert await store.value("SELECT count(*) FROM fairpost.queue") == 10


@pytest.mark.parametrize("seed", range(12))
async def test_the_moment_named_is_the_first_at_which_the_others_fit(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    now, told = NOW - 30 * HOUR, 0
    for _ in range(15):
        now += timedelta(minutes=chance.randrange(200))
        rows = await hand_in(store, chance.randrange(1, 9), now, daily_max=12)
        excess = len(rows) - accepted(rows)
        if not excess:
            continue
        told += 1
        until = datetime.fromisoformat(json.loads(rows[-1]["error"])["until"])
        sql = "SELECT room FROM fairpost.room_for('w1', 'ann', $1, 12, NULL, $2)"
        assert await store.value(sql, excess, until) == excess
        assert await store.value(sql, excess, until - MICROSECOND) < excess
    assert told


async def test_an_email_accepted_before_is_accepted_again_and_does_not_count(store: Store) -> None:
    one = [draft(user="ann", idempotency_key=f"k{i}") for i in range(10)]
    first = await store.enqueue_many(one, daily_max=10, now=NOW)
    again = await store.enqueue_many(one, daily_max=10, now=NOW)
    assert accepted(again) == 10
    assert [row["id"] for row in again] == [row["id"] for row in first]
    assert accepted(await hand_in(store, 1)) == 0


async def test_refused_and_rolled_back_emails_do_not_count(store: Store) -> None:
    assert accepted(await hand_in(store, 5, to="nonsense")) == 0
    assert accepted(await hand_in(store, 10)) == 10


async def test_users_are_counted_separately_from_each_other_and_from_mail_without_a_user(store: Store) -> None:
    assert accepted(await hand_in(store, 10)) == 10
    assert accepted(await hand_in(store, 10, user="bob")) == 10
    assert accepted(await hand_in(store, 10, workspace="w2")) == 10
    assert accepted(await hand_in(store, 50, user="")) == 50


async def test_mail_enqueued_internally_has_no_limit(store: Store) -> None:
    assert accepted(await hand_in(store, 400, daily_max=None)) == 400
    assert await store.value("SELECT count(*) FROM fairpost.submissions") == 0


async def test_a_users_own_limit_applies_to_every_route_and_before_the_common_one(store: Store) -> None:
    ann = SenderId(workspace="w1", name="ann")
    await senders.set_limits(store, ann, daily_max=3, waiting_max=None)
    assert accepted(await hand_in(store, 5, daily_max=None)) == 3
    assert accepted(await hand_in(store, 5, daily_max=300)) == 0
    assert accepted(await hand_in(store, 5, user="bob", daily_max=None)) == 5
    await senders.set_limits(store, ann, daily_max=None, waiting_max=None)
    assert accepted(await hand_in(store, 5, daily_max=None)) == 5


async def test_the_waiting_are_bounded_staged_or_not(store: Store) -> None:
    await store.add_account("a", address="a@post.test", limits=Limits())
    emails = [draft(user="ann") for _ in range(8)]
    assert accepted(await store.enqueue_many(emails, waiting_max=10, now=NOW)) == 8
    await store.value("SELECT fairpost.absorb_arrivals('{default}', $1)", NOW)
    rows = await store.enqueue_many(emails, waiting_max=10, now=NOW)
    assert accepted(rows) == 2
    error = json.loads(rows[-1]["error"])
    assert missing(error["message"], "10 ", " 10 ") == []
    assert error.get("until") is None, "nothing has been sent yet, so it is unknown when there will be room"
    await store.value(
        """INSERT INTO fairpost.activity (workspace, user_name, hour, writer, sent)
           VALUES ('w1', 'ann', fairpost.hour_of($1), '#1', 60)""",
        NOW,
    )
    rows = await store.enqueue_many(emails[:1], waiting_max=10, now=NOW)
    until = datetime.fromisoformat(json.loads(rows[-1]["error"])["until"])
    assert until == datetime(2030, 1, 10, 12, 31, tzinfo=UTC), "at sixty an hour, one takes a minute"


async def test_in_python_the_refusal_has_the_moment(store: Store, url: str) -> None:
    await senders.set_limits(store, SenderId(workspace="w1", name="ann"), daily_max=1, waiting_max=None)
    conn = await asyncpg.connect(url)
    try:
        email = {"to": "p@there.test", "subject": "s", "text": "t", "workspace": "w1", "user": "ann"}
        first, second = await enqueue_many(conn, [email, email])
        assert isinstance(first, Enqueued)
        assert isinstance(second, Rejected)
        assert second.until is not None
        with pytest.raises(InvalidEmail, match=r"^user: .*\b1 of 1\b") as refused:
            await enqueue(conn, to="p@there.test", subject="s", text="t", workspace="w1", user="ann")
        assert refused.value.until == second.until
    finally:
        await conn.close()


async def test_invalid_and_duplicate_emails_use_no_quota(store: Store) -> None:
    bad = [draft(user="ann", to="nonsense") for _ in range(3)]
    twice = [draft(user="ann", idempotency_key="k") for _ in range(3)]
    rows = await store.enqueue_many([*bad, *twice, draft(user="ann")], daily_max=2, now=NOW)
    assert [row["error"] is None for row in rows] == [False] * 3 + [True] * 4


@pytest.mark.fresh
async def test_unabsorbed_mail_of_others_is_not_read(store: Store) -> None:
    await store.enqueue_many([draft(user=f"u{i}") for i in range(2_000)])
    assert await store.value("SELECT count(*) FROM fairpost.arrivals") == 2_000
    for users in (["ann"], ["ann", "ben", "u7"]):
        emails = json.dumps([draft(user=user) for user in users])
        assert await rows_read(store, "SELECT * FROM fairpost.enqueue_many($1, NULL, 100, 100)", emails) < 50


async def test_open_transactions_of_a_limited_workspace_do_not_wait_for_each_other(url: str, store: Store) -> None:
    """Each e-mail is counted in a separate slot. Close to the limit, callers take turns, so that the limit holds."""
    await store.value(
        "INSERT INTO fairpost.senders (workspace, level, name, daily_max) VALUES ('w', 'workspace', '', 5000)"
    )
    sql = "SELECT * FROM fairpost.enqueue_many($1)"
    email = json.dumps([{"to": "a@there.test", "subject": "s", "text": "t", "workspace": "w"}])
    several = [await asyncpg.connect(url) for _ in range(4)]
    begun = [conn.transaction() for conn in several]
    for conn, transaction in zip(several, begun, strict=True):
        await transaction.start()
        await conn.execute("SET LOCAL lock_timeout = '10s'")
        assert (await conn.fetchrow(sql, email))["new"]
    for conn, transaction in zip(several, begun, strict=True):
        await transaction.commit()
        await conn.close()
    await store.value("UPDATE fairpost.senders SET daily_max = 4")
    (refused,) = await store.enqueue_many(json.loads(email))
    assert json.loads(refused["error"])["code"] == "too_many"
    assert await store.value("SELECT sum(n) FROM fairpost.submissions WHERE workspace = 'w' AND user_name = ''") == 4
