"""A service on a real socket, run in a separate thread, for tests that cannot use an event loop."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from dns.asyncresolver import Resolver
from fastapi import FastAPI

from fairpost.api.app import build_app
from fairpost.api.serve import listener_on, serving
from fairpost.model.reason import Reason
from fairpost.settings import Settings
from fairpost.startup.service import client_limits, open_service
from fairpost.store.store import Store
from tests.api.asking import Operation, operations
from tests.api.conftest import split

T = TypeVar("T")

ANSWER_S_MAX = 120  # a database that is slow on a busy machine still counts as available


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document. Built once for all tests of a process, because that takes more than a second."""
    return build_app(None, log=lambda line: None).openapi()


@cache
def every_operation() -> list[Operation]:
    return operations(document())


@dataclass(slots=True)
class Served:
    loop: asyncio.AbstractEventLoop
    log: list[Reason] = field(default_factory=list)
    port: int = 0
    app: FastAPI = None  # type: ignore[assignment]
    store: Store = None  # type: ignore[assignment]  # sees everything

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Runs in the service's loop."""

        async def working() -> T:
            return await work(self.store)

        return asyncio.run_coroutine_threadsafe(working(), self.loop).result(timeout=120)


@contextmanager
def served(settings: Settings, *, prepare: Callable[[FastAPI], None] = lambda app: None) -> Iterator[Served]:
    """`prepare` may add routes to the application."""
    loop = asyncio.new_event_loop()
    it = Served(loop)
    is_up, is_over = threading.Event(), asyncio.Event()
    problems: list[BaseException] = []

    async def serve() -> None:
        async with open_service(
            settings, answer_s_max=ANSWER_S_MAX, resolver=_without_network(), log=it.log.append
        ) as service:
            it.store = service.home
            it.app = build_app(service, log=split(it.log, []))
            prepare(it.app)
            async with serving(it.app, listener_on("127.0.0.1", 0), limits=client_limits(settings)) as port:
                it.port = port
                is_up.set()
                await is_over.wait()

    def live() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve())
        except BaseException as error:
            problems.append(error)
        finally:
            is_up.set()

    thread = threading.Thread(target=live)
    thread.start()
    is_up.wait(timeout=60)
    try:
        if not problems:
            yield it
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(is_over.set)
        thread.join(timeout=60)
        if problems:
            raise problems[0]


def _without_network() -> Resolver:
    """Answers domain queries without a name server."""
    resolver = Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = 9
    resolver.lifetime = 0.2
    return resolver
