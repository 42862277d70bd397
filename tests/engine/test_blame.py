"""Accounts shared by several senders, over real sockets: only the sender that is rejected or bounces is stopped."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from fairpost.engine.results import Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.model.account import AccountStatus, Limits
from fairpost.model.fault import Bounces, Refusals
from fairpost.model.ids import AccountId
from fairpost.policy.blame import BLOCKS_MAX, REFUSALS_MAX
from fairpost.store.blocks import block, blocked_for_all, read_blocks, unblock
from fairpost.store.store import Store
from fairpost.transports.smtp.send import SmtpTransport
from tests.engine.refusing_server import REFUSED, RefusingServer, refusing_server

FAULT = Bounces(sent=20, bounced=3, percent_max=5.0)


@pytest.fixture
async def server() -> AsyncIterator[RefusingServer]:
    async with refusing_server("bad.test") as server:
        yield server


async def add(store: Store, name: str = "shared", **limits: Any) -> AccountId:
    return await store.add_account(name, address=f"{name}@post.test", limits=Limits(**limits))


async def enqueue(store: Store, workspace: str, n: int = 1, *, to: str = "ann@there.test", **more: Any) -> None:
    email = {"workspace": workspace, "from": f"x@{workspace}.test", "to": to, "subject": "s", "text": "t", **more}
    rows = await store.enqueue_many([email] * n)
    assert [row["error"] for row in rows] == [None] * n


async def enqueue_dead(store: Store, workspace: str, n: int) -> None:
    """To different addresses that do not exist, because each bounce suppresses its address."""
    for i in range(n):
        await enqueue(store, workspace, to=f"gone{i}@there.test")


async def drive(store: Store, account: AccountId, server: RefusingServer) -> Rested:
    """Runs one worker until there is nothing to do. Returns why it rested."""
    transport = SmtpTransport(server.settings)
    runner = await Runner.start(store, transport, account, owner="test")
    assert runner is not None
    await runner.run_until_idle()
    while not isinstance(rested := await runner.step(), Rested):  # another worker has given something back
        await runner.run_until_idle()
    await runner.stop()
    await transport.close()
    return rested


async def blocks_of(store: Store) -> list[tuple[str, str]]:
    return [(each.account, each.workspace) for each in await read_blocks(store, now=await store.now())]


async def left(store: Store, workspace: str) -> int:
    return int(await store.value("SELECT count(*) FROM fairpost.queue WHERE workspace = $1", workspace))


async def test_five_refusals_of_one_workspace_leave_the_sign_in_codes_of_another_alone(
    store: Store, server: RefusingServer
) -> None:
    shared = await add(store)
    await enqueue(store, "codes", 2, **{"class": "urgent"})
    await drive(store, shared, server)
    await enqueue(store, "bad", 30)
    await drive(store, shared, server)
    await enqueue(store, "codes", 3, **{"class": "urgent"})
    rested = await drive(store, shared, server)

    assert server.taken == {"codes.test": 5}
    assert server.conversations["bad.test"] == REFUSALS_MAX, "not one more than necessary"
    assert (await store.account(shared)).status is AccountStatus.ACTIVE
    assert rested.why is Idle.EMPTY, "only blocked mail is left"
    (found,) = await read_blocks(store, now=await store.now())
    assert (found.account, found.workspace, found.until) == ("shared", "bad", None)
    assert isinstance(found.fault, Refusals)
    assert (found.fault.refused, found.fault.reply) == (REFUSALS_MAX, REFUSED)
    event = await store.row("SELECT workspace, subject, detail FROM fairpost.events WHERE kind = 'blocked'")
    assert (event["workspace"], event["subject"]) == (None, "shared"), "its owner is notified"
    assert json.loads(event["detail"])["sender"] == "bad"
    assert await left(store, "bad") == 30 - REFUSALS_MAX


async def test_a_sender_refused_in_between_accepted_mail_of_others_is_found(
    store: Store, server: RefusingServer
) -> None:
    shared = await add(store, batch_max=1)
    await enqueue(store, "codes", 20)
    await enqueue(store, "bad", 20)
    await drive(store, shared, server)
    assert server.taken == {"codes.test": 20}
    assert server.conversations["bad.test"] == REFUSALS_MAX
    assert await blocks_of(store) == [("shared", "bad")]


async def test_refusals_are_counted_from_worker_to_worker(store: Store, server: RefusingServer) -> None:
    shared = await add(store)
    await enqueue(store, "codes")
    await drive(store, shared, server)
    for n in range(REFUSALS_MAX):
        assert await blocks_of(store) == [], n
        await enqueue(store, "bad")
        await drive(store, shared, server)
    assert await blocks_of(store) == [("shared", "bad")]


async def test_one_sender_alone_suspends_its_account_and_a_resume_counts_from_the_beginning(
    store: Store, server: RefusingServer
) -> None:
    own = await add(store)
    await enqueue(store, "bad", 20)
    await drive(store, own, server)
    account = await store.account(own)
    assert (account.status, server.conversations["bad.test"]) == (AccountStatus.SUSPENDED, REFUSALS_MAX)
    assert account.status_reason is not None
    assert account.status_reason.code == "account.refused_in_a_row"
    assert REFUSED in str(account.status_reason.params["reply"])
    assert await blocks_of(store) == []
    await store.change_account("shared", {"status": AccountStatus.ACTIVE})
    await drive(store, own, server)
    assert server.conversations["bad.test"] == 2 * REFUSALS_MAX, "a new sample"
    await store.change_account("shared", {"status": AccountStatus.ACTIVE})
    server.refused.clear()
    await drive(store, own, server)
    assert server.taken["bad.test"] == 20 - 2 * REFUSALS_MAX


@pytest.mark.parametrize(("days", "sent", "status"), [(8, 100, "suspended"), (8, 99, "active"), (6, 100, "active")])
async def test_where_nothing_passes_any_more_an_established_sender_shows_that_it_is_the_account(
    store: Store, server: RefusingServer, days: int, sent: int, status: str
) -> None:
    shared = await add(store)
    await enqueue(store, "old")
    await enqueue(store, "codes")
    await drive(store, shared, server)
    await store.value(
        "UPDATE fairpost.counters SET since = since - make_interval(days => $1), accepted = $2 WHERE workspace = 'old'",
        *(days, sent),
    )
    server.refused |= {"old.test", "codes.test"}  # as if the account's server were on a blocklist
    await enqueue(store, "old", 20)
    await drive(store, shared, server)
    assert (await store.account(shared)).status == status
    assert await blocks_of(store) == ([] if status == "suspended" else [("shared", "old")])


async def test_consecutive_refusals_of_many_senders_suspend_the_account_and_blame_no_sender(
    store: Store, server: RefusingServer
) -> None:
    shared = await add(store)
    for n in range(10):
        server.refused.add(f"w{n}.test")
        await enqueue(store, f"w{n}", 3)
    await drive(store, shared, server)
    assert (await store.account(shared)).status is AccountStatus.SUSPENDED
    assert sum(server.conversations.values()) == REFUSALS_MAX
    assert await blocks_of(store) == []


async def test_three_bounces_stop_a_workspace_on_that_account_alone_and_by_its_own_figures(
    store: Store, server: RefusingServer
) -> None:
    shared, own = await add(store, batch_max=5), await add(store, "own")
    await enqueue(store, "good", 30)
    await enqueue_dead(store, "sloppy", 3)
    await enqueue(store, "sloppy", 7)
    await drive(store, shared, server)
    await enqueue(store, "sloppy", 4, account="shared")
    await enqueue(store, "sloppy", 2, account="own", **{"class": "urgent"})
    await drive(store, shared, server)
    await drive(store, own, server)
    (found,) = await read_blocks(store, now=await store.now())
    assert (found.account, found.workspace) == ("shared", "sloppy")
    assert found.fault == Bounces(sent=10, bounced=3, percent_max=5.0), "not the account's figures"
    assert server.taken == {"good.test": 30, "sloppy.test": 9}, "its password resets are sent through its own account"
    assert await left(store, "sloppy") == 4
    assert await store.value("SELECT count(*) FROM fairpost.sender_rules WHERE held_until IS NOT NULL") == 0
    assert (await store.account(shared)).status is AccountStatus.ACTIVE


async def test_after_a_pause_for_bounces_a_resume_does_not_end_with_the_next_batch(
    store: Store, server: RefusingServer
) -> None:
    account = await add(store, batch_max=5)
    await enqueue_dead(store, "sloppy", 3)
    await enqueue(store, "sloppy", 100)
    await drive(store, account, server)
    assert (await store.account(account)).status is AccountStatus.PAUSED
    before = server.taken["sloppy.test"]
    assert before < 30
    await store.change_account("shared", {"status": AccountStatus.ACTIVE})
    await drive(store, account, server)
    assert (await store.account(account)).status is AccountStatus.ACTIVE
    assert server.taken["sloppy.test"] == 100


async def test_others_of_the_pool_send_for_a_blocked_sender_and_pinned_mail_waits_until_it_is_unblocked(
    store: Store, server: RefusingServer
) -> None:
    shared, other = await add(store), await add(store, "other")
    await enqueue(store, "w1", 3)
    await enqueue(store, "w1", 2, account="shared")
    await lay(store, shared, "w1")
    rested = await drive(store, shared, server)
    assert (rested.why, server.taken) == (Idle.EMPTY, {})
    await drive(store, other, server)
    assert server.taken == {"w1.test": 3}
    assert await unblock(store, "shared", "w2") == []
    assert await unblock(store, "nobody", "w1") is None
    assert await unblock(store, "shared", "w1") == ["w1"]
    await drive(store, shared, server)
    assert server.taken == {"w1.test": 5}
    kinds = [row["kind"] for row in await store.fetch("SELECT kind FROM fairpost.events ORDER BY id")]
    assert kinds == ["blocked", "unblocked"]


async def lay(store: Store, account: AccountId, *workspaces: str, until: datetime | None = None) -> list[bool]:
    lease = await store.take_lease(account, owner="test", seconds=60)
    assert lease is not None
    laid = [await block(store, lease, workspace, FAULT, until=until) for workspace in workspaces]
    await store.drop_lease(lease)
    return laid


async def test_a_block_laid_while_an_e_mail_is_claimed_sends_it_back(store: Store, server: RefusingServer) -> None:
    shared = await add(store)
    await enqueue(store, "w1", 3)
    lease = await store.take_lease(shared, owner="test", seconds=60)
    assert lease is not None
    claim = await store.claim(lease, limit=10)
    assert await block(store, lease, "w1", FAULT)
    begun = await store.begin(lease, claim.ids[0], usage=(await store.account(shared)).usage)
    assert begun.verdict == "blocked"
    await store.drop_lease(lease)


async def test_a_block_that_ends_by_itself_leaves_nothing_to_be_blamed_for(
    store: Store, server: RefusingServer
) -> None:
    shared = await add(store, cool_down_s=3600)
    await enqueue(store, "codes")
    await drive(store, shared, server)
    await enqueue(store, "bad", 10)
    await drive(store, shared, server)
    assert await blocks_of(store) == [("shared", "bad")]
    await store.value("UPDATE fairpost.blocks SET until = clock_timestamp() - interval '1 second'")
    server.refused.clear()
    await drive(store, shared, server)
    assert server.taken["bad.test"] == 10 - REFUSALS_MAX
    row = await store.row("SELECT refused, accepted FROM fairpost.counters WHERE workspace = 'bad'")
    assert tuple(row) == (0, 10 - REFUSALS_MAX)
    assert await store.value("SELECT count(*) FROM fairpost.blocks") == 0


async def test_an_unblocked_sender_is_counted_from_the_beginning(store: Store, server: RefusingServer) -> None:
    shared = await add(store)
    await enqueue(store, "codes")
    await drive(store, shared, server)
    await enqueue(store, "bad", 20)
    for times in (1, 2, 3):
        await drive(store, shared, server)
        assert server.conversations["bad.test"] == times * REFUSALS_MAX
        assert await unblock(store, "shared", "bad") == ["bad"]


async def test_an_account_has_room_for_a_hundred_blocks(store: Store) -> None:
    shared = await add(store)
    names = [f"w{n}" for n in range(BLOCKS_MAX)]
    assert await lay(store, shared, *names) == [True] * BLOCKS_MAX
    assert await lay(store, shared, "one more", "w0") == [False, True]
    await store.value("UPDATE fairpost.blocks SET until = '2020-01-01Z' WHERE workspace = 'w1'")
    assert await lay(store, shared, "one more") == [True], "a block that has ended makes room"
    assert await unblock(store, "shared") == sorted({*names, "one more"} - {"w1"})


async def test_two_engines_block_a_sender_each_on_its_own_account(store: Store, server: RefusingServer) -> None:
    one, two = await add(store, "one", batch_max=1), await add(store, "two", batch_max=1)
    await enqueue(store, "codes", 40)
    await enqueue(store, "bad", 40)
    await asyncio.gather(drive(store, one, server), drive(store, two, server))
    assert server.taken == {"codes.test": 40}
    assert server.conversations["bad.test"] == 2 * REFUSALS_MAX
    assert await blocks_of(store) == [("one", "bad"), ("two", "bad")]
    assert await left(store, "bad") == 40 - 2 * REFUSALS_MAX


async def test_an_account_with_nothing_but_blocked_mail_needs_no_worker_until_it_has_other(store: Store) -> None:
    shared, other = await add(store), await add(store, "other")
    await enqueue(store, "w1", 3)
    await lay(store, shared, "w1")
    assert await blocked_for_all(store) == [shared]
    await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default', '@shared'])")
    assert await blocked_for_all(store) == [shared]
    await enqueue(store, "w2")
    assert await blocked_for_all(store) == []
    await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default', '@shared'])")
    assert await blocked_for_all(store) == []
    await lay(store, other, "w1", until=datetime(2020, 1, 1, tzinfo=UTC))
    assert await blocked_for_all(store) == []


async def test_newcomers_do_not_overtake_everyone_because_a_blocked_sender_stands_still(store: Store) -> None:
    """The virtual time of a pool advances although no account may serve the first sender."""
    shared = await add(store)
    await enqueue(store, "blocked", 50)
    await enqueue(store, "there", 300)
    lease = await store.take_lease(shared, owner="test", seconds=60)
    assert lease is not None
    assert await block(store, lease, "blocked", FAULT)
    for _ in range(10):
        assert len((await store.claim(lease, limit=10)).ids) == 10
    await enqueue(store, "new", 100)
    claim = await store.claim(lease, limit=20)
    rows = await store.fetch("SELECT workspace FROM fairpost.queue WHERE id = ANY ($1)", list(claim.ids))
    assert [row["workspace"] for row in rows].count("new") <= 20 // 2 + 2
    assert await unblock(store, "shared", "blocked") == ["blocked"]
    claim = await store.claim(lease, limit=30)
    rows = await store.fetch("SELECT workspace FROM fairpost.queue WHERE id = ANY ($1)", list(claim.ids))
    assert [row["workspace"] for row in rows].count("blocked") <= 30 // 3 + 2, "nor does it have credit"


async def test_a_sole_sender_is_not_blamed_for_the_previous_day(store: Store, server: RefusingServer) -> None:
    shared = await add(store, batch_max=5)
    await enqueue(store, "codes")
    await drive(store, shared, server)
    await store.value("UPDATE fairpost.leases SET day_started_at = day_started_at - interval '25 hours'")
    await store.value("UPDATE fairpost.counters SET day = day - interval '25 hours'")
    await enqueue_dead(store, "sloppy", 3)
    await enqueue(store, "sloppy", 30)
    await drive(store, shared, server)
    assert (await store.account(shared)).status is AccountStatus.ACTIVE
    assert await blocks_of(store) == [("shared", "sloppy")]
