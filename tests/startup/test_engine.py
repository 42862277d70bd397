"""What an engine does besides sending: it remembers its database, drops old history, and reclaims killed engines."""

import asyncio
import json
from pathlib import Path

import pytest

from fairpost.maintenance.retention import HistoryWatch
from fairpost.model.errors import DatabaseUnavailable
from fairpost.model.reason import Reason
from fairpost.settings import read_settings
from fairpost.startup import engine
from fairpost.startup.engine import Watch, engines_folder, watches_of
from fairpost.store.store import Store
from fairpost.system.presence import Presence, announced


def watch_of(store: Store, home: Path, said: list[Reason]) -> Watch:
    return Watch(store, read_settings({"FAIRPOST_HOME": str(home)}), said.append)


async def test_an_engine_that_reclaims_dead_engines_forgets_nothing(store: Store, tmp_path: Path) -> None:
    watch = watch_of(store, tmp_path, [])
    for _ in range(3):
        await watch.look()
        await watch.reclaim_dead_engines()
    (note,) = (tmp_path / "engines").glob("*.json")
    assert json.loads(note.read_text())["beats"] == 3


async def test_a_database_that_went_back_in_time_is_paused_by_the_engine_that_was_there(
    store: Store, tmp_path: Path
) -> None:
    said: list[Reason] = []
    watch = watch_of(store, tmp_path, said)
    await watch.look()
    await watch.reclaim_dead_engines()
    await store.value("DELETE FROM fairpost.identity_checks")  # as in an older snapshot
    await watch.look()
    assert [each.code for each in said] == ["database.restored"]
    assert await store.value("SELECT count(*) FROM fairpost.pauses WHERE restored") == 1


async def test_an_engine_keeps_watching_after_any_trouble_of_the_database(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a server stands still, no connection becomes free, which is not a driver error."""
    monkeypatch.setattr(engine, "WATCH_EVERY_S", 0.0)
    said: list[Reason] = []
    troubles: list[Exception] = [DatabaseUnavailable("no connection became free"), KeyError("a bug"), OSError("away")]
    are_over = asyncio.Event()

    class Troubled(Watch):
        async def look(self) -> None:
            if troubles:
                raise troubles.pop()
            are_over.set()

    watching = asyncio.create_task(Troubled(store, read_settings({"FAIRPOST_HOME": str(tmp_path)}), said.append).run())
    enough = asyncio.create_task(are_over.wait())
    await asyncio.wait([watching, enough], return_when=asyncio.FIRST_COMPLETED)
    assert not watching.done()
    assert [each.code for each in said] == ["task.failed"], "the orchestrator reports trouble"
    watching.cancel()
    enough.cancel()


async def test_a_dead_engine_is_reclaimed_and_a_live_one_is_not(store: Store, tmp_path: Path) -> None:
    folder = engines_folder(read_settings({"FAIRPOST_HOME": str(tmp_path)}))
    living = Presence.announce(folder, "here:1:a")
    Presence.announce(folder, "here:2:b").withdraw()
    (folder / "here:2:b").touch()  # the file without its lock, as a kill leaves it behind
    await watch_of(store, tmp_path, []).reclaim_dead_engines()
    assert announced(folder) == ["here:1:a"]
    living.withdraw()


async def test_an_engine_drops_the_months_that_its_settings_do_not_keep(store: Store, tmp_path: Path) -> None:
    settings = read_settings({"FAIRPOST_HOME": str(tmp_path), "FAIRPOST_RETENTION_DAYS": "30"})
    await store.value("SELECT fairpost.make_partitions('2020-01-15Z')")
    (history,) = [watch for watch in watches_of(store, settings, print) if isinstance(watch, HistoryWatch)]
    await history.step()
    assert await store.value("SELECT to_regclass('fairpost.emails_2020_03') IS NULL")
