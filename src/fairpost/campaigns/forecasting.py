"""The input for a campaign's forecast, the forecast at launch, and the actual progress."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from fairpost.model.account import Account
from fairpost.model.campaign import Campaign
from fairpost.model.fault import Block
from fairpost.model.reason import Reason
from fairpost.policy.calendar import day_start
from fairpost.policy.forecast import (
    Forecast,
    KeptForecast,
    NoForecast,
    NoKeptForecast,
    Pending,
    Plan,
    Sender,
    forecast,
    in_writing,
    none_in_writing,
    read_kept,
)
from fairpost.store import campaign_progress, campaigns, schedules
from fairpost.store.blocks import read_blocks
from fairpost.store.store import Store
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system import clock
from fairpost.system.failpoints import failpoint

SECONDS_MAX = 10.0  # time limit for computing a stored forecast; a ten-year plan takes about this long


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    plan: Plan
    senders: list[Sender]
    not_counted: int  # follow-ups to be sent at an unknown time, because their accounts cannot send
    gives_up_at: datetime | None  # when the first of these e-mails will fail, unless its account is resumed


async def asked(store: Store, campaign: Campaign, *, now: datetime) -> Question:
    """Returns the forecast's input for this campaign alone. Other campaigns that share its accounts or its workspace's
    quota are ignored.
    """
    stored = await schedules.schedule_of(store, campaign.workspace)
    today = day_start(stored.schedule.timezone, now)
    used = await schedules.quota_days(store, campaign.workspace, since=today, until=now)
    rest = await campaigns.still_to_send(store, campaign)
    pinned = {f"@{each.account}" for each in rest.pending}
    blocks = {b.account_id: b for b in await read_blocks(store, now=now, workspace=campaign.workspace)}
    serving = await store.accounts(serving={campaign.route, *pinned})
    accounts = [a for a in serving if _can_send(a) and (a.id not in blocks or blocks[a.id].until is not None)]
    able = {account.name: account for account in accounts}
    waited_for = {p.account for p in rest.pending} - set(able)
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
        senders=[await _sender(store, account, blocks.get(account.id)) for account in able.values()],
        not_counted=sum(p.count for p in rest.pending if p.account not in able),
        gives_up_at=min((a.patience.bulk for a in serving if a.patience and a.name in waited_for), default=None),
    )


async def compute(store: Store, campaign: Campaign, *, now: datetime, seconds_max: float | None = None) -> Forecast:
    """Computes the forecast. Raises NoForecast if the campaign would never finish, or if the computation takes too
    long.
    """
    question = await asked(store, campaign, now=now)
    late_s = float("inf") if seconds_max is None else clock.monotonic() + seconds_max
    return await asyncio.to_thread(  # the computation takes several seconds for a million e-mails
        forecast, question.plan, question.senders, now=now, is_late=lambda: clock.monotonic() > late_s
    )


async def remember(store: Store, campaign: Campaign, *, now: datetime) -> None:
    """Stores the forecast once, at launch. If the forecast cannot be computed, the reason is stored instead, and the
    launch continues.
    """
    with suppress(*DRIVER_ERRORS):  # an engine will store the forecast later
        written = await _forecast_in_writing(store, campaign, now=now, sent=0)
        failpoint("before_forecast")
        await campaigns.keep_forecast(store, campaign, written)
        failpoint("after_forecast")


async def revised_forecast_of(store: Store, campaign: Campaign, *, now: datetime) -> str:
    """Returns the revised forecast for the remaining e-mails, in the stored format."""
    known = await campaign_progress.snapshot(store, campaign)
    return await _forecast_in_writing(store, campaign, now=now, sent=known.sent if known else 0)


async def kept_forecast(store: Store, campaign: Campaign) -> KeptForecast | None:
    """Returns the forecast at launch."""
    text = await campaigns.kept_forecast(store, campaign)
    read = read_kept(text) if text is not None else None
    return read if isinstance(read, KeptForecast) else None


async def _forecast_in_writing(store: Store, campaign: Campaign, *, now: datetime, sent: int) -> str:
    try:
        found = await compute(store, campaign, now=now, seconds_max=SECONDS_MAX)
    except DRIVER_ERRORS:
        raise
    except NoForecast as error:
        return none_in_writing(NoKeptForecast(made_at=now, why=error.reason))
    except Exception as error:
        return none_in_writing(NoKeptForecast(made_at=now, why=Reason("forecast.crashed", error=type(error).__name__)))
    return in_writing(found, made_at=now, sent=sent)


def _can_send(account: Account) -> bool:
    """Returns whether the account can send now, or will be able to at a known time."""
    return account.status == "active" or account.status_until is not None


async def _sender(store: Store, account: Account, block: Block | None) -> Sender:
    usage = account.usage
    if account.limits.needs_charges:
        usage = replace(usage, charges=await store.charges(account.id))
    moments = [moment for moment in (account.status_until, block.until if block else None) if moment]
    return Sender(name=account.name, limits=account.limits, usage=usage, not_before=max(moments, default=None))
