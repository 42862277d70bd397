"""The live topic `now`: the current state of the queue, with charts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fairpost.api.conditions import shown
from fairpost.api.live import Look, Screen
from fairpost.api.names import as_known
from fairpost.api.topics.drawings import hours_chart, pace_chart, waiting_chart
from fairpost.api.topics.watching import Watcher, drawn
from fairpost.observe.now import AtWork, Now, NowWatch
from fairpost.reasons.rendering import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """Charts as SVG."""

    pace: str
    waiting: str
    hours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NowShown:
    """The state with charts instead of the history."""

    now: datetime
    workspace: str | None
    headline: Shown
    reasons: Sequence[Shown]
    per_s: float
    waiting: int
    claimed: int
    sending: int
    in_doubt: int
    undecided: int
    next_due_at: datetime | None
    oldest_wait_s: float | None
    health: float | None
    classes: Mapping[str, int]
    accounts: AtWork
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
        told = {
            name: getattr(now, name) for name in NowShown.__slots__ if name not in ("headline", "reasons", "charts")
        }
        told |= {"headline": shown(now.headline, caller), "reasons": [shown(each, caller) for each in now.reasons]}
        return lambda screen: NowShown(**told, charts=_charts(now, screen))

    return drawn(NowShown, look)


def _charts(now: Now, screen: Screen) -> Charts:
    return Charts(
        pace=pace_chart(now.history, now.now, screen),
        waiting=waiting_chart(now.history, now.now, screen),
        hours=hours_chart(now.hours, now.now, screen),
    )
