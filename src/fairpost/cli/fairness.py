"""`fairpost fairness`: waiting and served senders, and how evenly they are served."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.arguments import span
from fairpost.cli.output import AsJson, plain, print_json, print_pairs, print_table, when
from fairpost.cli.session import with_store
from fairpost.reasons.rendering import brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.observe.fairness import FairnessReport, Portion, Served, Took

NONE = "–"
QUEUES = {"fair": "fair queue", "fifo": "by arrival"}
DURATIONS = {
    "send": "mail server, per e-mail",
    "claim": "database, per claim",
    "commit": "database, per outcome",
}


def fairness(
    window: Annotated[str, typer.Option(metavar="SPAN", help="Time window to report on: 1h to 24h.")] = "24h",
    workspace: Annotated[str | None, typer.Option(help="Report on one workspace, with its domains and users.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how evenly senders are served.

    The command reads counters, so it is fast regardless of the number of e-mails. A Gini coefficient of 0 or a Jain
    index of 1 means that all senders got the same share. An uneven distribution is not necessarily unfair: senders with
    more mail send more. To see whether small senders are delayed, compare the waiting times.

    \b
    Example: fairpost fairness --window 6h
    """
    from fairpost.observe.fairness import read_fairness

    length = span(window)
    report = with_store(lambda store: read_fairness(store, window=length, workspace=workspace), connections_max=3)
    if as_json:
        print_json({f.name: getattr(report, f.name) for f in fields(report) if f.name != "histograms"})
    else:
        _print(report)


def _print(report: "FairnessReport") -> None:
    _print_queue(report)
    if report.waiting.emails or any(report.waits.values()):
        _print_tiers(report)
    if report.waiting.emails:
        _print_waiting(report)
    if report.served.emails:
        _print_served(report)
    if report.workspace is None:
        _print_durations(report)
    _print_throttled(report)
    _print_urgent(report)
    if report.workspace is None:
        _print_engines(report)
    if not report.waiting.emails and not report.served.emails:
        where = f" in workspace {plain(report.workspace)}" if report.workspace is not None else ""
        typer.echo(f"\nNothing is waiting{where}, and nothing was sent in the last {_window(report)}.")


def _window(report: "FairnessReport") -> str:
    return f"{report.window_s / 3600:g} h"


def _print_queue(report: "FairnessReport") -> None:
    queue, mode = report.queue, report.mode
    has_lanes = mode.priority == "lanes"
    oldest = f", the oldest for {_time(queue.oldest_wait_s)}" if queue.oldest_wait_s is not None else ""
    worth = mode.lane_shares if has_lanes else mode.weights
    tiers = ", ".join(f"{tier} {value:g}" for tier, value in worth.items())
    limits = ", ".join(f"{tier} {min(100, limit)}" for tier, limit in queue.limits.items())
    others = "" if mode.fair_percent == 100 else "; the others are served in order of arrival"
    print_pairs(
        [
            ("queue", f"{queue.queued:,} waiting{oldest}; {queue.queued / queue.queue_max:.1%} of {queue.queue_max:,}"),
            ("health", f"{queue.health:g}: {_health(queue.health)}"),
            ("fair queue", f"{mode.fair_percent}% of the workspaces{others}"),
            ("tiers", f"as {mode.priority}: {tiers}"),
            ("limits", f"of every 100 claimed, while others wait: {limits}" if has_lanes else None),
            ("abuse", "senders are scored" if mode.is_scoring else "senders are not scored (FAIRPOST_ABUSE_DETECTION)"),
        ]
    )


def _health(multiplier: float) -> str:
    if multiplier > 1:
        return "spare capacity"
    return "keeping up" if multiplier == 1 else "falling behind; see why: fairpost status"


def _print_tiers(report: "FairnessReport") -> None:
    queues = report.queues
    words = {queue: f" {QUEUES[queue]}" if len(queues) > 1 else "" for queue in queues}
    typer.echo()
    print_table(
        [
            "tier",
            ">waiting",
            ">senders",
            *(f">{what}{words[q]}" for q in queues for what in ("mean wait", "p50", "p99")),
        ],
        [
            [
                tier,
                f"{w.emails:,}",
                f"{w.senders:,}",
                *(cell for q in queues for cell in _took(report.waits[q].get(tier))),
            ]
            for tier, w in report.waiting.tiers.items()
        ],
        title=f"Waiting now, and waiting times in the last {_window(report)}",
    )


def _print_waiting(report: "FairnessReport") -> None:
    waiting = report.waiting
    typer.echo(
        f"{_many(waiting.users.senders, 'sender')} with mail waiting: Gini {waiting.users.gini:.2f}; "
        f"the largest accounts for {waiting.users.largest_share:.1%} of it."
    )
    _print_portions("Most waiting", report, waiting.top_workspaces, waiting.top_users)
    if report.workspace is not None:
        typer.echo()
        _print_list("domain", [(each.name, each) for each in waiting.top_domains])


