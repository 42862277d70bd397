"""A restored or copied database starts paused, on a real PostgreSQL: copies, dumps, and memories of lost data."""

import asyncio
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from fairpost.engine.results import Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.observe.guard import Guarded, guard, remember
from fairpost.policy.restored import FailedOver, First, Restored, Sound
from fairpost.reasons.events import message
from fairpost.reasons.rendering import brief
from fairpost.store.binaries import find_binaries
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from fairpost.store.store import Store
from fairpost.transports.scripted.send import ScriptedTransport
from tests.conftest import at_database

RECOVERING = {"restore_command": "false", "hot_standby": "off"}  # not readable before recovery is complete

_numbers = itertools.count(1)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@asynccontextmanager
async def another(server_url: str, template: str = "template0") -> AsyncIterator[str]:
    name = f"another_{next(_numbers)}"
    conn = await asyncpg.connect(server_url)
    await conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield at_database(server_url, name)
    finally:
        await conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await conn.close()


async def pause_of(store: Store) -> Any:
    return await store.row("SELECT * FROM fairpost.pause_now()")


async def resume(store: Store) -> None:
    assert await store.row("SELECT * FROM fairpost.resume('me')") is not None


async def kinds(store: Store) -> list[str]:
    return [row["kind"] for row in await store.fetch("SELECT kind FROM fairpost.events ORDER BY id")]


async def enqueue(store: Store) -> None:
    await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t"}])


def signs(guarded: Guarded) -> str:
    """Returns the sign by which it is recognized as restored."""
    assert isinstance(guarded.lineage, Restored), guarded
    return "; ".join(map(brief, guarded.lineage.signs))


def remembered_at(home: Path) -> str:
    """Returns when the engine last wrote to the database, according to the sign."""
    (file,) = (home / "engines").glob("*.json")
    return f"{datetime.fromisoformat(json.loads(file.read_text())['at']):%Y-%m-%d %H:%M:%S}"


async def oid(store: Store) -> str:
    return str(await store.value("SELECT oid FROM pg_database WHERE datname = current_database()"))


async def test_the_first_start_remembers_and_pauses_nothing(store: Store, home: Path) -> None:
    assert await guard(store, home) == Guarded(lineage=First())
    assert await guard(store, home) == Guarded(lineage=Sound())
    assert await remember(store, home) == Guarded(lineage=Sound())
    assert await remember(store, home) == Guarded(lineage=Sound())
    assert await pause_of(store) is None
    (file,) = (home / "engines").glob("*.json")
    assert json.loads(file.read_text())["beats"] == 2
    assert file.stat().st_mode & 0o777 == 0o600
    assert (home / "engines").stat().st_mode & 0o777 == 0o700


async def test_four_engines_that_start_at_once_agree(store: Store, tmp_path: Path) -> None:
    homes = [tmp_path / str(i) for i in range(4)]
    found = await asyncio.gather(*(remember(store, home) for home in homes))
    assert all(guarded.is_sound for guarded in found)
    assert all(guarded.lineage == Sound() for guarded in [await remember(store, home) for home in homes])


@pytest.mark.fresh
async def test_a_copied_database_sends_nothing_until_resumed(
    server_url: str, url: str, home: Path, tmp_path: Path
) -> None:
    async with Store.open(url) as store:
        await store.add_account("anna", address="anna@post.test", limits=Limits())
        await enqueue(store)
        await remember(store, home)
        before = await oid(store)
    async with another(server_url, urlsplit(url).path[1:]) as copied, Store.open(copied) as copy:
        guarded = await guard(copy, tmp_path / "elsewhere")
        assert {before, await oid(copy)} <= set(re.findall(r"\d+", signs(guarded)))
        (event,) = guarded.events()
        assert event.code == "database.restored"
        assert message(event).endswith("fairpost resume --all")
        (account,) = await copy.accounts()
        runner = await Runner.start(copy, ScriptedTransport(), account.id, owner="test")
        assert runner is not None
        assert await runner.step() == Rested(Idle.PAUSED)
        await guard(copy, home)  # for every caller, any number of times
        assert await kinds(copy) == ["restored"]
        await resume(copy)
        assert await runner.take_up(), "the lease is still held in the new life"
        assert len(await runner.run_until_idle()) == 1
        assert await guard(copy, tmp_path / "elsewhere") == Guarded(lineage=Sound())
        assert (await remember(copy, home)).lineage == Sound(), (
            "this engine remembers nothing suspicious about its new life"
        )


