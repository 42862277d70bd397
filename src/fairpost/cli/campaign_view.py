"""Output of `fairpost campaign show`."""

from typing import TYPE_CHECKING

import typer

from fairpost.cli.output import iso, plain, print_pairs, print_table
from fairpost.model.durations import write_duration
from fairpost.model.states import MISSED, ReceiptState, State

if TYPE_CHECKING:
    from fairpost.observe.campaigns import CampaignView

COLUMNS = tuple(map(str, ReceiptState))


def print_campaign(view: "CampaignView") -> None:
    from fairpost.campaigns.parsers import gap_in_words
    from fairpost.reasons.rendering import brief_or_none, command, told

    campaign, progress = view.campaign, view.progress
    is_told = view.waiting.code.startswith("campaign.")  # why the campaign is paused or has failed
    typer.secho(plain(f"{campaign.name}: {campaign.state}"), bold=True)
    typer.echo(plain(told(view.waiting, view.timezone)))
    if following := command(view.waiting.reason):
        typer.echo(f"next: {following}")
    typer.echo()
    print_pairs(
        (
            ("reason", None if is_told else brief_or_none(campaign.reason)),
            ("to", f"{', '.join(campaign.lists)} ({progress.members:,} prospects)"),
            (
                "through",
                f"account {campaign.route[1:]}" if campaign.route.startswith("@") else f"pool {campaign.route}",
            ),
            ("gap", f"{gap_in_words(campaign.gap)} s" if campaign.gap else None),
            ("clock", "of each recipient, if known" if campaign.by_recipients_clock else None),
            ("reply-to", campaign.header_fields.reply_to and str(campaign.header_fields.reply_to)),
            *((f"header {name}", value) for name, value in campaign.header_fields.headers.items()),
            ("footer", None if campaign.has_footer else "none: no unsubscribe line is added"),
            ("starts", iso(campaign.starts_at) if campaign.starts_at else None),
            ("launched", iso(campaign.launched_at) if campaign.launched_at else None),
            ("finished", iso(campaign.finished_at) if campaign.finished_at else None),
            ("skipped", f"{progress.skipped:,} e-mails already scheduled" if progress.skipped else None),
            ("left out", f"{progress.left_out:,} prospects with missing fields" if progress.left_out else None),
        )
    )
    typer.echo()
    used = [each for each in COLUMNS if progress.count(each)]
    rows = [
        (
            number,
            step.template,
            "" if number == 1 else write_duration(step.delay_s),
            *(f"{progress.by_step.get(number, {}).get(each, 0):,}" for each in used),
        )
        for number, step in enumerate(campaign.steps, 1)
    ]
    print_table((">step", "template", "after", *(f">{each.replace('_', ' ')}" for each in used)), rows)
    if progress.count(*MISSED, State.IN_DOUBT):
        where = "" if campaign.workspace == "default" else f" --workspace {campaign.workspace}"
        typer.echo(f"\nrecipients who did not get it, and why: fairpost campaign recipients {campaign.name}{where}")
