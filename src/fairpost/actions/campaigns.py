"""Actions on campaigns: draft, launch, pause, resume, cancel and retry a campaign, and stop it for one recipient."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from fairpost.actions.acting import Actor, action
from fairpost.campaigns import applying, forecasting, launching
from fairpost.campaigns import preview as previewing
from fairpost.campaigns.applying import Applied
from fairpost.campaigns.file import CampaignFile, FileStep
from fairpost.campaigns.launching import SchedulingResult, wrong_state
from fairpost.model.campaign import Campaign, CampaignState, Step
from fairpost.model.errors import NotFound, Refusal
from fairpost.model.ids import EmailId
from fairpost.model.mailbox import HeaderFields
from fairpost.model.prospect import Prospect
from fairpost.model.reason import Reason, Value
from fairpost.policy.companies import PUBLIC
from fairpost.providers.domain_proof import domain_of
from fairpost.quality.findings import Level
from fairpost.store import campaigns, header_fields, templates, workspace_settings, workspaces
from fairpost.store.campaigns import Draft
from fairpost.store.prospects import known_by
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.templates.rendering import Unrenderable

MISSING_LINK = "unsubscribe.missing"

LAUNCHABLE = (CampaignState.DRAFT, CampaignState.SCHEDULED, CampaignState.RUNNING, CampaignState.COMPLETED)
UNDER_WAY = (CampaignState.SCHEDULED, CampaignState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A campaign, by its name."""

    workspace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Because(Named):
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutDraft:
    """A request to create or change a draft.

    With `template` instead of a sequence, each recipient gets only one e-mail. `steps` are steps that belong to the
    campaign itself. The draft's route uses the workspace's own names. A tenant's route is checked: the tenant must be
    allowed to send through it.
    """

    draft: Draft
    template: str | None = None
    steps: tuple[FileStep, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Named):
    """A request to launch a campaign. `public_url` is the base URL for unsubscribe links."""

    skip_incomplete: bool = False
    public_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(Named):
    """A request to retry recipients. `seconds_max` limits the duration of one request; repeat the request to continue."""

    states: Sequence[str] = ("failed",)
    seconds_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRecipient(Named):
    address: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPut:
    campaign: Campaign
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignMoved:
    """The campaign in its new state, and whether this action changed it."""

    campaign: Campaign
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launched campaign that has not been planned yet; see `plan`.

    `already` is the number of e-mails that the campaign already has, or None if that number must be read when planning
    starts.
    """

    campaign: Campaign
    already: int | None
    warnings: Sequence[Reason] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    retried: int
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientStopped:
    prospect: Prospect
    cancelled: int


# ── drafts ────────────────────────────────────────────────────────────────────────────────────────────────


@action("campaign.put")
async def put(actor: Actor, request: PutDraft, store: Store) -> DraftPut:
    """Creates or changes a draft. A launched campaign cannot be changed."""
    draft = request.draft
    before = await _changeable(store, draft.workspace, draft.name)
    await _require_known(store, request)
    if actor.workspace is not None:
        draft = replace(draft, route=await _tenants_route(store, draft.workspace, draft.route))
    if request.steps is not None:
        fields = await header_fields.parsed(store, draft.header_fields)
        applied = await applying.apply(store, _file(draft, request.steps, fields), now=await store.now())
        assert applied.campaign is not None
        after, is_changed = applied.campaign, bool(applied.changes)
    else:
        if request.template is not None:
            steps = [Step(template=request.template)]
            await templates.put_sequence(store, draft.workspace, draft.name, steps, is_own=True)
        after = await campaigns.put_draft(store, draft)
        is_changed = after != before
    if is_changed:
        await _record(actor, store, "add" if before is None else "change", after, lists=draft.lists, route=draft.route)
    return DraftPut(campaign=after, is_new=before is None)


@action("campaign.apply")
async def apply(actor: Actor, request: CampaignFile, store: Store) -> Applied:
    """Creates or changes a campaign to match a campaign file."""
    done = await applying.apply(store, request, now=await store.now())
    if done.changes and done.campaign is not None:
        verb = "add" if done.is_new else "change"
        await _record(actor, store, verb, done.campaign, lists=request.lists, route=request.route)
    return done


@action("campaign.remove")
async def remove(actor: Actor, request: Named, store: Store) -> None:
    """Removes a draft. A launched campaign cannot be removed, because it belongs to the history; cancel it instead."""
    campaign = await _campaign(store, request)
    if not await campaigns.remove_draft(store, campaign):
        raise wrong_state(await _campaign(store, request), "remove")
    await _record(actor, store, "remove", campaign)


# ── launch, pause, resume, cancel ─────────────────────────────────────────────────────────────────────────


@action("campaign.launch")
async def launch(actor: Actor, request: Launch, store: Store) -> Launched:
    """Launches a campaign. If the campaign is already running, its planning continues."""
    before = await _campaign(store, request)
    if before.state not in LAUNCHABLE:
        raise wrong_state(before, "launch")
    if await _is_tenant(actor, before, store) and not await workspaces.may_be_from(
        store, before.workspace, before.route, None
    ):
        raise Refusal("campaign.pool_not_lent", pool=before.route, workspace=before.workspace)
    unhealthy = await _unhealthy(store, before) if before.state is CampaignState.DRAFT else []
    if unhealthy and (await workspace_settings.settings_of(store, before.workspace)).refuses_bad_domains:
        raise Refusal("campaign.domain_refused", **unhealthy[0].params)
    now = await store.now()
    after = await launching.set_going(
        *(store, before),
        skip_incomplete=request.skip_incomplete,
        by=actor.who,
        now=now,
        public_url=request.public_url,
    )
    if before.state is not CampaignState.DRAFT:
        return Launched(campaign=after, already=None)  # an engine may start planning before this process does
    await _record(actor, store, "launch", after, skip_incomplete=request.skip_incomplete)
    warnings = launching.warnings_of(after, public_url=request.public_url)
    warnings += unhealthy + await _unchecked(store, after)
    warnings += await _faulty(store, after, public_url=request.public_url)
    return Launched(campaign=after, already=0, warnings=warnings)


async def _faulty(store: Store, campaign: Campaign, *, public_url: str) -> list[Reason]:
    """Returns warnings about each step's content, as rendered for the campaign's first recipient."""
    address = await campaigns.first_member(store, campaign)
    if address is None:
        return []
    prospect, now = await known_by(store, campaign.workspace, address), await store.now()
    found = list[Reason]()
    for number in range(1, len(campaign.steps) + 1):
        try:
            shown = await previewing.preview(store, campaign, number, prospect, now=now, public_url=public_url)
        except Unrenderable:  # the campaign skips this recipient
            continue
        about: dict[str, Value] = {"name": campaign.name, "workspace": campaign.workspace, "step": number}
        found += [
            Reason("campaign.content_faulty", **about, fault=each.code, finding=each.text)
            for each in shown.findings
            if each.level is Level.BAD and each.code != MISSING_LINK  # there is a separate warning for a missing link
        ]
    return found


async def _unhealthy(store: Store, campaign: Campaign) -> list[Reason]:
    """Returns warnings from the latest checks of the campaign's From domains."""
    accounts = await store.accounts(serving=[campaign.route])
    domains = {domain_of(account.address) for account in accounts}
    bad = await workspaces.bad_health(store, campaign.workspace, domains)
    about = {"name": campaign.name, "workspace": campaign.workspace}
    return [
        Reason("campaign.domain_unhealthy", **about, domain=domain, what=", ".join(what).upper())
        for domain, what in bad
    ]


