"""Regression tests for faults that once occurred."""

import asyncio
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from fairpost.campaigns import launching
from fairpost.campaigns.applying import apply, compare, own_template
from fairpost.campaigns.calendars import lay
from fairpost.campaigns.file import CampaignFile, parse_campaign
from fairpost.dev.simulate.drive import Drive
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.model.account import AccountStatus, Limits
from fairpost.model.campaign import CampaignState, Gap, Schedule, Step
from fairpost.model.errors import FairpostError, Refusal
from fairpost.model.reason import Reason
from fairpost.model.window import Quota
from fairpost.store import campaigns, prospects, schedules, templates
from fairpost.store.store import Store
from tests.campaigns.world import MONDAY, WORKSPACE, World, office_hours

FILE = """
name = "spring"
workspace = "acme"
list = "{list}"
[schedule]
hours = "03:00-04:00"
quota = 1
[[step]]
subject = "s"
text = "t"
"""


def file_of(text: str, **more: str) -> CampaignFile:
    return parse_campaign(text.format(**{"list": "people", **more}), where="test", folder=Path(), now=MONDAY)


async def test_a_file_that_cannot_be_applied_changes_nothing(world: World) -> None:
    await world.set_schedule(office_hours())
    before = await schedules.schedule_of(world.store, WORKSPACE)
    with pytest.raises(FairpostError, match=r"^list.unknown$"):
        await compare(world.store, file_of(FILE, list="nobody-here"))
    with pytest.raises(FairpostError, match=r"^list.unknown$"):
        await apply(world.store, file_of(FILE, list="nobody-here"), now=MONDAY)
    assert await schedules.schedule_of(world.store, WORKSPACE) == before
    assert await templates.templates(world.store, WORKSPACE) == []
    assert await templates.sequences(world.store, WORKSPACE) == []


async def test_a_campaigns_own_sequence_never_replaces_one_made_manually(world: World) -> None:
    await world.add_people(2)
    await world.draft("spring", sequence="spring", delays=(timedelta(days=3),))
    await world.store.value("DELETE FROM fairpost.campaigns")
    by_hand = await templates.sequence_named(world.store, WORKSPACE, "spring")
    with pytest.raises(Refusal, match=r"campaign\.sequence_exists"):
        await apply(world.store, file_of(FILE), now=MONDAY)
    assert await templates.sequence_named(world.store, WORKSPACE, "spring") == by_hand
    await apply(world.store, file_of(FILE.replace("spring", "summer")), now=MONDAY)
    with pytest.raises(Refusal, match=r"sequence\.of_campaign"):
        await templates.put_sequence(world.store, WORKSPACE, "summer", [Step(template="spring-1")])
    own = own_template("summer", 1)
    with pytest.raises(Refusal, match=r"template\.of_campaign"):
        await templates.put_template(world.store, WORKSPACE, own, subject="other", text="other", html=None)


def test_long_names_keep_their_words_apart() -> None:
    one, two = "x" * 99 + "a", "x" * 99 + "b"
    assert own_template(one, 1) != own_template(two, 1)
    assert len(own_template(one, 100)) <= 100
    assert own_template("spring", 2) == "spring.step-2"


async def test_one_workspace_in_trouble_does_not_stop_the_others(world: World) -> None:
    """An unknown time zone, and a campaign that cannot be planned."""
    await world.add_accounts("anna")
    await world.add_people(3, workspace="broken", zones=("Mars/Olympus",))
    await world.set_schedule(office_hours(), workspace="broken")
    broken = await world.draft("broken", workspace="broken", by_recipients_clock=True)
    await world.launch(broken)
    await world.add_people(3)
    good = await world.draft("good")
    await launching.launch(world.store, good, skip_incomplete=False, by="test", now=MONDAY)
    unplanned = await world.draft("unplanned", workspace="odd", lists=())
    await launching_without_people(world, unplanned.id)
    await world.store.value("ALTER TABLE fairpost.queue ADD CHECK (stream <> 'campaign:unplanned') NOT VALID")
    said: list[Reason] = []
    watch = CampaignWatch(world.store, said.append)
    await Drive(world.store, world.clock, world.accounts, orchestrate=watch.step).run(until=MONDAY + timedelta(hours=2))
    assert (await world.again(good)).state is CampaignState.COMPLETED
    assert (await world.again(broken)).state is CampaignState.COMPLETED
    failed = await world.again(unplanned)
    assert failed.state is CampaignState.FAILED
    assert "queue" in str(failed.reason), "the database's message"
    assert len([each for each in said if f"campaign {unplanned.id}" in str(each.params.get("task"))]) == 1
    assert {(each.code, each.params["name"]) for each in said if each.code.startswith("campaign.")} >= {
        ("campaign.completed", "good"),
        ("campaign.completed", "broken"),
    }


