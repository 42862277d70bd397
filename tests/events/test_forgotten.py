"""Events are dropped by day; a cursor that points to dropped ones is refused; and a person is erased from the rest."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from fairpost.model.errors import Refusal
from fairpost.model.suppression import SuppressionKind
from fairpost.store import privacy, suppressions
from fairpost.store.events import all_events, events_after, events_end, take_turn
from fairpost.store.retention import drop_event_days
from fairpost.store.store import Store
from tests.simulation.world import connect

DAY = timedelta(days=1)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = await connect(url)
    yield store
    await store.close()


async def write(store: Store, kind: str, *, days_ago: int) -> None:
    sql = (
        "INSERT INTO fairpost.outbox (at, kind) VALUES (clock_timestamp() - make_interval(days => $2), $1) RETURNING 1"
    )
    await store.value(sql, kind, days_ago)


async def told(store: Store, cursor: str | None = None) -> list[str]:
    await take_turn(store)
    return [event.kind async for event in all_events(store, cursor)]


async def test_old_days_are_dropped_and_their_cursors_refused(store: Store) -> None:
    cursors = []
    for days_ago in (5, 4, 1, 0):
        await write(store, f"{days_ago} days ago", days_ago=days_ago)
        await take_turn(store)
        cursors.append(await events_end(store))
    await write(store, "untold", days_ago=0)
    await drop_event_days(store, before=await store.now() - 3 * DAY)
    assert await told(store) == ["1 days ago", "0 days ago", "untold"]
    assert await told(store, cursors[1]) == ["1 days ago", "0 days ago", "untold"]
    assert await told(store, cursors[2]) == ["0 days ago", "untold"]
    for dropped in ("0.0", cursors[0]):
        with pytest.raises(Refusal) as refused:
            await events_after(store, dropped)
        assert refused.value.reason.code == "events.cursor_expired"


async def test_the_newest_turn_stays_so_that_nothing_is_reported_twice(store: Store) -> None:
    await write(store, "old", days_ago=5)
    await take_turn(store)
    await drop_event_days(store, before=await store.now())
    assert await told(store) == []
    await write(store, "new", days_ago=0)
    assert await told(store) == ["new"]


async def test_a_day_that_has_passed_becomes_a_partition_that_is_dropped(store: Store) -> None:
    then = await store.now() + 50 * DAY
    await store.value("INSERT INTO fairpost.outbox (at, kind) VALUES ($1, 'then') RETURNING 1", then)
    await store.value("SELECT fairpost.prepare_months($1)", then)
    assert await store.value(f"SELECT count(*) FROM fairpost.outbox_{then:%Y_%m_%d}") == 1
    assert await store.value("SELECT fairpost.drop_event_days($1, $1)", then + 5 * DAY) >= 1
    assert await store.value("SELECT count(*) FROM fairpost.outbox") == 0


async def test_a_person_is_exported_with_events_and_erased_from_them(store: Store) -> None:
    for address in ("Ann@there.test", "bob@there.test"):
        kind = SuppressionKind.MANUAL
        await suppressions.suppress(store, "w1", address, reason=f"{address} asked", kind=kind)
    exported = [
        piece async for section, piece in privacy.export(store, "ann@there.test", workspace=None) if section == "events"
    ]
    assert [piece["kind"] for piece in exported] == ["suppression.created"]
    await privacy.erase(store, "ann@there.test", workspace=None)
    await take_turn(store)
    events = [event async for event in all_events(store)]
    assert [event.address for event in events] == [None, "bob@there.test"]
    assert "nn@" not in str(events[0])