def run(program: str, *arguments: str) -> None:
    path = str(find_binaries().directory / program)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    done = subprocess.run([path, *arguments], check=False, capture_output=True, text=True, env=kept, timeout=150)
    troubles = [line for line in done.stderr.splitlines() if "error:" in line and "transaction_timeout" not in line]
    assert not troubles, "all but a setting that older servers do not have"


@pytest.mark.fresh
async def test_a_database_loaded_from_a_dump_is_known_as_one(server_url: str, url: str, home: Path) -> None:
    async with Store.open(url) as store:
        await enqueue(store)
        await remember(store, home)
        before, public_ids = await oid(store), await store.public_ids()
    with tempfile.NamedTemporaryFile(suffix=".dump") as dump:
        run("pg_dump", "--format=custom", f"--file={dump.name}", url)
        async with another(server_url) as loaded:
            run("pg_restore", f"--dbname={loaded}", dump.name)
            async with Store.open(loaded) as store:
                assert {before, await oid(store)} <= set(re.findall(r"\d+", signs(await guard(store, home))))
                assert (await pause_of(store))["restored"]
                assert await store.public_ids() == public_ids, "published ids still lead to their e-mails"
        async with Store.open(url) as store:
            await store.value("DROP SCHEMA fairpost CASCADE")
        run("pg_restore", f"--dbname={url}", dump.name)
    async with Store.open(url) as store:  # into the very database it came from, by a machine without a memory
        assert before not in signs(await guard(store, home.with_name("new")))


async def test_a_database_that_has_gone_back_in_time_is_paused_also_while_the_engine_runs(
    store: Store, home: Path
) -> None:
    await remember(store, home)
    snapshot = await store.fetch("SELECT * FROM fairpost.identity_checks")
    for _ in range(3):
        assert (await remember(store, home)).is_sound
    await store.value(
        "UPDATE fairpost.identity_checks SET beats = $1, at = $2", snapshot[0]["beats"], snapshot[0]["at"]
    )
    assert remembered_at(home) in signs(await remember(store, home))
    assert (await pause_of(store))["restored"]
    assert not (await remember(store, home)).is_sound, "the evidence stays until a person resumes"
    await resume(store)
    assert (await remember(store, home)).is_sound
    assert await pause_of(store) is None


async def test_a_database_from_before_the_first_start_is_known_by_who_worked_on_it(store: Store, home: Path) -> None:
    await remember(store, home)
    await enqueue(store)
    await store.value("TRUNCATE fairpost.identity, fairpost.identity_checks")
    assert remembered_at(home) in signs(await guard(store, home))
    await resume(store)
    assert await guard(store, home) == Guarded(lineage=Sound())


async def confirm(store: Store) -> None:
    """Acts as an engine that remembers nothing else."""
    await store.ask_about_server()
    assert (await store.confirm_server("here", life=None, steps={})).verdict == "confirmed"


async def test_a_failover_that_lost_nothing_is_reported_and_does_not_pause(store: Store, home: Path) -> None:
    await remember(store, home)
    await confirm(store)
    # as before the failover
    await store.value("UPDATE fairpost.identity SET timeline = timeline - 1")
    await store.value("UPDATE fairpost.server SET timeline = timeline - 1, confirmed = '-infinity'")
    assert isinstance((await guard(store, home)).lineage, FailedOver)
    await confirm(store)
    assert await guard(store, home) == Guarded(lineage=Sound())
    assert await kinds(store) == ["failed over"]
    assert await pause_of(store) is None


