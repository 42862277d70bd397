"""The demonstration on a real database, sent over real sockets: what it creates, that it can be started again, and that
nothing is left at the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from fairpost.campaigns import launching
from fairpost.dev.demo.background import HELD_BACK, HELD_BECAUSE, HELD_USER, HOURLY_AT_FIRST, Background, clear
from fairpost.dev.demo.burst import OTHERS, Burst
from fairpost.dev.demo.campaign import DRAFT, RUNNING
from fairpost.dev.demo.letters import Letters
from fairpost.dev.demo.readers import PEOPLE, reader
from fairpost.dev.demo.stage import CLUB, HOURLY_POOL, PARTS, POOLS, ROUTES, SHOP, WORKSPACES, put_workspaces
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits, Usage
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Reason
from fairpost.model.transport import Security
from fairpost.model.verdict import Sent
from fairpost.policy.limits import Barrier, NotBefore, availability
from fairpost.portals.folder import BUILT_IN
from fairpost.portals.loading import load_portals
from fairpost.store import campaigns, workspaces
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.transports.scripted.send import OK
from fairpost.transports.smtp.login import server_of
from fairpost.transports.smtp.send import SmtpTransport
from fairpost.transports.smtp.settings import SmtpSettings

FLOOD = 20
NOWHERE = SmtpSettings(host="127.0.0.1", port=9, security=Security.NONE)


@pytest.fixture
async def inbox(store: Store) -> AsyncIterator[InboxServer]:
    server = InboxServer(store, ServerOptions(port=0))
    await server.start()
    yield server
    await server.stop()


def acts(store: Store, server: SmtpSettings = NOWHERE, seed: str = "1") -> tuple[Burst, Background]:
    return Burst(store, server, flood=FLOOD), Background(store, server, dice=chance.dice(seed))


async def begun(store: Store, server: SmtpSettings = NOWHERE) -> Background:
    first, second = acts(store, server)
    await put_workspaces(store)
    await first.begin()
    await second.begin()
    return second


async def stage_of(store: Store) -> dict[str, Any]:
    """Returns everything that exists, except for the ids."""
    sql = """
        SELECT (SELECT array_agg((a.name, a.pool, a.status, a.status_reason)::text ORDER BY a.name) FROM fairpost.accounts a) AS accounts,
               (SELECT array_agg((l.workspace, l.pool, l.senders)::text ORDER BY l.workspace, l.pool) FROM fairpost.loans l) AS workspaces,
               (SELECT array_agg((c.name, c.state)::text ORDER BY c.name) FROM fairpost.campaigns c) AS campaigns,
               (SELECT count(*) FROM fairpost.prospects) AS prospects,
               (SELECT count(*) FROM fairpost.list_members) AS members,
               (SELECT array_agg((n.workspace, n.route, n.n)::text ORDER BY n.workspace, n.route)
                FROM (SELECT q.workspace, q.route, count(*) AS n FROM fairpost.queue q GROUP BY 1, 2) n) AS waiting"""
    return dict(await store.row(sql))


async def unfinished(store: Store, *routes: str) -> int:
    sql = "SELECT count(*) FROM fairpost.queue q WHERE q.workspace = ANY ($1) AND q.route = ANY ($2)"
    return int(await store.value(sql, list(WORKSPACES), list(routes)))


async def send_all(store: Store, *accounts: str) -> None:
    """Sends everything that these accounts may send within their limits, over the wire, ignoring pauses."""
    for name in accounts:
        await store.change_account(name, {"delay_ms": 0})
        account = await store.account_named(name)
        assert isinstance(account.transport, SmtpSettings)
        transport = SmtpTransport(server_of(account.transport))
        runner = await Runner.start(store, transport, account.id, owner="test")
        assert runner is not None
        await runner.run_until_idle()
        await runner.stop()
        await transport.close()


async def test_every_letter_is_one_that_the_queue_takes(store: Store) -> None:
    letters = Letters(load_portals(BUILT_IN), chance.dice("letters"))
    now = clock.now()
    given = [letters.letter(number, now=now) for number in range(300)]
    rows = await store.enqueue_many(given)
    assert [row["error"] for row in rows if row["error"]] == []
    assert {letter["workspace"] for letter in given} == set(WORKSPACES)
    assert any("rcpt-reject" in letter["to"] for letter in given)
    assert any("List-Unsubscribe" in letter.get("headers", {}) for letter in given)
    assert any("{{" in letter["subject"] for letter in given)
    assert any(len(letter.get("attachments", ())) == 2 for letter in given)


def test_no_recipient_could_be_a_real_person() -> None:
    people = [reader(number) for number in range(PEOPLE)]
    assert all(one.address("rcpt-reject").endswith("@demo.invalid") for one in people)
    assert len({one.name for one in people}) == len({one.address() for one in people}) == PEOPLE
    assert all(name.startswith("demo") for name in (*PARTS, *POOLS, *WORKSPACES))


async def test_within_moments_every_page_has_something_to_show(store: Store, inbox: InboxServer) -> None:
    server = SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
    second = await begun(store, server)
    for _ in range(50):
        await second.step()
    await send_all(store, "demo-quick", "demo-hourly", "demo-warming")
    now = await store.now()
    states = {row["state"]: row["n"] for row in await store.fetch(_STATES, list(WORKSPACES))}
    assert states.get("in_doubt") == 1, states
    assert states["sent"] > FLOOD + sum(OTHERS.values())
    assert states["bounced"] >= 2
    assert await store.value("SELECT count(*) FROM fairpost.queue q WHERE q.attempts = 1 AND q.waiting") > 0  # retried
    hourly, paused, warming = [await store.account_named(f"demo-{name}") for name in ("hourly", "paused", "warming")]
    at_limit = availability(hourly, now=now)
    assert isinstance(at_limit, NotBefore)
    assert at_limit.reason is Barrier.HOURLY
    assert await unfinished(store, HOURLY_POOL) >= HOURLY_AT_FIRST - 12
    assert paused.status_reason == Reason("account.paused_by_hand", note="Kim is on leave until Monday")
    assert warming.limits.warm_up is not None
    assert warming.usage.day_used > 0
    shop = {each.name: str(each.state) for each in await campaigns.campaigns(store, SHOP)}
    assert shop == {RUNNING: "running", DRAFT: "draft"}
    held = await store.row(
        "SELECT * FROM fairpost.sender_rules r WHERE r.workspace = $1 AND r.key = $2", CLUB, HELD_USER
    )
    assert (held["hold_reason"], json.loads(held["hold_params"])) == ("hold.by_hand", {"note": HELD_BECAUSE})
    assert await store.value("SELECT count(*) FROM fairpost.queue q WHERE q.user_name = $1", HELD_USER) == HELD_BACK
    assert {each.name for each in await workspaces.workspaces(store)} == {"default", *WORKSPACES}


async def test_a_second_start_finds_what_is_there(store: Store) -> None:
    await begun(store)
    before = await stage_of(store)
    await begun(store)  # nothing was ended, as after a kill
    assert await stage_of(store) == before


async def test_a_manual_pause_stays(store: Store) -> None:
    await begun(store)
    await campaigns.pause(store, await campaigns.campaign_named(store, SHOP, RUNNING), reason=None, by="me")
    await begun(store)
    assert (await campaigns.campaign_named(store, SHOP, RUNNING)).state == "paused"


async def test_a_draft_that_a_person_has_launched_is_followed_by_another(store: Store) -> None:
    await begun(store)
    draft = await campaigns.campaign_named(store, SHOP, DRAFT)
    await launching.launch(store, draft, skip_incomplete=False, by="me", now=await store.now())
    await clear(store)
    await begun(store)
    states = {
        each.name: str(each.state) for each in await campaigns.campaigns(store, SHOP) if each.name.startswith(DRAFT)
    }
    assert states == {DRAFT: "cancelled", f"{DRAFT}-2": "draft"}


async def test_a_start_that_was_cut_off_anywhere_is_made_good_by_the_next(store: Store) -> None:
    for after_s in (0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4):
        cut_off = asyncio.create_task(begun(store))
        await asyncio.wait([cut_off], timeout=after_s)
        cut_off.cancel()
        with suppress(asyncio.CancelledError):
            await cut_off
    await begun(store)
    whole = await stage_of(store)
    await begun(store)
    assert await stage_of(store) == whole
    assert len(whole["campaigns"]) == 2
    assert whole["prospects"] == whole["members"] == PEOPLE


async def test_waiting_mail_is_cancelled_at_the_end_and_nothing_else_changes(store: Store, inbox: InboxServer) -> None:
    mine = {"to": "ann@there.test", "subject": "s", "text": "t"}
    await store.enqueue_many([mine, {**mine, "workspace": SHOP}, {**mine, "workspace": "acme"}])
    await store.hold("acme", "user", HELD_USER, reason="mine")
    server = SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
    await begun(store, server)
    await send_all(store, "demo-quick")
    await clear(store)
    assert await unfinished(store, *ROUTES) == 0
    assert await store.value("SELECT count(*) FROM fairpost.queue q WHERE q.waiting") == 3
    holds = await store.fetch(
        "SELECT r.workspace FROM fairpost.sender_rules r WHERE r.key = $1 AND r.held_until > now()", HELD_USER
    )
    assert [row["workspace"] for row in holds] == ["acme"]
    shop = {each.name: str(each.state) for each in await campaigns.campaigns(store, SHOP)}
    assert shop == {RUNNING: "cancelled", DRAFT: "draft"}


async def test_the_hold_of_a_campaign_that_was_still_sending_is_lifted_once_it_has_sent(store: Store) -> None:
    await begun(store)
    account = await store.account_named("demo-campaign")
    lease = await store.take_lease(account.id, owner="test", seconds=60)
    assert lease is not None
    (claimed,) = (await store.claim(lease, limit=1)).ids
    await store.begin(lease, claimed, usage=Usage())
    await clear(store)
    assert await unfinished(store, *ROUTES) == 1
    await store.settle(lease, claimed, Sent(), OK)
    await clear(store)
    assert await store.value("SELECT count(*) FROM fairpost.sender_rules r WHERE r.held_until > now()") == 0


async def test_after_an_end_the_next_start_has_a_campaign_again(store: Store) -> None:
    await begun(store)
    await clear(store)
    await begun(store)
    await clear(store)
    await begun(store)
    shop = {each.name: str(each.state) for each in await campaigns.campaigns(store, SHOP)}
    assert shop == {
        RUNNING: "cancelled",
        f"{RUNNING}-2": "cancelled",
        f"{RUNNING}-3": "running",
        DRAFT: "draft",
    }


async def test_the_accounts_follow_the_inbox_to_another_port(store: Store) -> None:
    await begun(store)
    first, _ = acts(store, SmtpSettings(host="127.0.0.1", port=10, security=Security.NONE))
    await first.begin()
    ports = {account.name: account.transport.port for account in await store.accounts()}  # type: ignore[union-attr]
    assert ports == dict.fromkeys(PARTS, 10)


async def test_accounts_that_are_not_the_demos_are_left_alone(store: Store) -> None:
    await store.add_account("demo-hourly", address="sales@post.test", pool="sales", limits=Limits())
    with pytest.raises(FairpostError, match="fairpost up --no-demo"):
        await begun(store)
    assert [account.name for account in await store.accounts()] == ["demo-hourly"]
    assert await unfinished(store, *ROUTES) == 0


async def test_it_ends_when_it_is_told_to(store: Store) -> None:
    over = asyncio.Event()

    def dice() -> float:
        """With this roll for the first e-mail, it is over."""
        over.set()
        return 0.5

    first, second = Burst(store, NOWHERE, flood=FLOOD), Background(store, NOWHERE, dice=dice)
    await first.begin()
    await second.begin()
    over.clear()
    before = await unfinished(store, *ROUTES)
    await asyncio.wait_for(second.run(over), 60)
    assert await unfinished(store, *ROUTES) == before + 1


_STATES = """
    SELECT x.state, count(*) AS n FROM (
        SELECT e.state::text FROM fairpost.emails e WHERE e.workspace = ANY ($1)
        UNION ALL SELECT q.state::text FROM fairpost.queue q WHERE q.workspace = ANY ($1)) x GROUP BY 1"""
