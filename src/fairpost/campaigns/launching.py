"""Launches a draft: checks it, and then adds a row and a key for every prospect and step."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from fairpost.campaigns.calendars import lay
from fairpost.campaigns.footers import FIELD
from fairpost.campaigns.forecasting import remember
from fairpost.campaigns.subjects import subjects_of
from fairpost.model.campaign import Campaign, CampaignState
from fairpost.model.errors import Refusal
from fairpost.model.reason import Reason
from fairpost.model.unsubscribe import base_of
from fairpost.policy.windows import is_zone
from fairpost.store import campaigns
from fairpost.store.campaigns import LaunchStep
from fairpost.store.store import Store
from fairpost.store.templates import StoredTemplate, template_named
from fairpost.system import clock
from fairpost.system.failpoints import failpoint
from fairpost.templates.rendering import Compiled, Template, compile_template

BATCH = 5000  # prospects per commit
INCOMPLETE_NAMED = 10
ERRORS_KEPT = 100
ALWAYS_KNOWN = frozenset({"email"})


@dataclass(slots=True)
class SchedulingResult:
    """The result of one scheduling run. `errors` lists the first few recipients that were left out, with the reasons.
    `inherited_subjects` lists the steps that use the first step's subject. `leaving_thread` lists the steps whose own
    subject starts a new thread in Gmail.
    """

    scheduled: int = 0
    skipped: int = 0
    left_out: int = 0
    errors: list[str] = field(default_factory=list)
    inherited_subjects: list[int] = field(default_factory=list)
    leaving_thread: list[int] = field(default_factory=list)
    warnings: list[Reason] = field(default_factory=list)
    is_done: bool = False  # False if the campaign was paused or cancelled in the meantime, or if time ran out


async def launch(
    store: Store, campaign: Campaign, *, skip_incomplete: bool, by: str, now: datetime, public_url: str = ""
) -> Campaign:
    """Checks and launches the draft. A repeated launch changes nothing. Raises Refusal. Call `schedule` next."""
    launched = await set_going(store, campaign, skip_incomplete=skip_incomplete, by=by, now=now, public_url=public_url)
    if campaign.state is CampaignState.DRAFT:
        await remember(store, launched, now=now)
    return launched


async def set_going(
    store: Store, campaign: Campaign, *, skip_incomplete: bool, by: str, now: datetime, public_url: str = ""
) -> Campaign:
    """Launches the draft without a forecast, which is stored afterwards. `public_url` is the base URL for
    unsubscribe links.
    """
    if campaign.state is not CampaignState.DRAFT:
        return campaign
    store = store.in_bulk()
    steps, required = await _steps(store, campaign, has_links=base_of(public_url) is not None)
    await _check(store, campaign, required, skip_incomplete=skip_incomplete)
    zones = await _zones(store, campaign)
    await campaigns.launch(
        store, campaign, steps, required=required, zones=zones, skip_incomplete=skip_incomplete, by=by
    )
    failpoint("after_launch")
    await lay(store, campaign.workspace, now=now)
    return await campaigns.campaign_by_id(store, campaign.id)


async def begin_again(store: Store, campaign: Campaign, *, now: datetime) -> int:
    """Restarts scheduling from the first prospect, to include prospects that were added to the lists after the launch.
    Call `schedule` next.

    Returns the number of e-mails that already exist. Raises Refusal if the campaign is not running.
    """
    already = (await campaigns.planning(store, campaign)).scheduled
    if not await campaigns.replan(store, campaign.id, await _zones(store, campaign)):
        raise wrong_state(campaign, "schedule")
    await lay(store, campaign.workspace, now=now)
    return already


async def _zones(store: Store, campaign: Campaign) -> list[str]:
    """Returns the recipients' known time zones, if the campaign uses the recipients' local time."""
    return (
        [zone for zone in await campaigns.zones(store, campaign) if is_zone(zone)]
        if campaign.by_recipients_clock
        else []
    )


async def schedule(
    store: Store,
    campaign: Campaign,
    *,
    already: int | None = None,
    seconds_max: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> SchedulingResult:
    """Schedules all prospects in batches. If scheduling is interrupted, the finished batches are kept.

    An engine may schedule prospects at the same time, and the result includes the engine's e-mails. `already` is the
    number of e-mails before this run, or None for the current number. After `seconds_max`, this function stops, and an
    engine schedules the remaining prospects. `progress` is called with the number of prospects handled so far.
    """
    store = store.in_bulk()
    begun_s = clock.monotonic()
    # The batches are small so that the time limit is checked often.
    most = BATCH if seconds_max is None else max(1, BATCH // max(1, len(campaign.steps)))
    if already is None:
        already = (await campaigns.planning(store, campaign)).scheduled
    result, is_over = SchedulingResult(), False
    while not is_over:
        planned = await campaigns.plan_batch(store, campaign.id, most=most)
        failpoint("after_plan")
        told = planned.left_out[: ERRORS_KEPT - len(result.errors)]
        for address in await campaigns.addresses(store, told) if told else ():
            result.errors.append(f"{address}: missing fields that the templates need")
        is_over = planned.done or (seconds_max is not None and clock.monotonic() - begun_s > seconds_max)
        progress((await campaigns.planning(store, campaign)).prospects)
    after = await campaigns.planning(store, campaign)
    result.scheduled = after.scheduled - already
    result.skipped = max(0, (after.prospects - after.left_out) * after.steps - result.scheduled)
    result.left_out = after.left_out
    result.is_done = after.is_done
    subjects = await subjects_of(store, campaign)
    result.inherited_subjects, result.leaving_thread = list(subjects.inherited), list(subjects.leaving)
    return result


def warnings_of(campaign: Campaign, *, public_url: str) -> list[Reason]:
    """Returns warnings about properties of the campaign that may cause receivers to reject its e-mails."""
    warnings = []
    if base_of(public_url) is None:
        warnings.append(Reason("campaign.no_unsubscribe_link", name=campaign.name))
    if not campaign.has_footer:
        warnings.append(Reason("campaign.no_footer", name=campaign.name))
    return warnings


async def _steps(store: Store, campaign: Campaign, *, has_links: bool) -> tuple[list[LaunchStep], list[str]]:
    """Returns each step's content, and the fields that the steps require.

    `has_links` means that every recipient gets an unsubscribe link.
    """
    steps, required = list[LaunchStep](), set[str]()
    for number, step in enumerate(campaign.steps, 1):
        template = await template_named(store, campaign.workspace, step.template)
        if steps and not step.own_subject:
            template = replace(template, subject=steps[0].subject)
        required |= (await asyncio.to_thread(compiled, template)).required
        steps.append(
            LaunchStep(
                step=number,
                template=step.template,
                delay_s=step.delay_s,
                own_subject=step.own_subject,
                subject=template.subject,
                text=template.text,
                html=template.html,
                header_fields=campaign.header_fields.over(template.header_fields),
                is_template=_has_places((template.subject, template.text, template.html)),
            )
        )
    if not steps:
        raise Refusal("campaign.no_steps", sequence=campaign.sequence)
    return steps, sorted(required - ALWAYS_KNOWN - ({FIELD} if has_links else set()))


def compiled(template: StoredTemplate) -> Compiled:
    return compile_template(Template(subject=template.subject, text=template.text, html=template.html))


def _has_places(parts: Iterable[str | None]) -> bool:
    return any(sign in part for part in parts if part for sign in ("{{", "{%", "{#"))


async def _check(store: Store, campaign: Campaign, required: list[str], *, skip_incomplete: bool) -> None:
    if not await campaigns.members(store, campaign):
        raise Refusal("campaign.no_recipients", lists=campaign.lists)
    accounts = await store.accounts(serving=[campaign.route])
    if not accounts:
        if campaign.route.startswith("@"):
            raise Refusal("campaign.no_account", account=campaign.route[1:])
        raise Refusal("campaign.empty_pool", pool=campaign.route)
    if required and not skip_incomplete:
        await _check_fields(store, campaign, required)


async def _check_fields(store: Store, campaign: Campaign, required: list[str]) -> None:
    count, first = await campaigns.incomplete(store, campaign, required, most=INCOMPLETE_NAMED)
    if not count:
        return
    raise Refusal(
        "campaign.missing_fields",
        name=campaign.name,
        workspace=campaign.workspace,
        count=count,
        fields=[f"{field} ({n:,})" for field, n in (await campaigns.lacking(store, campaign, required)).items()],
        first=[{"address": address, "lacks": _missing(fields, required)} for address, fields in first],
    )


def wrong_state(campaign: Campaign, action: str) -> Refusal:
    return Refusal(
        "campaign.wrong_state",
        name=campaign.name,
        workspace=campaign.workspace,
        state=str(campaign.state),
        action=action,
    )


def _missing(fields: dict[str, object], required: list[str]) -> list[str]:
    return [name for name in required if not str(_value(fields, name) or "").strip()]


def _value(fields: object, path: str) -> object:
    for part in path.split("."):
        fields = fields.get(part) if isinstance(fields, dict) else None
    return fields
