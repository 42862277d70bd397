"""Output of `fairpost campaign progress`: the forecast at launch, the counts, and the revised forecast."""

from typing import TYPE_CHECKING, Any

import typer

from fairpost.cli.output import plain, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairpost.observe.campaign_progress import ProgressView

ROWS_MAX = 12
EVEN = 0.02  # fraction of the forecast; smaller differences are not reported


def progress_facts(view: "ProgressView") -> dict[str, Any]:
    """Return the progress as JSON."""
    from fairpost.reasons.rendering import sentence

    snapshot = view.snapshot
    return {
        "campaign": view.campaign.name,
        "state": view.campaign.state,
        "waits_for": sentence(view.waiting.reason, view.timezone),
        "condition": view.waiting.code,
        "waits_until": view.waiting.until,
        "counted_at": snapshot.at if snapshot else None,
        "sent": snapshot.sent if snapshot else 0,
        "missed": snapshot.missed if snapshot else 0,
        "waiting": snapshot.waiting if snapshot else 0,
        "forecast": view.foretold,
        "expected": view.expected,
        "revised_forecast": view.revised_forecast,
        "done_at": view.ends_at,
        "drift_s": view.drift_s,
        "points": view.points,
        "steps": [
            {"step": number, "template": step.template, "emails": snapshot.by_step.get(number, {}) if snapshot else {}}
            for number, step in enumerate(view.campaign.steps, 1)
        ],
        "accounts": view.by_account,
    }


def print_progress(view: "ProgressView") -> None:
    typer.secho(plain(f"{view.campaign.name}: {view.campaign.state}"), bold=True)
    for line in progress_in_words(view):
        typer.echo(plain(line))
    if view.snapshot is None:
        return
    typer.echo()
    _print_points(view)
    if view.by_account:
        typer.echo()
        print_table(
            ("account", ">sent", ">missed", ">waiting"),
            ((a.account or "(none yet)", f"{a.sent:,}", f"{a.missed:,}", f"{a.waiting:,}") for a in view.by_account),
        )


def progress_in_words(view: "ProgressView") -> "Iterator[str]":
    """Yield the progress in words, such as "sent 420 of 1,000; forecast at launch: 500 by then"."""
    from fairpost.policy.forecast import NoKeptForecast
    from fairpost.reasons.rendering import local, sentence

    yield sentence(view.waiting.reason, view.timezone)
    snapshot = view.snapshot
    if snapshot is None:
        yield (
            "not counted yet"
            if view.campaign.launched_at is None
            else "not counted yet: counting requires a running engine (fairpost work)"
        )
        return
    emails = snapshot.sent + snapshot.missed + snapshot.waiting
    missed = f", failed {snapshot.missed:,}" if snapshot.missed else ""
    said = f"; forecast at launch: {view.expected:,} by then" if view.expected is not None else ""
    counted = f", counted {local(snapshot.at, view.timezone)}" if view.campaign.finished_at is None else ""
    yield f"sent {snapshot.sent:,} of {emails:,}{missed}{counted}{said}"
    if isinstance(view.foretold, NoKeptForecast):
        yield f"no forecast at launch: {sentence(view.foretold.why)}"
    if isinstance(view.revised_forecast, NoKeptForecast):
        yield f"no forecast now: {sentence(view.revised_forecast.why)}"
    if view.ends_at is not None:
        verb = "ended" if view.campaign.finished_at is not None else "expected to finish"
        yield f"{verb} {local(view.ends_at, view.timezone)}{_drift(view)}"


def _drift(view: "ProgressView") -> str:
    from fairpost.model.durations import say_duration
    from fairpost.policy.forecast import KeptForecast

    if view.drift_s is None or not isinstance(view.foretold, KeptForecast):
        return ""
    whole_s = (view.foretold.ends_at - view.foretold.made_at).total_seconds()
    if abs(view.drift_s) <= max(60, EVEN * whole_s):
        return ", as forecast at launch"
    return f", {say_duration(abs(view.drift_s))} {'later' if view.drift_s > 0 else 'sooner'} than forecast at launch"


def _print_points(view: "ProgressView") -> None:
    from fairpost.cli.forecast_view import bar
    from fairpost.policy.forecast import KeptForecast, forecast_by
    from fairpost.reasons.rendering import local

    last = len(view.points) - 1
    places = sorted({n * last // (ROWS_MAX - 1) for n in range(ROWS_MAX)}) if last >= ROWS_MAX else range(last + 1)
    most = max(1, *(point.sent for point in view.points))
    foretold = view.foretold if isinstance(view.foretold, KeptForecast) else None
    print_table(
        ("at", ">sent", ">forecast", ">failed", ""),
        (
            (
                local(point.at, view.timezone),
                f"{point.sent:,}",
                f"{forecast_by(foretold, point.at):,}" if foretold else "",
                f"{point.missed:,}",
                bar(point.sent / most),
            )
            for point in (view.points[place] for place in places)
        ),
    )
