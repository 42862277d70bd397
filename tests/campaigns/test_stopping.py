"""Prospects who are stopped, paused or removed between steps, and during a send."""

import asyncio
from collections import Counter
from datetime import timedelta

import asyncpg
import pytest

from fairpost.campaigns.launching import launch
from fairpost.engine.results import Rested
from fairpost.engine.runner import Runner
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.model.account import Account
from fairpost.model.campaign import Campaign, CampaignState, Schedule
from fairpost.model.email import Outgoing
from fairpost.model.report import Report
from fairpost.model.window import Quota
from fairpost.store import campaigns, prospects
from fairpost.system import clock
from fairpost.transports.port import Permission
from tests.campaigns.answers import BAD_MESSAGE, LATER, LOST, NO_SUCH_USER
from tests.campaigns.world import (
    DAY,
    HOUR,
    MONDAY,
    P0,
    P1,
    P2,
    QUICK,
    WORKSPACE,
    Post,
    World,
    counts,
    email_of,
    in_hand,
    once,
    pause_person,
    person,
    runner_of,
    states,
    subjects,
)

# ── people who get no more mail ───────────────────────────────────────────────────────────────────────────


WAYS = ("stop", "bounce", "remove", "everywhere", "unsubscribe", "complaint", "manual")


async def stop(world: World, campaign: Campaign, way: str, whom: str) -> None:
    match way:
        case "stop":
            assert await campaigns.stop(world.store, (await person(world, whom)).id, campaign, reason="replied")
        case "bounce":
            world.post.answers[whom] = [NO_SUCH_USER]
        case "remove":
            await prospects.remove(world.store, [await person(world, whom)])
        case "everywhere":
            await world.store.value(
                "SELECT fairpost.suppress('*', $1, 'asked', $2, 'unsubscribe')", whom, clock.stated()
            )
        case _:
            await world.store.value(
                "SELECT fairpost.suppress($1, $2, 'asked', $3, $4)", WORKSPACE, whom, clock.stated(), way
            )


@pytest.mark.parametrize("sent_before", [0, 1, 2])
async def test_a_stopped_prospect_gets_no_more_steps(world: World, sent_before: int) -> None:
    """Each stops in a different way, and one not at all."""
    await world.add_accounts("anna")
    await world.add_people(len(WAYS) + 1)
    stopped = {way: f"p{n}@there.test" for n, way in enumerate(WAYS)}
    campaign = await world.draft(delays=(DAY, DAY), starts_at=MONDAY + HOUR)
    await world.launch(campaign)
    await world.run(days=sent_before - 0.5 if sent_before else 0)
    assert {way: len(subjects(world, who)) for way, who in stopped.items()} == dict.fromkeys(WAYS, sent_before)
    for way, whom in stopped.items():
        await stop(world, campaign, way, whom)
    await world.run(days=10)
    assert {way: len(subjects(world, who)) for way, who in stopped.items()} == dict.fromkeys(WAYS, sent_before)
    assert subjects(world, f"p{len(WAYS)}@there.test") == ["1", "2", "3"]
    assert "waiting" not in (await states(world)).values()
    over = await world.again(campaign)
    assert (over.state, over.reason) == (CampaignState.COMPLETED, None)


@pytest.mark.parametrize("answer", [LATER, LOST])
async def test_an_email_in_progress_for_a_stopped_prospect_is_not_retried(world: World, answer: Report) -> None:
    """The e-mail being sent is not recalled; but if it fails, it is not retried."""
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    prospect = await person(world, P0)

    class Meanwhile(Post):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            if not self.answers:
                return await super().send(account, email, permission=permission)
            await campaigns.stop(world.store, prospect.id, campaign, reason="replied")
            return self.answers.pop(P0)[0]

    post = Meanwhile(answers={P0: [answer]})
    for id_ in world.accounts:
        world.accounts[id_] = post
    await world.run(days=0.5)
    if answer is LOST:
        await world.store.resolve(await email_of(world, P0), "resend", by="test")
    await world.run(days=5)
    assert post.sent == []


