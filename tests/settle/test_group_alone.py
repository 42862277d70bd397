"""Groups and single steps for the same accounts at the same time, on connections of their own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from fairpost.model.ids import EmailId
from fairpost.model.step import Begins, Settles, StepAnswer, StepRequest
from fairpost.model.verdict import Failed, Retry, Sent, Untouched, Verdict
from fairpost.store.step_groups import is_ordinary, take_steps
from fairpost.store.store import Store
from fairpost.system import clock
from tests.settle.test_group import NOW, OK, USAGE, Desk, desks
from tests.simulation.world import broken_promises, connect, draft

EMAILS = 12
OUTCOMES: tuple[Verdict, ...] = (Sent(), Retry(NOW, ()), Sent(), Untouched(), Sent(), Failed())
SENDING = "SELECT count(*) FROM fairpost.queue WHERE state = 'sending' GROUP BY account_id HAVING count(*) > 1"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    made = await connect(url, connections_max=8)
    yield made
    await made.close()


def requests_of(desk: Desk, sending: EmailId | None, claimed: list[EmailId], verdict: Verdict) -> StepRequest:
    report = None if verdict == Untouched() else OK
    return StepRequest(
        lease=desk.lease,
        number=desk.lease.step + 1,
        settles=None if sending is None else Settles(email_id=sending, verdict=verdict, report=report),
        begins=Begins(email_id=claimed[0], usage=USAGE) if claimed else None,
    )


async def in_a_group(store: Store, requests: list[StepRequest]) -> list[StepAnswer | None]:
    return await take_steps(store, requests) if all(map(is_ordinary, requests)) else [None] * len(requests)


async def test_a_step_that_is_sent_in_a_group_and_alone_at_once_is_taken_by_one_of_them(store: Store, url: str) -> None:
    """At every moment, each account is sending one e-mail at most."""
    accounts = await desks(store, 4)
    sending: dict[int, EmailId | None] = {n: each.sending for n, each in enumerate(accounts)}
    claimed = {n: [each.claimed] for n, each in enumerate(accounts)}
    over = asyncio.Event()
    seen = []

    async def look() -> None:
        conn = await asyncpg.connect(url)
        while not over.is_set():
            seen.extend(await conn.fetch(SENDING))
        await conn.close()

    watching = asyncio.create_task(look())
    with clock.stopped_at(NOW):
        for n, desk in enumerate(accounts):
            mail = [draft(workspace=f"w{n}", to=f"more{n}{k}@there.test", account=f"a{n}") for k in range(EMAILS)]
            await store.enqueue_many(mail, now=NOW)
            claimed[n] += (await store.claim(desk.lease, limit=EMAILS)).ids
        for verdict in OUTCOMES:
            requests = [requests_of(desk, sending[n], claimed[n], verdict) for n, desk in enumerate(accounts)]
            together, singly = await asyncio.gather(
                in_a_group(store, requests), asyncio.gather(*map(store.take_step, [*requests, *requests]))
            )
            for n, request in enumerate(requests):
                answers = [together[n], singly[n], singly[n + len(requests)]]
                taken = [answer for answer in answers if answer is not None and answer.is_taken]
                assert len(taken) == 1, (verdict, answers)
                assert taken[0].is_begun
                sending[n] = claimed[n].pop(0)
                accounts[n].lease = replace(accounts[n].lease, step=request.number)
    over.set()
    await watching
    assert seen == []
    rows = await store.fetch("SELECT account_id, id FROM fairpost.queue WHERE state = 'sending' ORDER BY account_id")
    assert [row["id"] for row in rows] == list(sending.values())
    assert await broken_promises(store) == {}