async def _unchecked(store: Store, campaign: Campaign) -> list[Reason]:
    """Returns warnings about those From domains of the workspace's own accounts that have never been checked."""
    accounts = await store.accounts(serving=[campaign.route])
    own = {domain_of(account.address) for account in accounts if account.workspace == campaign.workspace}
    about = {"name": campaign.name, "workspace": campaign.workspace}
    found = await workspaces.unchecked(store, campaign.workspace, own - PUBLIC)
    return [Reason("campaign.domain_unchecked", **about, domain=domain) for domain in found]


@action("campaign.schedule")
async def schedule(actor: Actor, request: Named, store: Store) -> Launched:
    """Schedules recipients that were added to the campaign's lists after the launch."""
    campaign = await _campaign(store, request)
    if campaign.state not in UNDER_WAY:
        raise wrong_state(campaign, "schedule")
    already = await launching.begin_again(store, campaign, now=await store.now())
    await _record(actor, store, "schedule", campaign)
    return Launched(campaign=campaign, already=already)


async def plan(
    store: Store,
    launched: Launched,
    *,
    seconds_max: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> SchedulingResult:
    """Plans the e-mails of a launched campaign.

    This action is not audited. If the action is interrupted, an engine finishes the planning.
    """
    if launched.already == 0:
        await forecasting.remember(store, launched.campaign, now=await store.now())
    result = await launching.schedule(
        store, launched.campaign, already=launched.already, seconds_max=seconds_max, progress=progress
    )
    result.warnings = list(launched.warnings)
    return result


@action("campaign.pause")
async def pause(actor: Actor, request: Because, store: Store) -> CampaignMoved:
    async def move(campaign: Campaign) -> bool:
        return await campaigns.pause(store, campaign, reason=request.reason, by=actor.who)

    return await _move(actor, request, store, move, "pause", so_already=("paused",))


@action("campaign.resume")
async def resume(actor: Actor, request: Named, store: Store) -> CampaignMoved:
    async def move(campaign: Campaign) -> bool:
        return await campaigns.resume(store, campaign, by=actor.who)

    return await _move(actor, request, store, move, "resume", so_already=("running", "scheduled"))


@action("campaign.cancel")
async def cancel(actor: Actor, request: Because, store: Store) -> CampaignMoved:
    async def move(campaign: Campaign) -> bool:
        return await campaigns.cancel(store, campaign, reason=request.reason, by=actor.who)

    return await _move(actor, request, store, move, "cancel", so_already=("cancelled",))


async def _move(
    actor: Actor,
    request: Named,
    store: Store,
    move: Callable[[Campaign], Awaitable[bool]],
    verb: str,
    *,
    so_already: Sequence[str],
) -> CampaignMoved:
    """Moves a campaign to another state. Does nothing if the campaign's state is one of `so_already`."""
    is_moved = await move(await _campaign(store, request))
    campaign = await _campaign(store, request)
    if not is_moved and campaign.state not in so_already:
        raise wrong_state(campaign, verb)
    if is_moved:
        await _record(actor, store, verb, campaign, reason=getattr(request, "reason", None))
    return CampaignMoved(campaign=campaign, changed=is_moved)


# ── its e-mails ───────────────────────────────────────────────────────────────────────────────────────────


@action("campaign.retry", in_one_commit=False)
async def retry(actor: Actor, request: Retry, store: Store) -> Retried:
    """Retries the recipients who did not receive the e-mail, one page per commit."""
    campaign = await _campaign(store, request)
    if campaign.state in (CampaignState.DRAFT, CampaignState.CANCELLED):
        raise wrong_state(campaign, "retry")
    begun_s, retried, after = clock.monotonic(), 0, 0
    while request.seconds_max is None or clock.monotonic() - begun_s <= request.seconds_max:
        async with store.together() as one:
            found = campaigns.receipts(one, campaign, states=request.states, after=after, most=campaigns.PAGE)
            ids = [EmailId(each.email_id) async for each in found]
            again = await campaigns.retry(one, ids) if ids else 0
            if again:
                await _record(actor, one, "retry", campaign, states=request.states, emails=again)
        retried += again
        if len(ids) < campaigns.PAGE:
            return Retried(retried=retried, is_done=True)
        after = ids[-1]
    return Retried(retried=retried, is_done=False)


@action("campaign.stop")
async def stop(actor: Actor, request: StopRecipient, store: Store) -> RecipientStopped:
    """Permanently stops a campaign for one recipient."""
    campaign = await _campaign(store, request)
    try:
        prospect = await known_by(store, campaign.workspace, request.address)
    except NotFound:
        raise Refusal("prospect.unknown", address=request.address, workspace=campaign.workspace) from None
    cancelled = await campaigns.stop(store, prospect.id, campaign, reason=request.reason)
    await _record(actor, store, "stop", campaign, address=prospect.address, reason=request.reason)
    return RecipientStopped(prospect=prospect, cancelled=cancelled)


async def _campaign(store: Store, request: Named) -> Campaign:
    found = await campaigns.find_campaign(store, request.workspace, request.name)
    if found is None:
        raise Refusal("campaign.unknown", name=request.name, workspace=request.workspace)
    return found


async def _is_tenant(actor: Actor, campaign: Campaign, store: Store) -> bool:
    """Returns whether the workspace is a tenant. An unregistered workspace belongs to the operator."""
    return actor.workspace is not None or await workspaces.find_workspace(store, campaign.workspace) is not None


async def _require_known(store: Store, request: PutDraft) -> None:
    """Checks that the draft's lists and its sequence or templates exist."""
    workspace, draft = request.draft.workspace, request.draft
    known = await campaigns.known_lists(store, workspace, draft.lists)
    for number, name in enumerate(draft.lists):
        if name not in known:
            raise Refusal("campaign.unknown_list", number=number, list=name, workspace=workspace)
    try:
        if request.steps is None and request.template is None:
            await templates.sequence_named(store, workspace, draft.sequence)
    except NotFound:
        raise Refusal("campaign.unknown_sequence", sequence=draft.sequence, workspace=workspace) from None
    for number, step in enumerate(request.steps or ()):
        try:
            if step.template_name is not None:
                await templates.template_named(store, workspace, step.template_name)
        except NotFound:
            about = {"template": step.template_name, "workspace": workspace}
            raise Refusal("sequence.unknown_template", number=number, **about) from None


async def _tenants_route(store: Store, workspace: str, route: str) -> str:
    """Returns the route as stored in the database: a pool or account that the workspace owns or borrows, never another
    workspace's.
    """
    account = route.removeprefix("@") if route.startswith("@") else None
    pool = None if account is not None else route
    found = await workspaces.route_for(store, workspace, pool=pool, account=account)
    if found is None and account is not None:
        raise Refusal("campaign.unknown_account", account=account, workspace=workspace)
    if found is None:
        raise Refusal("campaign.unknown_pool", pool=pool, workspace=workspace)
    if not await workspaces.may_be_from(store, workspace, found, None):
        raise Refusal("campaign.pool_without_address", pool=found)
    return found


def _file(draft: Draft, steps: tuple[FileStep, ...], fields: HeaderFields) -> CampaignFile:
    """Converts the draft to a campaign file."""
    return CampaignFile(
        name=draft.name,
        workspace=draft.workspace,
        lists=draft.lists,
        route=draft.route,
        starts_at=draft.starts_at,
        user=draft.user,
        labels=draft.labels,
        header_fields=fields,
        gap=draft.gap,
        by_recipients_clock=draft.by_recipients_clock,
        has_footer=draft.has_footer,
        steps=steps,
    )


async def _changeable(store: Store, workspace: str, name: str) -> Campaign | None:
    before = await campaigns.find_campaign(store, workspace, name)
    if before is not None and before.state is not CampaignState.DRAFT:
        raise wrong_state(before, "change")
    return before


async def _record(actor: Actor, store: Store, verb: str, campaign: Campaign, **detail: object) -> None:
    await actor.record(store, f"campaign.{verb}", f"campaign {campaign.name}", workspace=campaign.workspace, **detail)
