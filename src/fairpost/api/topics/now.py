"""The live topic `now`: the current state of the queue, with charts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairpost.api.conditions import shown
from fairpost.api.live import Look, Screen
from fairpost.api.names import as_known
from fairpost.api.topics.drawings import hours_chart, pace_chart, waiting_chart
from fairpost.api.topics.watching import Watcher, drawn, shared
from fairpost.observe.now import Activity, Now, NowWatch
from fairpost.reasons.rendering import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """Charts as SVG."""

    pace: str
    waiting: str
    hours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NowShown(Activity):
    """The activity with charts instead of the history."""

    headline: Shown
    reasons: Sequence[Shown]
    charts: Charts


def now_look(watcher: Watcher) -> Look:
    caller = watcher.caller
    if caller is None:
        watch = NowWatch(watcher.store)
    else:
        workspace = caller
        watch = NowWatch(watcher.store, workspace.workspace, called=lambda account: as_known(account, workspace))

    async def look() -> Callable[[Screen], NowShown]:
        now = await watch.look()
        told = shared(now, Activity)
        told |= {"headline": shown(now.headline, caller), "reasons": [shown(each, caller) for each in now.reasons]}
        return lambda screen: NowShown(**told, charts=_charts(now, screen))

    return drawn(NowShown, look)


def _charts(now: Now, screen: Screen) -> Charts:
    return Charts(
        pace=pace_chart(now.history, now.now, screen),
        waiting=waiting_chart(now.history, now.now, screen),
        hours=hours_chart(now.hours, now.now, screen),
    )
