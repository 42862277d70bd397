"""Subjects of follow-ups: the first step's, unless a step has its own; and where that is shown."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fairpost.campaigns import applying
from fairpost.campaigns.file import BadCampaignFile, CampaignFile, parse_campaign
from fairpost.campaigns.preview import preview
from fairpost.campaigns.subjects import is_same_thread
from fairpost.campaigns.writer import to_toml
from fairpost.model.campaign import Campaign, Step
from fairpost.model.errors import Refusal
from fairpost.store import campaigns, prospects, templates
from tests.campaigns.world import MONDAY, WORKSPACE, World

FILE = """
name = "spring"
workspace = "w1"
lists = ["people"]
gap = "none"

[[step]]
subject = "Hello {{ first_name }}"
text = "one"

[[step]]
delay = "1d"
text = "two"

[[step]]
delay = "1d"
subject = "The last word"
text = "three"

[[step]]
delay = "1d"
template = "kept"

[[step]]
delay = "1d"
template = "kept"
own_subject = true
"""


def read(text: str = FILE) -> CampaignFile:
    text = text.replace('"w1"', f'"{WORKSPACE}"')
    return parse_campaign(text, where="spring.toml", folder=Path(), now=MONDAY)


async def applied(world: World, file: CampaignFile) -> Campaign:
    await templates.put_template(world.store, WORKSPACE, "kept", subject="Kept", text="four", html=None)
    done = await applying.apply(world.store, file, now=world.clock.now)
    assert done.campaign is not None
    return done.campaign


async def prepared(world: World) -> Campaign:
    await world.add_accounts("anna")
    await world.add_people(1)
    file = read()
    known = await prospects.known_by(world.store, WORKSPACE, "p0@there.test")
    lists = [row["name"] for row in await world.store.fetch("SELECT name FROM fairpost.lists")]
    assert known.address
    return await applied(world, replace(file, lists=tuple(lists)))


async def test_every_step_goes_out_with_the_first_subject_unless_it_insists(world: World) -> None:
    campaign = await prepared(world)
    result = await world.launch(campaign)
    assert (result.inherited_subjects, result.leaving_thread) == ([2, 4], [3, 5])
    await world.run(days=10)
    first, second, third, fourth, fifth = [each.email.content.subject for each in world.post.sent]
    assert first == second == fourth
    assert "{{" not in first
    assert (third, fifth) == ("The last word", "Kept")
    assert [each.email.content.text for each in world.post.sent] == ["one", "two", "three", "four", "four"]


async def test_a_draft_is_previewed_with_the_subject_it_will_have(world: World) -> None:
    campaign = await prepared(world)
    person = await prospects.known_by(world.store, WORKSPACE, "p0@there.test")
    shown = [await preview(world.store, campaign, number, person, now=MONDAY) for number in (1, 2, 3, 4, 5)]
    assert len({each.said.subject for each in shown}) == 3
    assert [each.is_subject_inherited for each in shown] == [False, True, False, True, False]
    assert [each.leaves_thread for each in shown] == [False, False, True, False, True]


async def test_a_first_subject_that_changes_is_everyones(world: World) -> None:
    await prepared(world)
    changed = replace(read(FILE.replace("Hello {{ first_name }}", "Welcome")), lists=("people",))
    lists = [row["name"] for row in await world.store.fetch("SELECT name FROM fairpost.lists")]
    campaign = await applied(world, replace(changed, lists=tuple(lists)))
    assert (await campaigns.words_of_step(world.store, campaign, 2))[0] == "Welcome"


async def test_a_file_that_was_applied_changes_nothing_and_comes_back_the_same(world: World) -> None:
    campaign = await prepared(world)
    back = await applying.as_file(world.store, campaign)
    assert read(to_toml(back)).steps == back.steps == read().steps
    await world.launch(campaign)
    launched = await world.again(campaign)
    assert (await applying.as_file(world.store, launched)).steps == read().steps
    again = await applying.compare(world.store, replace(back, schedule=None))
    assert again.changes == ()


async def test_a_field_used_only_in_an_unused_subject_is_not_required(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(1)
    for name, subject in (("a", "Hello"), ("b", "{{ unknown_field }}")):
        await templates.put_template(world.store, WORKSPACE, name, subject=subject, text="t", html=None)
    day_s = int(timedelta(days=1).total_seconds())
    campaign = await world.draft("spring")
    await templates.put_sequence(
        world.store, WORKSPACE, "spring", [Step(template="a"), Step(template="b", delay_s=day_s)]
    )
    assert (await world.launch(await world.again(campaign))).left_out == 0
    insisting = await world.draft("summer")
    steps = [Step(template="a"), Step(template="b", delay_s=day_s, own_subject=True)]
    await templates.put_sequence(world.store, WORKSPACE, "summer", steps)
    with pytest.raises(Refusal, match=r"campaign\.missing_fields"):
        await world.launch(await world.again(insisting))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('subject = "Hello {{ first_name }}"\n', ""), "step 1: subject"),
        (('text = "two"', 'text = "two"\nown_subject = true'), "step 2: own_subject"),
        (("own_subject = true", 'own_subject = "yes"'), "step 5: own_subject"),
    ],
)
def test_errors_in_a_files_subjects_are_reported(change: tuple[str, str], problem: str) -> None:
    with pytest.raises(BadCampaignFile) as raised:
        read(FILE.replace(*change))
    assert [each for each in raised.value.problems if each.startswith(problem)]


@pytest.mark.parametrize(
    ("first", "other", "is_same"),
    [
        ("Hello", "Hello", True),
        ("Hello", "Re: Hello", True),
        ("Re: Hello", "RE : re: Hello ", True),
        ("Hello  there", "Hello there", True),
        ("Hello", "hello", False),
        ("Hello", "Re: Hello!", False),
        ("Hello", "Regarding Hello", False),
    ],
)
def test_subjects_that_gmail_treats_as_the_same(first: str, other: str, is_same: bool) -> None:
    assert is_same_thread(first, other) is is_same
