"""What an engine does beside sending: it remembers its database, and buries engines that were killed."""

import json
from pathlib import Path

from fairpost.engine import Watch, _announce
from fairpost.postgres.store import Store
from fairpost.settings import read_settings


def watch_of(store: Store, home: Path, said: list[str]) -> Watch:
    return Watch(store, read_settings({"FAIRPOST_HOME": str(home)}), said.append)


async def test_an_engine_that_buries_the_dead_forgets_nothing(store: Store, tmp_path: Path) -> None:
    watch = watch_of(store, tmp_path, [])
    for _ in range(3):
        await watch.look()
        await watch.bury_the_dead()
    (note,) = (tmp_path / "engines").glob("*.json")
    assert json.loads(note.read_text())["beats"] == 3


async def test_a_database_that_went_back_in_time_is_paused_by_the_engine_that_was_there(
    store: Store, tmp_path: Path
) -> None:
    said: list[str] = []
    watch = watch_of(store, tmp_path, said)
    await watch.look()
    await watch.bury_the_dead()
    await store.value("DELETE FROM fairpost.witnesses")  # as a snapshot from before would have it
    await watch.look()
    assert "it has gone back in time" in said[0]
    assert await store.value("SELECT count(*) FROM fairpost.pauses WHERE restored") == 1


async def test_an_engine_that_is_gone_is_buried_and_one_that_lives_is_not(store: Store, tmp_path: Path) -> None:
    settings = read_settings({"FAIRPOST_HOME": str(tmp_path)})
    living, dead = _announce(settings, "here:1:a"), _announce(settings, "here:2:b")
    assert living is not None
    assert dead is not None
    dead._file.with_name("kept").hardlink_to(dead._file)
    dead.withdraw()
    dead._file.with_name("kept").rename(dead._file)  # the file without its lock: what a kill leaves behind
    await watch_of(store, tmp_path, []).bury_the_dead()
    assert living._file.exists()
    assert not dead._file.exists()
    living.withdraw()
