"""Serves the metrics at /metrics, in the running event loop, without signal handlers."""

import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvicorn
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairpost.model.errors import FairpostError
from fairpost.observe.recent import Recent
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system.listening import listening

KEPT_S = 1.0  # at most one read per second, regardless of the number of clients
BACKLOG = 128
STOP_S_MAX = 5  # time that a response may take if the database is slow

# Clients get an error response for invalid requests. Without a handler, these errors would also appear on stderr.
logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())


class Scrapes:
    """The metrics, which are read on request and cached for a second."""

    def __init__(self, look: Callable[[], Awaitable[bytes]]) -> None:
        self._look = look
        self._recent: Recent[bytes] = Recent(kept_s=KEPT_S)

    async def page(self) -> bytes:
        return await self._recent.look(self._look)

    async def answer(self, _: Request) -> Response:
        """Responds with an error if the database is unavailable; Prometheus will try again."""
        try:
            return Response(await self.page(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
        except (FairpostError, *DRIVER_ERRORS) as error:
            return Response(f"The database is not responding: {error}\n", status_code=503, media_type="text/plain")


@asynccontextmanager
async def served(look: Callable[[], Awaitable[bytes]], *, host: str, port: int) -> AsyncIterator[int]:
    """Listens until the block ends, and yields the port. With port 0, the system chooses one."""
    listener = _listener(host, port)
    config = uvicorn.Config(
        Starlette(routes=[Route("/metrics", Scrapes(look).answer)]),
        http="h11",  # h11 already limits the size of request headers
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=STOP_S_MAX,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])  # not serve(), which would install signal handlers
    try:
        yield listener.getsockname()[1]
    finally:
        await server.shutdown(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    try:
        return listening(host, port, backlog=BACKLOG)
    except OSError as error:
        raise FairpostError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. "
            "Use a different port: fairpost metrics --listen 127.0.0.1:9465"
        ) from error
