"""What is watched of what happens now, with its history drawn."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fairpost.api.access import Caller
from fairpost.api.answers import facts_of
from fairpost.api.live import Look, Screen
from fairpost.api.names import SHARED, own_account, own_words
from fairpost.api.topics.drawings import hours_chart, pace_chart, waiting_chart
from fairpost.api.topics.watching import Watcher, drawn
from fairpost.model.account import Account
from fairpost.observe.now import Now, NowWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """As SVG."""

    pace: str
    waiting: str
    hours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NowShown(Now):
    """With its history drawn, instead of told."""

    charts: Charts


def now_look(watcher: Watcher) -> Look:
    caller = watcher.caller
    if caller is None:
        watch = NowWatch(watcher.store)
    else:
        workspace = caller
        watch = NowWatch(
            watcher.store,
            workspace.workspace,
            called=lambda account: _as_known(account, workspace),
            told=lambda words: own_words(words, workspace),
        )

    async def look() -> Callable[[Screen], NowShown]:
        now = await watch.look()
        return lambda screen: NowShown(**{**facts_of(now), "history": (), "hours": ()}, charts=_charts(now, screen))

    return drawn(NowShown, look)


def _charts(now: Now, screen: Screen) -> Charts:
    return Charts(
        pace=pace_chart(now.history, now.now, screen),
        waiting=waiting_chart(now.history, now.now, screen),
        hours=hours_chart(now.hours, now.now, screen),
    )


def _as_known(account: Account, caller: Caller) -> Account:
    """The operator's have no name here; its own keep the whole of theirs, by which mail is pinned to them."""
    if own_account(account.name, caller) is not None:
        return account
    return replace(account, name=SHARED, status_reason=None)
