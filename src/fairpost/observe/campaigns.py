"""Reads the progress of campaigns and what they are waiting for."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fairpost.model.account import Account
from fairpost.model.campaign import Campaign
from fairpost.model.reason import read_reason
from fairpost.observe.emails import as_hold, stops_on
from fairpost.observe.status import read_accounts, read_engines
from fairpost.observe.watch import Called, as_stored
from fairpost.policy.campaign_condition import CampaignFacts, Gate, of_campaign
from fairpost.policy.conditions import Condition, of_blocks, of_hold, of_pause, of_route
from fairpost.policy.facts import BlockedMail, Facts, Pause, Route
from fairpost.store import campaign_progress, campaigns, schedules
from fairpost.store.blocks import read_blocks
from fairpost.store.campaigns import Progress
from fairpost.store.pauses import pause_now
from fairpost.store.store import Store

LEFT_MAX = 20_000  # e-mails are counted only up to this number


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignView:
    campaign: Campaign
    progress: Progress
    waiting: Condition
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts that explain why a campaign is waiting. `routes` are the routes of due e-mails."""

    members: int | None
    planned: int
    ready: int
    claimed: int
    routes: tuple[str, ...]


async def view_campaign(
    store: Store,
    campaign: Campaign,
    *,
    now: datetime | None = None,
    called: Called = as_stored,
) -> CampaignView:
    """Reads a campaign. `called` maps accounts to the names that the viewer knows."""
    now = now or await store.now()
    progress = await campaigns.progress(store, campaign)
    schedule = await schedules.schedule_of(store, campaign.workspace)
    found = await campaign_progress.due_now(store, campaign, now=now)
    counts = Counts(
        members=progress.members,
        planned=found["planned"],
        ready=progress.count("ready"),
        claimed=progress.count("claimed", "sending"),
        routes=tuple(found["routes"]),
    )
    timezone = schedule.schedule.timezone
    waiting = await why_it_waits(store, campaign, counts, now=now, called=called)
    return CampaignView(campaign=campaign, progress=progress, waiting=waiting, timezone=timezone)


async def why_it_waits(
    store: Store,
    campaign: Campaign,
    counts: Counts,
    *,
    now: datetime,
    called: Callable[[Account], Account],
) -> Condition:
    streams = await campaign_progress.gates_of(store, campaign, now=now)
    next_due_at = await campaign_progress.next_due_at(store, campaign, now=now)
    facts, routes = await _facts(store, campaign, counts, now=now, called=called)
    is_over = not counts.ready and not counts.claimed and next_due_at is None
    left = await campaign_progress.left_over(store, campaign, most=LEFT_MAX) if is_over else None
    found = CampaignFacts(
        campaign=campaign,
        members=counts.members,
        planned=counts.planned,
        ready=counts.ready,
        claimed=counts.claimed,
        in_doubt=left["in_doubt"] if left else 0,
        parked=left["parked"] if left else 0,
        next_due_at=next_due_at,
        gates=tuple(
            Gate(until=row["until"], why=read_reason(row["why"], row["params"])) for row in streams if row["until"]
        ),
        is_open_somewhere=any(row["until"] is None for row in streams),
        held=await _held(store, campaign, facts, streams),
        routes=[of_route(Route(route=route, waiting=0), facts) for route in routes],
    )
    return of_campaign(found)


async def read_routes(
    store: Store, routes: Collection[str], *, now: datetime, called: Callable[[Account], Account]
) -> dict[str, Condition]:
    """Returns the condition of each route, regardless of the e-mails queued for it."""
    runtimes = await read_accounts(store, serving=routes) if routes else []
    names = {f"@{each.account.name}": f"@{called(each.account).name}" for each in runtimes}
    facts = Facts(now=now, accounts=[replace(each, account=called(each.account)) for each in runtimes])
    return {route: of_route(Route(route=names.get(route, route), waiting=0), facts) for route in routes}


async def _facts(
    store: Store, campaign: Campaign, counts: Counts, *, now: datetime, called: Callable[[Account], Account]
) -> tuple[Facts, list[str]]:
    """Returns the campaign's accounts and routes, with the names that the viewer knows."""
    serving = counts.routes or (campaign.route,)
    runtimes = await read_accounts(store, serving=serving)
    pause = await pause_now(store, now=now)
    blocks = await read_blocks(store, now=now, workspace=campaign.workspace)
    names = {f"@{each.account.name}": f"@{called(each.account).name}" for each in runtimes}
    facts = Facts(
        now=now,
        pause=Pause(**pause) if pause else None,
        engines=await read_engines(store),
        accounts=[replace(each, account=called(each.account)) for each in runtimes],
        blocked=[BlockedMail(route=Route(route=campaign.route, waiting=0), block=each) for each in blocks],
        shut={each.account_id for each in blocks},
    )
    return facts, [names.get(route, route) for route in serving]


async def _held(store: Store, campaign: Campaign, facts: Facts, streams: list[Any]) -> Condition | None:
    """Returns what stops the campaign, which can be a manual hold, a throttle, or a block on every account.

    Closed sending windows are reported separately.
    """
    if facts.pause is not None:
        return of_pause(facts.pause)
    stream = streams[0]["stream"] if streams else None
    for stop in await stops_on(store, campaign.workspace, domain="", user=campaign.user, stream=stream, now=facts.now):
        if stop.kind != "closed":
            return of_hold(as_hold(stop))
    is_shut = facts.accounts and all(each.account.id in facts.shut for each in facts.accounts)
    return next(of_blocks(facts), None) if is_shut else None