async def launching_without_people(world: World, campaign_id: int) -> None:
    """Adds a prospect to the list whose row the table rejects."""
    await world.add_people(1, workspace="odd")
    await world.store.value(
        "UPDATE fairpost.campaigns SET lists = ARRAY(SELECT id FROM fairpost.lists WHERE workspace = 'odd') WHERE id = $1",
        campaign_id,
    )
    campaign = await campaigns.campaign_by_id(world.store, campaign_id)
    await launching.launch(world.store, campaign, skip_incomplete=False, by="test", now=MONDAY)


async def test_after_a_cancel_the_same_sequence_can_be_sent(world: World) -> None:
    """Only prospects for whom nothing of it was ever begun get it again."""
    await world.add_accounts("anna", limits=Limits(delay_ms=60_000))
    await world.add_people(5)
    one = await world.draft("one", sequence="shared", delays=(timedelta(days=1),))
    await world.launch(one)
    await world.drive().run(until=MONDAY + timedelta(seconds=90))
    assert len(world.post.sent) == 2
    await campaigns.cancel(world.store, one, reason=None, by="test")
    await world.run(days=1)
    two = await world.draft("two", sequence="shared", delays=(timedelta(days=1),))
    result = await world.launch(two)
    assert (result.scheduled, result.skipped) == (6, 4)
    await world.run(days=5)
    assert sorted(each.to for each in world.post.sent if each.email.content.subject == "1") == [
        f"p{n}@there.test" for n in range(5)
    ]
    assert (await world.again(two)).state is CampaignState.COMPLETED


