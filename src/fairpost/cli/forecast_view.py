"""Output of `fairpost forecast`: a sentence, tables by account, step and time, and suggestions."""

from itertools import groupby
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import typer

from fairpost.cli.output import plain, print_table
from fairpost.model.durations import say_duration
from fairpost.policy.forecast import Forecast, Suggestion
from fairpost.policy.forecast.buckets import buckets
from fairpost.reasons.rendering import brief, sentence, suggested

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fairpost.cli.forecast import Asked

ACCOUNTS_SHOWN_MAX = 12
BAR_WIDTH = 40
EMPTY_ROWS_MAX = 3  # longer runs of empty rows are collapsed
EIGHTHS = " ▏▎▍▌▋▊▉"


def facts(found: Forecast, helpful: "Sequence[Suggestion]", asked: "Asked") -> dict[str, Any]:
    """Return the forecast as JSON."""
    return {
        "emails": found.emails,
        "starts_at": found.starts_at,
        "ends_at": found.ends_at,
        "finished_after_s": found.finished_after_s,
        "bottleneck": found.bottleneck.value,
        "why": sentence(found.why),
        "why_code": found.why.code,
        "per_account": found.per_account,
        "per_step": [
            {"step": number, "emails": step.emails, "first_at": step.first_at, "last_at": step.last_at}
            for number, step in enumerate(found.per_step, 1)
        ],
        "per_day": [[day.isoformat(), count] for day, count in found.per_day],
        "per_hour": found.per_hour,
        "waited_s": {reason.value: waited_s for reason, waited_s in found.waited_s.items()},
        "suggestions": [
            {
                "change": brief(each.change),
                "change_code": each.change.code,
                "ends_at": each.ends_at,
                "saves_s": each.saves_s,
                "words": suggested(each, asked.plan.schedule.timezone, now=asked.now),
            }
            for each in helpful
        ],
    }


def show(found: Forecast, helpful: "Sequence[Suggestion]", asked: "Asked") -> None:
    timezone = asked.plan.schedule.timezone
    accounts = len(asked.senders)
    typer.echo(
        f"{found.emails:,} e-mails through {accounts:,} account{'s' if accounts > 1 else ''}: done {_moment(found.ends_at, timezone)} "
        f"({timezone}), in {say_duration(found.finished_after_s)}."
    )
    if found.starts_at > asked.now:
        typer.echo(f"The first will be sent {_moment(found.starts_at, timezone)}.")
    typer.echo()
    _print_accounts(found, asked)
    if len(found.per_step) > 1:
        _print_steps(found, timezone)
    _print_bars(found, timezone)
    typer.echo(f"\nBottleneck: {found.bottleneck}. {sentence(found.why)}")
    if helpful:
        typer.echo("To finish sooner:")
    for each in helpful:
        typer.echo(f"  {plain(suggested(each, timezone, now=asked.now))}")


def _print_accounts(found: Forecast, asked: "Asked") -> None:
    shown = asked.senders[:ACCOUNTS_SHOWN_MAX]
    rows = [(s.name, f"{found.per_account[s.name]:,}", s.limits.in_one_line()) for s in shown]
    if rest := asked.senders[ACCOUNTS_SHOWN_MAX:]:
        rows.append((f"and {len(rest):,} more", f"{sum(found.per_account[s.name] for s in rest):,}", ""))
    print_table(("account", ">e-mails", "limits"), rows)


def _print_steps(found: Forecast, timezone: str) -> None:
    typer.echo()
    print_table(
        ("step", ">e-mails", "first", "last"),
        [
            (number, f"{step.emails:,}", _moment(step.first_at, timezone), _moment(step.last_at, timezone))
            for number, step in enumerate(found.per_step, 1)
        ],
    )


def _print_bars(found: Forecast, timezone: str) -> None:
    over_time = buckets(found, timezone)
    most = max(count for _, count in over_time.counts)
    form = "%a %d %b %H:%M" if over_time.is_within_days else "%a %d %b %Y"
    rows: list[tuple[str, str, str]] = []
    for is_empty, group in groupby(over_time.counts, key=lambda each: not each[1]):
        spans = [(f"{at:{form}}", f"{count:,}", bar(count / most)) for at, count in group]
        rows += [("…", "", "")] if is_empty and len(spans) > EMPTY_ROWS_MAX else spans
    typer.echo()
    print_table((f"per {over_time.size}", ">e-mails", ""), rows)


def bar(part: float) -> str:
    """Return a bar, precise to an eighth of a character. Any value above 0 is visible."""
    eighths = max(round(part * BAR_WIDTH * 8), 1 if part > 0 else 0)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _moment(moment: "datetime | None", timezone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(timezone)):%a %d %b %Y %H:%M}" if moment is not None else ""
