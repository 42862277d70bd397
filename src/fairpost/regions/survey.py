"""The state of each region: availability, schema, engines and queue. All regions are queried concurrently."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta

import asyncpg

from fairpost.model.errors import MigrationError
from fairpost.regions.directory import Directory, Region
from fairpost.regions.stores import ANSWER_S_MAX
from fairpost.store.connections import connect
from fairpost.store.migrations import pending
from fairpost.store.server_facts import engines_and_queue
from fairpost.store.trouble import DRIVER_ERRORS, trouble_of

ENGINE_AGE_MAX = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The known state of a region. None means unknown."""

    name: str
    place: str
    answers: bool
    trouble: str | None = None
    pending: tuple[str, ...] | None = None  # pending migrations; empty if the schema is up to date
    engines: int | None = None
    queued: int | None = None


async def survey(directory: Directory) -> list[Sight]:
    return list(await asyncio.gather(*map(_look, directory)))


async def _look(region: Region) -> Sight:
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            conn = await connect(region.url)
            try:
                return await _inside(conn, Sight(name=region.name, place=region.place, answers=True))
            finally:
                conn.terminate()
    except TimeoutError:
        trouble = f"no response for {ANSWER_S_MAX:g} s"
    except ValueError:
        trouble = "its URL is not valid"
    except DRIVER_ERRORS as error:
        found = trouble_of(error)
        if found is None:
            raise
        trouble = found.why
    return Sight(name=region.name, place=region.place, answers=False, trouble=trouble)


async def _inside(conn: "asyncpg.Connection", sight: Sight) -> Sight:
    try:
        todo = tuple(await pending(conn))
        if todo:
            return replace(sight, pending=todo)
        row = await engines_and_queue(conn, seen_within=ENGINE_AGE_MAX)
    except (MigrationError, asyncpg.InsufficientPrivilegeError) as error:
        return replace(sight, trouble=str(error))
    return replace(sight, pending=(), **row)
