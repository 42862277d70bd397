"""Output of `fairpost simulate fairness`: figures, groups of senders, and their slots over time."""

from collections.abc import Mapping

from fairpost.cli.output import print_table
from fairpost.cli.plots import sparkline
from fairpost.dev.simulate.fairness import TITLES, Figures, GroupFigures, Record

WORDS = {
    "jain": "Jain's index, worst ten minutes (1: fair)",
    "gini": "Gini coefficient, worst ten minutes (0: fair)",
    "largest_share": "largest share of slots that others could have used",
    "small_wait_s_p50": "wait of small senders, median",
    "small_wait_s_p99": "wait of small senders, 99th percentile",
    "idle_slots": "slots unused while mail was queued",
    "newcomer_rounds": "maximum minutes until a newcomer's first slot",
    "sent": "sent",
    "bounced": "of it bounced",
}


def show(records: Mapping[str, Record], figures: Mapping[str, Figures]) -> None:
    scenario = next(iter(records.values())).scenario
    titles = [TITLES[name] for name in records]
    print_table(
        ["", *(f">{title}" for title in titles)],
        ([words, *(_in_words(key, getattr(each, key)) for each in figures.values())] for key, words in WORDS.items()),
        title=f"{scenario.name}: {scenario.about}; {scenario.slots_per_minute:,} slots a minute",
    )
    print_table(
        ["senders", *(f">{title}" for title in titles)],
        (
            [_name(group, figures), *(_group(each.groups[group]) for each in figures.values())]
            for group in scenario.groups
        ),
        title="\nshare of all e-mails sent, and wait (median, 99th percentile)",
    )
    print_table(
        ["senders", *titles],
        (
            [group, *(sparkline(record.share_over_time(group)) for record in records.values())]
            for group in scenario.groups
        ),
        title=f"\nshare of the slots, from minute 0 to {scenario.minutes}",
    )


def _name(group: str, figures: Mapping[str, Figures]) -> str:
    senders = next(iter(figures.values())).groups[group].senders
    return group if senders == 1 else f"{group} ({senders:,})"


def _group(figures: GroupFigures) -> str:
    return f"{figures.share:.1%}  {_wait(figures.wait_s_p50)}  {_wait(figures.wait_s_p99)}"


def _in_words(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    if "wait_s" in key:
        return _wait(value)
    if key == "largest_share":
        return f"{value:.1%}"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def _wait(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
