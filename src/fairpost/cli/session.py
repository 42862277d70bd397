"""Helpers for most commands: read the settings and connect to the configured database."""

from typing import TYPE_CHECKING, TypeVar

from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fairpost.store.store import Store

T = TypeVar("T")


def with_store(
    work: "Callable[[Store], Awaitable[T]]", *, settings: Settings | None = None, connections_max: int = 1
) -> T:
    """Run the work and return its result. Callers print the result afterwards."""
    import asyncio

    from fairpost.startup.parts import open_store

    async def run() -> T:
        async with open_store(settings or read_settings(), connections_max=connections_max) as store:
            return await work(store)

    return asyncio.run(run())


def with_home_store(work: "Callable[[Store], Awaitable[T]]") -> T:
    """Run the work on the home database, regardless of the selected region."""
    import asyncio

    from fairpost.startup.parts import open_home

    async def run() -> T:
        async with open_home(read_settings()) as home:
            return await work(home)

    return asyncio.run(run())


def who() -> str:
    """Return the user and the machine, both of which are recorded where others can see them."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user ID has no user name
        user = "unknown"
    return f"{user} on {socket.gethostname()}"
