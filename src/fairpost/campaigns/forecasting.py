"""What a campaign still has to send, as the forecast asks for it; what was foreseen at the launch, and what came of it."""

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fairpost.model.account import Account
from fairpost.model.campaign import Campaign
from fairpost.policy.calendar import day_start
from fairpost.policy.forecast import Forecast, NoForecast, Pending, Plan, Sender, forecast
from fairpost.postgres import campaigns, schedules
from fairpost.postgres.store import Store

Hours = tuple[tuple[datetime, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """At the launch."""

    made_at: datetime
    ends_at: datetime
    emails: int
    per_hour: Hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    plan: Plan
    senders: list[Sender]
    not_counted: int  # follow-ups of accounts that cannot send, nobody knows until when


async def asked(store: Store, campaign: Campaign, *, now: datetime) -> Question:
    """Of this campaign alone: others that share its accounts or its workspace's quota are not counted."""
    stored = await schedules.schedule_of(store, campaign.workspace)
    today = day_start(stored.schedule.timezone, now)
    used = await schedules.quota_days(store, campaign.workspace, since=today, until=now)
    rest = await campaigns.still_to_send(store, campaign)
    accounts = [a for a in await store.accounts() if campaign.route in (a.pool, f"@{a.name}")]
    pinned = {each.account for each in rest.pending} - {account.name for account in accounts}
    accounts = [a for a in (*accounts, *await store.accounts()) if _can_send(a) and (a in accounts or a.name in pinned)]
    able = {account.name: account for account in accounts}
    plan = Plan(
        recipients=rest.recipients,
        delays_s=tuple(step.delay_s for step in campaign.steps[1:]),
        gap=campaign.gap,
        schedule=stored.schedule,
        quota_used=used[0].used if used else 0,
        first_day=stored.first_day,
        starts_at=campaign.starts_at if campaign.starts_at and campaign.starts_at > now else None,
        pending=tuple(
            Pending(account=p.account, step=p.step, due_at=p.due_at, count=p.count)
            for p in rest.pending
            if p.account in able
        ),
    )
    return Question(
        plan=plan,
        senders=[await _sender(store, account) for account in able.values()],
        not_counted=sum(p.count for p in rest.pending if p.account not in able),
    )


async def foresee(store: Store, campaign: Campaign, *, now: datetime) -> Forecast:
    """Raises NoForecast where it would never be done."""
    question = await asked(store, campaign, now=now)
    return await asyncio.to_thread(
        forecast, question.plan, question.senders, now=now
    )  # seconds, with a million e-mails


async def remember(store: Store, campaign: Campaign, *, now: datetime) -> None:
    """Once, at the launch. A campaign that cannot be foreseen goes on all the same."""
    try:
        found = await foresee(store, campaign, now=now)
    except NoForecast:
        return
    hours = [[hour.isoformat(), n] for hour, n in found.per_hour]
    written = {
        "made_at": now.isoformat(),
        "ends_at": found.ends_at.isoformat(),
        "emails": found.emails,
        "per_hour": hours,
    }
    await campaigns.keep_forecast(store, campaign, json.dumps(written))


async def foreseen(store: Store, campaign: Campaign) -> Foreseen | None:
    text = await campaigns.kept_forecast(store, campaign)
    if text is None:
        return None
    read = json.loads(text)
    return Foreseen(
        made_at=datetime.fromisoformat(read["made_at"]),
        ends_at=datetime.fromisoformat(read["ends_at"]),
        emails=read["emails"],
        per_hour=tuple((datetime.fromisoformat(hour), n) for hour, n in read["per_hour"]),
    )


def foreseen_by(foretold: Foreseen, now: datetime) -> int:
    """How many e-mails should have gone out by now. Within an hour, evenly."""
    hour = timedelta(hours=1)
    return round(sum(n * min(1.0, max(0.0, (now - begin) / hour)) for begin, n in foretold.per_hour))


def _can_send(account: Account) -> bool:
    """Now, or at a moment that is known."""
    return account.status == "active" or account.status_until is not None


async def _sender(store: Store, account: Account) -> Sender:
    usage = account.usage
    if account.limits.needs_charges:
        usage = replace(usage, charges=await store.charges(account.id))
    return Sender(name=account.name, limits=account.limits, usage=usage, not_before=account.status_until)
