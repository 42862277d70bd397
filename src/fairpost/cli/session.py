"""What most commands need: the settings, and some work on the database that they name."""

from typing import TYPE_CHECKING, TypeVar

from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fairpost.store.store import Store

T = TypeVar("T")


def with_store(
    work: "Callable[[Store], Awaitable[T]]", *, settings: Settings | None = None, connections_max: int = 1
) -> T:
    """Runs the work and returns what came of it; printing is for afterwards."""
    import asyncio

    from fairpost.startup.parts import open_store

    async def run() -> T:
        async with open_store(settings or read_settings(), connections_max=connections_max) as store:
            return await work(store)

    return asyncio.run(run())


def with_home_store(work: "Callable[[Store], Awaitable[T]]") -> T:
    """The same on the home database, whichever region is chosen."""
    import asyncio

    from fairpost.startup.parts import open_home

    async def run() -> T:
        async with open_home(read_settings()) as home:
            return await work(home)

    return asyncio.run(run())


def who() -> str:
    """Who types this: for the others, who will ask."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = "somebody"
    return f"{user} on {socket.gethostname()}"