async def test_a_retry_does_not_revive_a_stopped_prospect(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    world.post.answers[P0] = [BAD_MESSAGE]
    await world.run(days=0.5)
    await campaigns.stop(world.store, (await person(world, P0)).id, campaign, reason="replied")
    await campaigns.retry(world.store, [await email_of(world, P0)])
    await world.run(days=5)
    assert world.post.sent == []


async def test_a_prospect_stopped_before_planning_is_not_planned(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    campaign = await world.draft()
    await launch(world.store, campaign, skip_incomplete=False, by="test", now=world.clock.now)
    await campaigns.plan_batch(world.store, campaign.id, most=1)
    await campaigns.stop(world.store, (await person(world, P2)).id, campaign, reason="replied")
    await world.run(days=1)
    assert counts(world) == {P0: 1, P1: 1}


async def test_stopping_in_one_campaign_leaves_the_other_alone(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    one, two = await world.draft("one", delays=(DAY,)), await world.draft("two", delays=(DAY,))
    await world.launch(one)
    await world.launch(two)
    await world.run(days=0.5)
    await campaigns.stop(world.store, (await person(world, P0)).id, one, reason="replied")
    await world.run(days=5)
    assert len(world.post.sent) == 3
    assert Counter(each.email.content.text for each in world.post.sent) == {"Hello Ann0 1": 2, "Hello Ann0 2": 1}


# ── paused people ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sent_before", [0, 1, 2])
async def test_a_prospect_paused_between_two_steps_continues_with_the_next(world: World, sent_before: int) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    campaign = await world.draft(delays=(DAY, DAY), starts_at=MONDAY + HOUR)
    await world.launch(campaign)
    await world.run(days=sent_before - 0.5 if sent_before else 0)
    await pause_person(world, P0)
    await pause_person(world, P0)
    world.clock.advance(HOUR)
    await world.run(days=10)
    assert len(subjects(world, P0)) == sent_before
    assert subjects(world, P1) == ["1", "2", "3"]
    held = await world.again(campaign)
    assert (held.state, held.reason is not None) == (CampaignState.COMPLETED, True)
    await pause_person(world, P0, is_paused=False)
    await pause_person(world, P0, is_paused=False)
    await world.run(days=10)
    assert subjects(world, P0) == ["1", "2", "3"]
    first, second, third = world.post.of(P0)
    assert second.at - first.at >= DAY
    assert third.at - second.at >= DAY
    over = await world.again(campaign)
    assert (over.state, over.reason) == (CampaignState.COMPLETED, None)


async def test_a_claimed_email_is_held_if_its_prospect_is_paused(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(5)
    campaign = await world.draft()
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.step()  # its pace is known now: two are sent, one is begun, the others are claimed
    prospect = await in_hand(world)
    await pause_person(world, prospect)
    for _ in range(10):
        await anna.step()
    await anna.stop()
    assert {each.to for each in world.post.sent} == set(once(5)) - {prospect}
    await pause_person(world, prospect, is_paused=False)
    await world.run(days=1)
    assert counts(world) == once(5)


async def test_a_claimed_email_is_sent_if_its_prospect_is_paused_and_resumed(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(5)
    await world.launch(await world.draft())
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.step()
    prospect = await in_hand(world)
    await pause_person(world, prospect)
    await pause_person(world, prospect, is_paused=False)
    for _ in range(10):
        await anna.step()
    await anna.stop()
    assert counts(world) == once(5)


@pytest.mark.parametrize("answer", [LATER, LOST])
async def test_a_pause_during_a_send_takes_effect_after_it(world: World, answer: Report) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    await world.launch(await world.draft(delays=(DAY,)))
    world.post.answers[P0] = [answer]
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.stop()
    await pause_person(world, P0)
    if answer is LOST:
        await world.store.resolve(await email_of(world, P0), "resend", by="test")
    world.clock.advance(HOUR)
    await world.run(days=10)
    assert world.post.sent == []
    await pause_person(world, P0, is_paused=False)
    await world.run(days=10)
    assert subjects(world, P0) == ["1", "2"]


async def test_a_pause_that_ends_just_while_an_e_mail_is_put_aside_does_not_leave_it_there(
    world: World, url: str
) -> None:
    """The account has seen the pause but not yet parked the e-mail when the pause ends."""
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(1)
    campaign = await world.draft()
    await world.launch(campaign)
    account = await world.store.account_named("anna")
    lease = await world.store.take_lease(account.id, owner="test", seconds=60)
    assert lease is not None
    (email_id,) = (await world.store.claim(lease, limit=1)).ids
    await pause_person(world, P0)
    prospect = await person(world, P0)
    anna, ender = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        # the steps of admit_to_campaign, in order, with another transaction in between
        admitting = anna.transaction()
        await admitting.start()
        begun = await anna.fetchrow(
            "SELECT * FROM fairpost.begin_send($1, $2, $3, '{}', NULL, $4)",
            *(account.id, lease.epoch, email_id, clock.stated()),
        )
        assert begun["verdict"] == "parked"
        ending = asyncio.create_task(
            ender.fetchval("SELECT fairpost.pause_prospect($1, false, $2)", prospect.id, clock.stated())
        )
        await asyncio.wait({ending}, timeout=0.5)
        await admitting.commit()
        assert await ending is True
    finally:
        await anna.close()
        await ender.close()
    await world.store.drop_lease(lease)
    await world.run(days=1)
    assert counts(world) == {P0: 1}


async def test_a_claimed_email_is_not_sent_if_its_prospect_is_removed(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(4)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    await anna.step()
    await anna.step()
    prospect = await in_hand(world)
    await prospects.remove(world.store, [await person(world, prospect)])
    for _ in range(10):
        await anna.step()
    await anna.stop()
    await world.run(days=5)
    assert counts(world) == {to: 2 for to in once(4) if to != prospect}
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_pause_a_begin_and_an_outcome_do_not_wait_for_each_other_in_a_circle(world: World, url: str) -> None:
    """One begins, but has not charged the quota yet; one pauses, and waits for it; one refunds part of the quota, and
    begins."""
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(3)
    await world.set_schedule(Schedule(quota=Quota(daily_max=100)))
    campaign = await world.draft()
    await world.launch(campaign)
    account = await world.store.account_named("anna")
    lease = await world.store.take_lease(account.id, owner="test", seconds=60)
    assert lease is not None
    first, second, _ = (await world.store.claim(lease, limit=3)).ids
    begun = await world.store.begin(lease, first, usage=account.usage)
    assert begun.verdict == "begun"
    other, pauser, anna = [await asyncpg.connect(url) for _ in range(3)]
    try:
        beginning = other.transaction()
        await beginning.start()
        await other.execute("SELECT pg_advisory_xact_lock_shared(fairpost.pause_lock())")
        pausing = asyncio.create_task(
            pauser.fetchval("SELECT fairpost.pause_campaign($1, NULL, 'test', $2)", campaign.id, clock.stated())
        )
        await asyncio.sleep(0.2)
        settling = asyncio.create_task(
            anna.fetchrow(
                "SELECT * FROM fairpost.settle_and_begin($1, $2, $3, 'failed', '{}', $4, $6, $5)",
                *(account.id, lease.epoch, first, second, clock.stated(), '{"hour_used": 1, "day_used": 1}'),
            )
        )
        await asyncio.sleep(0.2)
        await other.execute("UPDATE fairpost.quotas SET used = used + 1")
        await beginning.commit()
        assert await pausing is True
        settled = await settling
        assert settled["settled"] == "settled"
        assert settled["verdict"] in ("held", "begun"), "after the pause, or before it"
    finally:
        for each in (other, pauser, anna):
            await each.close()
    await world.store.drop_lease(lease)


async def test_people_are_stopped_paused_and_suppressed_while_everyone_sends(world: World, url: str) -> None:
    """There are no deadlocks, and the counts agree."""
    names = ("anna", "bert", "carl")
    await world.add_accounts(*names, limits=QUICK)
    await world.add_people(60)
    both = [await world.draft(name, delays=(timedelta(), timedelta())) for name in ("one", "two")]
    for campaign in both:
        await world.launch(campaign)
    ids = [row["id"] for row in await world.store.fetch("SELECT id FROM fairpost.prospects ORDER BY id")]
    runners = [await runner_of(world, name) for name in names]
    is_over = False

    async def send(runner: Runner) -> None:
        while not is_over:
            if isinstance(await runner.step(), Rested):
                await asyncio.sleep(0.002)

    async def disturb(n: int) -> None:
        conn = await asyncpg.connect(url)
        try:
            for i, id_ in enumerate(ids[n::4]):
                address = f"p{n + 4 * i}@there.test"
                await conn.execute("SELECT fairpost.pause_prospect($1, true, $2)", id_, clock.stated())
                if n == 0:
                    sql = "SELECT fairpost.suppress($1, $2, 'x', $3, 'hard_bounce')"
                    await conn.execute(sql, WORKSPACE, address, clock.stated())
                await conn.execute("SELECT fairpost.pause_prospect($1, false, $2)", id_, clock.stated())
                if n <= 1:
                    await conn.execute("SELECT fairpost.stop_prospect($1, NULL, 'x', $2)", id_, clock.stated())
        finally:
            await conn.close()

    tasks = [asyncio.create_task(send(runner)) for runner in runners]
    watch = CampaignWatch(world.store, log=lambda words: None)
    disturbing = asyncio.gather(*(disturb(n) for n in range(4)))
    while not disturbing.done():
        await watch.step()
    await disturbing
    is_over = True
    await asyncio.gather(*tasks)
    for runner in runners:
        await runner.stop()
    await world.run(days=1)
    got = Counter((each.to, each.email.stream, each.email.content.subject) for each in world.post.sent)
    assert max(got.values()) == 1
    for n in (n for n in range(60) if n % 4 > 1):
        assert sum(got[f"p{n}@there.test", f"campaign:{c}", s] for c in ("one", "two") for s in "123") == 6
    assert await world.store.value("SELECT count(*) FROM fairpost.queue") == 0
    assert {(await world.again(each)).state for each in both} == {CampaignState.COMPLETED}
