"""A change is visible within five seconds everywhere, because no part on the way to a view waits longer. Computed from
constants, not measured.

`status`, `doctor`, `account show`, `campaign show` and HTTP responses about one object read when asked, so nothing
delays them.
"""

import ast
import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from fairpost.api.topics import TOPICS

TOLD_WITHIN_S = 5.0
PACKAGE = Path(__file__).parents[2] / "src/fairpost"
PERIOD = re.compile(r"^([A-Z]+_)*(EVERY|KEPT|FRESH|RECENT|ALIVE|REST|AGE)(_[A-Z]+)*$")

# Each way, as the sequence of its periods.
WAYS = {
    "an engine that was killed": ["observe.status.ALIVE"],
    "a live page": ["api.live.EVERY_S"],
    "a live page whose look takes long": ["api.live.REST_S_MAX"],
    "the live list of accounts": ["api.live.EVERY_S", "observe.recent.KEPT_S_MAX"],
    "the failures on the page of an account": ["api.live.EVERY_S", "api.topics.accounts.FAILURES_EVERY"],
    "the live list of campaigns": ["api.live.EVERY_S", "observe.campaign_list.WHY_AGE_MAX"],
    "the state and figures of the installation over HTTP": ["api.service.RECENT_S"],
    "the same where a look takes long": ["observe.recent.KEPT_S_MAX"],
    "metrics": ["observe.scrape.KEPT_S"],
}
# Not on the way to any condition: hourly figures, counters that only grow, sessions and connections.
ON_NO_WAY = {
    "api.live.REVOKED_EVERY_S",
    "api.protocol.REST_BYTES_MAX",
    "api.protocol.REST_S_MAX",
    "api.serve.KEEP_ALIVE_S",
    "api.topics.accounts.FRESH_S",  # shorter than EVERY_S: see below
    "api.topics.campaigns.MEMBERS_EVERY_S",
    "api.topics.fairness.HOURS_EVERY",
    "observe.fairness.ENGINE_AGE_MAX",
    "observe.fairness.HEALTH_AGE_MAX",
    "observe.figures.ANCHOR_AGE_MAX",
    "observe.now.SLOW_EVERY",
}


def seconds(name: str) -> float:
    module, _, constant = name.rpartition(".")
    found = getattr(import_module(f"fairpost.{module}"), constant)
    return float(found.total_seconds() if isinstance(found, timedelta) else found)


def test_nothing_on_the_way_from_a_change_to_a_view_waits_longer_than_five_seconds() -> None:
    assert [way for way, parts in WAYS.items() if sum(map(seconds, parts)) > TOLD_WITHIN_S] == []
    assert max(topic.every_s for topic in TOPICS.values()) <= TOLD_WITHIN_S
    assert seconds("api.topics.accounts.FRESH_S") < seconds("api.live.EVERY_S")


def test_an_engine_that_lives_says_so_twice_before_it_counts_as_killed() -> None:
    assert 2 * seconds("engine.orchestrator.LOOK_S_MAX") < seconds("observe.status.ALIVE")


def test_every_period_of_a_view_is_on_a_way_or_on_none() -> None:
    found = {
        f"{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}.{name}"
        for room in ("api", "observe")
        for path in (PACKAGE / room).rglob("*.py")
        for name in _constants(path)
    }
    assert found == {name for parts in WAYS.values() for name in parts} | ON_NO_WAY


def _constants(path: Path) -> set[str]:
    return {
        target.id
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and PERIOD.match(target.id)
    }
