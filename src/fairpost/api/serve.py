"""Runs the service as several processes. A parent process holds the socket, and its workers answer the requests.

SIGHUP replaces the workers one by one, each after its successor is ready. SIGTERM stops all workers. In both cases,
requests in progress are still answered."""

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
START_S_MAX = 120  # enough for a start on a busy machine; processes unresponsive for this long are also replaced
DATABASE_S_MAX = 3.0  # how long a process waits for its database before it starts to respond with errors
CONNECTIONS_AT_ONCE = 1_000  # connections per process; above this limit, idle connections are closed to make room
USUAL_LIMITS = ClientLimits()

# Clients get a response to invalid requests. Without a handler, warnings about such requests would appear on stderr.
logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    host: str = "127.0.0.1"
    port: int = 8080
    processes: int = 1


def listener_on(host: str, port: int) -> socket.socket:
    """Returns a listening socket to pass to the worker processes."""
    try:
        listener = listening(host, port, backlog=BACKLOG)
    except OSError as error:
        raise FairpostError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. Use a different port: fairpost api --listen 127.0.0.1:8081"
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
        limit_concurrency=CONNECTIONS_AT_ONCE + 1,  # never reached, because the protocol enforces a lower limit
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S_MAX,
        timeout_worker_healthcheck=START_S_MAX,
        **{"proxy_headers": False, **more},
    )


def run_processes(
    factory: str, listener: socket.socket, *, processes: int, limits: ClientLimits = USUAL_LIMITS
) -> None:
    """Serves until SIGINT or SIGTERM.

    `factory` names a function that takes no arguments and creates the application in each process.
    """
    config = config_for(factory, limits, factory=True, workers=processes, **_trust(limits))
    running = Multiprocess(config, sockets=[listener])
    running.run()
    if any(process.exitcode == STARTUP_FAILURE for process in running.processes):
        raise FairpostError("A service process could not start. For details, run: fairpost doctor")


def _trust(limits: ClientLimits) -> dict[str, Any]:
    proxies = [str(network) for network in limits.trusted_proxies]
    return {"proxy_headers": bool(proxies), "forwarded_allow_ips": proxies}


@asynccontextmanager
async def serving(
    app: "FastAPI", listener: socket.socket, *, limits: ClientLimits = USUAL_LIMITS
) -> AsyncIterator[int]:
    """Serves in the running loop until the block ends, and yields the port. Handles no signals."""
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
    """Builds the application for a process.

    `opened` is a context manager that yields the Service. The context is entered in the event loop of the serving
    process.
    """
    gc.disable()  # imported modules are never freed, so there is no point in scanning them again and again
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
    """Opens the service. Until the service is open, requests are answered with 503."""
    try:
        await patiently(open_it, log, is_again=True)
    except FairpostError as error:
        log(Reason("service.failed", why=str(error)))


async def _end_with_parent() -> None:
    """Stops this process if its parent exits."""
    starter = multiprocessing.parent_process()
    parent = starter.pid if starter else os.getppid()  # the parent may have exited already
    while os.getppid() == parent:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
