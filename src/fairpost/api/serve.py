"""The service as processes: a parent that holds the socket, and as many as are wanted that answer on it.

SIGHUP replaces them one by one, each only when the next is ready: what is under way is answered. SIGTERM ends all, answered.
"""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from fairpost.api.clients import ClientLimits, Clients
from fairpost.api.protocol import GuardedProtocol
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Log, Reason
from fairpost.store.outage import patiently
from fairpost.system.listening import listening

if TYPE_CHECKING:
    from fastapi import FastAPI

BACKLOG = 1_024
KEEP_ALIVE_S = 75
STOP_S_MAX = 30
START_S_MAX = 120  # of a process, on a busy machine; and so long it may be deaf before it is replaced
DATABASE_S_MAX = 3.0  # so long a process waits for its database before it answers without one
CONNECTIONS_AT_ONCE = 1_000  # of one process; then idle ones make room for new ones
USUAL_LIMITS = ClientLimits()

# Strangers' mistakes are answered; without a handler they would land on stderr, too.
logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    host: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1


def listener_on(host: str, port: int) -> socket.socket:
    """To be handed to processes that answer on it."""
    try:
        listener = listening(host, port, backlog=BACKLOG)
    except OSError as error:
        raise FairpostError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. Take another: fairpost api --listen 127.0.0.1:8081"
        ) from error
    listener.set_inheritable(True)
    return listener


def config_for(app: Any, limits: ClientLimits, **more: Any) -> uvicorn.Config:
    http: Any = partial(GuardedProtocol, clients=Clients(limits), connections_max=CONNECTIONS_AT_ONCE)
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS_AT_ONCE + 1,  # the protocol keeps below it
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S_MAX,
        timeout_worker_healthcheck=START_S_MAX,
        **{"proxy_headers": False, **more},
    )


def run_processes(
    factory: str, listener: socket.socket, *, processes: int, limits: ClientLimits = USUAL_LIMITS
) -> None:
    """Until SIGINT or SIGTERM. `factory` names a function without arguments that makes the application, in each process."""
    config = config_for(factory, limits, factory=True, workers=processes, **_trust(limits))
    running = Multiprocess(config, sockets=[listener])
    running.run()
    if any(process.exitcode == STARTUP_FAILURE for process in running.processes):
        raise FairpostError("A process of the service could not start. Find out why: fairpost doctor")


def _trust(limits: ClientLimits) -> dict[str, Any]:
    proxies = [str(network) for network in limits.trusted_proxies]
    return {"proxy_headers": bool(proxies), "forwarded_allow_ips": proxies}


@asynccontextmanager
async def serving(
    app: "FastAPI", listener: socket.socket, *, limits: ClientLimits = USUAL_LIMITS
) -> AsyncIterator[int]:
    """In the running loop, until the end of the block; without handling any signal. Gives the port."""
    config = config_for(app, limits, **_trust(limits))
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield listener.getsockname()[1]
    finally:
        await server.shutdown(sockets=[listener])


def app_of_a_process(opened: Callable[[], Any], log: Log) -> "FastAPI":
    """`opened` is a context that gives the Service; it is entered in the process that serves, in its loop."""
    gc.disable()  # what is imported stays to the end: nobody is to look through it for garbage, again and again
    from fairpost.api.app import build_app

    @asynccontextmanager
    async def life(app: "FastAPI") -> AsyncIterator[None]:
        watch = asyncio.create_task(_end_with_parent())
        async with AsyncExitStack() as stack:

            async def open_it() -> None:
                app.state.service = await stack.enter_async_context(opened())

            opening = asyncio.create_task(_opened(open_it, log))
            await asyncio.wait([opening], timeout=DATABASE_S_MAX)
            yield
            opening.cancel()
        watch.cancel()

    app = build_app(None, log=log)
    app.router.lifespan_context = life
    gc.freeze()
    gc.enable()
    return app


async def _opened(open_it: Callable[[], Awaitable[None]], log: Log) -> None:
    """Until then requests are answered with 503."""
    try:
        await patiently(open_it, log, is_again=True)
    except FairpostError as error:
        log(Reason("service.failed", why=str(error)))


async def _end_with_parent() -> None:
    """A parent that was killed leaves nobody behind."""
    starter = multiprocessing.parent_process()
    parent = starter.pid if starter else os.getppid()  # it may be gone before we are here
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells us
        await asyncio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