async def test_where_nothing_of_the_server_may_be_seen_the_memory_still_guards(store: Store, home: Path) -> None:
    await store.value(
        """CREATE FUNCTION fairpost.pg_control_system(OUT system_identifier bigint) LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'not here' USING ERRCODE = 'insufficient_privilege'; END $$"""
    )
    await store.value(
        """CREATE FUNCTION fairpost.pg_current_wal_insert_lsn() RETURNS pg_lsn LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'not here' USING ERRCODE = 'feature_not_supported'; END $$"""
    )
    seen = "ALTER FUNCTION fairpost.identity_now() SET search_path = fairpost, pg_temp, pg_catalog"
    await store.value(seen)
    assert (await guard(store, home)).lineage == First()
    row = await store.row("SELECT * FROM fairpost.identity")
    assert (row["system_identifier"], row["timeline"]) == (None, None)
    for _ in range(2):
        assert (await remember(store, home)).is_sound
    await store.value("UPDATE fairpost.identity_checks SET beats = beats - 1")
    assert remembered_at(home) in signs(await guard(store, home))


async def test_a_home_that_cannot_be_written_to_is_reported_and_stops_nothing(store: Store, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "engines").write_text("a file, where a folder should be")
    guarded = await remember(store, home)
    assert guarded.is_sound
    (event,) = guarded.events()
    assert (event.code, event.params["folder"]) == ("database.not_remembered", str(home / "engines"))


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"beats": "many"}', '{"at": "noon"}'])
async def test_a_damaged_memory_is_no_memory(store: Store, home: Path, damage: str) -> None:
    await remember(store, home)
    (file,) = (home / "engines").glob("*.json")
    file.write_text(damage)
    assert (await remember(store, home)).is_sound
    assert json.loads(file.read_text())["beats"] == 1


@pytest.fixture
def embedded_home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="fp"))
    yield path
    EmbeddedServer(path).stop("immediate")
    shutil.rmtree(path)


async def guarded_at(home: Path, memory: Path | None = None, **settings: str) -> Guarded:
    url = EmbeddedServer(home, settings={"fsync": "off", "shared_buffers": "16MB", **settings}).start()
    conn = await asyncpg.connect(url)
    await migrate(conn)
    await conn.close()
    async with Store.open(url) as store:
        guarded = await remember(store, memory or home)
        if guarded.is_sound:
            await confirm(store)
        return guarded


@pytest.mark.slow
async def test_a_server_rolled_back_to_a_snapshot_or_recovered_from_one_is_known_by_the_engine_elsewhere(
    embedded_home: Path, tmp_path: Path
) -> None:
    home, snapshot, engine = embedded_home / "h", embedded_home / "b", tmp_path
    assert (await guarded_at(home, engine)).lineage == First()
    EmbeddedServer(home).stop()
    shutil.copytree(home, snapshot, symlinks=True)
    assert (await guarded_at(home, engine)).is_sound
    EmbeddedServer(home).stop()
    recover(home)
    assert (await guarded_at(home, engine, **RECOVERING)).lineage == FailedOver(before=1, timeline=2)
    assert (await guarded_at(home, engine)).lineage == Sound()
    EmbeddedServer(home).stop()
    shutil.rmtree(home)
    shutil.copytree(snapshot, home, symlinks=True)
    recover(home)
    try:
        last_at = remembered_at(engine)
        assert last_at in signs(await guarded_at(home, engine, **RECOVERING))
        assert last_at not in signs(await guarded_at(home, tmp_path / "new"))
    finally:
        EmbeddedServer(home).stop("immediate")


def recover(home: Path) -> None:
    """At its next start, the server replays its log and begins its own timeline, as after a failover."""
    data = home / "postgres" / "data"
    (data / "recovery.signal").touch()
    owner = (data / "PG_VERSION").stat()
    os.chown(data / "recovery.signal", owner.st_uid, owner.st_gid)


@pytest.mark.slow
async def test_a_home_that_was_restored_from_its_files_is_known_as_one(embedded_home: Path) -> None:
    """Database and memory are from the same old moment: only the files themselves reveal it."""
    home, backup = embedded_home / "h", embedded_home / "b"
    assert (await guarded_at(home)).is_sound
    EmbeddedServer(home).stop()
    assert (await guarded_at(home)).lineage == Sound(), "a restart is not a restore"
    EmbeddedServer(home).stop()
    shutil.copytree(home, backup, symlinks=True)
    shutil.rmtree(home)
    shutil.copytree(backup, home, symlinks=True)
    try:
        assert len(signs(await guarded_at(home)).split("; ")) == 1
    finally:
        EmbeddedServer(home).stop("immediate")
