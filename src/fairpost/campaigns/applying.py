"""Applies a campaign file to the database, and exports a campaign to a file."""

from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2s

from fairpost.campaigns.calendars import set_schedule
from fairpost.campaigns.diff import Change, diff
from fairpost.campaigns.file import CampaignFile, FileStep
from fairpost.model.campaign import Campaign, CampaignState, Step
from fairpost.model.errors import FairpostError
from fairpost.store import campaigns, schedules, templates
from fairpost.store.campaigns import Draft
from fairpost.store.header_fields import raw
from fairpost.store.store import Store
from fairpost.templates.rendering import Template

OWN_NAME_MAX = 91  # so that a template name with a suffix such as `.step-100` is at most 100 characters long


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    changes: tuple[Change, ...]
    is_new: bool
    campaign: Campaign | None  # None if the campaign does not exist, which is possible only when comparing


async def compare(store: Store, file: CampaignFile) -> Applied:
    """Returns the changes that applying the file would make.

    Raises FairpostError if a change is forbidden. After the launch, only the workspace's schedule can be changed.
    """
    known = await campaigns.find_campaign(store, file.workspace, file.name)
    changes = diff(await as_file(store, known) if known else None, file)
    if known is not None and known.state is not CampaignState.DRAFT:
        _refuse_late(known, changes)
    await campaigns.list_ids(store, file.workspace, file.lists)
    for step in file.steps:
        if step.template_name is not None:
            await templates.template_named(store, file.workspace, step.template_name)
    return Applied(changes=changes, is_new=known is None, campaign=known)


async def apply(store: Store, file: CampaignFile, *, now: datetime) -> Applied:
    """Applies the file completely or not at all. Applying it again changes nothing."""
    async with store.together() as one:
        found = await compare(one, file)
        return replace(found, campaign=await _changed(one, file, found.campaign, now=now)) if found.changes else found


async def _changed(store: Store, file: CampaignFile, known: Campaign | None, *, now: datetime) -> Campaign:
    stored = await schedules.schedule_of(store, file.workspace)
    if file.schedule is not None and stored.schedule != file.schedule:
        await set_schedule(store, file.workspace, file.schedule, now=now)
    return known if known is not None and known.state is not CampaignState.DRAFT else await _write(store, file)


async def as_file(store: Store, campaign: Campaign) -> CampaignFile:
    """Returns the file that describes this campaign. Applying the file would change nothing."""
    stored = await schedules.schedule_of(store, campaign.workspace)
    return CampaignFile(
        name=campaign.name,
        workspace=campaign.workspace,
        lists=campaign.lists,
        route=campaign.route,
        starts_at=campaign.starts_at,
        user=campaign.user,
        labels=campaign.labels,
        header_fields=campaign.header_fields,
        gap=campaign.gap,
        by_recipients_clock=campaign.by_recipients_clock,
        has_footer=campaign.has_footer,
        schedule=stored.schedule if stored.is_stored else None,
        steps=tuple([await _file_step(store, campaign, n, step) for n, step in enumerate(campaign.steps, 1)]),
    )


async def _file_step(store: Store, campaign: Campaign, number: int, step: Step) -> FileStep:
    """Returns a step for the file. If the template belongs to the campaign, the step includes its content."""
    if step.template != own_template(campaign.name, number):
        return FileStep(delay_s=step.delay_s, template_name=step.template, own_subject=step.own_subject)
    subject, text, html = await campaigns.words_of_step(store, campaign, number)
    content = Template(subject=subject if number == 1 or step.own_subject else "", text=text, html=html)
    return FileStep(delay_s=step.delay_s, content=content, own_subject=step.own_subject)


def own_template(campaign: str, number: int) -> str:
    """Returns the name of the template that stores a step's content, for steps whose content is in the campaign
    file.
    """
    short = campaign if len(campaign) <= OWN_NAME_MAX else f"{campaign[: OWN_NAME_MAX - 17]}-{_hash(campaign)}"
    return f"{short}.step-{number}"


def _hash(text: str) -> str:
    return blake2s(text.encode(), digest_size=8).hexdigest()


async def _write(store: Store, file: CampaignFile) -> Campaign:
    steps = []
    for number, step in enumerate(file.steps, 1):
        name = step.template_name
        if step.content is not None:
            name = own_template(file.name, number)
            words = step.content
            await templates.put_template(
                store, file.workspace, name, subject=words.subject, text=words.text, html=words.html, is_own=True
            )
        assert name is not None
        steps.append(Step(template=name, delay_s=step.delay_s, own_subject=step.own_subject))
    await templates.put_sequence(store, file.workspace, file.name, steps, is_own=True)
    return await campaigns.put_draft(
        store,
        Draft(
            workspace=file.workspace,
            name=file.name,
            sequence=file.name,
            lists=file.lists,
            route=file.route,
            gap=file.gap,
            by_recipients_clock=file.by_recipients_clock,
            has_footer=file.has_footer,
            user=file.user,
            labels=file.labels,
            header_fields=raw(file.header_fields),
            starts_at=file.starts_at,
        ),
    )


def _refuse_late(campaign: Campaign, changes: tuple[Change, ...]) -> None:
    late = [change.field for change in changes if not change.field.startswith("schedule")]
    if late:
        raise FairpostError(
            f"Campaign {campaign.name} is {campaign.state}, so {', '.join(late)} can no longer be changed. Nothing was changed. To create another campaign, use a different name in the file."
        )
