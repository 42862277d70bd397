"""Draws, for both ways of scoring, how soon abusers are detected and what share of each kind of sender is throttled."""

from collections.abc import Mapping, Sequence

from fairpost.charts import (
    Axis,
    Bar,
    Fragment,
    Kind,
    Part,
    Series,
    Tint,
    Unit,
    bar_chart,
    document,
    line_chart,
)
from fairpost.dev.simulate import senders
from fairpost.dev.simulate.abuse import AbuseFigures, Story, Way

MINUTE_S, WEEK_S = 60, 7 * 24 * 60 * 60
WIDTH, HEIGHT = 480, 330
LINES: tuple[Tint, ...] = (1, 2, 3, 4)
BARS: dict[Way, Tint] = {Way.EVENTS: 1, Way.HOURLY: "quiet"}


def draw_abuse(stories: Mapping[Way, Sequence[Story]], figures: Mapping[Way, AbuseFigures]) -> str:
    """Draws an SVG. The same stories always produce the same drawing."""
    panels = [_found(stories), _throttled(figures)]
    about = "Scored on each relevant event, as in the engine, and on a timer once an hour."
    return document(panels, title="How soon abuse is detected, and who is throttled", about=about, columns=2)


def _found(stories: Mapping[Way, Sequence[Story]]) -> Fragment:
    """Draws the share of abusers detected over time, by kind of abuser."""
    abuses = [kind for kind in senders.Kind if kind.is_abuse]
    return line_chart(
        [
            Series(f"{kind}, {way.value}", _found_after(stories[way], kind), Kind.STEP, tint, dashed=way is Way.HOURLY)
            for kind, tint in zip(abuses, LINES, strict=True)
            for way in Way
        ],
        x_axis=Axis(unit=Unit.DURATION, label="since the abuse began", log=True),
        y_axis=Axis(unit=Unit.PERCENT, includes=(0, 1)),
        label="share of abusers detected",
        width=WIDTH,
        height=HEIGHT,
    )


def _found_after(stories: Sequence[Story], kind: senders.Kind) -> list[tuple[float, float]]:
    of_kind = [story for story in stories if story.sender.kind is kind]
    found_s = sorted(max(MINUTE_S, story.detect_s) for story in of_kind if story.detect_s is not None)
    parts = [number / max(1, len(of_kind)) for number in range(len(found_s) + 1)]
    return list(zip([MINUTE_S, *found_s, max(WEEK_S, *found_s, 0)], [*parts, parts[-1]], strict=True))


def _throttled(figures: Mapping[Way, AbuseFigures]) -> Fragment:
    kinds = figures[Way.EVENTS].kinds
    return bar_chart(
        [
            Bar(
                f"{name} ({'abuse' if each.is_abuse else 'honest'})",
                [figures[way].kinds[name].throttled / figures[way].kinds[name].senders for way in Way],
            )
            for name, each in kinds.items()
        ],
        parts=[Part(way.value, BARS[way]) for way in Way],
        stacked=False,
        axis=Axis(unit=Unit.PERCENT, includes=(1,)),
        label="share of each kind of sender that was throttled",
        width=WIDTH,
    )
