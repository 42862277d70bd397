"""The forecast of a stored campaign: what is left to send, and the progress compared with the forecast at launch."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from fairpost.cli.session import with_store
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.campaigns.forecasting import Question
    from fairpost.model.campaign import Campaign
    from fairpost.policy.forecast import KeptForecast
    from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Reality:
    """What a launched campaign has sent, and its forecast at launch."""

    foretold: "KeptForecast | None"
    sent: int
    sent_by_hour: list[tuple[datetime, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    campaign: "Campaign"
    question: "Question"
    now: datetime
    reality: Reality | None


def known_campaign(name: str, workspace: str | None) -> Known:
    from fairpost.campaigns.forecasting import asked, kept_forecast
    from fairpost.store import campaigns

    async def work(store: "Store") -> Known:
        now = await store.now()
        campaign = await campaigns.campaign_named(store, workspace or read_settings().workspace, name)
        question = await asked(store, campaign, now=now)
        reality = None
        if campaign.launched_at is not None:
            hours = await campaigns.sent_by_hour(store, campaign)
            reality = Reality(
                foretold=await kept_forecast(store, campaign), sent=sum(n for _, n in hours), sent_by_hour=hours
            )
        return Known(campaign=campaign, question=question, now=now, reality=reality)

    return with_store(work)


def reality_facts(known: Known) -> dict[str, Any]:
    """Return the additional JSON fields."""
    from fairpost.policy.forecast import forecast_by

    reality = known.reality
    if reality is None:
        return {"campaign": known.campaign.name, "state": known.campaign.state}
    foretold = reality.foretold
    return {
        "campaign": known.campaign.name,
        "state": known.campaign.state,
        "sent": reality.sent,
        "sent_per_hour": reality.sent_by_hour,
        "not_counted": known.question.not_counted,
        "gives_up_at": known.question.gives_up_at,
        "foreseen_at_launch": foretold,
        "foreseen_by_now": forecast_by(foretold, known.now) if foretold else None,
    }


def show_reality(known: Known) -> None:
    from fairpost.policy.forecast import forecast_by
    from fairpost.reasons.rendering import local

    reality = known.reality
    if reality is None:
        return
    typer.echo(f"{known.campaign.name} is {known.campaign.state}: {reality.sent:,} sent so far.")
    if reality.foretold is not None:
        zone = known.question.plan.schedule.timezone
        by_now = forecast_by(reality.foretold, known.now)
        typer.echo(
            f"Forecast at launch: {by_now:,} by now and the last of {reality.foretold.emails:,} on "
            f"{local(reality.foretold.ends_at, zone)}."
        )
    if known.question.not_counted:
        waiting = f"{known.question.not_counted:,} follow-ups are waiting for accounts that cannot send"
        typer.echo(f"{waiting} and are not counted. See: fairpost account list")
        if known.question.gives_up_at is not None:
            zone = known.question.plan.schedule.timezone
            typer.echo(
                f"The first of them will fail on {local(known.question.gives_up_at, zone)} unless the account is "
                f"resumed."
            )
    typer.echo()
