"""Reads how campaigns stand: how far they have come, and what they wait for. A look at each part after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.model.account import Account
from fairpost.model.campaign import Campaign
from fairpost.observe.emails import stops_on
from fairpost.policy.blame import in_words
from fairpost.policy.waiting import Gate, Standing, Waiting, why_waiting
from fairpost.postgres import campaigns, schedules
from fairpost.postgres.blocks import read_blocks
from fairpost.postgres.campaigns import Progress
from fairpost.postgres.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignView:
    campaign: Campaign
    progress: Progress
    waiting: Waiting
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What must be counted to say why it waits. `routes`: those of what is due."""

    members: int | None
    planned: int
    ready: int
    in_hand: int
    in_doubt: int
    parked: int
    to_follow: int
    routes: tuple[str, ...]


async def view_campaign(
    store: Store,
    campaign: Campaign,
    *,
    now: datetime | None = None,
    called: Callable[[Account], Account] = lambda account: account,
) -> CampaignView:
    """`called`: the accounts as whoever looks may know them."""
    now = now or await store.value("SELECT clock_timestamp()")
    progress = await campaigns.progress(store, campaign)
    schedule = await schedules.schedule_of(store, campaign.workspace)
    found = await store.row(
        """SELECT ARRAY(SELECT DISTINCT q.route FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.waiting AND q.due_at <= $2) AS routes,
                  (SELECT count(DISTINCT m.prospect_id) FROM fairpost.campaigns c JOIN fairpost.list_members m ON m.list_id = ANY (c.lists)
                   WHERE c.id = $1 AND m.prospect_id <= c.planned_through) AS planned""",
        *(campaign.id, now),
    )
    counts = Counts(
        members=progress.members,
        planned=found["planned"],
        ready=progress.count("ready"),
        in_hand=progress.count("claimed", "sending"),
        in_doubt=progress.count("in_doubt"),
        parked=progress.count("parked"),
        to_follow=progress.count("to follow"),
        routes=tuple(found["routes"]),
    )
    timezone = schedule.schedule.timezone
    waiting = await why_it_waits(store, campaign, counts, timezone=timezone, now=now, called=called)
    return CampaignView(campaign=campaign, progress=progress, waiting=waiting, timezone=timezone)


async def why_it_waits(
    store: Store,
    campaign: Campaign,
    counts: Counts,
    *,
    timezone: str,
    now: datetime,
    called: Callable[[Account], Account],
) -> Waiting:
    streams = await store.fetch(
        """SELECT s.stream, s.timezone, g.until, g.why FROM fairpost.campaign_streams s, fairpost.gate_of(s.workspace, s.stream, $2) g
           WHERE s.campaign_id = $1""",
        *(campaign.id, now),
    )
    found = await store.row(
        """SELECT (SELECT min(q.due_at) FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.due_at > $2 AND q.due_at < 'infinity' AND q.waiting) AS next_due_at,
                  (SELECT count(*) FROM fairpost.engines e WHERE e.seen_at > clock_timestamp() - interval '10 seconds') AS engines,
                  (SELECT p.reason FROM fairpost.pauses p WHERE p.until > $2) AS pause""",
        *(campaign.id, now),
    )
    accounts = await store.accounts(serving=counts.routes or [campaign.route])
    at = Standing(
        campaign=campaign,
        timezone=timezone,
        members=counts.members,
        planned=counts.planned,
        ready=counts.ready,
        in_hand=counts.in_hand,
        in_doubt=counts.in_doubt,
        parked=counts.parked,
        to_follow=counts.to_follow,
        next_due_at=found["next_due_at"],
        gates=tuple(
            Gate(until=row["until"], why=row["why"], timezone=row["timezone"]) for row in streams if row["until"]
        ),
        is_open_somewhere=any(row["until"] is None for row in streams),
        held=await _held(store, campaign, found, streams, now) or await _blocked(store, campaign, accounts, now),
        accounts=[called(a) for a in accounts],
        engines=found["engines"],
    )
    return why_waiting(at, now=now)


async def _blocked(store: Store, campaign: Campaign, accounts: Sequence[Account], now: datetime) -> str | None:
    """Where no account may send for its workspace."""
    blocks = {block.account_id: block for block in await read_blocks(store, now=now, workspace=campaign.workspace)}
    if not accounts or any(account.id not in blocks for account in accounts):
        return None
    return f"the workspace is blocked on every account: {in_words(blocks[accounts[0].id].fault)}"


async def _held(store: Store, campaign: Campaign, found: Any, streams: list[Any], now: datetime) -> str | None:
    """By a person or a throttle; the gates of its streams are told apart."""
    if found["pause"] is not None:
        return f"everything is paused: {found['pause']}"
    stream = streams[0]["stream"] if streams else None
    for stop in await stops_on(store, campaign.workspace, domain="", user=campaign.user, stream=stream, now=now):
        if stop.level == "stream" and stop.is_throttle:
            continue
        name = f"{stop.level} {stop.key}".strip()
        return f"{name} is {'throttled' if stop.is_throttle else 'held'}: {stop.reason or 'no reason given'}"
    return None