def _print_served(report: "FairnessReport") -> None:
    rows = [(QUEUES[queue], report.served_by[queue]) for queue in report.queues]
    if len(rows) > 1:
        rows.append(("together", report.served))
    typer.echo()
    print_table(
        ("", ">served", ">sent", ">bounced", ">rejected", ">an hour now", "hour by hour"),
        [
            (name, *(f"{n:,}" for n in (s.emails, s.sent, s.bounced, s.rejected)), f"{s.per_hour:,.0f}", _spark(s))
            for name, s in rows
        ],
        title=f"Served in the last {_window(report)}",
    )
    typer.echo()
    print_table(
        ("", "of", ">number", ">Gini", ">Jain", ">largest share"),
        [
            (name, of, f"{e.senders:,}", f"{e.gini:.2f}", f"{e.jain:.2f}", f"{e.largest_share:.1%}")
            for name, served in rows
            for of, e in (("workspaces", served.workspaces), ("users", served.users))
        ],
        title="How evenly",
    )
    typer.echo(
        "Gini 0 and Jain 1: all got the same share. Gini 0.9: about nine in ten got nothing. Senders with more mail get more."
    )
    _print_portions("Most served", report, report.top_workspaces, report.top_users)


def _print_portions(
    title: str, report: "FairnessReport", workspaces: "Sequence[Portion]", users: "Sequence[Portion]"
) -> None:
    typer.echo()
    typer.secho(title, bold=True)
    if report.workspace is None:
        _print_list("workspace", [(each.workspace, each) for each in workspaces])
        typer.echo()
        _print_list("user", [(f"{each.name or NONE} of {each.workspace}", each) for each in users])
    else:
        _print_list("user", [(each.name or NONE, each) for each in users])


SHOWN_MAX = 5  # JSON has more


def _print_list(of: str, portions: "Sequence[tuple[str, Portion]]") -> None:
    shown = [(name, f"{each.emails:,}", f"{each.share:.1%}") for name, each in portions[:SHOWN_MAX]]
    print_table((of, ">e-mails", ">share"), shown)


def _print_durations(report: "FairnessReport") -> None:
    if not report.durations:
        return
    typer.echo()
    print_table(
        ("", ">count", ">mean", ">p50", ">p99"),
        [(DURATIONS[kind], f"{took.count:,}", *_took(took)) for kind, took in report.durations.items()],
        title="Durations",
    )


def _print_throttled(report: "FairnessReport") -> None:
    throttling = report.throttling
    typer.echo(
        f"\n{_many(throttling.throttled, 'sender')} throttled ({throttling.stopped:,} stopped now), "
        f"{throttling.observed:,} with an observed throttle; {_many(throttling.held, 'name')} held manually."
    )
    if throttling.latest:
        print_table(
            ("workspace", "who", "stopped until", ">score", "found after", "why"),
            [
                (
                    each.workspace,
                    f"{each.level} {each.name}".strip(),
                    when(each.until, report.now) if each.is_enforced else "not stopped: observed",
                    each.score,
                    _time(each.found_after_s),
                    "; ".join(map(brief, each.reasons)),
                )
                for each in throttling.latest
            ],
            title="Throttled senders, newest first",
        )


def _print_urgent(report: "FairnessReport") -> None:
    if not report.urgent:
        return
    typer.echo()
    print_table(
        ("workspace", ">urgent", ">of its mail", "most of it by", ">urgent", ""),
        [
            (
                each.workspace,
                f"{each.urgent:,}",
                f"{each.share:.0%}",
                each.user or NONE,
                f"{each.user_urgent:,}",
                "bulk mail sent as urgent?" if each.is_suspect else "",
            )
            for each in report.urgent[:SHOWN_MAX]
        ],
        title=f"Urgent mail in the last {_window(report)}",
    )


def _print_engines(report: "FairnessReport") -> None:
    if not report.engines:
        typer.echo("\nNo engine is running. Start one: fairpost work")
        return
    typer.echo()
    print_table(
        ("engine", "state", ">processes", ">CPU", ">memory"),
        [
            (
                engine.id,
                "asleep" if engine.is_asleep else "awake",
                engine.processes,
                _time(engine.cpu_s),
                f"{engine.rss_bytes / 2**20:,.0f} MB" if engine.rss_bytes is not None else NONE,
            )
            for engine in report.engines
        ],
        title="Engines",
    )


def _took(took: "Took | None") -> tuple[str, str, str]:
    if took is None:
        return NONE, NONE, NONE
    return _time(took.mean_s), _time(took.p50_s), _time(took.p99_s)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def _spark(served: "Served") -> str:
    from fairpost.cli.plots import sparkline

    most = max(served.hours)
    return sparkline([n / most for n in served.hours], len(served.hours)) if most else ""


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
