"""A step that cannot be committed in a group of several: the others settle, and its account stays usable."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from fairpost.engine.group import StepGroup
from fairpost.model.report import Reply, Report
from fairpost.model.step import StepAnswer, StepRequest
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from fairpost.system import clock
from tests.peers.pgbouncer import SESSIONS, sessions
from tests.settle.test_group import NOW, OK, Desk, desks
from tests.simulation.world import connect

BIG = "x" * 2**20
POISON = {
    "NUL in the reply": replace(OK, reply=Reply(250, "nul \0 in it")),
    "NUL in a recipient's reply": replace(OK, recipients={"p@there.test": Reply(250, "nul \0 in it")}),
    "NUL in the Message-ID": replace(OK, message_id="<nul\0@post.test>"),
    "a lone surrogate": replace(OK, reply=Reply(250, "half \ud800 of it")),
    "a code that is no number of SMTP": replace(OK, reply=Reply(100_000, "Ok")),
}


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = await connect(url)
    yield made
    await made.close()


def settling(desk: Desk, report: Report) -> StepRequest:
    request = desk.request()
    assert request.settles is not None
    return replace(request, settles=replace(request.settles, report=report))


async def taken(group: StepGroup, requests: Sequence[StepRequest]) -> list[bool]:
    with clock.stopped_at(NOW):
        answers = await asyncio.gather(*map(group.take_step, requests), return_exceptions=True)
    return [isinstance(answer, StepAnswer) and answer.is_taken and answer.is_begun for answer in answers]


@pytest.mark.parametrize("poison", POISON)
async def test_a_reply_that_cannot_be_stored_stops_only_its_own_account(store: Store, poison: str) -> None:
    four = await desks(store, 4)
    group = StepGroup.of(store)
    requests = [each.request() for each in four]
    requests[1] = settling(four[1], POISON[poison])
    assert await taken(group, requests) == [True, False, True, True]
    assert await taken(group, [four[1].request()]) == [True]


async def test_a_reply_of_a_megabyte_is_shortened_and_stops_no_account(store: Store) -> None:
    four = await desks(store, 4)
    requests = [each.request() for each in four]
    requests[1] = settling(four[1], replace(OK, reply=Reply(250, BIG), recipients={"p@there.test": Reply(250, BIG)}))
    with clock.stopped_at(NOW):
        answers = await take_steps(store, requests)
    assert all(answer is not None and answer.is_taken for answer in answers)
    longest = "SELECT max(length(reply)), max(length(recipients::text)) FROM fairpost.attempts"
    assert max(await store.row(longest)) < 5_000


@pytest.mark.parametrize("table", ["emails", "attempts"])
async def test_a_partition_of_history_that_is_missing_stops_only_its_own_account(store: Store, table: str) -> None:
    """An e-mail of a month whose partition was dropped, where there is no default partition either."""
    four = await desks(store, 4)
    old = 1  # an id of 1970
    await store.value("UPDATE fairpost.queue SET id = $2 WHERE id = $1", four[1].sending, old)
    four[1] = replace(four[1], sending=old)  # type: ignore[arg-type]
    await store.value(f"ALTER TABLE fairpost.{table} DETACH PARTITION fairpost.{table}_rest")
    group = StepGroup.of(store)
    try:
        assert await taken(group, [each.request() for each in four]) == [True, False, True, True]
        sending = "SELECT state::text FROM fairpost.queue WHERE id = $1"
        assert await store.value(sending, old) == "sending"
    finally:
        await store.value(f"ALTER TABLE fairpost.{table} ATTACH PARTITION fairpost.{table}_rest DEFAULT")
    assert await taken(group, [four[1].request()]) == [True]


@pytest.mark.parametrize("way", ["in a group", "alone"])
async def test_a_setting_that_another_client_of_a_pooler_left_does_not_make_a_step_less_durable(
    store: Store, pooled_url: str, way: str
) -> None:
    """Each session of PgBouncer is left with `synchronous_commit = off`."""
    three = await desks(store, 3)
    with sessions(pooled_url):  # opens all of them
        careless, pooled = await connect(pooled_url), await connect(pooled_url, connections_max=1)
        try:
            assert pooled.behind_pooler
            for _ in range(4 * SESSIONS):
                await careless.value("SELECT set_config('synchronous_commit', 'off', false)")
            assert {await pooled.value("SHOW synchronous_commit") for _ in range(2 * SESSIONS)} == {"off"}
            with clock.stopped_at(NOW):
                async with pooled.together() as one:
                    if way == "in a group":
                        assert all(await take_steps(one, [each.request() for each in three]))
                    else:
                        assert (await one.take_step(three[0].request())).is_taken
                    assert await one.value("SHOW synchronous_commit") == "on"
            left = await pooled.value("SELECT count(*) FROM fairpost.leases WHERE step = 2")
            assert left == (3 if way == "in a group" else 1)
        finally:
            for _ in range(4 * SESSIONS):
                await careless.value("SELECT set_config('synchronous_commit', 'on', false)")
            await careless.close()
            await pooled.close()
