"""Output of `fairpost simulate abuse`: rates, and a line for each kind of sender.

The rates and lines are shown for each of the two scoring methods.
"""

from collections.abc import Mapping

from fairpost.cli.output import print_table
from fairpost.dev.simulate.abuse import AbuseFigures, KindFigures, Way

WORDS = {
    "false_positive_rate": "honest senders who were throttled",
    "false_negative_rate": "abusers who were never throttled",
    "precision": "share of abusers among throttled senders",
    "detect_s_p50": "time to detect, median",
    "detect_s_p90": "time to detect, 90th percentile",
    "scored": "number of times senders were scored",
}


def show(figures: Mapping[Way, AbuseFigures]) -> None:
    print_table(
        ["", *(f">{way.value}" for way in figures)],
        ([words, *(_in_words(key, getattr(each, key)) for each in figures.values())] for key, words in WORDS.items()),
    )
    ours = figures[Way.EVENTS].kinds
    for title, is_abuse in (("honest senders: throttled", False), ("abusers: throttled", True)):
        kinds = [name for name, each in ours.items() if each.is_abuse is is_abuse]
        more = ", time to detect (median, 90th percentile), e-mails sent before detection" if is_abuse else ""
        print_table(
            ["senders", ">e-mails", *(f">{way.value}" for way in figures)],
            (
                [name, f"{ours[name].emails:,}", *(_kind(each.kinds[name]) for each in figures.values())]
                for name in kinds
            ),
            title=f"\n{title}{more}",
        )


def _kind(figures: KindFigures) -> str:
    throttled = f"{figures.throttled:,} of {figures.senders:,}"
    if figures.out_before is None:
        return throttled
    return f"{throttled}  {_time(figures.detect_s_p50)}  {_time(figures.detect_s_p90)}  {figures.out_before:,}"


def _in_words(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    if key.startswith("detect_s"):
        return _time(value)
    return f"{value:,}" if key == "scored" else f"{value:.1%}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