async def test_a_recipient_added_later_gets_it_in_local_time(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(2)
    await world.set_schedule(office_hours())
    campaign = await world.draft(by_recipients_clock=True)
    await world.launch(campaign)
    await world.drive().run(until=MONDAY + timedelta(minutes=10))
    await world.add_people(3, zones=("America/New_York",))
    await world.store.value("UPDATE fairpost.campaigns SET state = 'running', finished_at = NULL")
    again = await world.again(campaign)
    already = await launching.begin_again(world.store, again, now=world.clock.now)
    result = await launching.schedule(world.store, again, already=already)
    assert (result.scheduled, result.skipped) == (1, 2)
    await world.run(days=2)
    (last,) = world.post.of("p2@there.test")
    assert last.at.astimezone(ZoneInfo("America/New_York")).hour == 9
    progress = await campaigns.progress(world.store, campaign)
    assert (progress.scheduled, progress.skipped) == (3, 0)


async def test_an_unrepresentable_message_costs_the_account_nothing(world: World) -> None:
    await world.add_accounts("anna", limits=Limits(daily_max=5))
    await world.add_people(8)
    campaign = await world.draft(text="{{ first_name | int }}", gap=Gap(min_s=3600, max_s=3600))
    await world.launch(campaign)
    await world.drive().run(until=MONDAY + timedelta(minutes=1))
    (account,) = await world.store.accounts()
    assert (account.status, account.usage.day_used, world.post.sent) == (AccountStatus.ACTIVE, 0, [])
    assert (await campaigns.progress(world.store, campaign)).by_step == {1: {"failed": 8}}
    reasons = [each.reason async for each in campaigns.receipts(world.store, campaign, states=("failed",))]
    assert all("first_name" in str(reason) for reason in reasons)


async def test_urgent_mail_does_not_wait_for_a_gap(world: World) -> None:
    await world.add_accounts("anna", limits=Limits())
    await world.add_people(3)
    await world.launch(await world.draft(gap=Gap(min_s=3600, max_s=3600)))
    soon = MONDAY + timedelta(minutes=5)
    await world.store.enqueue_many([{"to": "u@there.test", "subject": "code", "text": "1", "due_at": soon.isoformat()}])
    await world.drive().run(until=MONDAY + timedelta(hours=4))
    (urgent,) = world.post.of("u@there.test")
    assert urgent.at == soon
    assert len(world.post.sent) == 4


async def test_a_retry_meets_the_end_of_a_pause(world: World, url: str) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.store.value(
        "SELECT fairpost.move_to_history(ARRAY(SELECT id FROM fairpost.queue), 'failed', 'email.refused', '{}', $1)",
        MONDAY,
    )
    await world.store.value("DELETE FROM fairpost.arrivals")
    (failed,) = [each async for each in campaigns.receipts(world.store, campaign, states=("failed",))]
    who = await prospects.known_by(world.store, WORKSPACE, "p0@there.test")
    await prospects.pause(world.store, who, is_paused=True)
    async with Store.open(url) as other:
        async with world.store.together() as retrying:
            await retrying.value("SELECT fairpost.retry($1, $2)", failed.email_id, MONDAY)
            ending = asyncio.create_task(prospects.pause(other, who, is_paused=False))
            done, _ = await asyncio.wait([ending], timeout=0.3)
            assert not done, "it must wait for the retry to commit"
        await ending
    await world.run(days=1)
    assert len(world.post.sent) == 1


async def test_a_quota_counts_what_was_under_way_when_it_came(world: World, url: str) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    await world.launch(await world.draft())
    (account,) = await world.store.accounts()
    lease = await world.store.take_lease(account.id, owner="test", seconds=60)
    assert lease is not None
    claim = await world.store.claim(lease, limit=1)
    async with Store.open(url) as other:
        async with world.store.together() as beginning:
            begun = await beginning.begin(lease, claim.ids[0], usage=account.usage)
            assert begun.verdict == "begun"
            await schedules.write_schedule(other, WORKSPACE, Schedule(quota=Quota(daily_max=1)))
            laying = asyncio.create_task(lay(other, WORKSPACE, now=MONDAY))
            done, _ = await asyncio.wait([laying], timeout=0.3)
            assert not done, "it must wait for the begin to commit"
        await laying
    days = await schedules.quota_days(world.store, WORKSPACE, since=MONDAY, until=MONDAY)
    assert [(day.used, day.allowed) for day in days] == [(1, 1)]


async def test_a_subject_may_be_longer_than_what_comes_of_it(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft()
    subject = "{% if first_name %}Hi{% else %}" + "x" * 1500 + "{% endif %}"
    await templates.put_template(world.store, WORKSPACE, "spring-1", subject=subject, text="t", html=None)
    await world.launch(campaign)
    await world.run(days=1)
    assert world.post.sent[0].email.content.subject == "Hi"


async def test_a_finished_campaign_leaves_no_rules_behind(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    await world.set_schedule(office_hours(quota=Quota(daily_max=2)))
    one, two = await world.draft("one"), await world.draft("two")
    await world.launch(one)
    await world.launch(two)
    await world.drive().run(until=MONDAY + timedelta(hours=1))
    assert await world.store.value("SELECT count(*) FROM fairpost.sender_rules WHERE level = 'stream'") == 2
    await campaigns.cancel(world.store, two, reason=None, by="test")
    await world.run(days=10)
    assert await world.store.value("SELECT count(*) FROM fairpost.sender_rules WHERE level = 'stream'") == 0
    await world.set_schedule(office_hours(days=(6,)))
    assert await world.store.value("SELECT count(*) FROM fairpost.sender_rules WHERE level = 'stream'") == 0


async def test_mail_planned_before_planning_failed_waits_until_it_continues(world: World) -> None:
    """And it is not claimed in vain in the meantime."""
    await world.add_accounts("anna")
    await world.add_people(4)
    campaign = await world.draft()
    launched = await launching.launch(world.store, campaign, skip_incomplete=False, by="test", now=MONDAY)
    await campaigns.plan_batch(world.store, launched.id, most=2)
    await campaigns.fail_planning(world.store, launched.id, "no room")
    await world.run(days=0.1)
    assert world.post.sent == []
    failed = await world.again(campaign)
    assert (failed.state, failed.reason) == (
        CampaignState.FAILED,
        Reason("campaign.planning_failed", error="no room"),
    )
    (route,) = await world.store.fetch("SELECT * FROM fairpost.waiting_by_route($1)", world.clock.now)
    assert (route["waiting"], route["due"]) == (2, False)
    await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=0.1)
    assert len(world.post.sent) == 4


async def test_the_launch_reports_emails_that_an_engine_planned_in_the_meantime(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(4)
    campaign = await world.draft(delays=(timedelta(days=1),))
    launched = await launching.launch(world.store, campaign, skip_incomplete=False, by="test", now=MONDAY)
    await CampaignWatch(world.store, log=lambda words: None).step()
    result = await launching.schedule(world.store, launched, already=0)
    assert (result.scheduled, result.skipped, result.is_done) == (8, 0, True)
